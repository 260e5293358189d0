"""The clocks that times of a file are read from: of the companion, of a place, or described."""

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

from staffbooking_adapters.ics.reading import Component, Unreadable
from staffbooking_adapters.ics.rules import RULE, Budget, Rule
from staffbooking_core.domain.companions.availability import DAY, Interval, is_timezone

Zone: TypeAlias = Callable[[datetime], datetime]
"""From what the clock shows to the instant, in UTC."""

LONGEST_NAME = 4
"""Parts of the name of a place, and of what some programs put before it."""

SAME_EVERYWHERE = ("GMT", "UTC")
"""Names that mean the same to everybody, though they name no place."""

LONGEST_GAP = 400 * DAY
"""From one change of a clock to the next by one rule: a year and what weekdays add."""


def utc(wall: datetime) -> datetime:
    return wall.replace(tzinfo=UTC)


def of_place(name: str) -> Zone:
    """The clock of an IANA name."""
    return partial(_shown_in, ZoneInfo(name))


def _shown_in(place: ZoneInfo, wall: datetime) -> datetime:
    return wall.replace(tzinfo=place).astimezone(UTC)


@frozen(eq=False)
class Zones:
    """The clocks by the names that a file has for them."""

    own: Zone
    """The companion's: of whole days, and of times with no zone."""
    window: Interval
    budget: Budget
    described: Mapping[str, Component]
    """What the file itself says of a zone."""
    _known: dict[str, Zone] = field(factory=dict)

    def named(self, name: str) -> Zone:
        """Raises Unreadable for a name that says nothing."""
        if not name:
            return self.own
        if name not in self._known:
            self._known[name] = self._find(name)
        return self._known[name]

    def _find(self, name: str) -> Zone:
        place = WINDOWS_TO_OLSON.get(name, name)
        # `EST` of the IANA has no summer time; a file that describes it may mean another clock.
        if name in self.described and "/" not in place and place not in SAME_EVERYWHERE:
            return _described(self.described[name], self.window, self.budget)
        parts = place.strip("/").split("/")[-LONGEST_NAME:]
        for start in range(len(parts)):
            if is_timezone(found := "/".join(parts[start:])):
                return of_place(found)
        if name not in self.described:
            raise Unreadable("names a time zone that it does not describe")
        return _described(self.described[name], self.window, self.budget)


@frozen
class _Described:
    """A clock by its changes: from when on, by the clock before, it is so far from UTC."""

    changes: list[tuple[datetime, timedelta]]
    before: timedelta

    def __call__(self, wall: datetime) -> datetime:
        place = bisect_right(self.changes, wall, key=itemgetter(0))
        offset = self.changes[place - 1][1] if place else self.before
        return utc(wall - offset)


def _described(zone: Component, window: Interval, budget: Budget) -> Zone:
    # The change that holds when the window begins lies within the year before, or within the
    # last one of a rule that is over by then.
    first = window.starts_at.replace(tzinfo=None) - LONGEST_GAP
    last = window.ends_at.replace(tzinfo=None) + 2 * DAY
    changes: list[tuple[datetime, timedelta]] = []
    before: list[tuple[datetime, timedelta]] = []
    for observance in zone.inside:
        begin, to, was = map(observance.one, ("DTSTART", "TZOFFSETTO", "TZOFFSETFROM"))
        if begin is None or to is None or was is None:
            raise Unreadable("names a time zone that it does not describe")
        start = _wall(next(begin.values()))
        times = {start, *(_wall(at) for given in observance.all("RDATE") for at in given.values())}
        for given in observance.all("RRULE"):
            budget.spend(RULE)
            parts = given.rule()
            until = min(_wall(parts["UNTIL"][0]), last) + DAY if "UNTIL" in parts else last
            since = start if "COUNT" in parts else min(first, until - LONGEST_GAP)
            times.update(Rule(parts, start).between(since, until, budget))
        changes += [(at, to.offset()) for at in times]
        before.append((start, was.offset()))
    if not changes:
        raise Unreadable("names a time zone that it does not describe")
    return _Described(sorted(changes), min(before)[1])


def _wall(given: object) -> datetime:
    if not isinstance(given, datetime):
        raise Unreadable("names a time zone that it does not describe")
    return given.replace(tzinfo=None)
