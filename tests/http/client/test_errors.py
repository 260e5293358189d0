"""The errors of the client are copied and pickled as a whole."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from staffbooking_http.client import errors

BODY = {"error": "Refused", "code": "refused", "errors": [{"field": "url", "message": "is short"}]}

KINDS: list[type[errors.ApiError]] = [errors.ApiError, *errors.ApiError.__subclasses__()]
ERRORS: list[Exception] = [
    *(kind("Refused", 400, BODY, 7) for kind in KINDS),
    errors.Unavailable("No usable answer"),
    errors.NotReached({"booking_code": "BK1", "status": "cancelled", "event_date": "x"}, "paid"),
]


def pickled(error: Exception) -> Any:
    return pickle.loads(pickle.dumps(error))


def test_every_error_has_a_sample() -> None:
    """The samples have all classes of errors."""
    exported = {
        value
        for name, value in vars(errors).items()
        if name[0] != "_" and isinstance(value, type) and issubclass(value, Exception)
    }
    assert {type(each) for each in ERRORS} == exported


@pytest.mark.parametrize("duplicate", [pickled, copy.copy, copy.deepcopy])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_is_duplicated_as_a_whole(
    error: Exception, duplicate: Callable[[Exception], Exception]
) -> None:
    """The class, the text and the attributes of an error survive."""
    made = duplicate(error)
    assert (type(made), str(made), vars(made)) == (type(error), str(error), vars(error))
