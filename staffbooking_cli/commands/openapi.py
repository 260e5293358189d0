"""`openapi`: the HTTP interface as a document."""

from __future__ import annotations

from staffbooking_cli import render
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import settings


def openapi(as_json: AsJson = True) -> None:
    """Print the OpenAPI document, JSON in any case: the server's /openapi.json."""
    from staffbooking_http.docs.openapi import document
    from staffbooking_http.routes import FAMILIES, SANDBOX

    wanted = settings()
    families = {**FAMILIES, **SANDBOX} if wanted.policy.sandbox else FAMILIES
    render.print_json(document(families, wanted.policy))
