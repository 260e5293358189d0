"""What a search by date looks at: a mask of weekdays, and marks on exceptional days.

A store can't ask a calendar about a million companions. So it keeps, of each, on which
weekdays the weekly hours alone leave a free hour, and a mark on every day where the
truth (`calendar.has_free_hour`) differs: overrides, bookings, times taken elsewhere, changes
of the clock.
The two together always say what the calendar says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

from staffbooking_core.domain.companions.availability import (
    DAY,
    HOUR,
    MINUTE,
    Calendar,
    Interval,
    Slot,
    WeeklySlot,
    has_free_hour,
)

_REFERENCE_MONDAY = date(2024, 1, 1)
_CLOCK_CHANGE_YEARS = (2024, 2050)
"""Clock changes are marked from the first to before the second: far past any booking."""

_ROBUST_SLOT_LENGTH = 3 * HOUR
"""A slot this long keeps a free hour whatever a change of the clock does to its day."""

MarkedDays = dict[date, bool]


def weekday_mask(calendar: Calendar) -> int:
    """Bit n is set where weekday n (Monday 0) has a free hour by the weekly hours alone."""
    return _weekday_mask_of_hours(calendar.weekly)


@lru_cache(maxsize=4096)
def _weekday_mask_of_hours(weekly: tuple[WeeklySlot, ...]) -> int:
    plain = Calendar("UTC", weekly)
    return sum(
        1 << number
        for number in range(7)
        if has_free_hour(plain, (), _REFERENCE_MONDAY + number * DAY)
    )


def find_marked_days(calendar: Calendar, busy: Sequence[Interval]) -> MarkedDays:
    """Every day that differs from its weekday's bit, with the truth."""
    mask = weekday_mask(calendar)
    days = {override.date for override in calendar.overrides}
    for interval in (*busy, *calendar.busy):
        days.update(local_days(calendar.timezone, interval))
    truth = {day: has_free_hour(calendar, _busy_near(busy, day), day) for day in days}
    candidates = {**_clock_change_marks(calendar.timezone, calendar.weekly), **truth}
    return {day: free for day, free in candidates.items() if free != _is_free_by_mask(mask, day)}


def find_marks_on(
    calendar: Calendar, busy: Sequence[Interval], days: Iterable[date]
) -> dict[date, bool | None]:
    """The marks of these days anew; None where the weekday's bit tells the truth."""
    mask = weekday_mask(calendar)
    truth = {day: has_free_hour(calendar, busy, day) for day in days}
    return {
        day: free if free != _is_free_by_mask(mask, day) else None for day, free in truth.items()
    }


def local_days(timezone: str, interval: Interval) -> Iterator[date]:
    """The local days that an interval touches."""
    zone = ZoneInfo(timezone)
    day = interval.starts_at.astimezone(zone).date()
    last = (interval.ends_at - timedelta(microseconds=1)).astimezone(zone).date()
    while day <= last:
        yield day
        day += DAY


def _is_free_by_mask(mask: int, day: date) -> bool:
    return bool(mask >> day.weekday() & 1)


def _busy_near(busy: Sequence[Interval], day: date) -> list[Interval]:
    first = datetime(day.year, day.month, day.day, tzinfo=UTC) - 2 * DAY
    last = first + 4 * DAY
    return [span for span in busy if span.starts_at < last and span.ends_at > first]


@lru_cache(maxsize=4096)
def _clock_change_marks(timezone: str, weekly: tuple[WeeklySlot, ...]) -> MarkedDays:
    """The marks that changes of the clock alone make: the same ones for all who keep these
    hours, and there are some on two days of each year."""
    hours = [tuple(one.slot for one in weekly if one.weekday == weekday) for weekday in range(7)]
    return {
        day: free
        for weekday, slots in enumerate(hours)
        for day, free in _clock_change_marks_for_slots(timezone, slots).items()
        if day.weekday() == weekday
    }


@lru_cache(maxsize=4096)
def _clock_change_marks_for_slots(timezone: str, slots: tuple[Slot, ...]) -> MarkedDays:
    """The changes of the clock that say something else of these slots than any other day."""
    if all((slot.end - slot.start) * MINUTE >= _ROBUST_SLOT_LENGTH for slot in slots):
        return {}
    every_day = tuple(WeeklySlot(weekday, slot) for weekday in range(7) for slot in slots)
    calendar = Calendar(timezone, every_day)
    return {
        day: free
        for day, free in find_marks_on(calendar, (), _clock_changes(timezone)).items()
        if free is not None
    }


@cache
def _clock_changes(timezone: str) -> frozenset[date]:
    """The local days on which the zone's offset changes."""
    zone, (first, end) = ZoneInfo(timezone), _CLOCK_CHANGE_YEARS
    at, stop = datetime(first, 1, 1, tzinfo=UTC), datetime(end, 1, 1, tzinfo=UTC)
    days: set[date] = set()
    offset = at.astimezone(zone).utcoffset()
    while at < stop:
        after = at + DAY
        now = after.astimezone(zone).utcoffset()
        if now != offset:
            days.update((at.astimezone(zone).date(), after.astimezone(zone).date()))
        at, offset = after, now
    return frozenset(days)
