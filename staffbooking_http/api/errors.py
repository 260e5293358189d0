"""Error responses: the mapping of errors to statuses and bodies (CONTRACT 1)."""

import logging
from http.client import responses

from litestar.exceptions import HTTPException

from staffbooking_adapters import codec
from staffbooking_core.domain.payments.processor import BadEventSignature, ProcessorError
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import (
    CompanionUnavailable,
    Conflict,
    Forbidden,
    InvalidField,
    InvalidInput,
    MissingField,
    NotFound,
    ProcessorUnavailable,
    RuleBroken,
    StaffbookingError,
    StoreUnavailable,
    Unauthenticated,
    VersionMismatch,
)
from staffbooking_core.representations.errors import (
    ErrorRecord,
    InternalErrorRecord,
    InvalidInputRecord,
    RateLimitedRecord,
    UnavailableRecord,
    field_error_records,
)
from staffbooking_http.api.endpoint import Header, Reply

log = logging.getLogger("staffbooking.http")

_RETRY_AFTER_SECONDS = 2
"""Seconds after which a client may retry when the store is unavailable."""

STATUS_BY_ERROR: dict[type[StaffbookingError], int] = {
    MissingField: 400,
    RuleBroken: 400,
    BadEventSignature: 400,
    VersionMismatch: 412,
    Unauthenticated: 401,
    Forbidden: 403,
    NotFound: 404,
    InvalidField: 422,
    RateLimitExceeded: 429,
    ProcessorUnavailable: 500,
    ProcessorError: 500,
    Conflict: 503,
    StoreUnavailable: 503,
}
"""The status of each error class and its subclasses; any other error is an internal error."""


ERROR_CODE_DESCRIPTIONS = {
    "malformed_request": "the request is not HTTP",
    "malformed_json": "the body is not a JSON object, or has a key twice",
    "missing_field": "required fields are missing or null: `errors` lists them all",
    "invalid_field": "fields of the wrong type, bounds, format or meaning: `errors` lists them all",
    "content_blocked": "a message with words that are not allowed, or with contact or payment "
    "details before the booking is paid",
    "body_timeout": "the body took more than 10 seconds to arrive",
    "body_too_large": "the body is over 64 KiB, an event of the processor over 256 KiB, an image "
    "over {max_image_bytes}, a calendar over {max_calendar_bytes}",
    "unsupported_media_type": "the body is not declared as JSON in UTF-8, an upload not as "
    "multipart/form-data, a calendar not as text/calendar in UTF-8",
    "malformed_form": "the body is not a form of the declared type",
    "unauthenticated": "no credentials, or a session that has ended",
    "invalid_api_key": "the API key is malformed, unknown, expired or revoked",
    "session_required": "an API key was sent where a session is required",
    "bad_credentials": "the e-mail, the password or the current password is wrong",
    "permission_required": "the API key lacks the permission",
    "subscription_required": "the owner of the API key has no active enterprise subscription",
    "csrf_failed": "X-CSRF-Token is missing or wrong",
    "foreign_origin": "a page of another origin tried to sign in or to open the channel",
    "wrong_party": "only the other party of the booking may do this",
    "no_shared_booking": "only the customer and the companion of a booking write to each other",
    "conversation_left": "a companion who is no longer booked can read the conversation and not "
    "write; to an erased person nobody can write",
    "customers_only": "only customers book for themselves",
    "admins_only": "only admins see and decide what operators do",
    "staff_only": "only staff members have a profile and payouts, and respond to reviews",
    "bad_signature": "the signature of a processor event is wrong or too old",
    "not_found": "the path or resource does not exist, or belongs to another user",
    "version_mismatch": "the resource has another version than If-Match names; nothing was changed",
    "if_match_invalid": "If-Match is neither `*` nor a list of entity tags",
    "method_not_allowed": "the path has no such method; the Allow header lists its methods",
    "upgrade_required": "the path accepts WebSockets only",
    "bad_handshake": "the Socket.IO request is not Engine.IO 4, or is out of sequence",
    "idempotency_mismatch": "the Idempotency-Key, or the `client_message_id`, was used for another "
    "request",
    "idempotency_key_invalid": "Idempotency-Key is not 1 to 255 printable ASCII characters",
    "rate_limited": "the rate limit is exceeded; `retry_after` is the wait in seconds",
    "processor_unavailable": "the payment processor is temporarily unavailable; try again",
    "internal": "an internal error; the log has the details under `request_id`",
    "unavailable": "the service is temporarily unavailable: see Retry-After",
}
"""Descriptions of the error codes that any call may return, with policy figures in braces.
Business rules have codes of their own."""


class HttpError(Exception):
    """A request refused by the HTTP layer, before any use-case runs."""

    def __init__(
        self, status: int, code: str, message: str, headers: tuple[Header, ...] = ()
    ) -> None:
        self.status, self.code, self.message, self.headers = status, code, message, headers
        super().__init__(message)


class ClientDisconnected(Exception):
    """The client disconnected before its response."""


def unknown_path_error() -> HttpError:
    return HttpError(404, "not_found", "There is nothing at this path")


def method_not_allowed_reply(method: str, allow: bytes) -> Reply:
    """The response to a method that a path does not take: 204 for OPTIONS, else 405."""
    headers = ((b"allow", allow),)
    if method == "OPTIONS":
        return Reply(204, headers=headers)
    return Reply(
        405, error_body("method_not_allowed", f"This path takes {allow.decode()}"), headers
    )


def to_reply(error: BaseException) -> Reply | None:
    """The response to an error; None for an internal error, whose details stay private."""
    if isinstance(error, HttpError):
        return Reply(error.status, error_body(error.code, error.message), error.headers)
    if isinstance(error, HTTPException):
        return _framework_error_reply(error)
    if not isinstance(error, StaffbookingError) or (status := _status_of(error)) is None:
        return None
    match error:
        case InvalidInput():
            return Reply(status, _input_error_body(error))
        case Unauthenticated():
            return Reply(status, _error_body_of(error), ((b"www-authenticate", b"Bearer"),))
        case RateLimitExceeded():
            return _rate_limited_reply(error)
        case StoreUnavailable() | Conflict():
            return unavailable_reply("The service is temporarily unavailable")
        case BadEventSignature():
            return Reply(status, error_body("bad_signature", "This is no event of the processor"))
        case ProcessorError():
            return Reply(status, _error_body_of(ProcessorUnavailable()))
    return Reply(status, _error_body_of(error))


def reply_to_error(error: BaseException, request_id: str, where: str) -> Reply:
    """The response to any error. An internal error is logged under the request id, which is all
    that the response reveals of it."""
    if (reply := to_reply(error)) is not None:
        return reply
    log.error("request %s to %s failed", request_id, where, exc_info=error)
    record: InternalErrorRecord = {
        "error": "Internal server error",
        "code": "internal",
        "request_id": request_id,
    }
    return Reply(500, codec.encode(record))


def error_body(code: str, message: str) -> bytes:
    """The body of an error (SPECIFICATION 7)."""
    record: ErrorRecord = {"error": message, "code": code}
    return codec.encode(record)


def unavailable_reply(message: str) -> Reply:
    """The response while the service can't do what is asked: 503, with Retry-After."""
    headers = ((b"retry-after", b"%d" % _RETRY_AFTER_SECONDS),)
    return Reply(503, error_body("unavailable", message), headers)


def _status_of(error: StaffbookingError) -> int | None:
    return next(
        (STATUS_BY_ERROR[kind] for kind in type(error).__mro__ if kind in STATUS_BY_ERROR), None
    )


def _error_body_of(error: StaffbookingError) -> bytes:
    if isinstance(error, CompanionUnavailable):
        record: UnavailableRecord = {
            "error": error.message,
            "code": "companion_unavailable",
            "reason": error.reason,
        }
        return codec.encode(record)
    return error_body(error.code, error.message)


def _input_error_body(error: InvalidInput) -> bytes:
    missing = isinstance(error, MissingField)
    message = "Required fields are missing" if missing else "Some fields are not valid"
    record: InvalidInputRecord = {
        "error": message,
        "code": error.code,
        "errors": field_error_records(error.field_errors),
    }
    return codec.encode(record)


def _rate_limited_reply(error: RateLimitExceeded) -> Reply:
    seconds = error.decision.retry_after
    record: RateLimitedRecord = {
        "error": error.message,
        "code": "rate_limited",
        "retry_after": seconds,
    }
    return Reply(429, codec.encode(record), ((b"retry-after", b"%d" % seconds),))


def _framework_error_reply(error: HTTPException) -> Reply:
    """The response to an HTTP exception of Litestar, or of added middleware or routes."""
    code = responses.get(error.status_code, "error").lower().replace(" ", "_")
    headers = tuple(
        (name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()
    )
    return Reply(error.status_code, error_body(code, error.detail), headers)
