"""The responses of an operation in the OpenAPI document."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from staffbooking_core.representations.errors import (
    CompanionUnavailableRecord,
    ErrorRecord,
    InternalErrorRecord,
    InvalidInputRecord,
    RateLimitedRecord,
)
from staffbooking_http.api.access import SessionAccess, SignedOutAccess, require_admin
from staffbooking_http.api.endpoint import Endpoint
from staffbooking_http.api.error_codes import STATUSES_BY_CODE
from staffbooking_http.api.response_schemas import type_schema
from staffbooking_http.docs.references import JsonObject

_INTEGER = type_schema(int)
_STRING = type_schema(str)
_RATE_LIMIT_HEADERS = ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset")

_HEADERS: JsonObject = {
    "X-RateLimit-Limit": {"description": "Most requests in the window", "schema": _INTEGER},
    "X-RateLimit-Remaining": {"description": "Requests left in the window", "schema": _INTEGER},
    "X-RateLimit-Reset": {
        "description": "Unix time at which the window ends",
        "schema": _INTEGER,
    },
    "Retry-After": {
        "required": False,
        "description": "With 429 and 503: seconds until a retry can succeed",
        "schema": _INTEGER,
    },
    "ETag": {
        "description": "The version, in quotes",
        "schema": {"type": "string", "pattern": '^"[1-9][0-9]*"$'},
    },
    "Idempotent-Replay": {
        "required": False,
        "description": "`true` on a response that was stored under an Idempotency-Key",
        "schema": {"type": "string", "const": "true"},
    },
    "Deprecation": {"description": "Since when it is to go (RFC 9745)", "schema": _STRING},
    "Sunset": {"description": "From when it may be gone (RFC 8594)", "schema": _STRING},
}


def shared_headers(endpoints: Iterable[Endpoint]) -> JsonObject:
    """The headers of responses, by their names as components; those of deprecated operations
    where there are any."""
    unused = () if any(each.deprecation for each in endpoints) else _DEPRECATION_HEADERS
    return {_component_of(name): header for name, header in _HEADERS.items() if name not in unused}


_SUCCESS_DESCRIPTIONS = {
    200: "Success",
    201: "Created",
    426: "A WebSocket, `upgrade_required`: request an upgrade",
}

_REFUSAL = """\
The request was refused; `x-codes` has the meanings. Any call: 404 `not_found`, 405 \
`method_not_allowed`, 429 `rate_limited`. With parameters, a body or a key of its own: 400 \
`missing_field`, `malformed_json`, `body_timeout`, 413 `body_too_large`, 415 \
`unsupported_media_type`, 422 `invalid_field`. By an API key: 401 `unauthenticated`, \
`invalid_api_key`, 403 `permission_required`, `subscription_required`. By a session: 401 \
`unauthenticated`, `session_required`, 403 `csrf_failed`. Under an Idempotency-Key: 400 \
`idempotency_key_invalid`, `idempotency_mismatch`. With If-Match: 400 `if_match_invalid`, 412 \
`version_mismatch`."""

_FAILURE = """\
Not of the caller's making: 500 `internal`, or `processor_unavailable` where the payment processor \
is; 503 `unavailable`."""

_PUBLIC = """\
As of other calls, without limits and credentials: 400 `missing_field`, `malformed_json`, \
`body_timeout`, 404 `not_found`, 405 `method_not_allowed`, 413 `body_too_large`, 415 \
`unsupported_media_type`, 422 `invalid_field`; 500 `internal`, 503 `unavailable`."""

_RANGES: dict[str, tuple[str, str, Any]] = {
    "4XX": (
        "Refusal",
        _REFUSAL,
        InvalidInputRecord | CompanionUnavailableRecord | RateLimitedRecord | ErrorRecord,
    ),
    "5XX": ("Failure", _FAILURE, InternalErrorRecord),
}
"""The name, description and body of the error responses of each range of statuses."""


def error_responses() -> JsonObject:
    """The errors that operations share, by name: with the headers of rate limits, and those of
    operations without limits."""
    return {
        f"{'' if limited else 'Public'}{name}": {
            "description": description if limited else _PUBLIC,
            **_headers_field(("Retry-After", *(_RATE_LIMIT_HEADERS if limited else ()))),
            "content": {"application/json": {"schema": type_schema(record)}},
        }
        for name, description, record in _RANGES.values()
        for limited in (True, False)
    }


class ResponseWriter:
    """Describes the responses of operations; collects the successes that they share."""

    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self.successes: JsonObject = {}
        """The shared successes by their names as components."""
        counts = Counter(_success_key(endpoint) for endpoint in endpoints)
        self._shared = {key for key, count in counts.items() if count > 1}

    def describe(self, endpoint: Endpoint) -> JsonObject:
        """Every response of an operation by its status."""
        replies = {str(endpoint.status): self._success(endpoint)}
        if endpoint.has_etag:
            description = "Not modified since the version that you have"
            replies["304"] = {"description": description, **_headers_field(_common(endpoint))}
        for span, (name, _, _) in _RANGES.items():
            replies[span] = _error(endpoint, span, name)
        return replies

    def _success(self, endpoint: Endpoint) -> JsonObject:
        success = _success(endpoint)
        key = _success_key(endpoint)
        if key not in self._shared:
            return success
        name = "".join(key)
        self.successes[name] = success
        return {"$ref": f"#/components/responses/{name}"}


def _error(endpoint: Endpoint, span: str, name: str) -> JsonObject:
    shared = name if endpoint.access.is_rate_limited else f"Public{name}"
    reply: JsonObject = {"$ref": f"#/components/responses/{shared}"}
    if codes := _own_codes(endpoint, span):
        reply["description"] = f"Also {codes}"
    if endpoint.deprecation is not None:
        told = error_responses()[shared]
        headers = {**told["headers"], **_refer_headers(_DEPRECATION_HEADERS)}
        return {**told, **reply, "headers": headers}
    return reply


def _own_codes(endpoint: Endpoint, span: str) -> str:
    """The codes of an operation besides those that many have, by status."""
    by_status: dict[int, list[str]] = {}
    for code in (*_access_codes(endpoint), *endpoint.rule_codes):
        by_status.setdefault(STATUSES_BY_CODE[code], []).append(f"`{code}`")
    told = (
        f"{status} {', '.join(codes)}"
        for status, codes in sorted(by_status.items())
        if f"{status}"[0] == span[0]
    )
    return "; ".join(told)


def _access_codes(endpoint: Endpoint) -> Iterator[str]:
    match endpoint.access:
        case SessionAccess(check_user=check) if check is require_admin:
            yield "admins_only"
        case SignedOutAccess():
            yield "foreign_origin"


_DEPRECATION_HEADERS = ("Deprecation", "Sunset")


def _common(endpoint: Endpoint) -> tuple[str, ...]:
    """The headers of each response of an operation."""
    return (
        *(_RATE_LIMIT_HEADERS if endpoint.access.is_rate_limited else ()),
        *(_DEPRECATION_HEADERS if endpoint.deprecation is not None else ()),
    )


def _refer_headers(names: Iterable[str]) -> JsonObject:
    return {name: {"$ref": f"#/components/headers/{_component_of(name)}"} for name in names}


def _component_of(header: str) -> str:
    return header.removeprefix("X-RateLimit-").replace("-", "")


def _headers_field(names: Iterable[str]) -> JsonObject:
    headers = _refer_headers(names)
    return {"headers": headers} if headers else {}


def _success_key(endpoint: Endpoint) -> tuple[str, ...]:
    """What tells successes apart, as the parts of a name."""
    created, keyed = endpoint.status == 201, endpoint.takes_idempotency_key
    return (
        *(("Created",) if created else ()),
        *(("Public",) if not endpoint.access.is_rate_limited else ()),
        *(("Repeatable",) if keyed else ()),
        *(("Versioned",) if _shows_version(endpoint) else ()),
        *(("Deprecated",) if endpoint.deprecation is not None else ()),
        endpoint.response_schema.get("title", endpoint.path),
    )


def _shows_version(endpoint: Endpoint) -> bool:
    return endpoint.is_versioned and endpoint.method == "GET"


def _success(endpoint: Endpoint) -> JsonObject:
    names = [*_common(endpoint)]
    if endpoint.takes_idempotency_key:
        names.append("Idempotent-Replay")
    if _shows_version(endpoint):
        names.append("ETag")
    return {
        "description": _SUCCESS_DESCRIPTIONS[endpoint.status],
        **_headers_field(names),
        "content": {endpoint.response_media_type: {"schema": endpoint.response_schema}},
    }


def takes_if_match(endpoint: Endpoint) -> bool:
    """Whether the operation changes a versioned resource."""
    return endpoint.is_versioned and endpoint.method != "GET"


def describe_page_responses(schema: Mapping[str, Any]) -> JsonObject:
    """The responses of a hosted page of the simulated processor."""
    return {
        "200": {
            "description": _SUCCESS_DESCRIPTIONS[200],
            "content": {"application/json": {"schema": schema}},
        },
        **{
            span: {"$ref": f"#/components/responses/Public{name}"}
            for span, (name, _, _) in _RANGES.items()
        },
    }
