"""What a search by date looks at: a mask of weekdays, and marks on exceptional days.

A store can't ask a calendar about a million companions. So it keeps, of each, on which
weekdays the weekly hours alone leave a free hour, and a mark on every day where the
truth (`calendar.has_free_hour`) differs: overrides, bookings, changes of the clock.
The two together always say what the calendar says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

from attrs import evolve

from staffbooking_core.domain.calendar import DAY, HOUR, Calendar, Interval, has_free_hour

_REFERENCE_MONDAY = date(2024, 1, 1)
_WATCHED_YEARS = (2024, 2050)
"""Clock changes are marked from the first to before the second: far past any booking."""

_ROBUST = 3 * HOUR
"""A slot this long keeps a free hour whatever a change of the clock does to its day."""

MarkedDays = dict[date, bool]


def weekday_mask(calendar: Calendar) -> int:
    """Bit n is set where weekday n (Monday 0) has a free hour by the weekly hours alone."""
    plain = _weekly_in_utc(calendar)
    return sum(
        1 << number
        for number in range(7)
        if has_free_hour(plain, (), _REFERENCE_MONDAY + number * DAY)
    )


def _weekly_in_utc(calendar: Calendar) -> Calendar:
    return evolve(calendar, timezone="UTC", overrides=())


def marks(calendar: Calendar, busy: Sequence[Interval]) -> MarkedDays:
    """Every day that differs from its weekday's bit, with the truth."""
    mask = weekday_mask(calendar)
    days = {override.date for override in calendar.overrides}
    for interval in busy:
        days.update(local_days(calendar.timezone, interval))
    if _is_fragile(calendar):
        days.update(_clock_changes(calendar.timezone))
    truth = {day: has_free_hour(calendar, _near(busy, day), day) for day in days}
    return {day: free for day, free in truth.items() if free != _by_weekday(mask, day)}


def marks_on(
    calendar: Calendar, busy: Sequence[Interval], days: Iterable[date]
) -> dict[date, bool | None]:
    """The marks of these days anew; None where the weekday's bit tells the truth."""
    mask = weekday_mask(calendar)
    truth = {day: has_free_hour(calendar, busy, day) for day in days}
    return {day: free if free != _by_weekday(mask, day) else None for day, free in truth.items()}


def local_days(timezone: str, interval: Interval) -> Iterator[date]:
    """The local days that an interval touches."""
    zone = ZoneInfo(timezone)
    day = interval.starts_at.astimezone(zone).date()
    last = (interval.ends_at - timedelta(microseconds=1)).astimezone(zone).date()
    while day <= last:
        yield day
        day += DAY


def _by_weekday(mask: int, day: date) -> bool:
    return bool(mask >> day.weekday() & 1)


def _near(busy: Sequence[Interval], day: date) -> list[Interval]:
    first = datetime(day.year, day.month, day.day, tzinfo=UTC) - 2 * DAY
    last = first + 4 * DAY
    return [span for span in busy if span.starts_at < last and span.ends_at > first]


def _is_fragile(calendar: Calendar) -> bool:
    return any(
        timedelta(minutes=weekly.slot.end - weekly.slot.start) < _ROBUST
        for weekly in calendar.weekly
    )


@cache
def _clock_changes(timezone: str) -> frozenset[date]:
    """The local days on which the zone's offset changes."""
    zone, (first, end) = ZoneInfo(timezone), _WATCHED_YEARS
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
