"""The errors of the core are copied and pickled as a whole."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import staffbooking_core as core
from staffbooking_core.domain.shared.rate_limits import RateLimitDecision

FIELD = core.FieldError("location", "is required")

ERRORS: dict[str, Exception] = {
    "BadEventSignature": core.BadEventSignature("too old"),
    "ClockWrong": core.ClockWrong("the clock of the host is wrong"),
    "CompanionUnavailable": core.CompanionUnavailable("booked", "Mia is not free then"),
    "Conflict": core.Conflict("payee"),
    "ConstraintViolated": core.ConstraintViolated("users_email"),
    "FilesUnavailable": core.FilesUnavailable("the disk is full"),
    "Forbidden": core.Forbidden("wrong_role", "Not for customers"),
    "InvalidField": core.InvalidField([FIELD]),
    "InvalidInput": core.InvalidInput([FIELD]),
    "MissingField": core.MissingField([FIELD]),
    "NotFound": core.NotFound("booking"),
    "NotificationsGivenUp": core.NotificationsGivenUp([core.NotFound("user"), OSError(5, "reset")]),
    "OperationKeyReused": core.OperationKeyReused("another amount"),
    "OutcomeUnknown": core.OutcomeUnknown("no answer"),
    "ProcessorBusy": core.ProcessorBusy(2.5),
    "ProcessorError": core.ProcessorError("unreadable"),
    "ProcessorMisconfigured": core.ProcessorMisconfigured("the key is revoked"),
    "ProcessorRefused": core.ProcessorRefused("missing", "No such payee"),
    "ProcessorUnavailable": core.ProcessorUnavailable(),
    "RateLimitExceeded": core.RateLimitExceeded(RateLimitDecision(10, 0, 1_803_902_400, False, 60)),
    "RuleBroken": core.RuleBroken("too_many_webhooks", "There are 10 already"),
    "SealBroken": core.SealBroken(),
    "StaffbookingError": core.StaffbookingError("failed"),
    "StoreUnavailable": core.StoreUnavailable("the connection was refused"),
    "Unauthenticated": core.Unauthenticated("invalid_key", "The key is unknown"),
    "UndeliverableEmail": core.UndeliverableEmail("no such mailbox"),
    "VersionMismatch": core.VersionMismatch(4),
}


def pickled(error: Exception) -> Any:
    return pickle.loads(pickle.dumps(error))


def test_every_exported_error_has_a_sample() -> None:
    """The samples are the errors that the core exports."""
    exported = {name: getattr(core, name) for name in vars(core)["__all__"]}
    assert ERRORS.keys() == {
        name
        for name, value in exported.items()
        if isinstance(value, type) and issubclass(value, Exception)
    }


@pytest.mark.parametrize("duplicate", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("name", ERRORS)
def test_an_error_is_duplicated_as_a_whole(
    name: str, duplicate: Callable[[Exception], Exception]
) -> None:
    """The class, the text and the attributes of an error, its notes among them, survive."""
    error = ERRORS[name]
    made = duplicate(error)
    assert (type(made), str(made), made.args) == (type(error), str(error), error.args)
    assert repr(vars(made)) == repr(vars(error))


def test_the_errors_of_notifications_are_shown_after_pickling() -> None:
    """A pickled error of notifications has the error of each as its cause, for tracebacks."""
    cause = pickled(ERRORS["NotificationsGivenUp"]).__cause__
    assert [str(each) for each in cause.exceptions] == ["user not found", "[Errno 5] reset"]
