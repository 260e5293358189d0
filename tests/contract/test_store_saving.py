"""What saving a companion leaves in memory."""

from __future__ import annotations

from datetime import timedelta

from staffbooking_adapters.sql import saving
from staffbooking_core.domain.calendar import Calendar, Interval, Override
from tests.support.builders import DAY, NOW


def test_long_calendars_are_not_kept() -> None:
    """Those with times taken elsewhere, or many dates, are written anew each time."""
    days = tuple(Override(NOW.date() + number * DAY) for number in range(saving.FEW + 1))
    busy = (Interval(NOW, NOW + timedelta(hours=1)),)
    saving._shared.cache_clear()
    for long in (Calendar("UTC", overrides=days), Calendar("UTC", busy=busy)):
        assert saving._calendar(long) == saving._calendar(long) != ""
    assert saving._shared.cache_info().currsize == 0
    short = Calendar("UTC", overrides=days[1:])
    assert saving._calendar(short) is saving._calendar(short)
