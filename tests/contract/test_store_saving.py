"""What saving a companion leaves in memory."""

from __future__ import annotations

from datetime import timedelta

from staffbooking_adapters.sql import saving
from staffbooking_core.domain.calendar import COMMON, Calendar, Interval, Override, Slot, WeeklySlot
from tests.support.builders import DAY, NOW


def test_long_calendars_are_not_kept() -> None:
    """Those with times taken elsewhere, many dates or many slots are written anew each time."""
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
        assert saving._calendar(long) == saving._calendar(long) != ""
    assert saving._shared.cache_info().currsize == 0
    short = Calendar("UTC", overrides=days[1:])
    assert saving._calendar(short) is saving._calendar(short)
