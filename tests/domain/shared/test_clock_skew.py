"""The fault of a machine's clock is named beyond the tolerance, in both directions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_core.domain.shared.clock_skew import find_clock_fault
from staffbooking_core.policy import Policy

MAX_SKEW = Policy().max_clock_skew


@pytest.mark.parametrize("seconds", [0, 30, -30, 0.004])
def test_a_small_difference_is_no_fault(seconds: float) -> None:
    """A clock that differs by at most 30 s is right."""
    assert find_clock_fault(timedelta(seconds=seconds), MAX_SKEW) is None


@pytest.mark.parametrize(
    ("skew", "text"),
    [
        (timedelta(days=9), "this machine's clock is 777600.000 s ahead of the database's"),
        (timedelta(seconds=-30.5), "this machine's clock is 30.500 s behind the database's"),
        (None, "this machine's clock could not be compared with the database's"),
    ],
)
def test_a_large_or_unknown_difference_is_named(skew: timedelta | None, text: str) -> None:
    """A clock that differs by more, or was not compared, is a fault with a text."""
    assert find_clock_fault(skew, MAX_SKEW) == text
