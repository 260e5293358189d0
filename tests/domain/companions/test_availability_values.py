"""The values of calendars: their bounds, and times as texts."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Interval,
    Slot,
    WeeklySlot,
    format_hhmm,
    local_time_to_utc,
    parse_hhmm,
)
from staffbooking_core.domain.companions.booking_limits import add_years

MONDAY = date(2026, 6, 1)
MORNING = Slot(9 * 60, 10 * 60)
NINE = datetime(2026, 6, 1, 9, tzinfo=UTC)


@pytest.mark.parametrize("minutes", [-1, 1440])
def test_a_time_of_day_has_bounds(minutes):
    """The start of a booking is from 00:00 to 23:59."""
    with pytest.raises(ValueError, match="a time of day is from"):
        local_time_to_utc("UTC", MONDAY, minutes)


@pytest.mark.parametrize(("start", "end"), [(60, 60), (61, 60), (-1, 60), (0, 1441)])
def test_a_slot_starts_before_it_ends_within_the_day(start, end):
    """A slot that is empty, reversed or outside the day is refused."""
    with pytest.raises(ValueError, match="start must be before end"):
        Slot(start, end)


@pytest.mark.parametrize("weekday", [-1, 7])
def test_a_week_has_seven_days(weekday):
    """Weekdays run from 0 to 6."""
    with pytest.raises(ValueError, match="weekday must be from 0"):
        WeeklySlot(weekday, Slot(9 * 60, 17 * 60))


def test_a_date_has_one_override():
    """A second override of a date is refused."""
    with pytest.raises(ValueError, match="one override"):
        Calendar("UTC", overrides=(DateOverride(MONDAY), DateOverride(MONDAY, (MORNING,))))


def test_an_interval_is_in_utc():
    """An interval with a naive end, or an end in another zone, is refused."""
    with pytest.raises(ValueError, match="in UTC"):
        Interval(NINE, NINE.replace(hour=10, tzinfo=None))


def test_an_interval_has_a_length():
    """An empty interval is refused."""
    with pytest.raises(ValueError, match="start before it ends"):
        Interval(NINE, NINE)


def test_a_time_is_written_in_four_digits():
    """Times are `HH:MM`, and `24:00` as an end only."""
    assert (parse_hhmm("00:00"), parse_hhmm("23:59")) == (0, 1439)
    assert parse_hhmm("24:00", ending=True) == 1440
    assert (format_hhmm(545), format_hhmm(1440)) == ("09:05", "24:00")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9:05",
        "09:5",
        "24:00",
        "24:01",
        "09:60",
        "0905",
        "09:05 ",
        "09:05\n",
        "\u0660\u0669:\u0660\u0665",
    ],
)
def test_other_texts_are_no_times(text):
    """Texts other than ASCII digits of a valid time are refused."""
    with pytest.raises(ValueError, match="HH:MM"):
        parse_hhmm(text)


@pytest.mark.parametrize(
    "day, later",
    [(date(2026, 11, 22), date(2029, 11, 22)), (date(2028, 2, 29), date(2031, 2, 28))],
)
def test_the_same_day_of_a_later_year(day, later):
    """29 February becomes the 28th in a year without it."""
    assert add_years(day, 3) == later
