"""The errors of the client, in one shallow tree.

ApiError
|- InvalidInput      fields are missing (400) or not valid (422)
|- RuleBroken        the state or a business rule forbids it (other 400, 412)
|- Unauthenticated   the API key is missing, unknown, expired or revoked (401)
|- Forbidden         the key lacks a permission, or its owner the subscription (403)
|- NotFound          no such thing, or somebody else's (404)
|- RateLimited       a limit is exceeded (429)
`- Unavailable       no answer of the service, or 502, 503, 504
NotReached           a booking did not reach the awaited status
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staffbooking_http.client.shapes import Booking


class _ClientError(Exception):
    """Base of both kinds of errors: they can be copied and sent to other processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls `__init__` with `args`, which are not its arguments.
        return Exception.__new__, (type(self), *self.args), self.__dict__


class ApiError(_ClientError):
    """The service refused a call, or gave no answer.

    `code` is stable and meant for programs, the message is meant for people. `status` is the HTTP
    status, None without an answer. `body` is the decoded JSON, empty if there was none.
    `retry_after` is in seconds, None if the service names no time. `idempotency_key` is the one
    that was sent, None for a call without one.
    """

    idempotency_key: str | None = None

    def __init__(
        self,
        message: str,
        status: int | None = None,
        body: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        self.status: int | None = status
        self.body: Mapping[str, Any] = body or {}
        self.retry_after: float | None = retry_after
        self.code: str = str(self.body.get("code", ""))
        super().__init__(f"{message} ({self.code or status or 'no answer'})")


class InvalidInput(ApiError):
    """Some fields are missing or not valid; `fields` has every faulty one with its message.
    The name of a nested field is dotted."""

    @property
    def fields(self) -> dict[str, str]:
        return {fault["field"]: fault["message"] for fault in self.body.get("errors", ())}


class RuleBroken(ApiError):
    """The call is valid, but the state or a business rule forbids it: see `code`. `reason` says
    why a companion is not available, else it is None."""

    @property
    def reason(self) -> str | None:
        return self.body.get("reason")


class Unauthenticated(ApiError):
    """The API key is missing, unknown, expired or revoked."""


class Forbidden(ApiError):
    """The key lacks the permission, or its owner the subscription."""


class NotFound(ApiError):
    """No such thing, or it belongs to somebody else."""


class RateLimited(ApiError):
    """A limit is exceeded, and `retry_after` is longer than the client waits by itself."""


class Unavailable(ApiError):
    """The service, or the way to it, is out of order after all attempts. Whether a change was
    made is unknown: repeat the call, with its `idempotency_key` if it has one."""


class NotReached(_ClientError):
    """The booking did not reach the status in time, or never will. `booking` is its last record."""

    def __init__(self, booking: Booking, status: str) -> None:
        self.booking = booking
        super().__init__(f"{booking['booking_code']} is {booking['status']}, not {status}")


_ERROR_BY_STATUS: dict[int, type[ApiError]] = {
    400: RuleBroken,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    412: RuleBroken,
    422: InvalidInput,
    429: RateLimited,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(status: int, body: Mapping[str, Any], retry_after: float | None) -> ApiError:
    """The error that an answer stands for, of 2xx one that is not the service's; `retry_after` is
    in seconds."""
    kind = _ERROR_BY_STATUS.get(status, Unavailable if 200 <= status < 300 else ApiError)
    if status == 400 and "errors" in body:
        kind = InvalidInput
    message = str(body.get("error", "The answer is not from the service"))
    return kind(message, status, body, retry_after)
