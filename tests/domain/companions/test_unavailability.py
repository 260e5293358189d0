"""The reason why a companion cannot be booked at a time (CONTRACT 4)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from staffbooking_core.domain.companions.availability import (
    DAY,
    HOUR,
    Calendar,
    DateOverride,
    Interval,
    Slot,
    WeeklySlot,
    daily_availability,
    has_free_hour,
)
from staffbooking_core.domain.companions.booking_limits import BookingLimits, date_bounds
from staffbooking_core.domain.companions.unavailability import unavailability_reason

MONDAY = date(2027, 3, 1)
NOW = datetime(2027, 2, 1, tzinfo=UTC)
NINE_TO_FIVE = tuple(WeeklySlot(day, Slot(9 * 60, 17 * 60)) for day in range(5))


def at(hour: int, hours: int = 1, day: date = MONDAY) -> Interval:
    start = datetime(day.year, day.month, day.day, hour, tzinfo=UTC)
    return Interval(start, start + hours * HOUR)


@pytest.mark.parametrize(
    ("interval", "reason"),
    [
        (at(10), None),
        (at(9, 3), None),
        (at(10, day=MONDAY + timedelta(days=5)), "day_off"),
        (at(10, day=MONDAY + timedelta(days=2)), "day_off"),
        (at(8), "outside_hours"),
        (at(16, 2), "outside_hours"),
        (at(12), "booked"),
        (at(11, 2), "booked"),
        (at(14), "busy"),
        (at(12, 3), "booked"),
        (at(13), None),
    ],
)
def test_the_first_reason_that_holds_is_given(interval: Interval, reason: str | None) -> None:
    """Hours come before bookings, bookings before external busy times; edges may touch."""
    calendar = Calendar(
        "UTC", NINE_TO_FIVE, (DateOverride(MONDAY + timedelta(days=2)),), busy=(at(14),)
    )
    assert unavailability_reason(calendar, [at(12)], interval, NOW) == reason


@pytest.mark.parametrize(
    ("interval", "reason"),
    [
        (at(11), None),
        (at(16, day=MONDAY + DAY), None),
        (at(10), "notice"),
        (at(3), "notice"),
        (at(9, day=MONDAY + 2 * DAY), "horizon"),
        (at(10, day=MONDAY + 5 * DAY), "horizon"),
    ],
)
def test_limits_come_before_hours(interval: Interval, reason: str | None) -> None:
    """A request within the notice or beyond the horizon is refused for that, whatever the hours; a
    start at exactly the notice, and on the last day, is possible."""
    limits = BookingLimits(min_notice_hours=15, horizon_days=2)
    calendar = Calendar("UTC", NINE_TO_FIVE, limits=limits)
    now = datetime(2027, 2, 28, 20, tzinfo=UTC)
    assert unavailability_reason(calendar, (), interval, now) == reason


@pytest.mark.parametrize(
    ("interval", "reason"),
    [
        (at(10), None),
        (at(10, 2), "booked"),
        (at(11), "booked"),
        (at(13), "booked"),
        (at(14), None),
        (at(9), None),
    ],
)
def test_buffers_are_kept_around_bookings(interval: Interval, reason: str | None) -> None:
    """Time within the buffer before and after a booking is booked; hours and busy times have
    none."""
    calendar = Calendar(
        "UTC", NINE_TO_FIVE, busy=(at(15),), limits=BookingLimits(buffer_minutes=60)
    )
    assert unavailability_reason(calendar, [at(12)], interval, NOW) == reason


def test_the_horizon_is_counted_in_local_days() -> None:
    """The last day is counted from the companion's current day, not from that of UTC."""
    limits = BookingLimits(horizon_days=1)
    now = datetime(2027, 3, 1, 12, tzinfo=UTC)
    for zone, today in (("Pacific/Kiritimati", MONDAY + DAY), ("Pacific/Pago_Pago", MONDAY)):
        calendar = Calendar(zone, limits=limits)
        days = daily_availability(calendar, (), MONDAY, MONDAY + 4 * DAY, now)
        assert [day.date for day in days if day.available] == [today, today + DAY]


def test_notice_is_elapsed_time_over_a_clock_change() -> None:
    """With 24 hours of notice on the day before a clock change, the first slot is 25 local hours
    later."""
    calendar = Calendar("Europe/Zurich", limits=BookingLimits(min_notice_hours=24))
    day = date(2027, 3, 28)
    now = datetime(2027, 3, 27, 9, tzinfo=UTC)
    (shown,) = daily_availability(calendar, (), day, day, now)
    assert shown.slots == (Slot(11 * 60, 24 * 60),)


BOUND_DAYS = [MONDAY + number * DAY for number in range(-2, 40)]


@given(
    zone=st.sampled_from(["UTC", "Pacific/Kiritimati", "Etc/GMT+12", "Europe/Zurich"]),
    limits=st.builds(
        BookingLimits,
        min_notice_hours=st.integers(0, 720),
        horizon_days=st.one_of(st.integers(1, 35), st.just(1095)),
    ),
    day=st.sampled_from(BOUND_DAYS),
    minute=st.integers(0, 24 * 60),
)
@settings(max_examples=300)
def test_bounds_hold_in_every_zone(
    zone: str, limits: BookingLimits, day: date, minute: int
) -> None:
    """A date is free all day for limits that its bounds surely allow, and not free for limits that
    they do not allow."""
    now = datetime(2027, 3, 1, tzinfo=UTC) + minute * timedelta(minutes=1)
    bounds, calendar = date_bounds(day, now), Calendar(zone, limits=limits)
    if not bounds.may_allow(limits):
        assert not has_free_hour(calendar, (), day, now)
    if bounds.surely_allow(limits):
        whole_day = daily_availability(calendar, (), day, day)
        assert daily_availability(calendar, (), day, day, now) == whole_day
        assert bounds.may_allow(limits)
    if bounds.allow_nobody:
        assert not has_free_hour(Calendar(zone), (), day, now)


def test_time_that_has_passed_is_not_free() -> None:
    """With `now`, slots begin at the next minute after it, and an hour must be ahead of it."""
    calendar = Calendar("UTC", NINE_TO_FIVE)
    now = datetime(2027, 3, 1, 15, 30, 20, tzinfo=UTC)
    (day,) = daily_availability(calendar, (), MONDAY, MONDAY, now)
    assert day.slots == (Slot(15 * 60 + 31, 17 * 60),)
    assert has_free_hour(calendar, (), MONDAY, now)
    assert not has_free_hour(calendar, (), MONDAY, now + 45 * timedelta(minutes=1))
    assert daily_availability(calendar, (), MONDAY, MONDAY, now + HOUR * 10)[0].slots == ()
    assert has_free_hour(calendar, (), MONDAY + timedelta(days=1), now)
