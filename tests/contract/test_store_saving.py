"""What saving a companion leaves in memory."""

from __future__ import annotations

from datetime import timedelta

from staffbooking_adapters.sql import saving
from staffbooking_core.domain.calendar import COMMON, Calendar, Interval, Override, Slot, WeeklySlot
from tests.support.builders import DAY, NOW


def test_long_calendars_are_not_kept() -> None:
    """With bookings, times taken elsewhere, many dates or slots they are worked out each time."""
    days = tuple(Override(NOW.date() + number * DAY) for number in range(COMMON + 1))
    slots = tuple(WeeklySlot(1, Slot(number, 1440)) for number in range(COMMON + 1))
    busy = (Interval(NOW, NOW + timedelta(hours=1)),)
    saving._shared.cache_clear()
    for long in (
        Calendar("UTC", overrides=days),
        Calendar("UTC", slots),
        Calendar("UTC", overrides=(Override(NOW.date(), tuple(each.slot for each in slots[1:])),)),
        Calendar("UTC", busy=busy),
    ):
        assert saving._hours(long, ()) == saving._hours(long, ())
    short = Calendar("UTC", overrides=days[1:])
    assert saving._hours(short, busy) == saving._hours(short, busy)
    assert saving._shared.cache_info().currsize == 0
    assert saving._hours(short, ()) is saving._hours(short, ())
