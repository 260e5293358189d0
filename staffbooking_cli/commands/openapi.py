"""`openapi`: prints the OpenAPI document."""

from __future__ import annotations

from staffbooking_cli import render
from staffbooking_cli.options import AsJson
from staffbooking_cli.session import read_settings


def openapi(as_json: AsJson = True) -> None:
    """Print the OpenAPI document that the server serves at /openapi.json, always as JSON."""
    from staffbooking_adapters.extras import check_extra

    check_extra("http")
    from staffbooking_http.docs.openapi import build_document
    from staffbooking_http.routes import ENDPOINTS_BY_TAG, SANDBOX_ENDPOINTS_BY_TAG

    settings = read_settings()
    families = (
        {**ENDPOINTS_BY_TAG, **SANDBOX_ENDPOINTS_BY_TAG}
        if settings.policy.sandbox
        else ENDPOINTS_BY_TAG
    )
    render.print_json(build_document(families, settings.policy))
