"""The hosted pages of the simulated processor in the OpenAPI document."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from staffbooking_core.representations.errors import ErrorRecord
from staffbooking_core.representations.json_types import Success
from staffbooking_http.api.response_schemas import (
    Schema,
    object_schema,
    reply_schema,
    type_schema,
)

JsonObject: TypeAlias = dict[str, Any]


def _describe_page(
    descriptions: Mapping[int, str],
    name: str,
    summary: str,
    request_schema: Schema,
    response_schema: Schema,
) -> JsonObject:
    """Describe how a script acts on a page of the simulated processor. The endpoint belongs to
    the pages, not to the table."""
    return {
        "tags": ["Sandbox"],
        "operationId": f"post_sandbox_{name}",
        "summary": summary,
        "security": [],
        "parameters": [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": request_schema}},
        },
        "responses": {
            "200": {
                "description": descriptions[200],
                "content": {"application/json": {"schema": response_schema}},
            },
            **{
                str(status): {
                    "description": descriptions[status],
                    "content": {"application/json": {"schema": type_schema(ErrorRecord)}},
                }
                for status in (400, 404, 413, 415, 422)
            },
        },
    }


_CHECKOUT_OUTCOME_SCHEMA: JsonObject = {
    "type": "string",
    "enum": ["succeed", "decline", "expire", "challenge"],
}


def describe_hosted_pages(descriptions: Mapping[int, str]) -> JsonObject:
    """The paths of the hosted pages; `descriptions` are those of the response statuses."""
    return {
        "/sandbox/checkout/{id}": {
            "post": _describe_page(
                descriptions,
                "checkout",
                "Act on the hosted checkout page, as its form does",
                object_schema({"outcome": _CHECKOUT_OUTCOME_SCHEMA}),
                reply_schema(success=Success, state=str),
            )
        },
        "/sandbox/payees/{id}": {
            "post": _describe_page(
                descriptions,
                "payee",
                "Complete a payout account, as its page does",
                object_schema({}),
                reply_schema(success=Success, ready=bool),
            )
        },
    }
