"""`openapi`: the HTTP interface as a document."""

from __future__ import annotations

from staffbooking_cli import render
from staffbooking_cli.session import settings


def openapi() -> None:
    """Print the OpenAPI document: the one that the server has at /openapi.json."""
    from staffbooking_http.openapi import document
    from staffbooking_http.routes import FAMILIES, SANDBOX

    wanted = settings()
    families = {**FAMILIES, **SANDBOX} if wanted.sandbox else FAMILIES
    render.print_json(document(families, wanted.policy))
