"""Records of errors (SPECIFICATION 7, CONTRACT 1)."""

from collections.abc import Iterable
from typing import Annotated, Literal, NotRequired, TypedDict

from staffbooking_core.errors import FieldError
from staffbooking_core.representations.json_types import JsonSchema


class ErrorRecord(TypedDict):
    """Why a request was refused: a message for people, and a stable code."""

    error: str
    code: str


class FieldErrorRecord(TypedDict):
    """The fault of one field of the input."""

    field: str
    message: str


def field_error_records(faults: Iterable[FieldError]) -> list[FieldErrorRecord]:
    """The records of all faults of an input."""
    return [{"field": fault.field, "message": fault.message} for fault in faults]


class InvalidInputRecord(TypedDict):
    """The error of an invalid input, with every fault."""

    error: str
    code: Annotated[
        str,
        JsonSchema(
            title="InputErrorCode", enum=["missing_field", "invalid_field", "content_blocked"]
        ),
    ]
    errors: list[FieldErrorRecord]


class CompanionUnavailableRecord(TypedDict):
    """The error of a booking at a time at which the companion cannot be booked."""

    error: str
    code: Literal["companion_unavailable"]
    reason: str


class RateLimitedRecord(TypedDict):
    """The error of an exceeded rate limit; `retry_after` is in seconds."""

    error: str
    code: Literal["rate_limited"]
    retry_after: int


class InternalErrorRecord(ErrorRecord):
    """An error of the service; `request_id` identifies it in the log."""

    request_id: NotRequired[str]
