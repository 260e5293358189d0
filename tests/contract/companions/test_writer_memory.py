"""What saving a companion leaves in memory."""

from __future__ import annotations

from datetime import timedelta

from staffbooking_adapters.sql.companions import writer
from staffbooking_core.domain.companions.availability import (
    COMMON,
    Calendar,
    Interval,
    Override,
    Slot,
    WeeklySlot,
)
from tests.support.builders import DAY, NOW


def test_long_calendars_are_not_kept() -> None:
    """With bookings, times taken elsewhere, many dates or slots they are worked out each time."""
    days = tuple(Override(NOW.date() + number * DAY) for number in range(COMMON + 1))
    slots = tuple(WeeklySlot(1, Slot(number, 1440)) for number in range(COMMON + 1))
    busy = (Interval(NOW, NOW + timedelta(hours=1)),)
    writer._shared.cache_clear()
    for long in (
        Calendar("UTC", overrides=days),
        Calendar("UTC", slots),
        Calendar("UTC", overrides=(Override(NOW.date(), tuple(each.slot for each in slots[1:])),)),
        Calendar("UTC", busy=busy),
    ):
        assert writer._hours(long, ()) == writer._hours(long, ())
    short = Calendar("UTC", overrides=days[1:])
    assert writer._hours(short, busy) == writer._hours(short, busy)
    assert writer._shared.cache_info().currsize == 0
    assert writer._hours(short, ()) is writer._hours(short, ())
