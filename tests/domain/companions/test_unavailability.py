"""The reason why a companion cannot be booked at a time (CONTRACT 4)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from staffbooking_core.domain.companions.availability import (
    HOUR,
    Calendar,
    DateOverride,
    Interval,
    Slot,
    WeeklySlot,
    daily_availability,
    has_free_hour,
)
from staffbooking_core.domain.companions.unavailability import unavailability_reason

MONDAY = date(2027, 3, 1)
NINE_TO_FIVE = tuple(WeeklySlot(day, Slot(9 * 60, 17 * 60)) for day in range(5))


def at(hour: int, hours: int = 1, day: date = MONDAY) -> Interval:
    start = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
    return Interval(start, start + hours * HOUR)


@pytest.mark.parametrize(
    ("interval", "reason"),
    [
        (at(10), None),
        (at(9, 3), None),
        (at(10, day=MONDAY + timedelta(days=5)), "day_off"),
        (at(10, day=MONDAY + timedelta(days=2)), "day_off"),
        (at(8), "outside_hours"),
        (at(16, 2), "outside_hours"),
        (at(12), "booked"),
        (at(11, 2), "booked"),
        (at(14), "busy"),
        (at(12, 3), "booked"),
        (at(13), None),
    ],
)
def test_the_first_reason_that_holds_is_given(interval: Interval, reason: str | None) -> None:
    """Hours come before bookings, bookings before external busy times; edges may touch."""
    calendar = Calendar(
        "UTC", NINE_TO_FIVE, (DateOverride(MONDAY + timedelta(days=2)),), busy=(at(14),)
    )
    assert unavailability_reason(calendar, [at(12)], interval) == reason


def test_time_that_has_passed_is_not_free() -> None:
    """With `now`, slots begin at the next minute after it, and an hour must be ahead of it."""
    calendar = Calendar("UTC", NINE_TO_FIVE)
    now = datetime(2027, 3, 1, 15, 30, 20, tzinfo=UTC)
    (day,) = daily_availability(calendar, (), MONDAY, MONDAY, now)
    assert day.slots == (Slot(15 * 60 + 31, 17 * 60),)
    assert has_free_hour(calendar, (), MONDAY, now)
    assert not has_free_hour(calendar, (), MONDAY, now + 45 * timedelta(minutes=1))
    assert daily_availability(calendar, (), MONDAY, MONDAY, now + HOUR * 10)[0].slots == ()
    assert has_free_hour(calendar, (), MONDAY + timedelta(days=1), now)
