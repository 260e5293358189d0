"""The webhooks in the OpenAPI document: what the service sends to receivers."""

import inspect
from collections.abc import Mapping
from typing import Any

from staffbooking_core.representations.events import EVENT_RECORDS
from staffbooking_core.representations.json_types import PositiveCount
from staffbooking_http.api.response_schemas import Schema, type_schema
from staffbooking_http.docs.references import JsonObject

_STRING = type_schema(str)
_HEADERS: dict[str, tuple[str, str, Schema]] = {
    "X-Webhook-Signature": (
        "EventSignature",
        "Lowercase hexadecimal HMAC-SHA256 of the raw body; its key is the whole secret",
        {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    ),
    "X-Webhook-Event": ("EventName", "The event's name", _STRING),
    "X-Webhook-Id": ("EventId", "The event's id, the same on each retry", _STRING),
    "X-Webhook-Attempt": (
        "EventAttempt",
        "Counts the attempts of a delivery",
        type_schema(PositiveCount),
    ),
    "webhook-id": ("StandardId", "Standard Webhooks: the event's id", _STRING),
    "webhook-timestamp": (
        "StandardTimestamp",
        "Standard Webhooks: when it was sent, as Unix time",
        type_schema(int),
    ),
    "webhook-signature": (
        "StandardSignature",
        "Standard Webhooks: `v1,` and a signature; two of them while a secret is rotated",
        _STRING,
    ),
}

_RESPONSES = {
    "2XX": ("EventReceived", "Received, within {webhook_attempt_timeout}"),
    "default": (
        "EventRefused",
        "Not received, as by a redirect: tried again after {webhook_retry_delays}, a test never",
    ),
}


def event_headers() -> JsonObject:
    """The headers of each webhook, as shared parameters."""
    return {
        component: {
            "name": name,
            "in": "header",
            "required": True,
            "description": text,
            "schema": schema,
        }
        for name, (component, text, schema) in _HEADERS.items()
    }


def event_responses(policy_values: Mapping[str, Any]) -> JsonObject:
    """What the answers of a receiver mean, as shared responses."""
    return {
        name: {"description": text.format_map(policy_values)} for name, text in _RESPONSES.values()
    }


def describe_webhooks() -> JsonObject:
    """The webhook of each event, by its name."""
    return {
        str(event): {"post": _operation(str(event), EVENT_RECORDS[event])}
        for event in EVENT_RECORDS
    }


def _operation(event: str, record: type) -> JsonObject:
    first, *more = event.replace(".", "_").split("_")
    return {
        "operationId": "".join((first, *(word.capitalize() for word in more))),
        "summary": inspect.getdoc(record),
        "parameters": [
            {"$ref": f"#/components/parameters/{component}"}
            for component, _, _ in _HEADERS.values()
        ],
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": type_schema(record)}},
        },
        "responses": {
            status: {"$ref": f"#/components/responses/{name}"}
            for status, (name, _) in _RESPONSES.items()
        },
    }
