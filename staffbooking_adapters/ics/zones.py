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

from staffbooking_adapters.ics.parsing import Component, Property, UnreadableCalendar
from staffbooking_adapters.ics.rules import RULE_COST, RecurrenceBudget, RecurrenceRule
from staffbooking_core.domain.companions.availability import DAY, Interval, is_timezone

ZoneClock: TypeAlias = Callable[[datetime], datetime]
"""Converts a local time to the instant in UTC."""

_NOT_DESCRIBED = "names a time zone that it does not describe"
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


def _from_zone(zone: ZoneInfo, wall: datetime) -> datetime:
    return wall.replace(tzinfo=zone).astimezone(UTC)


@frozen(eq=False)
class ZoneResolver:
    """Resolves the zone names of one file, with a cache."""

    default: ZoneClock
    """The companion's clock, for whole days and times without a zone."""
    window: Interval
    budget: RecurrenceBudget
    described: Mapping[str, Component]
    """The file's VTIMEZONE components by name."""
    _cache: dict[str, ZoneClock | None] = field(factory=dict)
    """None for a zone that can't be read; it is tried once, however many events name it."""

    def by_name(self, name: str) -> ZoneClock:
        """The clock of a zone name. Raises UnreadableCalendar for an unknown zone."""
        if not name:
            return self.default
        if name not in self._cache:
            self._cache[name] = None
            self._cache[name] = self._find_clock(name)
        if (found := self._cache[name]) is None:
            raise UnreadableCalendar(_NOT_DESCRIBED)
        return found

    def _find_clock(self, name: str) -> ZoneClock:
        iana_name = WINDOWS_TO_OLSON.get(name, name)
        # IANA's `EST` has no daylight saving time; a file's own description may have it.
        is_ambiguous = "/" not in iana_name and iana_name not in _UNAMBIGUOUS_NAMES
        if name in self.described and is_ambiguous:
            return _build_described_clock(self.described[name], self.window, self.budget)
        parts = iana_name.strip("/").split("/")[-_MAX_NAME_PARTS:]
        for start in range(len(parts)):
            if is_timezone(found := "/".join(parts[start:])):
                return iana_clock(found)
        if name not in self.described:
            raise UnreadableCalendar(_NOT_DESCRIBED)
        return _build_described_clock(self.described[name], self.window, self.budget)


@frozen
class _DescribedClock:
    """A clock with its changes: each is a local time, by the previous offset, and the new offset
    from UTC."""

    transitions: list[tuple[datetime, timedelta]]
    initial_offset: timedelta

    def __call__(self, wall: datetime) -> datetime:
        past_count = bisect_right(self.transitions, wall, key=itemgetter(0))
        offset = self.transitions[past_count - 1][1] if past_count else self.initial_offset
        return utc_clock(wall - offset)


def _build_described_clock(
    zone: Component, window: Interval, budget: RecurrenceBudget
) -> ZoneClock:
    # The change in force at the window's start lies within the year before it, or, for a rule that
    # has ended, within the rule's last year.
    first = window.starts_at.replace(tzinfo=None) - _MAX_TRANSITION_GAP
    last = window.ends_at.replace(tzinfo=None) + 2 * DAY
    transitions: list[tuple[datetime, timedelta]] = []
    initial_offsets: list[tuple[datetime, timedelta]] = []
    for observance in zone.children:
        start = _require_wall_time(next(_require_property(observance, "DTSTART").values()))
        offset_to = _require_property(observance, "TZOFFSETTO").offset()
        offset_from = _require_property(observance, "TZOFFSETFROM").offset()
        onsets = _onsets(observance, start, first, last, budget)
        transitions += [(onset, offset_to) for onset in onsets]
        initial_offsets.append((start, offset_from))
    if not transitions:
        raise UnreadableCalendar(_NOT_DESCRIBED)
    return _DescribedClock(sorted(transitions), min(initial_offsets)[1])


def _onsets(
    observance: Component,
    start: datetime,
    first: datetime,
    last: datetime,
    budget: RecurrenceBudget,
) -> set[datetime]:
    """The local times at which an observance, standard or daylight, begins (RFC 5545, 3.6.5): at
    least those from `first` to `last`."""
    onsets = {start}
    for dates in observance.properties_named("RDATE"):
        onsets.update(map(_require_wall_time, dates.values()))
    for rule in observance.properties_named("RRULE"):
        budget.spend(RULE_COST)
        parts = rule.rule()
        until = last
        if "UNTIL" in parts:
            until = min(_require_wall_time(parts["UNTIL"][0]), last) + DAY
        since = start if "COUNT" in parts else min(first, until - _MAX_TRANSITION_GAP)
        onsets.update(RecurrenceRule(parts, start).occurrences_between(since, until, budget))
    return onsets


def _require_property(observance: Component, name: str) -> Property:
    if (found := observance.first_property(name)) is None:
        raise UnreadableCalendar(_NOT_DESCRIBED)
    return found


def _require_wall_time(given: object) -> datetime:
    if not isinstance(given, datetime):
        raise UnreadableCalendar(_NOT_DESCRIBED)
    return given.replace(tzinfo=None)
