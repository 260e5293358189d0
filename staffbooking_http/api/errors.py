"""Error responses: the mapping of errors to statuses and bodies (CONTRACT 1)."""

import logging
from http.client import responses

from litestar.exceptions import HTTPException

from staffbooking_adapters import codec
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import Conflict, StaffbookingError, StoreUnavailable, Unauthenticated
from staffbooking_core.representations.errors import (
    ErrorRecord,
    InternalErrorRecord,
    error_response,
)
from staffbooking_http.api.endpoint import Header, Reply

log = logging.getLogger("staffbooking.http")

_RETRY_AFTER_SECONDS = 2
"""Seconds after which a client may retry when the store is unavailable."""


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
    if not isinstance(error, StaffbookingError) or (found := error_response(error)) is None:
        return None
    status, record = found
    return Reply(status, codec.encode(record), _headers_of(error))


def reply_to_error(error: BaseException, request_id: str, where: str) -> Reply:
    """The response to any error. An internal error is logged under the request id, which is all
    that the response reveals of it; so is why the store is unavailable."""
    if (reply := to_reply(error)) is not None:
        if isinstance(error, StoreUnavailable):
            log.warning("request %s to %s: unavailable: %s", request_id, where, error.reason)
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


def overloaded_reply() -> Reply:
    """The response to a request that is not served, as too many others are: 503, with
    Retry-After."""
    headers = ((b"retry-after", b"%d" % _RETRY_AFTER_SECONDS),)
    message = "The service has more requests than it can serve; try again later"
    return Reply(503, error_body("overloaded", message), headers)


def _headers_of(error: StaffbookingError) -> tuple[Header, ...]:
    match error:
        case Unauthenticated():
            return ((b"www-authenticate", b"Bearer"),)
        case RateLimitExceeded():
            return ((b"retry-after", b"%d" % error.decision.retry_after),)
        case StoreUnavailable() | Conflict():
            return ((b"retry-after", b"%d" % _RETRY_AFTER_SECONDS),)
    return ()


def _framework_error_reply(error: HTTPException) -> Reply:
    """The response to an HTTP exception of Litestar, or of added middleware or routes."""
    code = responses.get(error.status_code, "error").lower().replace(" ", "_")
    headers = tuple(
        (name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()
    )
    return Reply(error.status_code, error_body(code, error.detail), headers)
