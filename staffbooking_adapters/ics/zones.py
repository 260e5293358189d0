"""Resolves a file's time zones: the companion's, an IANA zone, or one described in the file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import itemgetter
from typing import TypeAlias
from zoneinfo import ZoneInfo

from attrs import field, frozen
from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from staffbooking_adapters.ics.reading import Component, UnreadableCalendar
from staffbooking_adapters.ics.rules import RULE_COST, RecurrenceBudget, RecurrenceRule
from staffbooking_core.domain.companions.availability import DAY, Interval, is_timezone

ZoneClock: TypeAlias = Callable[[datetime], datetime]
"""Converts a local time to the instant in UTC."""

_MAX_NAME_PARTS = 4
"""Maximum parts of a zone name that are tried; some programs put a prefix before the IANA name."""

_UNAMBIGUOUS_NAMES = ("GMT", "UTC")
"""Zone names without a location that are unambiguous."""

_MAX_TRANSITION_GAP = 400 * DAY
"""Maximum time between clock changes of a yearly rule: a year and some days for weekdays."""


def utc_clock(wall: datetime) -> datetime:
    """The clock of UTC."""
    return wall.replace(tzinfo=UTC)


def iana_clock(name: str) -> ZoneClock:
    """The clock of an IANA time zone."""
    return partial(_from_zone, ZoneInfo(name))


def _from_zone(place: ZoneInfo, wall: datetime) -> datetime:
    return wall.replace(tzinfo=place).astimezone(UTC)


@frozen(eq=False)
class ZoneResolver:
    """Resolves the zone names of one file, with a cache."""

    default: ZoneClock
    """The companion's clock, for whole days and times without a zone."""
    window: Interval
    budget: RecurrenceBudget
    described: Mapping[str, Component]
    """The file's VTIMEZONE components by name."""
    _cache: dict[str, ZoneClock] = field(factory=dict)

    def by_name(self, name: str) -> ZoneClock:
        """The clock of a zone name. Raises UnreadableCalendar for an unknown zone."""
        if not name:
            return self.default
        if name not in self._cache:
            self._cache[name] = self._find_clock(name)
        return self._cache[name]

    def _find_clock(self, name: str) -> ZoneClock:
        place = WINDOWS_TO_OLSON.get(name, name)
        # IANA's `EST` has no daylight saving time; a file's own description may have it.
        if name in self.described and "/" not in place and place not in _UNAMBIGUOUS_NAMES:
            return _build_described_clock(self.described[name], self.window, self.budget)
        parts = place.strip("/").split("/")[-_MAX_NAME_PARTS:]
        for start in range(len(parts)):
            if is_timezone(found := "/".join(parts[start:])):
                return iana_clock(found)
        if name not in self.described:
            raise UnreadableCalendar("names a time zone that it does not describe")
        return _build_described_clock(self.described[name], self.window, self.budget)


@frozen
class _DescribedClock:
    """A clock with its changes: each is a local time, by the previous offset, and the new offset
    from UTC."""

    transitions: list[tuple[datetime, timedelta]]
    initial_offset: timedelta

    def __call__(self, wall: datetime) -> datetime:
        place = bisect_right(self.transitions, wall, key=itemgetter(0))
        offset = self.transitions[place - 1][1] if place else self.initial_offset
        return utc_clock(wall - offset)


def _build_described_clock(
    zone: Component, window: Interval, budget: RecurrenceBudget
) -> ZoneClock:
    # The change in force at the window's start lies within the year before it, or, for a rule that
    # has ended, within the rule's last year.
    first = window.starts_at.replace(tzinfo=None) - _MAX_TRANSITION_GAP
    last = window.ends_at.replace(tzinfo=None) + 2 * DAY
    changes: list[tuple[datetime, timedelta]] = []
    before: list[tuple[datetime, timedelta]] = []
    for observance in zone.children:
        begin, to, was = map(observance.first_property, ("DTSTART", "TZOFFSETTO", "TZOFFSETFROM"))
        if begin is None or to is None or was is None:
            raise UnreadableCalendar("names a time zone that it does not describe")
        start = _require_wall_time(next(begin.values()))
        times = {
            start,
            *(
                _require_wall_time(at)
                for given in observance.properties_named("RDATE")
                for at in given.values()
            ),
        }
        for given in observance.properties_named("RRULE"):
            budget.spend(RULE_COST)
            parts = given.rule()
            until = (
                min(_require_wall_time(parts["UNTIL"][0]), last) + DAY if "UNTIL" in parts else last
            )
            since = start if "COUNT" in parts else min(first, until - _MAX_TRANSITION_GAP)
            times.update(RecurrenceRule(parts, start).occurrences_between(since, until, budget))
        changes += [(at, to.offset()) for at in times]
        before.append((start, was.offset()))
    if not changes:
        raise UnreadableCalendar("names a time zone that it does not describe")
    return _DescribedClock(sorted(changes), min(before)[1])


def _require_wall_time(given: object) -> datetime:
    if not isinstance(given, datetime):
        raise UnreadableCalendar("names a time zone that it does not describe")
    return given.replace(tzinfo=None)
