"""Hypothesis strategies for bookings and calendars.

    @given(bookings())
    def test_my_invoice_adds_up(booking): ...

Zones are all that are known, and days are near their clock changes as often as not: there, hours
are skipped or come twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from attrs import asdict
from hypothesis import strategies as st

from staffbooking_adapters.testing.builders import DAY, HOUR, POLICY, make_booking
from staffbooking_core.domain.bookings.booking import Booking, CompanionRates, quote_price
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Interval,
    NonexistentLocalTime,
    Slot,
    WeeklySlot,
    format_hhmm,
    known_timezones,
    local_time_to_utc,
)
from staffbooking_core.policy import Policy

__all__ = ["bookings", "calendars", "days", "intervals", "slots", "timezones", "weekly_slots"]

_FIRST, _LAST = date(2024, 1, 1), date(2030, 12, 31)
_MINUTES_PER_DAY = 1440


@cache
def _clock_changes(timezone: str) -> Sequence[date]:
    """The dates of a zone's clock changes; the first day if it has none."""
    found, zone = [], ZoneInfo(timezone)
    offset = datetime(2024, 1, 1, tzinfo=zone).utcoffset()
    for number in range((_LAST - _FIRST).days):
        noon = datetime(2024, 1, 1, 12, tzinfo=zone) + number * DAY
        if noon.utcoffset() != offset:
            offset = noon.utcoffset()
            found.append(noon.date())
    return found or [_FIRST]


def timezones() -> st.SearchStrategy[str]:
    """The IANA name of any zone that a calendar may have."""
    return st.sampled_from(sorted(known_timezones()))


def days(timezone: str) -> st.SearchStrategy[date]:
    """A day from 2024 to 2030, any or next to a clock change of the zone."""
    changes = st.sampled_from(_clock_changes(timezone))
    near = st.builds(lambda day, shift: day + shift * DAY, changes, st.integers(-1, 1))
    return st.one_of(near, st.dates(_FIRST, _LAST))


@st.composite
def slots(draw: st.DrawFn, step_minutes: int = 1) -> Slot:
    """Part of a day, in steps of so many minutes."""
    steps = _MINUTES_PER_DAY // step_minutes
    start = draw(st.integers(0, steps - 1))
    return Slot(start * step_minutes, draw(st.integers(start + 1, steps)) * step_minutes)


def weekly_slots(step_minutes: int = 1) -> st.SearchStrategy[tuple[WeeklySlot, ...]]:
    """Up to twelve slots of a week, in any order, which may overlap; none: always free."""
    each = st.builds(WeeklySlot, st.integers(0, 6), slots(step_minutes))
    return st.lists(each, max_size=12).map(tuple)


@st.composite
def intervals(draw: st.DrawFn, timezone: str, near: date) -> Interval:
    """A whole number of hours that starts at a local time within a day of `near`."""
    day = near + draw(st.integers(-1, 1)) * DAY
    try:
        starts_at = local_time_to_utc(timezone, day, draw(st.integers(0, _MINUTES_PER_DAY - 1)))
    except NonexistentLocalTime:
        starts_at = local_time_to_utc(timezone, day, 12 * 60)
    return Interval(starts_at, starts_at + draw(st.integers(1, 24)) * HOUR)


@st.composite
def calendars(
    draw: st.DrawFn,
    timezone: str | None = None,
    near: date | None = None,
    step_minutes: int = 1,
    radius_days: int = 1,
) -> Calendar:
    """A companion's calendar: weekly hours, changed days and external busy times, the latter two
    within `radius_days` of the day `near`. Zone and day are any unless they are given."""
    timezone = timezone or draw(timezones())
    near = near or draw(days(timezone))
    shifts = draw(st.sets(st.integers(-radius_days, radius_days), max_size=5))
    hours = st.lists(slots(step_minutes), max_size=3).map(tuple)
    overrides = [DateOverride(near + shift * DAY, draw(hours)) for shift in sorted(shifts)]
    busy = draw(st.lists(intervals(timezone, near), max_size=4))
    return Calendar(timezone, draw(weekly_slots(step_minutes)), tuple(overrides), tuple(busy))


@st.composite
def bookings(draw: st.DrawFn, /, policy: Policy = POLICY, **fields: Any) -> Booking:
    """A pending request in any zone: at least a week ahead, for up to 24 hours, with prices as
    `policy` makes them. Given fields replace those that are drawn."""
    timezone = draw(timezones())
    span = draw(intervals(timezone, draw(days(timezone))))
    local = span.starts_at.astimezone(ZoneInfo(timezone))
    hours = (span.ends_at - span.starts_at) // HOUR
    rates = CompanionRates(
        draw(st.integers(100, 1_000_000)), draw(st.none() | st.integers(100, 10_000_000))
    )
    insured = draw(st.booleans())
    ahead = timedelta(days=7, minutes=draw(st.integers(0, 100_000)))
    drawn = {
        "timezone": timezone,
        "starts_at": span.starts_at,
        "ends_at": span.ends_at,
        "event_date": local.date(),
        "start_time": format_hhmm(local.hour * 60 + local.minute),
        "duration_hours": hours,
        "cancellation_insurance": insured,
        "created_at": (span.starts_at - ahead).astimezone(UTC),
        "currency": policy.currency.code,
        "fee_ppm": policy.platform_fee_ppm,
        **asdict(quote_price(rates, hours, insured, policy)),
    }
    return make_booking(**{**drawn, **fields})
