"""The OpenAPI 3.1 document, generated from the table of endpoints (CONTRACT 9)."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

from attrs import asdict

from staffbooking_core import __version__
from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.shared.durations import format_duration
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.policy import Policy
from staffbooking_core.representations.errors import (
    ErrorRecord,
    InternalErrorRecord,
    InvalidInputRecord,
    RateLimitedRecord,
)
from staffbooking_core.representations.events import EVENT_RECORDS
from staffbooking_core.representations.json_types import BookingCode
from staffbooking_http.api.access import (
    SAFE_METHODS,
    SESSION_COOKIE_NAME,
    ApiKeyAccess,
    ApiKeyOrSessionAccess,
    SessionAccess,
)
from staffbooking_http.api.endpoint import Endpoint
from staffbooking_http.api.errors import ERROR_CODE_DESCRIPTIONS
from staffbooking_http.api.input_schemas import class_schema, field_schemas
from staffbooking_http.api.response_schemas import COMPONENT_SCHEMAS, Schema, type_schema
from staffbooking_http.docs.hosted_pages import describe_hosted_pages
from staffbooking_http.docs.idempotency import KEY_PARAMETER, REPLAY_HEADERS

JsonObject: TypeAlias = dict[str, Any]

_STRING = type_schema(str)
_INTEGER = type_schema(int)

DESCRIPTION = """\
Search staff, request bookings and follow them from acceptance to payout.

Errors are `{{"error", "code"}}`; `code` is stable, `x-codes` lists all. Missing fields are 400
`missing_field`, invalid ones 422 `invalid_field`, both with `errors`, which names every faulty
`field` at once. Where a field's schema does not allow null, null is the same as no field.
Texts contain no control characters and no bidi controls; long ones (comments, responses,
descriptions, messages) may have tabs and line breaks, messages also bidi embeddings and isolates.
Limits are fixed windows from their first hit: {limits}. Every response has `X-RateLimit-Limit`,
`X-RateLimit-Remaining` and `X-RateLimit-Reset` (Unix time) of the most specific one.
Responses under an Idempotency-Key are kept for {idempotency_lifetime}.
Money is a JSON number in {currency}; times are UTC with `Z`.
The ETag of a booking is its `version`, which rises with each change of its record. A change with
`If-Match` of another version is 412 `version_mismatch`, and changes nothing.
"""

_RATE_LIMIT_HEADERS = {
    "X-RateLimit-Limit": "Most requests in the window",
    "X-RateLimit-Remaining": "Requests left in the window",
    "X-RateLimit-Reset": "Unix time at which the window ends",
}

_STATUS_DESCRIPTIONS = {
    200: "Success",
    201: "Created",
    204: "No content",
    304: "Not modified since the version that you have",
    400: "Malformed, a required field is missing, or a business rule forbids it",
    401: "No or bad credentials",
    403: "Wrong permission, role, tier, side or CSRF token",
    404: "The resource does not exist, or belongs to another user",
    412: "The version is not the one that If-Match names; nothing was changed",
    413: "The body is too large",
    415: "The body has the wrong content type",
    422: "Some fields are not valid; every one is named",
    426: "A WebSocket: request an upgrade",
    429: "Limit exceeded",
    500: "An internal error, or the payment processor is unavailable",
    503: "The service is temporarily unavailable",
}


def build_document(families: Mapping[str, Sequence[Endpoint]], policy: Policy) -> JsonObject:
    """Build the document from plain structures."""
    paths: dict[str, JsonObject] = {}
    policy_values = _policy_values(policy)
    for family, rows in families.items():
        for row in rows:
            operation = _operation(family, row, policy, policy_values)
            paths.setdefault(row.path, {})[row.method.lower()] = operation
    if "Sandbox" in families:
        paths |= describe_hosted_pages(_STATUS_DESCRIPTIONS)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Staff booking",
            "version": __version__,
            "description": _format_description(policy),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "x-codes": {
            **{
                code: text.format_map(policy_values)
                for code, text in ERROR_CODE_DESCRIPTIONS.items()
            },
            **dict.fromkeys(_rule_codes(families), "a rule forbids it"),
        },
        "servers": [{"url": policy.base_url}],
        "tags": [{"name": family} for family in families],
        "paths": paths,
        "webhooks": {
            str(event): _webhook_operation(event, policy_values) for event in EVENT_RECORDS
        },
        "components": {
            "schemas": dict(COMPONENT_SCHEMAS),
            "headers": {
                name: {"description": text, "schema": _INTEGER}
                for name, text in _RATE_LIMIT_HEADERS.items()
            },
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


def _rule_codes(families: Mapping[str, Sequence[Endpoint]]) -> list[str]:
    """Return the error codes of rules; the operations they belong to describe them."""
    codes = {code for rows in families.values() for row in rows for code in row.rule_codes}
    return sorted(codes - set(ERROR_CODE_DESCRIPTIONS))


_SECURITY_SCHEMES: JsonObject = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key: `ps_…`"},
    "session": {"type": "apiKey", "in": "cookie", "name": SESSION_COOKIE_NAME},
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": "With a session, for whatever may change something",
    },
}


def _format_description(policy: Policy) -> str:
    limits = policy.limits
    rules = (limits.general, limits.bookings, limits.webhooks)
    told = ", ".join(_format_rule(rule) for rule in rules)
    values = {
        "limits": told,
        "currency": policy.currency.code,
        "idempotency_lifetime": format_duration(policy.idempotency_lifetime),
    }
    return DESCRIPTION.format_map(values)


def _format_rule(rule: RateLimit) -> str:
    return f"{rule.name} {rule.limit} in {format_duration(rule.window)}"


def _policy_values(policy: Policy) -> JsonObject:
    """Return the values of a deployment that texts may name in braces, with their units.

    Each limit of `policy.limits` gives `<name>_limit`, a number, `<name>_window` ("an hour", "15
    minutes") and `<name>_rate`, the text after a number ("an hour", "in 15 minutes").
    """
    values = {
        name: _format_value(name, value) for name, value in asdict(policy, recurse=False).items()
    }
    for name, rule in asdict(policy.limits, recurse=False).items():
        is_hourly, window = rule.window == timedelta(hours=1), format_duration(rule.window)
        values[f"{name}_limit"] = rule.limit
        values[f"{name}_window"] = "an hour" if is_hourly else window
        values[f"{name}_rate"] = "an hour" if is_hourly else f"in {window}"
    return values


def _format_value(name: str, value: Any) -> Any:
    match value:
        case timedelta():
            return format_duration(value)
        case (timedelta(), *_):
            return format_duration(*value)
        case int() if name.endswith("_bytes"):
            return f"{value // 2**10} KiB" if value % 2**20 else f"{value // 2**20} MiB"
    return value


def _operation(
    family: str, endpoint: Endpoint, policy: Policy, policy_values: JsonObject
) -> JsonObject:
    operation: JsonObject = {
        "tags": [family],
        "operationId": f"{endpoint.method.lower()} {endpoint.path}".translate(
            _OPERATION_ID_TRANSLATION
        ).strip("_"),
        "summary": endpoint.summary,
        "responses": {str(status): reply for status, reply in _responses(endpoint)},
        "security": _security_requirements(endpoint),
    }
    if endpoint.description:
        operation["description"] = endpoint.description.format_map(policy_values)
    if endpoint.deprecation is not None:
        operation["deprecated"] = True
    if parameters := list(_parameters(endpoint)):
        operation["parameters"] = parameters
    if endpoint.body is not None:
        operation["requestBody"] = {
            "required": not endpoint.is_body_optional,
            "content": {"application/json": {"schema": class_schema(endpoint.body)}},
        }
    if endpoint.has_file:
        operation["requestBody"] = {
            "required": True,
            "content": {
                "multipart/form-data": {"schema": _upload_form_schema(endpoint, policy_values)}
            },
        }
    if endpoint.max_raw_bytes is not None:
        media = endpoint.raw_media_type or "*/*"
        kibibytes = endpoint.raw_byte_limit(policy) // 1024
        most = f"At most {kibibytes} KiB of {endpoint.raw_media_type or 'any type'}"
        operation["requestBody"] = {
            "required": True,
            "content": {media: {"schema": {"description": most}}},
        }
    return operation


def _upload_form_schema(endpoint: Endpoint, policy_values: JsonObject) -> Schema:
    file: Schema = {
        "type": "string",
        "contentMediaType": "application/octet-stream",
        "description": f"{endpoint.file_types}, at most {policy_values['max_image_bytes']}",
    }
    return {"type": "object", "properties": {"file": file}, "required": ["file"]}


_OPERATION_ID_TRANSLATION = str.maketrans({"/": "_", "{": "", "}": "", " ": "", "-": "_", ".": "_"})


def _security_requirements(endpoint: Endpoint) -> list[JsonObject]:
    ways: list[JsonObject] = []
    if isinstance(endpoint.access, ApiKeyAccess | ApiKeyOrSessionAccess):
        ways.append({"key": []})
    if isinstance(endpoint.access, SessionAccess | ApiKeyOrSessionAccess):
        ways.append(
            {"session": []} if endpoint.method in SAFE_METHODS else {"session": [], "csrf": []}
        )
    return ways


_ID_SCHEMA: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_ID}
_PATH_PARAMETER_SCHEMAS: dict[str, Schema] = {
    "id": _ID_SCHEMA,
    "delivery_id": _ID_SCHEMA,
    "code": type_schema(BookingCode),
    "provider": _STRING,
    "name": _STRING,
    "file": _STRING,
    "secret": _STRING,
}


def _parameters(endpoint: Endpoint) -> Iterator[JsonObject]:
    for name in re.findall(r"{(\w+)}", endpoint.path):
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": _PATH_PARAMETER_SCHEMAS[name],
        }
    if endpoint.query is not None:
        for name, (schema, required) in field_schemas(endpoint.query).items():
            yield {"name": name, "in": "query", "required": required, "schema": schema}
    if _takes_if_match(endpoint):
        yield {
            "name": "If-Match",
            "in": "header",
            "required": False,
            "description": "Refuse the change unless this is the booking's version (its ETag)",
            "schema": _STRING,
        }
    if endpoint.takes_idempotency_key:
        yield KEY_PARAMETER


_VERSION_HEADER: JsonObject = {
    "description": "The version, in quotes",
    "schema": {"type": "string", "pattern": '^"[1-9][0-9]*"$'},
}


_DEPRECATION_HEADERS: JsonObject = {
    "Deprecation": {"description": "Since when it is to go (RFC 9745)", "schema": _STRING},
    "Sunset": {"description": "From when it may be gone (RFC 8594)", "schema": _STRING},
}


def _takes_if_match(endpoint: Endpoint) -> bool:
    return endpoint.is_versioned and endpoint.method != "GET"


def _responses(endpoint: Endpoint) -> Iterator[tuple[int, JsonObject]]:
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in _RATE_LIMIT_HEADERS}
    for status, schema in _response_schemas(endpoint):
        reply: JsonObject = {"description": _STATUS_DESCRIPTIONS[status]}
        if endpoint.access.is_rate_limited:
            reply["headers"] = headers
        if status == endpoint.status and endpoint.takes_idempotency_key:
            reply["headers"] = {**headers, **REPLAY_HEADERS}
        if status == 200 and endpoint.is_versioned and endpoint.method == "GET":
            reply["headers"] = {**headers, "ETag": _VERSION_HEADER}
        if endpoint.deprecation is not None:
            reply["headers"] = {**reply.get("headers", {}), **_DEPRECATION_HEADERS}
        if status == 400 and endpoint.rule_codes:
            reply["description"] += ": " + ", ".join(f"`{code}`" for code in endpoint.rule_codes)
        if status == 404 and endpoint.not_found_name:
            reply["description"] = f"{endpoint.not_found_name} not found"
        media = endpoint.response_media_type if status == endpoint.status else "application/json"
        yield status, reply if schema is None else {**reply, "content": {media: {"schema": schema}}}


def _response_schemas(endpoint: Endpoint) -> Iterator[tuple[int, Schema | None]]:
    """Yield every response status of an operation, in order, with its schema."""
    error, faults = (
        type_schema(ErrorRecord),
        type_schema(InvalidInputRecord | ErrorRecord),
    )
    sends = endpoint.body is not None or endpoint.has_file or bool(endpoint.raw_media_type)
    takes = sends or endpoint.query is not None
    yield endpoint.status, endpoint.response_schema
    if endpoint.has_etag:
        yield 304, None
    if takes or endpoint.rule_codes or endpoint.takes_idempotency_key:
        yield 400, faults
    if endpoint.access.identifies_caller or "bad_credentials" in endpoint.rule_codes:
        yield 401, error
    if endpoint.access.is_rate_limited:
        yield 403, error
    if endpoint.not_found_name:
        yield 404, error
    if _takes_if_match(endpoint):
        yield 412, error
    yield from _body_error_schemas(endpoint, sends, error)
    if takes:
        yield 422, type_schema(InvalidInputRecord)
    if endpoint.access.is_rate_limited:
        yield 429, type_schema(RateLimitedRecord)
    yield 500, type_schema(InternalErrorRecord)
    yield 503, error


def _body_error_schemas(
    endpoint: Endpoint, sends: bool, error: Schema
) -> Iterator[tuple[int, Schema]]:
    if sends or endpoint.max_raw_bytes is not None or endpoint.takes_idempotency_key:
        yield 413, error
    if sends:
        yield 415, error


_WEBHOOK_HEADERS: dict[str, tuple[str, Schema]] = {
    "X-Webhook-Signature": (
        "Lowercase hexadecimal HMAC-SHA256 of the raw body; its key is the whole secret",
        {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    ),
    "X-Webhook-Event": ("The event's name", _STRING),
    "X-Webhook-Id": ("The event's id, the same on each retry", _STRING),
    "X-Webhook-Attempt": ("Counts the attempts of a delivery", _ID_SCHEMA),
    "webhook-id": ("Standard Webhooks: the event's id", _STRING),
    "webhook-timestamp": ("Standard Webhooks: when it was sent, as Unix time", _INTEGER),
    "webhook-signature": (
        "Standard Webhooks: `v1,` and a signature; two of them while a secret is rotated",
        _STRING,
    ),
}

_WEBHOOK_RESPONSES = {
    "2XX": "Received, within {webhook_attempt_timeout}",
    "3XX": "Not received: redirects are not followed",
    "default": "Not received: tried again after {webhook_retry_delays}, a test never",
}


def _webhook_operation(event: str, policy_values: JsonObject) -> JsonObject:
    return {
        "post": {
            "summary": inspect.getdoc(EVENT_RECORDS[event]),
            "operationId": event.replace(".", "_"),
            "parameters": [
                {
                    "name": name,
                    "in": "header",
                    "required": True,
                    "description": text,
                    "schema": schema,
                }
                for name, (text, schema) in _WEBHOOK_HEADERS.items()
            ],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": type_schema(EVENT_RECORDS[event])}},
            },
            "responses": {
                status: {"description": text.format_map(policy_values)}
                for status, text in _WEBHOOK_RESPONSES.items()
            },
        }
    }
