"""The OpenAPI 3.1 document, made of the table that the service runs on (CONTRACT 9)."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

from attrs import asdict

from staffbooking_core import __version__
from staffbooking_core.domain.shared.rate_limits import Rule
from staffbooking_core.inputs import MAX_ID
from staffbooking_core.policy import Policy
from staffbooking_http.api.access import COOKIE, SAFE, WithEither, WithKey, WithSession
from staffbooking_http.api.endpoint import Endpoint
from staffbooking_http.api.errors import CODES
from staffbooking_http.api.input_schemas import fields_of, of_class
from staffbooking_http.api.response_schemas import (
    COMPONENTS,
    FLAG,
    SUCCESS,
    TEXT,
    WHEN,
    WHOLE,
    Schema,
    event_ref,
    ref,
    shape,
)

Object: TypeAlias = dict[str, Any]

ABOUT = """\
Search staff, request bookings and follow them from acceptance to payout.

Errors are `{"error", "code"}`; `code` is stable, `x-codes` lists all. Missing fields are 400
`missing_field`, wrong ones 422 `invalid_field`, both with `errors`, each naming its `field`:
every fault at once. Where a field's schema does not take null, null is the same as no field.
Texts hold no control characters and no bidi controls; long ones (comments, responses,
descriptions, messages) may have tabs and line breaks, messages also bidi embeddings and isolates.
Limits are fixed windows from their first hit: {limits}. Every answer bears `X-RateLimit-Limit`,
`X-RateLimit-Remaining` and `X-RateLimit-Reset` (Unix time) of the most specific one.
Money is a JSON number in {currency}; times are UTC with `Z`.
"""

LIMIT_HEADERS = {
    "X-RateLimit-Limit": "Most requests in the window",
    "X-RateLimit-Remaining": "Requests left in the window",
    "X-RateLimit-Reset": "Unix time at which the window ends",
}

REASONS = {
    200: "Success",
    201: "Created",
    204: "No content",
    304: "Not modified: you have it already",
    400: "Malformed, something required is missing, or a rule forbids it",
    401: "No or bad credentials",
    403: "Wrong permission, role, tier, side or CSRF token",
    404: "There is no such thing, or it is somebody else's",
    413: "The body is too large",
    415: "The body is of another type than it must be",
    422: "Some fields are not valid; every one is named",
    426: "A WebSocket: ask for an upgrade",
    429: "Limit exceeded",
    500: "A fault of ours, or the payment processor is out of reach",
    503: "The service is temporarily unavailable",
}


def document(families: Mapping[str, Sequence[Endpoint]], policy: Policy) -> Object:
    """The whole document, as plain structures."""
    paths: dict[str, Object] = {}
    figures = _figures(policy)
    for family, rows in families.items():
        for row in rows:
            operation = _operation(family, row, policy, figures)
            paths.setdefault(row.path, {})[row.method.lower()] = operation
    if "Sandbox" in families:
        paths |= _HOSTED_PAGES
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Staff booking",
            "version": __version__,
            "description": _about(policy),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "x-codes": {**CODES, **dict.fromkeys(_own_codes(families), "a rule forbids it")},
        "servers": [{"url": policy.base_url}],
        "tags": [{"name": family} for family in families],
        "paths": paths,
        "webhooks": {str(event): _webhook(event) for event in WHEN},
        "components": {
            "schemas": dict(COMPONENTS),
            "headers": {
                name: {"description": text, "schema": WHOLE} for name, text in LIMIT_HEADERS.items()
            },
            "securitySchemes": _SCHEMES,
        },
    }


def _hosted_page(name: str, summary: str, asked: Schema, told: Schema) -> Object:
    """Acting on a page of the pretended processor as a script. It belongs to the pages, not to
    the table."""
    return {
        "tags": ["Sandbox"],
        "operationId": f"post_sandbox_{name}",
        "summary": summary,
        "security": [],
        "parameters": [
            {"name": "id", "in": "path", "required": True, "schema": {"type": "string"}},
        ],
        "requestBody": {"required": True, "content": {"application/json": {"schema": asked}}},
        "responses": {
            "200": {
                "description": REASONS[200],
                "content": {"application/json": {"schema": told}},
            },
            **{
                str(status): {
                    "description": REASONS[status],
                    "content": {"application/json": {"schema": ref("Error")}},
                }
                for status in (400, 404, 413, 415, 422)
            },
        },
    }


_OUTCOME: Object = {"type": "string", "enum": ["succeed", "decline", "expire", "challenge"]}
_HOSTED_PAGES: Object = {
    "/sandbox/checkout/{id}": {
        "post": _hosted_page(
            "checkout",
            "Act on the hosted checkout page, as its form does",
            shape({"outcome": _OUTCOME}),
            shape({"success": SUCCESS, "state": TEXT}),
        )
    },
    "/sandbox/payees/{id}": {
        "post": _hosted_page(
            "payee",
            "Complete a payout account, as its page does",
            shape({}),
            shape({"success": SUCCESS, "ready": FLAG}),
        )
    },
}


def _own_codes(families: Mapping[str, Sequence[Endpoint]]) -> list[str]:
    """The codes of rules, which are told with the operations that they belong to."""
    codes = {code for rows in families.values() for row in rows for code in row.codes}
    return sorted(codes - set(CODES))


_SCHEMES: Object = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key: `ps_…`"},
    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": "X-CSRF-Token",
        "description": "With a session, for whatever may change something",
    },
}


def _about(policy: Policy) -> str:
    limits = policy.limits
    rules = (limits.general, limits.bookings, limits.webhooks)
    told = ", ".join(_rule(rule) for rule in rules)
    return ABOUT.replace("{limits}", told).replace("{currency}", policy.currency.code)


def _rule(rule: Rule) -> str:
    return f"{rule.name} {rule.limit} in {_span(rule.window)}"


def _figures(policy: Policy) -> Object:
    """What descriptions may name in braces: the figures of a deployment."""
    figures = asdict(policy, recurse=False)
    spans = {name: _span(value) for name, value in figures.items() if isinstance(value, timedelta)}
    return figures | spans


def _span(time: timedelta) -> str:
    if time.days > 1:
        return f"{time.days} days"
    minutes = int(time.total_seconds()) // 60
    return f"{minutes} minutes" if minutes else f"{time.seconds} seconds"


def _operation(family: str, row: Endpoint, policy: Policy, figures: Object) -> Object:
    operation: Object = {
        "tags": [family],
        "operationId": f"{row.method.lower()} {row.path}".translate(_PLAIN).strip("_"),
        "summary": row.summary,
        "responses": {str(status): reply for status, reply in _responses(row)},
        "security": _security(row),
    }
    if row.description:
        operation["description"] = row.description.format_map(figures)
    if parameters := list(_parameters(row)):
        operation["parameters"] = parameters
    if row.body is not None:
        operation["requestBody"] = {
            "required": not row.body_optional,
            "content": {"application/json": {"schema": of_class(row.body)}},
        }
    if row.file:
        operation["requestBody"] = {
            "required": True,
            "content": {"multipart/form-data": {"schema": _form(policy)}},
        }
    if row.raw is not None:
        media = row.raw_media or "*/*"
        most = f"At most {row.most_raw(policy) // 1024} KiB of {row.raw_media or 'any type'}"
        operation["requestBody"] = {
            "required": True,
            "content": {media: {"schema": {"description": most}}},
        }
    return operation


def _form(policy: Policy) -> Schema:
    file: Schema = {
        "type": "string",
        "contentMediaType": "application/octet-stream",
        "description": f"JPEG, PNG or WebP, at most {policy.max_image_bytes // 2**20} MiB",
    }
    return {"type": "object", "properties": {"file": file}, "required": ["file"]}


_PLAIN = str.maketrans({"/": "_", "{": "", "}": "", " ": "", "-": "_", ".": "_"})


def _security(row: Endpoint) -> list[Object]:
    ways: list[Object] = []
    if isinstance(row.access, WithKey | WithEither):
        ways.append({"key": []})
    if isinstance(row.access, WithSession | WithEither):
        ways.append({"session": []} if row.method in SAFE else {"session": [], "csrf": []})
    return ways


_NUMBER: Schema = {"type": "integer", "minimum": 1, "maximum": MAX_ID}
_IN_PATH: dict[str, Schema] = {
    "id": _NUMBER,
    "delivery_id": _NUMBER,
    "code": COMPONENTS["Booking"]["properties"]["booking_code"],
    "provider": TEXT,
    "name": TEXT,
    "secret": TEXT,
}


def _parameters(row: Endpoint) -> Iterator[Object]:
    for name in re.findall(r"{(\w+)}", row.path):
        yield {"name": name, "in": "path", "required": True, "schema": _IN_PATH[name]}
    if row.query is not None:
        for name, (schema, required) in fields_of(row.query).items():
            yield {"name": name, "in": "query", "required": required, "schema": schema}
    if row.kept is not None:
        yield {
            "name": "Idempotency-Key",
            "in": "header",
            "required": False,
            "schema": {"type": "string", "minLength": 1, "maxLength": 255},
        }


def _responses(row: Endpoint) -> Iterator[tuple[int, Object]]:
    headers = {name: {"$ref": f"#/components/headers/{name}"} for name in LIMIT_HEADERS}
    for status, schema in _statuses(row):
        reply: Object = {"description": REASONS[status]}
        if row.access.limited:
            reply["headers"] = headers
        if status == 400 and row.codes:
            reply["description"] += ": " + ", ".join(f"`{code}`" for code in row.codes)
        if status == 404 and row.not_found:
            reply["description"] = f"{row.not_found} not found"
        media = row.media if status == row.status else "application/json"
        yield status, reply if schema is None else {**reply, "content": {media: {"schema": schema}}}


def _statuses(row: Endpoint) -> Iterator[tuple[int, Schema | None]]:
    """Every status that an operation may answer, in order, and what with."""
    error, faults = ref("Error"), {"anyOf": [ref("InvalidInput"), ref("Error")]}
    sends = row.body is not None or row.file or bool(row.raw_media)
    takes = sends or row.query is not None
    guarded = isinstance(row.access, WithKey | WithSession | WithEither)
    yield row.status, row.answer
    if row.tagged:
        yield 304, None
    if takes or row.codes:
        yield 400, faults
    if guarded or "bad_credentials" in row.codes:
        yield 401, error
    if row.access.limited:
        yield 403, error
    if row.not_found:
        yield 404, error
    if sends or row.raw is not None:
        yield 413, error
    if sends:
        yield 415, error
    if takes:
        yield 422, ref("InvalidInput")
    if row.access.limited:
        yield 429, ref("RateLimited")
    yield 500, ref("InternalError")
    yield 503, error


_SENT: dict[str, tuple[str, Schema]] = {
    "X-Webhook-Signature": (
        "Lowercase hexadecimal HMAC-SHA256 of the raw body; its key is the whole secret",
        {"type": "string", "pattern": "^[0-9a-f]{64}$"},
    ),
    "X-Webhook-Event": ("The event's name", TEXT),
    "X-Webhook-Id": ("The event's id, the same on each retry", TEXT),
    "X-Webhook-Attempt": ("Counts the attempts of a delivery", _NUMBER),
    "webhook-id": ("Standard Webhooks: the event's id", TEXT),
    "webhook-timestamp": ("Standard Webhooks: when it was sent, as Unix time", WHOLE),
    "webhook-signature": (
        "Standard Webhooks: `v1,` and a signature; two of them while a secret is rotated",
        TEXT,
    ),
}

_ANSWERS = {
    "2XX": "Received, within 10 seconds",
    "3XX": "Not received: redirects are not followed",
    "default": "Not received: tried again after 1, 4 and 16 seconds, a test never",
}


def _webhook(event: str) -> Object:
    return {
        "post": {
            "summary": WHEN[event],
            "operationId": event.replace(".", "_"),
            "parameters": [
                {
                    "name": name,
                    "in": "header",
                    "required": True,
                    "description": text,
                    "schema": schema,
                }
                for name, (text, schema) in _SENT.items()
            ],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": event_ref(event)}},
            },
            "responses": {status: {"description": text} for status, text in _ANSWERS.items()},
        }
    }
