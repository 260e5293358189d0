"""Availability of companions: weekly hours, date overrides, bookings and external busy times.

Times of the calendar are local times of its time zone. One rule converts a local time to an
instant: the first moment at which the clock of that day has reached it. So a skipped time is the
moment of the clock change, a time that occurs twice is the earlier one, and 24:00 is 00:00 of the
next day. Days join without gap or overlap, also where a zone crossed the date line.

The free time of a range of days (`free_intervals`):

1. Take each day's slots: its override, else the weekly ones, else the whole day if there are no
   weekly slots at all.
2. Convert the slots to UTC intervals, and merge those that overlap or touch, also over midnight.
3. Subtract the bookings with their buffers, and the external busy times.
4. If `now` is given, subtract what can no longer be booked (begun or within the notice), and the
   days beyond the horizon.

Search, availability and booking all call `free_intervals`. `daily_availability` converts it back to
slots: a booking fits if and only if it is within a shown slot (CONTRACT 3 and 4), provided that
bookings and busy times start and end at times of this zone.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from operator import attrgetter
from zoneinfo import ZoneInfo, available_timezones

from attrs import Attribute, field, frozen

from staffbooking_core.domain.companions.booking_limits import NO_LIMITS, BookingLimits

__all__ = ["Calendar", "DateOverride", "Interval", "Slot", "WeeklySlot"]

_MINUTES_PER_DAY = 24 * 60
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)

MIN_CALENDAR_DATE = date(1900, 1, 1)
MAX_CALENDAR_DATE = date(2999, 12, 31)
"""The days that a calendar supports; outside them nothing is open, and no arithmetic overflows."""

_HHMM_PATTERN = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")
_EXCLUDED_TIMEZONES = {"Factory", "localtime"}


class UnknownTimezone(ValueError):
    """The text is not the exact IANA name of a time zone."""

    def __init__(self, timezone: str) -> None:
        self.timezone = timezone
        super().__init__("is not the name of a timezone")


class NonexistentLocalTime(ValueError):
    """The local time does not exist: a change of the clock skips it (CONTRACT 4)."""

    def __init__(self, timezone: str, day: date, minutes: int) -> None:
        super().__init__(f"{day} {format_hhmm(minutes)} is skipped by a clock change in {timezone}")


@frozen
class Slot:
    """Part of a local day, in minutes of the local clock from 0 to 1440 (24:00); start < end."""

    start: int
    end: int

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.start < self.end <= _MINUTES_PER_DAY:
            raise ValueError("start must be before end, both within the day")


_ALL_DAY_SLOT = Slot(0, _MINUTES_PER_DAY)


@frozen
class WeeklySlot:
    """A slot of every week; Monday is 0."""

    weekday: int = field()
    slot: Slot

    @weekday.validator
    def _check_weekday(self, _: Attribute[int], weekday: int) -> None:
        if not 0 <= weekday <= 6:
            raise ValueError("weekday must be from 0 (Monday) to 6")


@frozen
class DateOverride:
    """The slots of one date, instead of the weekly ones; no slots mean a day off."""

    date: date
    slots: tuple[Slot, ...] = ()


@frozen
class Interval:
    """A half-open interval between two instants in UTC; starts_at < ends_at."""

    starts_at: datetime
    ends_at: datetime

    def __attrs_post_init__(self) -> None:
        if self.starts_at.tzinfo is not UTC or self.ends_at.tzinfo is not UTC:
            raise ValueError("an interval is in UTC")
        if self.starts_at >= self.ends_at:
            raise ValueError("an interval must start before it ends")


def _to_merged_tuple(spans: Iterable[Interval]) -> tuple[Interval, ...]:
    return tuple(merge_intervals(spans))


@frozen
class Calendar:
    """A companion's working hours. Slots may overlap or touch; the overlap counts once.

    Without weekly slots every day is free all day; overrides still replace their date.
    """

    timezone: str = field()
    weekly: tuple[WeeklySlot, ...] = ()
    overrides: tuple[DateOverride, ...] = field(default=())
    busy: tuple[Interval, ...] = field(default=(), converter=_to_merged_tuple)
    """External busy times, sorted and merged: no two of them overlap or touch."""
    busy_until: date | None = None
    """The last day for which external busy times are known; None without an external calendar."""
    limits: BookingLimits = NO_LIMITS
    subscribed_busy: tuple[Interval, ...] = field(default=(), converter=_to_merged_tuple)
    """Busy times of calendars that are read each hour, like `busy`, which is of files."""

    @timezone.validator
    def _check_timezone(self, _: Attribute[str], timezone: str) -> None:
        if not is_timezone(timezone):
            raise UnknownTimezone(timezone)

    @overrides.validator
    def _check_unique_dates(
        self, _: Attribute[tuple[DateOverride, ...]], overrides: tuple[DateOverride, ...]
    ) -> None:
        if len({override.date for override in overrides}) < len(overrides):
            raise ValueError("a date may have one override")

    def slots_on(self, day: date) -> Iterable[Slot]:
        """The slots of a local day, before bookings and busy times."""
        for override in self.overrides:
            if override.date == day:
                return override.slots
        if not self.weekly:
            return (_ALL_DAY_SLOT,)
        return (weekly.slot for weekly in self.weekly if weekly.weekday == day.weekday())


@frozen
class DayAvailability:
    """The free slots of one local day, sorted and merged."""

    date: date
    slots: tuple[Slot, ...]

    @property
    def available(self) -> bool:
        return bool(self.slots)


def open_intervals(calendar: Calendar, first: date, last: date) -> list[Interval]:
    """The open intervals of the local days `first` to `last`, sorted. Intervals that touch are
    merged, also over midnight, so that a booking at night fits."""
    return merge_intervals(
        span
        for day in _local_days(calendar.timezone, first, last)
        for slot in calendar.slots_on(day.date)
        if (span := day.slot_to_interval(slot))
    )


def free_intervals(
    calendar: Calendar,
    busy: Iterable[Interval],
    first: date,
    last: date,
    now: datetime | None = None,
) -> list[Interval]:
    """The open intervals of the local days `first` to `last` without `busy`, its buffers and
    external busy times; with `now`, only what can be booked now."""
    limits = calendar.limits
    if now is not None:
        last = min(last, limits.last_day(local_date(calendar.timezone, now)))
    spans = open_intervals(calendar, first, last)
    if not spans:
        return []
    starts_at = spans[0].starts_at
    blocks = [*_overlapping(calendar.busy, starts_at, spans[-1].ends_at)]
    blocks += _overlapping(calendar.subscribed_busy, starts_at, spans[-1].ends_at)
    blocks += (with_buffer(span, limits) for span in busy)
    if now is not None and (earliest := limits.earliest_start(now)) > starts_at:
        blocks.append(Interval(starts_at, earliest))
    blocks = merge_intervals(blocks)
    return [part for span in spans for part in _subtract_busy(span, blocks)]


def with_buffer(booked: Interval, limits: BookingLimits) -> Interval:
    """The time of a booking with the free time that is kept before and after it."""
    if not limits.buffer_minutes:
        return booked
    return Interval(booked.starts_at - limits.buffer, booked.ends_at + limits.buffer)


def daily_availability(
    calendar: Calendar,
    busy: Iterable[Interval],
    start: date,
    end: date,
    now: datetime | None = None,
) -> list[DayAvailability]:
    """The free slots of each local day from `start` to `end`, both included (CONTRACT 3); with
    `now`, only what can be booked now.

    A slot starts and ends at times that exist on that day and that a booking can specify. Of a time
    that occurs twice, a booking can specify only the first: free time around the second alone is
    not shown.
    """
    free = free_intervals(calendar, busy, start, end, now)
    days = _local_days(calendar.timezone, start, end)
    slots = {day.date: tuple(day.free_slots(free)) for day in days}
    dates = (start + number * DAY for number in range((end - start).days + 1))
    return [DayAvailability(day, slots.get(day, ())) for day in dates]


def has_free_hour(
    calendar: Calendar, busy: Iterable[Interval], day: date, now: datetime | None = None
) -> bool:
    """Whether the local day has 60 bookable minutes in one piece (search, CONTRACT 3); with `now`,
    that can be booked now."""
    free = free_intervals(calendar, busy, day, day, now)
    long = [span for span in free if span.ends_at - span.starts_at >= HOUR]
    days = _local_days(calendar.timezone, day, day)
    spans = (each.slot_to_interval(slot) for each in days for slot in each.free_slots(long))
    return any(span is not None and span.ends_at - span.starts_at >= HOUR for span in spans)


def fits(calendar: Calendar, busy: Iterable[Interval], interval: Interval) -> bool:
    """Whether the whole interval is free; it may touch a booking."""
    zone = _load_zone(calendar.timezone)
    first = interval.starts_at.astimezone(zone).date()
    # One more day: where the clock is set back over midnight, an instant belongs to the day after
    # its local date.
    last = interval.ends_at.astimezone(zone).date() + DAY
    return any(
        span.starts_at <= interval.starts_at and interval.ends_at <= span.ends_at
        for span in free_intervals(calendar, busy, first, last)
    )


def slot_interval(timezone: str, day: date, slot: Slot) -> Interval | None:
    """The interval of a slot on a local day; None where a clock change skips all of it."""
    return _local_day(timezone, _check_supported_day(day)).slot_to_interval(slot)


def local_time_to_utc(timezone: str, day: date, minutes: int) -> datetime:
    """The instant (UTC) of a local time; the earlier one where it occurs twice.

    Raises NonexistentLocalTime where a clock change skips it, UnknownTimezone, and ValueError for
    minutes outside 0..1439 and unsupported days.
    """
    if not 0 <= minutes < _MINUTES_PER_DAY:
        raise ValueError("a time of day is from 00:00 to 23:59")
    first, second = _possible_instants(
        _load_zone(timezone), _midnight(_check_supported_day(day)) + minutes * MINUTE
    )
    if first > second:
        raise NonexistentLocalTime(timezone, day, minutes)
    return first


def local_date(timezone: str, instant: datetime) -> date:
    """The local date of an instant in a time zone."""
    return instant.astimezone(_load_zone(timezone)).date()


def parse_hhmm(text: str, *, ending: bool = False) -> int:
    """Parse `HH:MM` in ASCII digits to minutes; `24:00` only if `ending`. Raises ValueError."""
    if ending and text == "24:00":
        return _MINUTES_PER_DAY
    if not (match := _HHMM_PATTERN.fullmatch(text)):
        raise ValueError("is not a time of the form HH:MM")
    return int(match[1]) * 60 + int(match[2])


def format_hhmm(minutes: int) -> str:
    """Format minutes as `HH:MM`; 1440 is `24:00`."""
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


@cache
def known_timezones() -> frozenset[str]:
    """The IANA names of this installation, read once."""
    return frozenset(available_timezones() - _EXCLUDED_TIMEZONES)


def is_timezone(name: str) -> bool:
    """Whether the text is the exact name of a time zone. Safe for any text: it is not used as a
    path."""
    return name in known_timezones()


@frozen
class _LocalDay:
    """A day in a time zone, from the first instant of its 00:00 to that of its 24:00."""

    zone: ZoneInfo
    date: date
    starts_at: datetime
    ends_at: datetime

    @property
    def has_no_clock_change(self) -> bool:
        """Whether the day has no clock change, so that minutes can be added to its start."""
        return self.ends_at - self.starts_at == DAY

    def instant_at(self, minutes: int) -> datetime:
        """The first instant at which the day's clock has reached `minutes`; increases with
        `minutes`."""
        if self.has_no_clock_change:
            return self.starts_at + minutes * MINUTE
        return _first_instant_at(self.zone, _midnight(self.date) + minutes * MINUTE)

    def slot_to_interval(self, slot: Slot) -> Interval | None:
        starts_at, ends_at = self.instant_at(slot.start), self.instant_at(slot.end)
        return Interval(starts_at, ends_at) if starts_at < ends_at else None

    def free_slots(self, free: Sequence[Interval]) -> Iterator[Slot]:
        """The parts of the free intervals within the day, as slots."""
        for span in _overlapping(free, self.starts_at, self.ends_at):
            end = min(span.ends_at, self.ends_at)
            if slot := self._interval_to_slot(max(span.starts_at, self.starts_at), end):
                yield slot

    def _interval_to_slot(self, starts_at: datetime, ends_at: datetime) -> Slot | None:
        """The longest slot between two instants whose start exists on the local clock."""
        start, end = self._first_minute_at(starts_at), self._first_minute_at(ends_at)
        if not self.has_no_clock_change:
            shown = self.instant_at(start).astimezone(self.zone).replace(tzinfo=None)
            start = _ceil_minutes(shown - _midnight(self.date))
        if self.instant_at(end) > ends_at:
            end -= 1
        return Slot(start, end) if start < end else None

    def _first_minute_at(self, instant: datetime) -> int:
        """The first minute of the day that is reached at or after an instant."""
        if self.has_no_clock_change:
            return _ceil_minutes(instant - self.starts_at)
        return bisect_left(range(_MINUTES_PER_DAY), instant, key=self.instant_at)


@lru_cache(maxsize=4096)
def _local_day(timezone: str, day: date) -> _LocalDay:
    zone, midnight = _load_zone(timezone), _midnight(day)
    return _LocalDay(
        zone, day, _first_instant_at(zone, midnight), _first_instant_at(zone, midnight + DAY)
    )


def _local_days(timezone: str, first: date, last: date) -> Iterator[_LocalDay]:
    first, last = max(first, MIN_CALENDAR_DATE), min(last, MAX_CALENDAR_DATE)
    for number in range((last - first).days + 1):
        yield _local_day(timezone, first + number * DAY)


def _load_zone(timezone: str) -> ZoneInfo:
    if not is_timezone(timezone):
        raise UnknownTimezone(timezone)
    return ZoneInfo(timezone)


def _check_supported_day(day: date) -> date:
    if not MIN_CALENDAR_DATE <= day <= MAX_CALENDAR_DATE:
        raise ValueError(f"days are from {MIN_CALENDAR_DATE} to {MAX_CALENDAR_DATE}")
    return day


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time())


def _ceil_minutes(length: timedelta) -> int:
    return -(-length // MINUTE)


def _possible_instants(zone: ZoneInfo, wall: datetime) -> tuple[datetime, datetime]:
    """The local time converted with the offset before and after a nearby clock change: equal
    without a change, ascending where it occurs twice, descending where it is skipped."""
    local = wall.replace(tzinfo=zone)
    return local.astimezone(UTC), local.replace(fold=1).astimezone(UTC)


def _first_instant_at(zone: ZoneInfo, wall: datetime) -> datetime:
    """The first instant at which the zone's clock shows `wall` or a later time."""
    before, after = _possible_instants(zone, wall)
    if before <= after:
        return before

    def wall_clock_after(second: int) -> datetime:
        instant = after + timedelta(seconds=second)
        return instant.astimezone(zone).replace(tzinfo=None)

    # The time is skipped: the clock change is between the two conversions.
    seconds = range((before - after) // timedelta(seconds=1))
    return after + timedelta(seconds=bisect_left(seconds, wall, key=wall_clock_after))


_get_starts_at, _get_ends_at = attrgetter("starts_at"), attrgetter("ends_at")


def merge_intervals(spans: Iterable[Interval]) -> list[Interval]:
    """The intervals sorted, and merged where they overlap or touch."""
    merged: list[Interval] = []
    for span in sorted(spans, key=_get_starts_at):
        if not merged or merged[-1].ends_at < span.starts_at:
            merged.append(span)
        elif merged[-1].ends_at < span.ends_at:
            merged[-1] = Interval(merged[-1].starts_at, span.ends_at)
    return merged


def _overlapping(
    spans: Sequence[Interval], starts_at: datetime, ends_at: datetime
) -> Sequence[Interval]:
    """The merged intervals that overlap the time between two instants."""
    first = bisect_right(spans, starts_at, key=_get_ends_at)
    return spans[first : bisect_left(spans, ends_at, key=_get_starts_at)]


def _subtract_busy(span: Interval, busy: Sequence[Interval]) -> Iterator[Interval]:
    """The parts of an interval outside the merged busy intervals."""
    free_from = span.starts_at
    for block in _overlapping(busy, span.starts_at, span.ends_at):
        if free_from < block.starts_at:
            yield Interval(free_from, block.starts_at)
        free_from = block.ends_at
    if free_from < span.ends_at:
        yield Interval(free_from, span.ends_at)
