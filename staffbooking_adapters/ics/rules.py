"""Expands recurrence rules (RFC 5545, 3.3.10) day by day, within a window and a budget.

1. A rule is a sequence of periods (days, weeks, months or years, INTERVAL apart).
2. The days of a period are filtered by the rule's BY parts; a part that the rule leaves open comes
   from the start date.
3. The remaining days are combined with the times of day; BYSETPOS selects among the results.
4. Every period and day spends steps of the file's budget.

dateutil is not used: it searches up to the year 9999 regardless of the window, so a rule without
occurrences, such as every February 30th, would block a thread for seconds.
"""

from __future__ import annotations

from calendar import isleap, monthrange
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime, time
from itertools import count, islice, product
from typing import Any, TypeAlias

from staffbooking_adapters.ics.parsing import UnreadableCalendar

_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")

_MAX_VALUES = 100
"""Maximum values in all lists of a rule, and maximum times per day."""
MAX_INTERVAL = 1_000
"""Maximum INTERVAL: days, weeks, months or years between periods."""

_UNSUPPORTED = "has an event with an unsupported recurrence rule"

_PERIOD_COST = 4
"""Steps that a period costs in addition to its days."""
RULE_COST = 25
"""Steps that a rule costs even without occurrences in the window."""

RuleParts: TypeAlias = Mapping[str, Sequence[Any]]
DayValues: TypeAlias = Callable[[date], Sequence[Any]]
"""The values by which a BY part may select a day."""


class RecurrenceBudget:
    """The remaining steps for expanding all recurrence rules of one file."""

    def __init__(self, steps: int) -> None:
        self._remaining = steps

    def spend(self, steps: int) -> None:
        """Subtract steps. Raises UnreadableCalendar if the budget is exhausted."""
        self._remaining -= steps
        if self._remaining < 0:
            raise UnreadableCalendar("has too many recurring events")


class RecurrenceRule:
    """A recurrence rule that starts at a local time; occurrences are local times.

    Raises UnreadableCalendar or another ValueError for an invalid or unsupported rule, such as one
    with an hourly or shorter frequency.
    """

    def __init__(self, parts: RuleParts, start: datetime) -> None:
        if sum(map(len, parts.values())) > _MAX_VALUES or not parts.keys() <= _SUPPORTED_PARTS:
            raise UnreadableCalendar(_UNSUPPORTED)
        self._start = start
        self._frequency = str(_single_value(parts, "FREQ"))
        self._interval = int(_single_value(parts, "INTERVAL", 1))
        self._count: int | None = _single_value(parts, "COUNT", None)
        self._week_start = _WEEKDAYS.index(str(_single_value(parts, "WKST", "MO")))
        self._positions = parts.get("BYSETPOS", ())
        if self._frequency not in _FREQUENCIES or not 1 <= self._interval <= MAX_INTERVAL:
            raise UnreadableCalendar(_UNSUPPORTED)
        if "BYWEEKNO" in parts and self._week_start:  # Only ISO 8601 weeks are supported.
            raise UnreadableCalendar(_UNSUPPORTED)
        self._filters = [
            (values_of, set(wanted))
            for values_of, wanted in _day_filters(parts, self._frequency, start)
        ]
        self._times_of_day = _parse_times_of_day(parts, start)

    def occurrences_between(
        self, first: datetime, last: datetime, budget: RecurrenceBudget
    ) -> Iterator[datetime]:
        """The occurrences from `first` to `last`, both included, in order."""
        # A rule with COUNT is expanded from its start, others from the window's start.
        begin = first if self._count is None else self._start
        for at in islice(self._occurrences_from(begin, last.date(), budget), self._count):
            if at > last:
                return
            if at >= first:
                yield at

    def _occurrences_from(
        self, first: datetime, last: date, budget: RecurrenceBudget
    ) -> Iterator[datetime]:
        for number in count(max(self._period_number(first.date()) - 1, 0)):
            days = self._period_days(number, last)
            if not days:
                return
            budget.spend(_PERIOD_COST + len(days) * len(self._times_of_day))
            for at in self._select_times([date.fromordinal(day) for day in days]):
                if at >= self._start:
                    yield at

    def _select_times(self, days: Sequence[date]) -> Sequence[datetime]:
        """The occurrences within one period."""
        matching_days = (day for day in days if self._matches_filters(day))
        times = [datetime.combine(day, at) for day in matching_days for at in self._times_of_day]
        if not self._positions:
            return times
        indexes = {
            position - 1 if position > 0 else len(times) + position for position in self._positions
        }
        return [at for index, at in enumerate(times) if index in indexes]

    def _matches_filters(self, day: date) -> bool:
        return not any(wanted.isdisjoint(values_of(day)) for values_of, wanted in self._filters)

    def _period_number(self, day: date) -> int:
        """The number of the period around a day, counted from the start's period, which is 0."""
        start = self._start
        match self._frequency:
            case "YEARLY":
                return (day.year - start.year) // self._interval
            case "MONTHLY":
                return (12 * (day.year - start.year) + day.month - start.month) // self._interval
            case "WEEKLY":
                return (day - start.date()).days // (7 * self._interval)
        return (day - start.date()).days // self._interval

    def _period_days(self, number: int, last: date) -> range:
        """The days of a period, as ordinals; empty if it begins after `last`."""
        offset = number * self._interval
        start = self._start.toordinal()
        match self._frequency:
            case "YEARLY":
                days = _days_of_year(self._start.year + offset, last)
            case "MONTHLY":
                days = _days_of_month(12 * self._start.year + self._start.month - 1 + offset, last)
            case "WEEKLY":
                first = start - (self._start.weekday() - self._week_start) % 7 + 7 * offset
                days = range(first, first + 7)
            case _:
                days = range(start + offset, start + offset + 1)
        return days if days and days[0] <= last.toordinal() else range(0)


def _parse_times_of_day(parts: RuleParts, start: datetime) -> Sequence[time]:
    hours = set(parts.get("BYHOUR", (start.hour,)))
    minutes = set(parts.get("BYMINUTE", (start.minute,)))
    seconds = set(parts.get("BYSECOND", (start.second,)))
    if len(hours) * len(minutes) * len(seconds) > _MAX_VALUES:
        raise UnreadableCalendar(_UNSUPPORTED)
    return sorted(time(*each) for each in product(hours, minutes, seconds))


def _days_of_year(year: int, last: date) -> range:
    if year > last.year:
        return range(0)
    first = date(year, 1, 1).toordinal()
    return range(first, first + _year_length(year))


def _days_of_month(number: int, last: date) -> range:
    year, month = divmod(number, 12)
    if year > last.year:
        return range(0)
    first = date(year, month + 1, 1).toordinal()
    return range(first, first + monthrange(year, month + 1)[1])


# Which days ----------------------------------------------------------------------------


def _day_filters(
    parts: RuleParts, frequency: str, start: datetime
) -> Iterator[tuple[DayValues, Sequence[Any]]]:
    """The filters that select days; parts that the rule leaves open come from the start."""
    for part, values_of in _DAY_VALUES.items():
        if part in parts:
            yield values_of, parts[part]
    if "BYDAY" in parts:
        numbered = frequency in ("MONTHLY", "YEARLY")
        whole_year = frequency == "YEARLY" and "BYMONTH" not in parts
        values_of = _weekday_of_year if whole_year else _weekday_of_month
        yield values_of, [_parse_weekday(each, numbered=numbered) for each in parts["BYDAY"]]
    elif frequency == "WEEKLY" or "BYWEEKNO" in parts:
        yield _weekday_only, (start.weekday(),)
    elif frequency != "DAILY" and not parts.keys() & {"BYMONTHDAY", "BYYEARDAY"}:
        yield _month_day_values, (start.day,)
        if frequency == "YEARLY" and "BYMONTH" not in parts:
            yield _DAY_VALUES["BYMONTH"], (start.month,)


def _year_length(year: int) -> int:
    return 366 if isleap(year) else 365


def _month_day_values(day: date) -> Sequence[int]:
    return day.day, day.day - monthrange(day.year, day.month)[1] - 1


def _year_day_values(day: date) -> Sequence[int]:
    number = day.timetuple().tm_yday
    return number, number - _year_length(day.year) - 1


def _week_values(day: date) -> Sequence[int]:
    year, week, _ = day.isocalendar()
    return week, week - date(year, 12, 28).isocalendar().week - 1


def _weekday_only(day: date) -> Sequence[int]:
    return (day.weekday(),)


def _weekday_of_month(day: date) -> Sequence[Any]:
    return _numbered_weekdays(day, *_month_day_values(day))


def _weekday_of_year(day: date) -> Sequence[Any]:
    return _numbered_weekdays(day, *_year_day_values(day))


def _numbered_weekdays(day: date, from_start: int, from_end: int) -> Sequence[Any]:
    """The weekday, alone and numbered from both ends: for a second and last but one Monday
    `0, (0, 2), (0, -2)`."""
    weekday = day.weekday()
    return weekday, (weekday, (from_start + 6) // 7), (weekday, -((6 - from_end) // 7))


def _parse_weekday(given: Any, *, numbered: bool) -> Any:
    weekday = _WEEKDAYS.index(given.weekday)
    return (weekday, given.relative) if numbered and given.relative else weekday


_DAY_VALUES: dict[str, DayValues] = {
    "BYMONTH": lambda day: (day.month,),
    "BYWEEKNO": _week_values,
    "BYYEARDAY": _year_day_values,
    "BYMONTHDAY": _month_day_values,
}
_FREQUENCIES = ("YEARLY", "MONTHLY", "WEEKLY", "DAILY")
_SUPPORTED_PARTS = {
    *("FREQ", "INTERVAL", "COUNT", "UNTIL", "WKST", "BYSETPOS"),
    *("BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND"),
    *_DAY_VALUES,
}


def _single_value(parts: RuleParts, name: str, *default: Any) -> Any:
    values = parts.get(name, default)
    if len(values) != 1:
        raise UnreadableCalendar(_UNSUPPORTED)
    return values[0]
