"""The errors that the core raises, in one shallow tree.

    StaffbookingError
    |- InvalidInput          the input has errors, each with its field
    |  |- MissingField       a required field is absent or null
    |  `- InvalidField       a field has a wrong type, range, format or meaning
    |- RuleBroken            the input is valid, but the state or a business rule forbids it
    |  `- CompanionUnavailable  the companion is not free at that time, with the reason
    |- VersionMismatch       the resource has another version than the caller expects
    |- NotFound              the resource does not exist or is not the caller's
    |- Unauthenticated       credentials are missing or invalid
    |- Forbidden             wrong permission, role, tier or party
    |- RateLimitExceeded     a rate limit is exceeded (in `domain.shared.rate_limits`)
    |- ProcessorUnavailable  the payment processor is temporarily unavailable
    |- StoreUnavailable      the store is temporarily unavailable
    |  |- FilesUnavailable   files can't be read or written
    |  `- ClockWrong         it takes no changes from a process whose clock is wrong
    |- SealBroken            no known key opens a sealed secret
    |- ConstraintViolated    a change violates a named constraint of the store
    |- Conflict              the row was changed concurrently; retry the use-case
    `- NotificationsGivenUp  notifications exhausted their retries

The errors are independent of HTTP and SQL: each runner has one table that maps them. The errors
of payment processors are in `domain.payments.processor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import frozen

__all__ = [
    "ClockWrong",
    "CompanionUnavailable",
    "Conflict",
    "ConstraintViolated",
    "FieldError",
    "FilesUnavailable",
    "Forbidden",
    "InvalidField",
    "InvalidInput",
    "MissingField",
    "NotFound",
    "NotificationsGivenUp",
    "ProcessorUnavailable",
    "RuleBroken",
    "SealBroken",
    "StaffbookingError",
    "StoreUnavailable",
    "Unauthenticated",
    "VersionMismatch",
]


class StaffbookingError(Exception):
    """Base class of all errors that the core raises deliberately."""

    code = "error"

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls `__init__` with `args`, which are not its arguments.
        return Exception.__new__, (type(self), *self.args), self.__dict__

    @property
    def message(self) -> str:
        return str(self)


@frozen
class FieldError:
    """One invalid field: its name in the input (dotted if nested) and the problem."""

    field: str
    message: str


class InvalidInput(StaffbookingError):
    """The input has errors; all of them are listed, not only the first."""

    code = "invalid_input"

    def __init__(self, field_errors: Iterable[FieldError]) -> None:
        self.field_errors: tuple[FieldError, ...] = tuple(field_errors)
        super().__init__(
            "; ".join(f"{fault.field}: {fault.message}" for fault in self.field_errors)
        )


class MissingField(InvalidInput):
    """A required field or parameter is absent or null (CONTRACT 1: 400)."""

    code = "missing_field"


class InvalidField(InvalidInput):
    """A value has a wrong type, range or format, or can't be accepted (CONTRACT 1: 422)."""

    code = "invalid_field"


def invalid_field(field: str, message: str) -> InvalidField:
    """The error for a single invalid field."""
    return InvalidField([FieldError(field, message)])


class RuleBroken(StaffbookingError):
    """The request is valid, but the state or a business rule forbids it."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class CompanionUnavailable(RuleBroken):
    """The companion cannot be booked at that time. `reason` is the first that holds of `horizon`,
    `notice`, `day_off`, `outside_hours`, `booked` and `busy` (CONTRACT 4)."""

    def __init__(self, reason: str, message: str) -> None:
        self.reason = reason
        super().__init__("companion_unavailable", message)


class VersionMismatch(StaffbookingError):
    """The resource has another version than the caller expects: nothing was changed."""

    code = "version_mismatch"

    def __init__(self, version: int) -> None:
        self.version = version
        super().__init__(f"The version is {version} now: read it again")


class NotFound(StaffbookingError):
    """The resource does not exist or is not the caller's; the two are indistinguishable."""

    code = "not_found"

    def __init__(self, resource: str) -> None:
        self.resource = resource
        super().__init__(f"{resource} not found")


class Unauthenticated(StaffbookingError):
    """Credentials are missing or invalid."""

    def __init__(
        self, code: str = "unauthenticated", message: str = "Authentication required"
    ) -> None:
        self.code = code
        super().__init__(message)


class Forbidden(StaffbookingError):
    """The caller is authenticated but not allowed to do this."""

    def __init__(self, code: str = "forbidden", message: str = "Not allowed") -> None:
        self.code = code
        super().__init__(message)


class ProcessorUnavailable(StaffbookingError):
    """The payment processor is temporarily unavailable; no state is lost, retry later."""

    code = "processor_unavailable"

    def __init__(self) -> None:
        super().__init__("The payment processor is temporarily unavailable; try again later")


class StoreUnavailable(StaffbookingError):
    """The store is temporarily unavailable; acknowledged changes are safe, retry later."""

    code = "unavailable"

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__("The service is temporarily unavailable")
        if reason:
            self.add_note(reason)  # for tracebacks: the message is shown to visitors


class ClockWrong(StoreUnavailable):
    """The store takes no changes from this process while its clock is wrong (CONTRACT 10).
    `reason` names the clock."""


class FilesUnavailable(StoreUnavailable):
    """The storage of files is temporarily unavailable."""


class SealBroken(StaffbookingError):
    """A sealed secret can't be opened: its key is unknown, or it belongs to another row."""

    code = "seal_broken"

    def __init__(self) -> None:
        super().__init__("A sealed secret can't be opened with the given keys")


class ConstraintViolated(StaffbookingError):
    """A change violates a constraint; `constraint` is its name, the same in every store."""

    code = "constraint_violated"

    def __init__(self, constraint: str) -> None:
        self.constraint = constraint
        super().__init__(constraint)


class Conflict(StaffbookingError):
    """The row changed since it was read; the whole use-case must be retried. `resource` is a noun,
    such as "payee": the message is "payee was changed by somebody else"."""

    code = "conflict"

    def __init__(self, resource: str = "row") -> None:
        super().__init__(f"{resource} was changed by somebody else")


class NotificationsGivenUp(StaffbookingError):
    """Notifications were given up; `faults` has the error of each."""

    code = "notices_given_up"

    def __init__(self, faults: Sequence[Exception]) -> None:
        self.faults: tuple[Exception, ...] = tuple(faults)
        number = len(self.faults)
        super().__init__(f"{number} notice{' was' if number == 1 else 's were'} given up")
        self.__cause__: BaseException | None = ExceptionGroup("given up", self.faults)

    def __reduce__(self) -> tuple[Any, ...]:
        # `__init__` makes the cause, which is no attribute of `__dict__`.
        return type(self), (self.faults,), self.__dict__
