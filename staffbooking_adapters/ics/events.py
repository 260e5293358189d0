"""When somebody is busy by a calendar: its events with all their repetitions, and its busy times.

An event comes by its start, its rules and its further dates, less its exceptions; an event that
stands in for one of its times takes that time's place (RFC 5545, 3.8.4.4 and 3.8.5).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, TypeAlias, TypeVar

from attrs import frozen

from staffbooking_adapters.ics.reading import Component, Property, Unreadable, calendars
from staffbooking_adapters.ics.rules import RULE, Budget, Rule
from staffbooking_adapters.ics.zones import Zone, Zones, of_place, utc
from staffbooking_core.domain.companions.availability import DAY, Interval

T = TypeVar("T")

MOST_LOOKS = 500_000
"""At the days of rules, for all that one file repeats."""
SPAN = 5
"""Looks: what each time that comes of a rule costs besides."""

Span: TypeAlias = tuple[datetime, datetime]
"""Two instants, which need not come in this order."""


def busy_spans(content: bytes, timezone: str, window: Interval, site: str) -> Iterator[Interval]:
    """The busy times of a file within the window, in any order. Whole days, and times with no
    zone, are those of the `timezone`; what `site` itself gave out is passed over. Raises
    ValueError."""
    budget = Budget(MOST_LOOKS)
    for calendar in calendars(content):
        described = {zone.text("TZID"): zone for zone in _of_kind(calendar, "VTIMEZONE")}
        zones = Zones(of_place(timezone), window, budget, described)
        for starts_at, ends_at in _spans(calendar, zones, site):
            budget.spend(SPAN)
            starts_at, ends_at = max(starts_at, window.starts_at), min(ends_at, window.ends_at)
            if starts_at < ends_at:
                yield Interval(starts_at, ends_at)


def _of_kind(calendar: Component, kind: str) -> Iterator[Component]:
    return (component for component in calendar.inside if component.kind == kind)


def _spans(calendar: Component, zones: Zones, site: str) -> Iterator[Span]:
    for component in _of_kind(calendar, "VFREEBUSY"):
        for periods in component.all("FREEBUSY"):
            if periods.parameter("FBTYPE").upper() != "FREE":
                yield from (_period(given, utc) for given in periods.values())
    ours = re.compile(rf"BK[0-9A-HJKMNP-TV-Z]{{12}}@{re.escape(site)}")
    series: defaultdict[str, list[_Event]] = defaultdict(list)
    for number, component in enumerate(_of_kind(calendar, "VEVENT")):
        uid = component.text("UID")
        if ours.fullmatch(uid):
            continue
        if component.one("DTSTART") is not None:
            series[uid or f"event {number}"].append(_event(component, zones))
        elif _is_busy(component):
            raise Unreadable("has an event that doesn't say when it begins")
    for events in series.values():
        yield from _of_series(events, zones)


# One event ------------------------------------------------------------------------------


@frozen
class _Moment:
    """A date or a time as it stands in a file, with the clock that it is read from."""

    wall: datetime
    zone: Zone
    is_day: bool = False

    @property
    def at(self) -> datetime:
        return self.zone(self.wall)


@frozen(eq=False)
class _Event:
    component: Component
    start: _Moment
    length: timedelta
    whole_days: bool
    """Then its length is counted in days, which a change of the clock may make longer."""
    sequence: int
    is_busy: bool
    stands_for: datetime | None
    """The time of its series whose place it takes."""
    from_then_on: bool
    """It moves those that come after it, too."""

    def span(self, wall: datetime) -> Span:
        """When it begins by its clock at that time."""
        starts_at = self.start.zone(wall)
        if self.whole_days:
            return starts_at, self.start.zone(wall + self.length)
        return starts_at, starts_at + self.length


def _event(component: Component, zones: Zones) -> _Event:
    start, end = _moment(component, "DTSTART", zones), _moment(component, "DTEND", zones)
    instead = component.one("RECURRENCE-ID")
    stands_for = _moment(component, "RECURRENCE-ID", zones)
    assert start is not None
    length, is_busy = _length(component, start, end), _is_busy(component)
    if is_busy and length < timedelta(0):
        raise Unreadable(_BACKWARDS)
    return _Event(
        component=component,
        start=start,
        length=length,
        whole_days=start.is_day and not length % DAY,
        sequence=int(component.text("SEQUENCE") or 0),
        is_busy=is_busy,
        stands_for=None if stands_for is None else stands_for.at,
        from_then_on=instead is not None and instead.parameter("RANGE") == "THISANDFUTURE",
    )


_BACKWARDS = "has an event that ends before it begins"


def _is_busy(component: Component) -> bool:
    is_free = component.text("TRANSP").upper() == "TRANSPARENT"
    return not is_free and component.text("STATUS").upper() != "CANCELLED"


def _length(component: Component, start: _Moment, end: _Moment | None) -> timedelta:
    if end is not None:
        shown = end.wall - start.wall
        if start.is_day and end.is_day:
            return shown or DAY  # Some programs end a day with itself.
        length = end.at - start.at
        # What a clock that is set forward never shows may come after what it shows next.
        return shown if start.zone is end.zone and length < timedelta(0) else length
    if (given := component.one("DURATION")) is not None:
        return _checked(next(given.values()), timedelta)
    return DAY if start.is_day else timedelta(0)


def _moment(component: Component, name: str, zones: Zones) -> _Moment | None:
    given = component.one(name)
    return None if given is None else next(_moments(given, zones))


def _moments(given: Property, zones: Zones) -> Iterator[_Moment]:
    zone = zones.named(given.parameter("TZID"))
    return (_read(value, zone, zones) for value in given.values())


def _read(value: object, zone: Zone, zones: Zones) -> _Moment:
    if isinstance(value, datetime):
        return _Moment(value.replace(tzinfo=None), zone if value.tzinfo is None else utc)
    return _Moment(datetime.combine(_checked(value, date), time()), zones.own, is_day=True)


def _period(value: object, zone: Zone) -> Span:
    start, end = _checked(value, tuple)
    starts_at = _instant(start, zone)
    ends_at = starts_at + end if isinstance(end, timedelta) else _instant(end, zone)
    if ends_at < starts_at:
        raise Unreadable(_BACKWARDS)
    return starts_at, ends_at


def _instant(value: object, zone: Zone) -> datetime:
    at = _checked(value, datetime)
    return zone(at) if at.tzinfo is None else at.astimezone(UTC)


def _checked(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind):
        raise Unreadable("has an event whose times can't be read")
    return value


# Its series -----------------------------------------------------------------------------


def _of_series(events: Sequence[_Event], zones: Zones) -> Iterator[Span]:
    """The busy times of all events of one UID: of two that say the same the newer counts."""
    by_age = sorted(events, key=lambda event: event.sequence)
    instead = {event.stands_for: event for event in by_age if event.stands_for is not None}
    yield from (event.span(event.start.wall) for event in instead.values() if event.is_busy)
    whole = [event for event in by_age if event.stands_for is None]
    if not whole:
        return
    moves = sorted(at for at, event in instead.items() if event.from_then_on)
    for starts_at, ends_at in _times(whole[-1], zones):
        if starts_at in instead:
            continue
        if place := bisect_right(moves, starts_at):
            event = instead[moves[place - 1]]
            starts_at += event.start.at - moves[place - 1]
            ends_at = starts_at + event.length
        else:
            event = whole[-1]
        if event.is_busy:
            yield starts_at, ends_at


def _times(event: _Event, zones: Zones) -> Iterator[Span]:
    """When an event is on: all its times that may touch the window, and perhaps more."""
    first = zones.window.starts_at.replace(tzinfo=None) - max(event.length, timedelta(0)) - 2 * DAY
    last = zones.window.ends_at.replace(tzinfo=None) + 2 * DAY
    walls = {event.start.wall}
    for given in event.component.all("RRULE"):
        zones.budget.spend(RULE)
        walls.update(_by_rule(event, given.rule(), first, last, zones))
    excluded = [at for given in event.component.all("EXDATE") for at in _moments(given, zones)]
    days = {at.wall.date() for at in excluded if at.is_day or event.whole_days}
    spans = {event.span(wall) for wall in walls if wall.date() not in days}
    for given in event.component.all("RDATE"):
        spans.update(_further(event, given, zones))
    instants = {at.at for at in excluded}
    return (span for span in spans if span[0] not in instants)


def _by_rule(
    event: _Event, parts: Mapping[str, Sequence[Any]], first: datetime, last: datetime, zones: Zones
) -> Iterator[datetime]:
    rule, until = Rule(parts, event.start.wall), None
    if "UNTIL" in parts:
        until = _until(parts["UNTIL"][0], event.start, last)
        last = until.replace(tzinfo=None) + DAY
    for wall in rule.between(first, last, zones.budget):
        if until is None or event.start.zone(wall) <= until:
            yield wall


def _until(value: object, start: _Moment, last: datetime) -> datetime:
    """The instant after which a rule ends: a date is that day to its end."""
    if isinstance(value, datetime) and not start.is_day:
        wall = min(value.replace(tzinfo=None), last)
        return start.zone(wall) if value.tzinfo is None else utc(wall)
    day = _checked(value, date)
    return start.zone(min(datetime(day.year, day.month, day.day, 23, 59, 59), last))


def _further(event: _Event, given: Property, zones: Zones) -> Iterator[Span]:
    zone = zones.named(given.parameter("TZID"))
    for value in given.values():
        if isinstance(value, tuple):
            yield _period(value, zone)
        elif event.whole_days:
            yield event.span(_read(value, zone, zones).wall)
        else:
            starts_at = _read(value, zone, zones).at
            yield starts_at, starts_at + event.length
