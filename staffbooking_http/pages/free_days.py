"""The month calendar of a companion's free days."""

from calendar import Calendar, monthrange
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date
from functools import partial
from typing import Any

from attrs import frozen

from staffbooking_core.domain.companions.availability import DAY
from staffbooking_core.errors import invalid_field
from staffbooking_core.ports import Ports
from staffbooking_core.representations.calendars import FreeDaysRecord
from staffbooking_core.usecases.companions import search


@frozen
class CalendarDay:
    """A day of a month calendar. Only days that can be booked have free hours."""

    date: date
    slots: Sequence[Mapping[str, str]] = ()
    """The free hours, in the companion's local time: `start` and `end` of each."""


@frozen
class MonthCalendar:
    """The weeks of a month. Days of other months are None."""

    first_day: date
    weeks: Sequence[Sequence[CalendarDay | None]]
    previous_month: date | None
    """The first day of the month before; None where no day of it can be booked."""
    next_month: date | None

    @property
    def weekdays(self) -> Sequence[date]:
        """Days with the weekdays of the columns."""
        return [day.date for day in self.weeks[1] if day is not None]

    @property
    def has_free_day(self) -> bool:
        return any(day is not None and day.slots for week in self.weeks for day in week)

    def find_day(self, wanted: date | None) -> CalendarDay | None:
        """The day of a date; None where it is of another month."""
        days = (day for week in self.weeks for day in week if day is not None)
        return next((day for day in days if day.date == wanted), None)


def parse_month(text: str) -> date:
    """The first day of a month of the form YYYY-MM. Raises InvalidField on `month`."""
    try:
        return date.fromisoformat(f"{text}-01")
    except ValueError:
        raise invalid_field("month", "must be a month of the form YYYY-MM") from None


async def load_month(
    ports: Ports, companion_id: int, wanted: date, bounds: tuple[date, date], first_weekday: int
) -> MonthCalendar:
    """The month of the wanted day of a listed companion; see `build_month`."""
    read = partial(search.get_availability, ports, companion_id)
    return await build_month(read, wanted, bounds, first_weekday)


async def build_month(
    read: Callable[[date, date], Awaitable[FreeDaysRecord]],
    wanted: date,
    bounds: tuple[date, date],
    first_weekday: int,
) -> MonthCalendar:
    """The month of the wanted day, with the free hours of its days within `bounds`, the first and
    the last day that can be booked, which `read` gives. `first_weekday` is the first column: Monday
    is 0."""
    first, last = bounds
    begin = min(max(wanted, first), last).replace(day=1)
    end = begin.replace(day=monthrange(begin.year, begin.month)[1])
    found = await read(max(begin, first), min(end, last))
    slots: dict[date, Any] = {
        date.fromisoformat(day["date"]): day["slots"] for day in found["availability"]
    }
    weeks = Calendar(first_weekday).monthdatescalendar(begin.year, begin.month)
    return MonthCalendar(
        begin,
        [
            [CalendarDay(day, slots.get(day, ())) if begin <= day <= end else None for day in week]
            for week in weeks
        ],
        (begin - DAY).replace(day=1) if begin > first else None,
        end + DAY if end < last else None,
    )
