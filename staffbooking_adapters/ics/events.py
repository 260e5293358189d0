"""Computes the busy times of a calendar file: events with their recurrences, and free/busy periods.

1. The events of a file are grouped into series by UID.
2. A series' occurrences are its start, recurrence rules (RRULE) and extra dates (RDATE), minus
   its exception dates (EXDATE).
3. An event with a RECURRENCE-ID replaces that occurrence, and with RANGE=THISANDFUTURE moves the
   later ones too (RFC 5545, 3.8.4.4 and 3.8.5).
4. Spans are clipped to the window. The work for one file is bounded by a budget.
5. A series that gives no busy time is counted with the reason.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain
from typing import Any, TypeAlias, TypeVar

from attrs import evolve, frozen

from staffbooking_adapters.ics.parsing import (
    Component,
    Property,
    UnreadableCalendar,
    parse_calendars,
)
from staffbooking_adapters.ics.rules import RULE_COST, RecurrenceBudget, RecurrenceRule
from staffbooking_adapters.ics.zones import ZoneClock, ZoneResolver, iana_clock, utc_clock
from staffbooking_core.domain.companions.availability import DAY, Interval, merge_intervals
from staffbooking_core.domain.companions.calendar_files import CalendarFile, SkippedEvent

T = TypeVar("T")

_MAX_RECURRENCE_STEPS = 500_000
"""Maximum steps of expanding the recurrence rules of one file; a step is about one day."""
_SPAN_COST = 5
"""Additional steps that each span costs."""

InstantSpan: TypeAlias = tuple[datetime, datetime]
"""Start and end instants; the end may be before the start."""


def read_calendar(content: bytes, timezone: str, window: Interval, host: str) -> CalendarFile:
    """The busy times of a file within the window. Whole days and times without a zone are in
    `timezone`; events published by `host` itself give none. Raises ValueError."""
    found: list[Interval] = []
    events, skipped = 0, Counter[SkippedEvent]()
    budget = RecurrenceBudget(_MAX_RECURRENCE_STEPS)
    for calendar in parse_calendars(content):
        described = {zone.text("TZID"): zone for zone in _components_of_kind(calendar, "VTIMEZONE")}
        zones = ZoneResolver(iana_clock(timezone), window, budget, described)
        for entry in chain(_period_entries(calendar), _event_entries(calendar, zones, host)):
            count = len(found)
            reasons = set[SkippedEvent]()
            for starts_at, ends_at in entry.spans:
                budget.spend(_SPAN_COST)
                first, last = max(starts_at, window.starts_at), min(ends_at, window.ends_at)
                if first < last:
                    found.append(Interval(first, last))
                else:
                    reasons.add(_reason_outside(starts_at, ends_at, window))
            if len(found) > count:
                events += 1
            else:
                known = (reason for reason in _REASONS_OUTSIDE if reason in reasons)
                skipped[next(known, entry.reason_without_spans)] += 1
    return CalendarFile(tuple(merge_intervals(found)), events, dict(skipped))


_REASONS_OUTSIDE = (SkippedEvent.MOMENT, SkippedEvent.TOO_FAR, SkippedEvent.PAST)
"""The reason given for an event whose occurrences have several: the first of these."""


def _reason_outside(starts_at: datetime, ends_at: datetime, window: Interval) -> SkippedEvent:
    """Why a span is no busy time within the window."""
    if starts_at >= window.ends_at:
        return SkippedEvent.TOO_FAR
    return SkippedEvent.PAST if ends_at <= window.starts_at else SkippedEvent.MOMENT


@frozen
class _Entry:
    """A series of events, or a period of free/busy times."""

    spans: Iterable[InstantSpan]
    reason_without_spans: SkippedEvent


def _components_of_kind(calendar: Component, kind: str) -> Iterator[Component]:
    return (component for component in calendar.children if component.kind == kind)


def _period_entries(calendar: Component) -> Iterator[_Entry]:
    for component in _components_of_kind(calendar, "VFREEBUSY"):
        for periods in component.properties_named("FREEBUSY"):
            if periods.parameter("FBTYPE").upper() == "FREE":
                yield _Entry((), SkippedEvent.FREE)
                continue
            for given in periods.values():
                yield _Entry((_parse_period(given, utc_clock),), SkippedEvent.FREE)


def _event_entries(calendar: Component, zones: ZoneResolver, host: str) -> Iterator[_Entry]:
    own_uid_pattern = re.compile(rf"BK[0-9A-HJKMNP-TV-Z]{{12}}@{re.escape(host)}")
    series: defaultdict[str, list[_CalendarEvent]] = defaultdict(list)
    for number, component in enumerate(_components_of_kind(calendar, "VEVENT")):
        uid = component.text("UID")
        if own_uid_pattern.fullmatch(uid):
            yield _Entry((), SkippedEvent.OWN_BOOKING)
            continue
        try:
            event = _parse_event(component, zones)
        except (ValueError, OverflowError):
            if _is_busy(component):
                raise
            yield _Entry((), _reason_of_free(component))
        else:
            series[uid or f"event {number}"].append(event)
    for events in series.values():
        yield _Entry(_series_spans(events, zones), _reason_of_free(events[0].component))


def _reason_of_free(component: Component) -> SkippedEvent:
    """Why an event whose series has no busy span blocks no time."""
    is_free = component.text("TRANSP").upper() == "TRANSPARENT"
    is_cancelled = component.text("STATUS").upper() == "CANCELLED"
    return SkippedEvent.FREE if is_free and not is_cancelled else SkippedEvent.CANCELLED


# One event ------------------------------------------------------------------------------


@frozen
class _WallTime:
    """A date or local time from a file, with the zone that converts it."""

    wall: datetime
    zone: ZoneClock
    is_day: bool = False

    @property
    def instant(self) -> datetime:
        return self.zone(self.wall)


@frozen(eq=False)
class _CalendarEvent:
    component: Component
    start: _WallTime
    duration: timedelta
    is_whole_days: bool
    """Whether the duration counts local days, which a clock change makes longer or shorter."""
    sequence: int
    is_busy: bool
    replaced: _WallTime | None
    """The occurrence of its series that it replaces, by its RECURRENCE-ID."""
    is_this_and_future: bool
    """Whether it moves the later occurrences too."""

    def span(self, wall: datetime) -> InstantSpan:
        """The span of the occurrence that begins at this local time."""
        starts_at = self.start.zone(wall)
        if self.is_whole_days:
            return starts_at, self.start.zone(wall + self.duration)
        return starts_at, starts_at + self.duration

    def moved_span(self, start: _WallTime | None, starts_at: datetime) -> InstantSpan:
        """The span of a later occurrence, moved as this event moves the one it replaces: by local
        time where all of them have one zone, else by real time. `start` is the local time of the
        occurrence where it is known."""
        assert self.replaced is not None
        zone = self.start.zone
        if start is not None and start.zone is self.replaced.zone is zone:
            return self.span(start.wall + (self.start.wall - self.replaced.wall))
        starts_at += self.start.instant - self.replaced.instant
        return starts_at, starts_at + self.duration


def _parse_event(component: Component, zones: ZoneResolver) -> _CalendarEvent:
    start = _wall_time_of(component, "DTSTART", zones)
    end = _wall_time_of(component, "DTEND", zones)
    recurrence_id = component.first_property("RECURRENCE-ID")
    if start is None:
        raise UnreadableCalendar("has an event that doesn't say when it begins")
    length, is_busy = _duration_of(component, start, end), _is_busy(component)
    if is_busy and length < timedelta(0):
        raise UnreadableCalendar(_ENDS_BEFORE_START)
    return _CalendarEvent(
        component=component,
        start=start,
        duration=length,
        is_whole_days=start.is_day and not length % DAY,
        sequence=int(component.text("SEQUENCE") or 0),
        is_busy=is_busy,
        replaced=_wall_time_of(component, "RECURRENCE-ID", zones),
        is_this_and_future=(
            recurrence_id is not None
            and recurrence_id.parameter("RANGE").upper() == "THISANDFUTURE"
        ),
    )


_ENDS_BEFORE_START = "has an event that ends before it begins"


def _is_busy(component: Component) -> bool:
    is_free = component.text("TRANSP").upper() == "TRANSPARENT"
    return not is_free and component.text("STATUS").upper() != "CANCELLED"


def _duration_of(component: Component, start: _WallTime, end: _WallTime | None) -> timedelta:
    if end is not None:
        wall_length = end.wall - start.wall
        if start.is_day and end.is_day:
            return wall_length or DAY  # Some programs write the same date as start and end.
        length = end.instant - start.instant
        # A local time skipped by a clock change may convert to an instant after the end's.
        return wall_length if start.zone is end.zone and length < timedelta(0) else length
    if (given := component.first_property("DURATION")) is not None:
        return _require_type(next(given.values()), timedelta)
    return DAY if start.is_day else timedelta(0)


def _wall_time_of(component: Component, name: str, zones: ZoneResolver) -> _WallTime | None:
    given = component.first_property(name)
    return None if given is None else next(_wall_times_of(given, zones))


def _wall_times_of(given: Property, zones: ZoneResolver) -> Iterator[_WallTime]:
    zone = zones.by_name(given.parameter("TZID"))
    return (_to_wall_time(value, zone, zones) for value in given.values())


def _to_wall_time(value: object, zone: ZoneClock, zones: ZoneResolver) -> _WallTime:
    if isinstance(value, datetime):
        return _WallTime(value.replace(tzinfo=None), zone if value.tzinfo is None else utc_clock)
    return _WallTime(
        datetime.combine(_require_type(value, date), time()), zones.default, is_day=True
    )


def _parse_period(value: object, zone: ZoneClock) -> InstantSpan:
    start, end = _require_type(value, tuple)
    starts_at = _to_instant(start, zone)
    ends_at = starts_at + end if isinstance(end, timedelta) else _to_instant(end, zone)
    if ends_at < starts_at:
        raise UnreadableCalendar(_ENDS_BEFORE_START)
    return starts_at, ends_at


def _to_instant(value: object, zone: ZoneClock) -> datetime:
    at = _require_type(value, datetime)
    return zone(at) if at.tzinfo is None else at.astimezone(UTC)


def _require_type(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise UnreadableCalendar("has an event whose times can't be read")
    return value


# Its series -----------------------------------------------------------------------------


def _series_spans(events: Sequence[_CalendarEvent], zones: ZoneResolver) -> Iterator[InstantSpan]:
    """The busy spans of all events of one UID; a higher SEQUENCE replaces a lower one. Different
    events with one UID and SEQUENCE all count."""
    by_age = sorted(events, key=lambda event: event.sequence)
    overrides = {event.replaced.instant: event for event in by_age if event.replaced is not None}
    yield from (event.span(event.start.wall) for event in overrides.values() if event.is_busy)
    moved = {at: event for at, event in overrides.items() if event.is_this_and_future}
    is_moved_busy = any(event.is_busy for event in moved.values())
    masters = [event for event in by_age if event.replaced is None]
    newest = [
        event
        for event in masters
        if event.sequence == masters[-1].sequence and (event.is_busy or is_moved_busy)
    ]
    if not newest:
        return  # The rule of an event that blocks no time may be one that can't be expanded.
    override_starts = sorted(moved)
    shifts = [timedelta(0), *(event.start.instant - at for at, event in moved.items())]
    durations = [timedelta(0), *(event.duration for event in (*newest, *moved.values()))]
    window = zones.window
    first = window.starts_at.replace(tzinfo=None) - max(durations) - max(shifts) - 2 * DAY
    last = window.ends_at.replace(tzinfo=None) - min(shifts) + 2 * DAY
    for master in newest:
        occurrences = _occurrence_spans(master, first, last, zones)
        for (starts_at, ends_at), local_start in occurrences.items():
            if starts_at in overrides:
                continue
            event = master
            if earlier_count := bisect_right(override_starts, starts_at):
                event = moved[override_starts[earlier_count - 1]]
                starts_at, ends_at = event.moved_span(local_start, starts_at)
            if event.is_busy:
                yield starts_at, ends_at


def _occurrence_spans(
    event: _CalendarEvent, first: datetime, last: datetime, zones: ZoneResolver
) -> Mapping[InstantSpan, _WallTime | None]:
    """The spans of an event's occurrences, with their local starts where the event's zone has them:
    all that begin between two local times, possibly more."""
    walls = {event.start.wall}
    for given in event.component.properties_named("RRULE"):
        zones.budget.spend(RULE_COST)
        walls.update(_rule_occurrences(event, given.rule(), first, last, zones))
    excluded = [
        at
        for given in event.component.properties_named("EXDATE")
        for at in _wall_times_of(given, zones)
    ]
    spans: dict[InstantSpan, _WallTime | None] = {
        event.span(wall): evolve(event.start, wall=wall) for wall in walls
    }
    for given in event.component.properties_named("RDATE"):
        for span in _extra_dates(event, given, zones):
            spans.setdefault(span)
    starts, instants = {starts_at for starts_at, _ in spans}, {at.instant for at in excluded}
    # Some programs exclude a whole day by midnight in another zone than the calendar's owner has.
    days = {
        at.wall.date()
        for at in excluded
        if at.is_day or (event.is_whole_days and at.instant not in starts)
    }
    return {
        span: start
        for span, start in spans.items()
        if span[0] not in instants and (start is None or start.wall.date() not in days)
    }


def _rule_occurrences(
    event: _CalendarEvent,
    parts: Mapping[str, Sequence[Any]],
    first: datetime,
    last: datetime,
    zones: ZoneResolver,
) -> Iterator[datetime]:
    rule, until = RecurrenceRule(parts, event.start.wall), None
    if "UNTIL" in parts:
        until = _parse_until(parts["UNTIL"][0], event.start, last)
        last = until.replace(tzinfo=None) + DAY
    for wall in rule.occurrences_between(first, last, zones.budget):
        if until is None or event.start.zone(wall) <= until:
            yield wall


def _parse_until(value: object, start: _WallTime, last: datetime) -> datetime:
    """The instant after which a rule ends; a date means the end of that day."""
    if isinstance(value, datetime) and not start.is_day:
        wall = min(value.replace(tzinfo=None), last)
        return start.zone(wall) if value.tzinfo is None else utc_clock(wall)
    day = _require_type(value, date)
    return start.zone(min(datetime(day.year, day.month, day.day, 23, 59, 59), last))


def _extra_dates(
    event: _CalendarEvent, given: Property, zones: ZoneResolver
) -> Iterator[InstantSpan]:
    zone = zones.by_name(given.parameter("TZID"))
    for value in given.values():
        if isinstance(value, tuple):
            yield _parse_period(value, zone)
        elif event.is_whole_days:
            yield event.span(_to_wall_time(value, zone, zones).wall)
        else:
            starts_at = _to_wall_time(value, zone, zones).instant
            yield starts_at, starts_at + event.duration
