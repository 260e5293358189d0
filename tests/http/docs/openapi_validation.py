"""Validation of responses and values against the OpenAPI document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs

from staffbooking_http.api.error_codes import STATUSES_BY_CODE
from staffbooking_http.docs.references import resolve, with_inlined_parts
from staffbooking_http.routes import ENDPOINTS_BY_TAG, SANDBOX_ENDPOINTS_BY_TAG
from tests.http.deployment import HttpDeployment, json_body
from tests.support.openapi_replies import reply_of

ROWS = [
    row
    for family in (*ENDPOINTS_BY_TAG.values(), *SANDBOX_ENDPOINTS_BY_TAG.values())
    for row in family
]
DIALECT = "https://json-schema.org/draft/2020-12/schema"


async def document_of(world: HttpDeployment) -> dict[str, Any]:
    """The document with parameters, responses and headers in their places."""
    return with_inlined_parts(json_body(await world.client().get("/openapi.json")))


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def jsonschema_rs_value(body: bytes) -> Any:
    return httpx.Response(200, content=body).json()


def validator(document: dict[str, Any], schema: dict[str, Any]) -> Any:
    """A validator of a schema that refers to the document's components."""
    return jsonschema_rs.validator_for(
        {"$schema": DIALECT, "components": document["components"], **schema},
        validate_formats=True,
    )


def shared_name(status: int) -> str:
    return "Refusal" if status < 500 else "Failure"


class Checking(httpx.AsyncBaseTransport):
    """A transport that validates every response against the document."""

    def __init__(self, inner: httpx.AsyncBaseTransport, document: dict[str, Any]) -> None:
        self.inner, self.document = inner, document
        self.checked: set[tuple[str, str]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self.inner.handle_async_request(request)
        body = await answer.aread()
        for method, path, operation in operations(self.document):
            pattern = re.sub(r"\{\w+\}", "[^/]+", path)
            if method == request.method and re.fullmatch(pattern, request.url.path):
                self.check(operation, answer.status_code, body)
                self.checked.add((str(answer.status_code), path))
        return answer

    def check(self, operation: dict[str, Any], status: int, body: bytes) -> None:
        reply = reply_of(operation, status)
        content = reply.get("content", {})
        if "application/json" not in content:
            return
        schema = content["application/json"]["schema"]
        validator(self.document, schema).validate(jsonschema_rs_value(body))
        if status >= 400:
            code = jsonschema_rs_value(body)["code"]
            assert STATUSES_BY_CODE[code] == status
            shared = resolve(
                self.document, {"$ref": f"#/components/responses/{shared_name(status)}"}
            )
            told = f"{reply['description']} {shared['description']}"
            assert f"`{code}`" in told, (operation["operationId"], code)


def hold_to_document(
    world: HttpDeployment, document: dict[str, Any], monkeypatch: Any
) -> list[Checking]:
    """Make clients created from now on validate their responses; returns the list of their
    transports."""
    plain, seen = world.client, []

    def checked(*given: Any, **headers: str) -> httpx.AsyncClient:
        client = plain(*given, **headers)
        client._transport = Checking(client._transport, document)
        seen.append(client._transport)
        return client

    monkeypatch.setattr(world, "client", checked)
    return seen
