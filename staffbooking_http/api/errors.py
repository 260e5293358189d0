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
    CompanionUnavailableRecord,
    ErrorRecord,
    InternalErrorRecord,
    InvalidInputRecord,
    RateLimitedRecord,
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
        record: CompanionUnavailableRecord = {
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
