"""Parsing and formatting of durations."""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, SECOND
from staffbooking_core.domain.shared.durations import format_duration, parse_duration


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
    """Seconds, minutes and hours are parsed in the contract's notation."""
    assert parse_duration(text) == duration


@pytest.mark.parametrize("text", ["", "90", "h", "-1h", "1.5h", "1 h", "1H", "1h ", "1h\n", "٣h"])
def test_other_text_is_no_duration(text):
    """Anything but ASCII digits and one known unit is refused."""
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["87841h", "999999999h"])
def test_a_slip_of_digits_is_refused(text):
    """More than ten years is refused, before a date could overflow."""
    with pytest.raises(ValueError, match="longer than ten years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("durations", "text"),
    [
        ([7 * DAY], "7 days"),
        ([DAY], "24 hours"),
        ([HOUR], "60 minutes"),
        ([90 * SECOND], "90 seconds"),
        ([SECOND], "1 second"),
        ([timedelta(0)], "0 seconds"),
        ([SECOND, 4 * SECOND, 16 * SECOND], "1, 4 and 16 seconds"),
        ([MINUTE, HOUR], "1 and 60 minutes"),
        ([HOUR, 2 * DAY], "1 and 48 hours"),
    ],
)
def test_durations_are_told_in_whole_units(durations, text):
    """The unit is the largest in which all are whole and one is at least 1."""
    assert format_duration(*durations) == text
