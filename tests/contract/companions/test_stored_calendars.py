"""The cache of stored calendars, which saving companions fills."""

from __future__ import annotations

from datetime import timedelta

from staffbooking_adapters.sql.companions import batch_writes
from staffbooking_adapters.testing.builders import DAY, NOW
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Interval,
    Slot,
    WeeklySlot,
)
from staffbooking_core.domain.companions.search_index import MAX_CACHEABLE_SLOTS


def test_long_calendars_are_not_cached() -> None:
    """Calendars with busy intervals, many dates or many slots are computed each time."""
    days = tuple(
        DateOverride(NOW.date() + number * DAY) for number in range(MAX_CACHEABLE_SLOTS + 1)
    )
    slots = tuple(WeeklySlot(1, Slot(number, 1440)) for number in range(MAX_CACHEABLE_SLOTS + 1))
    busy = (Interval(NOW, NOW + timedelta(hours=1)),)
    batch_writes._cached_stored_calendar.cache_clear()
    for long in (
        Calendar("UTC", overrides=days),
        Calendar("UTC", slots),
        Calendar(
            "UTC", overrides=(DateOverride(NOW.date(), tuple(each.slot for each in slots[1:])),)
        ),
        Calendar("UTC", busy=busy),
    ):
        assert batch_writes._stored_calendar(long, ()) == batch_writes._stored_calendar(long, ())
    short = Calendar("UTC", overrides=days[1:])
    assert batch_writes._stored_calendar(short, busy) == batch_writes._stored_calendar(short, busy)
    assert batch_writes._cached_stored_calendar.cache_info().currsize == 0
    assert batch_writes._stored_calendar(short, ()) is batch_writes._stored_calendar(short, ())
