"""Records of errors and the statuses that an HTTP service gives them (SPECIFICATION 7,
CONTRACT 1)."""

from collections.abc import Iterable
from typing import Annotated, Literal, NotRequired, TypeAlias, TypedDict

from staffbooking_core.domain.payments.processor import BadEventSignature, ProcessorError
from staffbooking_core.domain.shared.rate_limits import RateLimitExceeded
from staffbooking_core.errors import (
    CompanionUnavailable,
    Conflict,
    FieldError,
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
from staffbooking_core.representations.json_types import JsonSchema

__all__ = [
    "AnyErrorRecord",
    "CompanionUnavailableRecord",
    "ErrorRecord",
    "FieldErrorRecord",
    "InvalidInputRecord",
    "RateLimitedRecord",
    "error_response",
]

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


AnyErrorRecord: TypeAlias = (
    ErrorRecord | InvalidInputRecord | CompanionUnavailableRecord | RateLimitedRecord
)
"""The JSON body of an error."""


def error_response(error: StaffbookingError) -> tuple[int, AnyErrorRecord] | None:
    """The HTTP status and the JSON body that the service gives an error; None for an internal
    error, whose details stay private."""
    kinds = type(error).__mro__
    status = next((STATUS_BY_ERROR[kind] for kind in kinds if kind in STATUS_BY_ERROR), None)
    return None if status is None else (status, _error_record(error))


def _error_record(error: StaffbookingError) -> AnyErrorRecord:
    match error:
        case InvalidInput():
            return _invalid_input_record(error)
        case CompanionUnavailable():
            return {
                "error": error.message,
                "code": "companion_unavailable",
                "reason": error.reason,
            }
        case RateLimitExceeded():
            return {
                "error": error.message,
                "code": "rate_limited",
                "retry_after": error.decision.retry_after,
            }
        case StoreUnavailable() | Conflict():
            return {"error": "The service is temporarily unavailable", "code": "unavailable"}
        case BadEventSignature():
            return {"error": "This is no event of the processor", "code": "bad_signature"}
        case ProcessorError():
            return _error_record(ProcessorUnavailable())
    return {"error": error.message, "code": error.code}


def _invalid_input_record(error: InvalidInput) -> InvalidInputRecord:
    is_missing = isinstance(error, MissingField)
    return {
        "error": "Required fields are missing" if is_missing else "Some fields are not valid",
        "code": error.code,
        "errors": field_error_records(error.field_errors),
    }
