"""The search index by date: a mask of weekdays, and marks on exceptional days.

A store cannot compute the calendars of a million companions during a search. It keeps two values
for each companion, which together equal `availability.has_free_hour` for every day:

1. The mask (`weekday_mask`): bit n is set where the weekly hours alone leave a free hour on weekday
   n.
2. The marks (`find_marked_days`): the days whose `has_free_hour` differs from their bit, because of
   an override, a booking, an external busy time or a clock change.

Booking limits depend on the current time, and are not part of the index (`booking_limits`), except
for the buffers of bookings.

A day is free by its mark if it has one, else by the bit of its weekday. After a change of bookings,
`find_marks_on` recomputes the marks of the affected days only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from typing import Protocol
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
    slot_interval,
    with_buffer,
)

_REFERENCE_MONDAY = date(2024, 1, 1)
_CLOCK_CHANGE_YEARS = (2024, 2050)
"""Clock changes are marked from the first year to before the second: far beyond any booking."""

_ROBUST_SLOT_LENGTH = 3 * HOUR
"""A slot of at least this length has a free hour whatever a clock change does to its day."""

_WHOLE_DAY = Slot(0, 24 * 60)

MAX_CACHEABLE_SLOTS = 50
"""Largest number of slots and dates of a calendar whose hours are cached."""

MarkedDays = dict[date, bool]


class _HasSlots(Protocol):
    @property
    def slots(self) -> Sized: ...


def is_cacheable(weekly: Sized, overrides: Iterable[_HasSlots]) -> bool:
    """Whether the hours are short enough to be cached: long ones are rarely shared by several
    companions, and would only fill memory."""
    return len(weekly) + sum(1 + len(day.slots) for day in overrides) <= MAX_CACHEABLE_SLOTS


def weekday_mask(calendar: Calendar) -> int:
    """The mask: bit n is set where the weekly hours leave a free hour on weekday n (0 is
    Monday)."""
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
    """All marks of a calendar: the days that differ from their weekday's bit, with their
    availability."""
    mask, week = weekday_mask(calendar), Calendar("UTC", calendar.weekly)
    overrides = {override.date: override.slots for override in calendar.overrides}
    taken: dict[date, list[Interval]] = {day: [] for day in overrides}
    booked = (with_buffer(interval, calendar.limits) for interval in busy)
    for interval in (*booked, *calendar.busy, *calendar.subscribed_busy):
        for day in local_days(calendar.timezone, interval):
            taken.setdefault(day, []).append(interval)
    truth = {}
    for day, blocks in taken.items():
        whole = slot_interval(calendar.timezone, day, _WHOLE_DAY)
        if whole is None or whole.ends_at - whole.starts_at != DAY:
            truth[day] = has_free_hour(calendar, busy, day)
        else:
            slots = overrides[day] if day in overrides else week.slots_on(day)
            truth[day] = _has_free_hour(slots, blocks, whole.starts_at)
    candidates = {**_clock_change_marks(calendar.timezone, calendar.weekly), **truth}
    return {day: free for day, free in candidates.items() if free != _is_free_by_mask(mask, day)}


def _has_free_hour(slots: Iterable[Slot], blocks: Iterable[Interval], midnight: datetime) -> bool:
    """`has_free_hour` of a day without a clock change, fast enough for a thousand days of many
    slots. Bit n of a number is the minute n of the day."""
    free = 0
    for slot in slots:
        free |= (1 << slot.end) - (1 << slot.start)
    for block in blocks:
        start, end = (block.starts_at - midnight) // MINUTE, -((midnight - block.ends_at) // MINUTE)
        start, end = (min(max(minute, 0), _WHOLE_DAY.end) for minute in (start, end))
        free &= ~((1 << end) - (1 << start))
    for step in (1, 2, 4, 8, 16, 28):  # Then a bit is set where 2, 4, 8, 16, 32 and 60 follow.
        free &= free >> step
    return bool(free)


def find_marks_on(
    calendar: Calendar, busy: Sequence[Interval], days: Iterable[date]
) -> dict[date, bool | None]:
    """The marks of the given days; None where the weekday's bit is correct."""
    mask = weekday_mask(calendar)
    truth = {day: has_free_hour(calendar, busy, day) for day in days}
    return {
        day: free if free != _is_free_by_mask(mask, day) else None for day, free in truth.items()
    }


def booked_days(calendar: Calendar, booked: Interval) -> Iterator[date]:
    """The local days of which a booking takes time, with its buffers."""
    return local_days(calendar.timezone, with_buffer(booked, calendar.limits))


def local_days(timezone: str, interval: Interval) -> Iterator[date]:
    """The local days that an interval overlaps."""
    zone = ZoneInfo(timezone)
    day = interval.starts_at.astimezone(zone).date()
    last = (interval.ends_at - timedelta(microseconds=1)).astimezone(zone).date()
    while day <= last:
        yield day
        day += DAY


def _is_free_by_mask(mask: int, day: date) -> bool:
    return bool(mask >> day.weekday() & 1)


@lru_cache(maxsize=4096)
def _clock_change_marks(timezone: str, weekly: tuple[WeeklySlot, ...]) -> MarkedDays:
    """The marks caused by clock changes alone, on about two days a year. They are the same for all
    calendars with these hours, therefore cached."""
    hours = [tuple(one.slot for one in weekly if one.weekday == weekday) for weekday in range(7)]
    return {
        day: free
        for weekday, slots in enumerate(hours)
        for day, free in _clock_change_marks_for_slots(timezone, slots).items()
        if day.weekday() == weekday
    }


@lru_cache(maxsize=4096)
def _clock_change_marks_for_slots(timezone: str, slots: tuple[Slot, ...]) -> MarkedDays:
    """The days of clock changes on which these slots differ from any other day."""
    if all((slot.end - slot.start) * MINUTE >= _ROBUST_SLOT_LENGTH for slot in slots):
        return {}
    every_day = tuple(WeeklySlot(weekday, slot) for weekday in range(7) for slot in slots)
    calendar = Calendar(timezone, every_day)
    whole = Slot(min(slot.start for slot in slots), max(slot.end for slot in slots))
    days = (day for day in _clock_changes(timezone) if not _keeps_length(timezone, day, whole))
    marks = find_marks_on(calendar, (), days)
    return {day: free for day, free in marks.items() if free is not None}


def _keeps_length(timezone: str, day: date, slot: Slot) -> bool:
    """Whether a slot takes as long on this day as on any other: the clock changes before or after
    it, if at all."""
    span = slot_interval(timezone, day, slot)
    return span is not None and span.ends_at - span.starts_at == (slot.end - slot.start) * MINUTE


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
            days.update(local_days(timezone, Interval(at, after + MINUTE)))
        at, offset = after, now
    return frozenset(days)
