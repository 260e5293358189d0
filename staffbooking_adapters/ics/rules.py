"""Rules of repetition (RFC 5545, 3.3.10), followed day by day within a window and a budget.

The usual library looks for a rule's next time until the year 9999, whatever window it is asked
for: one that never comes true, such as the 30th of each February, holds a thread for seconds,
and nothing can stop it.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from itertools import count, islice, product
from typing import Any, TypeAlias

from staffbooking_adapters.ics.reading import Unreadable

WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

MOST_VALUES = 100
"""In all the lists of a rule, and times on a day."""
LONGEST_STEP = 1_000
"""Days, weeks, months or years from one time to the next."""

_UNKNOWN = "repeats an event in a way that is not known here"

PERIOD = 4
"""Looks: what a period costs besides its days."""
RULE = 25
"""Looks: what reading a rule costs, though it may never come true in the window."""

Parts: TypeAlias = Mapping[str, Sequence[Any]]
Names: TypeAlias = Callable[[date], Sequence[Any]]
"""All that a part of a rule may call a day by."""


class Budget:
    """How much may still be looked at, for everything that one file repeats."""

    def __init__(self, looks: int) -> None:
        self._left = looks

    def spend(self, looks: int) -> None:
        """Raises Unreadable where nothing is left."""
        self._left -= looks
        if self._left < 0:
            raise Unreadable("repeats its events too often")


class Rule:
    """When something comes back that is on at a time first, by the clock on the wall.

    Raises Unreadable, or another ValueError, for what is no rule, and for one that steps from
    hour to hour or less.
    """

    def __init__(self, parts: Parts, start: datetime) -> None:
        if sum(map(len, parts.values())) > MOST_VALUES or not parts.keys() <= _PARTS:
            raise Unreadable(_UNKNOWN)
        self._start = start
        self._frequency = str(_single(parts, "FREQ"))
        self._step = int(_single(parts, "INTERVAL", 1))
        self._count: int | None = _single(parts, "COUNT", None)
        self._week_start = WEEKDAYS.index(str(_single(parts, "WKST", "MO")))
        self._positions = parts.get("BYSETPOS", ())
        if self._frequency not in _FREQUENCIES or not 1 <= self._step <= LONGEST_STEP:
            raise Unreadable(_UNKNOWN)
        if "BYWEEKNO" in parts and self._week_start:  # Its weeks are those of ISO 8601 here.
            raise Unreadable(_UNKNOWN)
        self._filters = [
            (names, set(wanted)) for names, wanted in _filters(parts, self._frequency, start)
        ]
        self._times = _times_of_day(parts, start)

    def between(self, first: datetime, last: datetime, budget: Budget) -> Iterator[datetime]:
        """Its times from `first` to `last`, both included, in order."""
        # What is counted is followed from its start, anything else from that of the window.
        begin = first if self._count is None else self._start
        for at in islice(self._from(begin, last.date(), budget), self._count):
            if at > last:
                return
            if at >= first:
                yield at

    def _from(self, first: datetime, last: date, budget: Budget) -> Iterator[datetime]:
        for number in count(max(self._number(first.date()) - 1, 0)):
            days = self._period(number, last)
            if not days:
                return
            budget.spend(PERIOD + len(days) * len(self._times))
            for at in self._chosen([date.fromordinal(day) for day in days]):
                if at >= self._start:
                    yield at

    def _chosen(self, days: Sequence[date]) -> Sequence[datetime]:
        """The times of one period."""
        met = (day for day in days if self._meets(day))
        times = [datetime.combine(day, at) for day in met for at in self._times]
        if not self._positions:
            return times
        places = {place - 1 if place > 0 else len(times) + place for place in self._positions}
        return [at for place, at in enumerate(times) if place in places]

    def _meets(self, day: date) -> bool:
        return not any(wanted.isdisjoint(names(day)) for names, wanted in self._filters)

    def _number(self, day: date) -> int:
        """Of a period that begins about that day: the start's own is 0."""
        start = self._start
        match self._frequency:
            case "YEARLY":
                return (day.year - start.year) // self._step
            case "MONTHLY":
                return (12 * (day.year - start.year) + day.month - start.month) // self._step
            case "WEEKLY":
                return (day - start.date()).days // (7 * self._step)
        return (day - start.date()).days // self._step

    def _period(self, number: int, last: date) -> range:
        """The days of a period, as ordinals; none where it begins after `last`."""
        ahead = number * self._step
        start = self._start.toordinal()
        match self._frequency:
            case "YEARLY":
                days = _year(self._start.year + ahead, last)
            case "MONTHLY":
                days = _month(12 * self._start.year + self._start.month - 1 + ahead, last)
            case "WEEKLY":
                first = start - (self._start.weekday() - self._week_start) % 7 + 7 * ahead
                days = range(first, first + 7)
            case _:
                days = range(start + ahead, start + ahead + 1)
        return days if days and days[0] <= last.toordinal() else range(0)


def _times_of_day(parts: Parts, start: datetime) -> Sequence[time]:
    hours = set(parts.get("BYHOUR", (start.hour,)))
    minutes = set(parts.get("BYMINUTE", (start.minute,)))
    seconds = set(parts.get("BYSECOND", (start.second,)))
    if len(hours) * len(minutes) * len(seconds) > MOST_VALUES:
        raise Unreadable(_UNKNOWN)
    return sorted(time(*each) for each in product(hours, minutes, seconds))


def _year(year: int, last: date) -> range:
    if year > last.year:
        return range(0)
    first = date(year, 1, 1).toordinal()
    return range(first, first + _year_length(year))


def _month(number: int, last: date) -> range:
    year, month = divmod(number, 12)
    if year > last.year:
        return range(0)
    first = date(year, month + 1, 1).toordinal()
    return range(first, first + monthrange(year, month + 1)[1])


# Which days ----------------------------------------------------------------------------


def _filters(
    parts: Parts, frequency: str, start: datetime
) -> Iterator[tuple[Names, Sequence[Any]]]:
    """How days are chosen: what a rule leaves open, the start says."""
    for part, names in _NAMES.items():
        if part in parts:
            yield names, parts[part]
    if "BYDAY" in parts:
        numbered = frequency in ("MONTHLY", "YEARLY")
        whole_year = frequency == "YEARLY" and "BYMONTH" not in parts
        names = _weekday_of_year if whole_year else _weekday_of_month
        yield names, [_wanted_weekday(each, numbered=numbered) for each in parts["BYDAY"]]
    elif frequency == "WEEKLY" or "BYWEEKNO" in parts:
        yield _plain_weekday, (start.weekday(),)
    elif frequency != "DAILY" and not parts.keys() & {"BYMONTHDAY", "BYYEARDAY"}:
        yield _in_month, (start.day,)
        if frequency == "YEARLY" and "BYMONTH" not in parts:
            yield _NAMES["BYMONTH"], (start.month,)


def _year_length(year: int) -> int:
    return 366 if isleap(year) else 365


def _in_month(day: date) -> Sequence[int]:
    return day.day, day.day - monthrange(day.year, day.month)[1] - 1


def _in_year(day: date) -> Sequence[int]:
    number = day.timetuple().tm_yday
    return number, number - _year_length(day.year) - 1


def _week(day: date) -> Sequence[int]:
    year, week, _ = day.isocalendar()
    return week, week - date(year, 12, 28).isocalendar().week - 1


def _plain_weekday(day: date) -> Sequence[int]:
    return (day.weekday(),)


def _weekday_of_month(day: date) -> Sequence[Any]:
    return _weekday_names(day, *_in_month(day))


def _weekday_of_year(day: date) -> Sequence[Any]:
    return _weekday_names(day, *_in_year(day))


def _weekday_names(day: date, from_start: int, from_end: int) -> Sequence[Any]:
    """A Monday may be the second, and the last but one: 0, (0, 2), (0, -2)."""
    weekday = day.weekday()
    return weekday, (weekday, (from_start + 6) // 7), (weekday, -((6 - from_end) // 7))


def _wanted_weekday(given: Any, *, numbered: bool) -> Any:
    weekday = WEEKDAYS.index(given.weekday)
    return (weekday, given.relative) if numbered and given.relative else weekday


_NAMES: dict[str, Names] = {
    "BYMONTH": lambda day: (day.month,),
    "BYWEEKNO": _week,
    "BYYEARDAY": _in_year,
    "BYMONTHDAY": _in_month,
}
_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
_PARTS = {
    *("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYSETPOS"),
    *("BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND"),
    *_NAMES,
}


def _single(parts: Parts, name: str, *default: Any) -> Any:
    values = parts.get(name, default)
    if len(values) != 1:
        raise Unreadable(_UNKNOWN)
    return values[0]
