"""What a staff member asks of bookings: free time around them, notice, and a horizon (CONTRACT 3).

The limits depend on the time of the request, so that a search index cannot contain them. For a
search, `DateBounds` says which limits allow a date in any time zone, and which in every one.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from attrs import frozen

__all__ = ["BookingLimits", "DateBounds"]

MAX_BUFFER_MINUTES = 240
MAX_NOTICE_HOURS = 720
MAX_HORIZON_DAYS = 1095
_HORIZON_YEARS = 3

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)
_WESTERNMOST_OFFSET, _EASTERNMOST_OFFSET = timedelta(hours=-12), timedelta(hours=14)


@frozen
class BookingLimits:
    """The limits of a companion's bookings."""

    buffer_minutes: int = 0
    """Free time kept before and after each booking."""
    min_notice_hours: int = 0
    """Between a request and the start of its booking."""
    horizon_days: int = MAX_HORIZON_DAYS
    """The last local day on which a booking may start, counted from the current one."""

    @property
    def buffer(self) -> timedelta:
        return timedelta(minutes=self.buffer_minutes)

    @property
    def restrict_dates(self) -> bool:
        """Whether it depends on the current date which dates can be booked."""
        return self.min_notice_hours > 0 or self.horizon_days < MAX_HORIZON_DAYS

    def earliest_start(self, now: datetime) -> datetime:
        """The first instant at which a booking that is requested now may start: later than now."""
        return now + max(self.min_notice_hours * _HOUR, timedelta.resolution)

    def last_day(self, today: date) -> date:
        """The last local day on which a booking may start. The longest horizon is all the time
        that a new event may lie ahead, also where that has a leap day."""
        if self.horizon_days == MAX_HORIZON_DAYS:
            return add_years(today, _HORIZON_YEARS)
        return today + self.horizon_days * _DAY


NO_LIMITS = BookingLimits()


@frozen
class DateBounds:
    """The limits with which a date can be booked.

    Companions with a notice of at most `sure_notice_hours` and a horizon of at least
    `sure_horizon_days` can be booked on all of the date in any time zone. Beyond `max_notice_hours`
    or below `min_horizon_days` none can be. In between their hours and time zone decide.
    """

    max_notice_hours: int = MAX_NOTICE_HOURS
    sure_notice_hours: int = MAX_NOTICE_HOURS
    min_horizon_days: int = 0
    sure_horizon_days: int = 0

    @property
    def allow_nobody(self) -> bool:
        """Whether the date is over everywhere, or beyond every horizon."""
        return self.max_notice_hours < 0 or self.min_horizon_days > MAX_HORIZON_DAYS

    def may_allow(self, limits: BookingLimits) -> bool:
        return (
            limits.min_notice_hours <= self.max_notice_hours
            and limits.horizon_days >= self.min_horizon_days
        )

    def surely_allow(self, limits: BookingLimits) -> bool:
        return (
            limits.min_notice_hours <= self.sure_notice_hours
            and limits.horizon_days >= self.sure_horizon_days
        )


ANY_DATE = DateBounds()
"""The bounds of a search that ignores limits."""


def date_bounds(day: date, now: datetime) -> DateBounds:
    """The bounds of a date at an instant."""
    midnight = datetime.combine(day, time(), UTC)
    first_start = midnight - _EASTERNMOST_OFFSET
    last_start = midnight - _WESTERNMOST_OFFSET + _DAY - _HOUR
    last_today = (now + _EASTERNMOST_OFFSET).date()
    return DateBounds(
        max_notice_hours=(last_start - now) // _HOUR,
        sure_notice_hours=(first_start - now - timedelta.resolution) // _HOUR,
        min_horizon_days=_required_horizon(day, last_today),
        sure_horizon_days=_required_horizon(day, earliest_today(now)),
    )


def earliest_today(now: datetime) -> date:
    """The earliest local date at an instant in UTC, that of the westernmost time zone."""
    return (now + _WESTERNMOST_OFFSET).date()


def _required_horizon(day: date, today: date) -> int:
    if NO_LIMITS.last_day(today) < day:
        return MAX_HORIZON_DAYS + 1
    return min((day - today).days, MAX_HORIZON_DAYS)


def add_years(day: date, years: int) -> date:
    """The same day of a later year; 29 February becomes 28 February where it does not exist."""
    try:
        return day.replace(year=day.year + years)
    except ValueError:
        return day.replace(year=day.year + years, day=28)
