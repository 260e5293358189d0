"""Why a companion cannot be booked at a time (CONTRACT 4)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from attrs import evolve

from staffbooking_core.domain.companions.availability import Calendar, Interval, fits, local_date


class UnavailabilityReason(StrEnum):
    """Why an interval cannot be booked, in the order in which they are checked (CONTRACT 4)."""

    HORIZON = "horizon"
    NOTICE = "notice"
    DAY_OFF = "day_off"
    OUTSIDE_HOURS = "outside_hours"
    BOOKED = "booked"
    BUSY = "busy"


def unavailability_reason(
    calendar: Calendar, booked: Iterable[Interval], interval: Interval, now: datetime
) -> UnavailabilityReason | None:
    """The first reason why the interval cannot be booked at `now`; None where it can. `booked` are
    the bookings that hold their slot. The horizon binds the day of the start alone."""
    limits, zone = calendar.limits, calendar.timezone
    day = local_date(zone, interval.starts_at)
    if day > limits.last_day(local_date(zone, now)):
        return UnavailabilityReason.HORIZON
    if interval.starts_at < limits.earliest_start(now):
        return UnavailabilityReason.NOTICE
    if fits(calendar, booked, interval):
        return None
    working = evolve(calendar, busy=(), subscribed_busy=())
    if fits(working, (), interval):
        is_booked = not fits(working, booked, interval)
        return UnavailabilityReason.BOOKED if is_booked else UnavailabilityReason.BUSY
    has_hours = any(True for _ in calendar.slots_on(day))
    return UnavailabilityReason.OUTSIDE_HOURS if has_hours else UnavailabilityReason.DAY_OFF
