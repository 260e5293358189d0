"""`openapi`: the interface as a document."""

from __future__ import annotations

import typer


def openapi() -> None:
    """Print the OpenAPI document of the HTTP interface."""
    from staffbooking_http.documents import openapi_document

    typer.echo(openapi_document())
