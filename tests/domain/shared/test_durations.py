"""Lengths of time as text."""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_core.domain.shared.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90s", timedelta(seconds=90)),
        ("30m", timedelta(minutes=30)),
        ("24h", timedelta(days=1)),
        ("0s", timedelta(0)),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text, duration):
    """Seconds, minutes and hours read as the contract writes them."""
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "90", "h", "-1h", "1.5h", "1 h", "1H", "1h ", "1h\n", "٣h"])
def test_other_text_is_no_duration(text):
    """Anything but ASCII digits and one known unit is refused."""
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["87841h", "999999999h"])
def test_a_slip_of_digits_is_refused(text):
    """More than ten years is refused, long before a date would overflow."""
    with pytest.raises(ValueError, match="longer than ten years"):
        parse_duration(text)
