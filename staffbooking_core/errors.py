"""Every error the core raises, in one shallow tree.

    StaffbookingError
    |- InvalidInput          what was handed in has faults, each with its field
    |  |- MissingField       a required field is absent or null
    |  `- InvalidField       a field's type, bounds, format or meaning is wrong
    |- RuleBroken            well formed, but the state or a business rule forbids it
    |- NotFound              no such thing, or a thing of somebody else's
    |- Unauthenticated       no credentials, or bad ones
    |- Forbidden             the wrong permission, role, tier or side
    |- LimitExceeded         a window of requests is spent (in `domain.limits`)
    |- ProcessorUnavailable  the payment processor is out of reach for now
    |- Unavailable           the store is out of reach for now
    |- SealBroken            a sealed secret can't be opened with the keys that are known
    |- ConstraintViolated    the store refused a change by a named constraint
    `- Conflict              somebody changed the same row first; repeat the use-case

The errors speak of bookings and keys, never of HTTP or SQL: each runner has one
table that translates them. What a payment processor may answer is in
`domain.payments`.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen


class StaffbookingError(Exception):
    """The root: catch it to catch all that the core raises on purpose."""

    code = "error"

    @property
    def message(self) -> str:
        return str(self)


@frozen
class FieldError:
    """One wrong field: its name as it came in (dotted when nested), and what is wrong."""

    field: str
    message: str


class InvalidInput(StaffbookingError):
    """The input has faults; all of them are listed, not the first."""

    code = "invalid_input"

    def __init__(self, field_errors: Iterable[FieldError]) -> None:
        self.field_errors = tuple(field_errors)
        super().__init__(
            "; ".join(f"{fault.field}: {fault.message}" for fault in self.field_errors)
        )


class MissingField(InvalidInput):
    """A required field or parameter is absent or null (CONTRACT 1: 400)."""

    code = "missing_field"


class InvalidField(InvalidInput):
    """A value has the wrong type, bounds, format, or cannot be honoured (CONTRACT 1: 422)."""

    code = "invalid_field"


def invalid_field(field: str, message: str) -> InvalidField:
    """The error for a single bad field."""
    return InvalidField([FieldError(field, message)])


class RuleBroken(StaffbookingError):
    """The request is well formed, but state or a business rule forbids it."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        super().__init__(message)


class NotFound(StaffbookingError):
    """There is no such thing, or it is somebody else's: the two look the same."""

    code = "not_found"

    def __init__(self, resource: str) -> None:
        self.resource = resource
        super().__init__(f"{resource} not found")


class Unauthenticated(StaffbookingError):
    """Credentials are missing or not valid."""

    def __init__(
        self, code: str = "unauthenticated", message: str = "Authentication required"
    ) -> None:
        self.code = code
        super().__init__(message)


class Forbidden(StaffbookingError):
    """The caller is known, but may not do this."""

    def __init__(self, code: str = "forbidden", message: str = "Not allowed") -> None:
        self.code = code
        super().__init__(message)


class ProcessorUnavailable(StaffbookingError):
    """The payment processor could not be reached; nothing is lost, try again."""

    code = "processor_unavailable"

    def __init__(self) -> None:
        super().__init__("The payment processor is out of reach; nothing is lost, try again")


class StoreUnavailable(StaffbookingError):
    """The store is out of reach; what was acknowledged is safe, try again."""

    code = "unavailable"

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__("The service is temporarily unavailable")


class SealBroken(StaffbookingError):
    """A sealed secret can't be opened: its key is gone, or it isn't this row's."""

    code = "seal_broken"

    def __init__(self) -> None:
        super().__init__("a sealed secret can't be opened with the keys of SECRET_KEY")


class ConstraintViolated(StaffbookingError):
    """The store refused a change; `constraint` is its name, the same on every store."""

    code = "constraint_violated"

    def __init__(self, constraint: str) -> None:
        self.constraint = constraint
        super().__init__(constraint)


class Conflict(StaffbookingError):
    """The row changed since it was read: the whole use-case is to be repeated."""

    code = "conflict"

    def __init__(self, resource: str = "row") -> None:
        super().__init__(f"{resource} was changed by somebody else")
