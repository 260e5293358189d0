"""The hosted pages of the simulated processor in the OpenAPI document."""

from staffbooking_core.representations.json_types import Success
from staffbooking_http.api.response_schemas import Schema, object_schema, reply_schema
from staffbooking_http.docs.references import JsonObject
from staffbooking_http.docs.responses import describe_page_responses


def _describe_page(
    operation_id: str, summary: str, request_schema: Schema, response_schema: Schema
) -> JsonObject:
    """Describe how a script acts on a page of the simulated processor. The endpoint belongs to
    the pages, not to the table."""
    return {
        "tags": ["Sandbox"],
        "operationId": operation_id,
        "summary": summary,
        "security": [],
        "parameters": [
            {"name": "id", "in": "path", "required": True, "schema": _REFERENCE},
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": request_schema}},
        },
        "responses": describe_page_responses(response_schema),
    }


_REFERENCE: Schema = {"type": "string", "examples": ["cs_7q2m4x9t"]}
_CHECKOUT_OUTCOME_SCHEMA: Schema = {
    "title": "CheckoutOutcome",
    "type": "string",
    "enum": ["succeed", "decline", "expire", "challenge"],
}


def describe_hosted_pages() -> JsonObject:
    """The paths of the hosted pages."""
    return {
        "/sandbox/checkout/{id}": {
            "post": _describe_page(
                "actOnCheckout",
                "Act on the hosted checkout page, as its form does",
                {
                    "title": "ActOnCheckoutRequest",
                    **object_schema({"outcome": _CHECKOUT_OUTCOME_SCHEMA}),
                },
                reply_schema("CheckoutState", success=Success, state=str),
            )
        },
        "/sandbox/payees/{id}": {
            "post": _describe_page(
                "completePayoutAccount",
                "Complete a payout account, as its page does",
                {"title": "CompletePayoutAccountRequest", **object_schema({})},
                reply_schema("PayoutAccountState", success=Success, ready=bool),
            )
        },
    }
