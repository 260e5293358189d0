"""Properties of free slots in every zone, around every clock change from 2024 to 2030."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from attrs import evolve, frozen
from hypothesis import given, settings, strategies as st

from staffbooking_adapters.testing.strategies import calendars, days, intervals, timezones
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Interval,
    NonexistentLocalTime,
    Slot,
    UnknownTimezone,
    daily_availability,
    fits,
    format_hhmm,
    has_free_hour,
    is_timezone,
    known_timezones,
    local_time_to_utc,
    open_intervals,
    parse_hhmm,
    slot_interval,
)

FIRST, LAST = date(2024, 1, 1), date(2030, 12, 31)
DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
WHOLE = Slot(0, 1440)

minutes = st.integers(0, 1439)


@st.composite
def zoned_days(draw):
    """A zone and a day, any or close to a clock change of the zone."""
    zone = draw(timezones())
    return zone, draw(days(zone))


@frozen
class Scene:
    """A calendar with bookings, a day, and a booking to test."""

    calendar: Calendar
    day: date
    busy: tuple[Interval, ...]
    wanted: Interval | None


def interval(zone, day, slot=WHOLE) -> Interval:
    found = slot_interval(zone, day, slot)
    assert found
    return found


def book(zone, day, start, hours):
    """The interval of a booking; None where its start is skipped."""
    try:
        starts_at = local_time_to_utc(zone, day, start)
    except NonexistentLocalTime:
        return None
    return Interval(starts_at, starts_at + hours * HOUR)


@st.composite
def scenes(draw):
    zone, day = draw(zoned_days())
    busy = draw(st.lists(intervals(zone, day), max_size=4))
    start = draw(minutes)
    return Scene(
        draw(calendars(zone, day)),
        day,
        tuple(busy),
        book(zone, day, start, draw(st.integers(1, 24))),
    )


def shown(scene, before=0, after=0):
    """The intervals of the slots of the scene's day and the days around it."""
    zone = scene.calendar.timezone
    days = daily_availability(
        scene.calendar, scene.busy, scene.day - before * DAY, scene.day + after * DAY
    )
    return [interval(zone, day.date, slot) for day in days for slot in day.slots]


def covered(spans, wanted):
    """Whether sorted intervals cover an interval completely."""
    reached = wanted.starts_at
    for span in spans:
        if span.starts_at <= reached < span.ends_at:
            reached = span.ends_at
    return reached >= wanted.ends_at


@given(zoned_days())
def test_days_join_at_midnight(zoned):
    """24:00 of a day is 00:00 of the next one."""
    zone, day = zoned
    today, tomorrow = interval(zone, day), interval(zone, day + DAY)
    assert today.ends_at == tomorrow.starts_at


@given(zoned_days(), st.integers(0, 10))
def test_days_without_hours_set_are_one_free_interval(zoned, more):
    """Any range of days without hours is one free interval."""
    zone, day = zoned
    last = day + more * DAY
    whole = Interval(interval(zone, day).starts_at, interval(zone, last).ends_at)
    assert open_intervals(Calendar(zone), day, last) == [whole]


@given(zoned_days(), st.integers(1, 1439))
def test_a_day_may_be_cut_anywhere(zoned, cut):
    """Two slots that touch cover the whole day, also within a skipped or repeated hour."""
    zone, day = zoned
    halves = Calendar(zone, overrides=(DateOverride(day, (Slot(0, cut), Slot(cut, 1440))),))
    assert open_intervals(halves, day, day) == [interval(zone, day)]


@given(zoned_days(), minutes)
def test_a_day_holds_the_moments_of_its_date(zoned, minute):
    """Every instant of a day has the day's local date."""
    zone, day = zoned
    whole, tz = interval(zone, day), ZoneInfo(zone)
    moment = min(whole.starts_at + minute * MINUTE, whole.ends_at - MINUTE)
    assert moment.astimezone(tz).date() == day
    assert whole.ends_at.astimezone(tz).date() == day + DAY


@given(zoned_days(), minutes)
def test_a_local_time_comes_back_from_its_instant(zoned, minute):
    """Converting a local time to an instant and back gives the same time, at its first
    occurrence."""
    zone, day = zoned
    wall = datetime(day.year, day.month, day.day) + minute * MINUTE
    try:
        back = local_time_to_utc(zone, day, minute).astimezone(ZoneInfo(zone))
    except NonexistentLocalTime:
        return
    assert (back.replace(tzinfo=None), back.fold) == (wall, 0)


@given(zoned_days(), minutes)
def test_exactly_the_times_that_never_come_are_skipped(zoned, minute):
    """A local time is refused if and only if no minute around shows it."""
    zone, day = zoned
    tz = ZoneInfo(zone)
    wall = datetime(day.year, day.month, day.day) + minute * MINUTE
    readings = {wall.replace(tzinfo=UTC) - offset for offset in offsets_around(tz, day)}
    comes = [at for at in readings if at.astimezone(tz).replace(tzinfo=None) == wall]
    booked = book(zone, day, minute, 1)
    assert (booked.starts_at if booked else None) == min(comes, default=None)


def offsets_around(tz, day):
    start = datetime(day.year, day.month, day.day, tzinfo=UTC) - DAY
    return {(start + hour * HOUR).astimezone(tz).utcoffset() for hour in range(72)}


@given(scenes())
@settings(max_examples=200)
def test_what_is_shown_can_be_booked(scene):
    """Each shown slot is free throughout, and starts at a bookable time."""
    zone = scene.calendar.timezone
    for slot in daily_availability(scene.calendar, scene.busy, scene.day, scene.day)[0].slots:
        span = interval(zone, scene.day, slot)
        assert fits(scene.calendar, scene.busy, span)
        assert local_time_to_utc(zone, scene.day, slot.start) == span.starts_at


@given(scenes())
@settings(max_examples=200)
def test_what_fits_is_shown(scene):
    """A booking fits if and only if the shown slots cover it."""
    if scene.wanted:
        spans = shown(scene, before=1, after=3)
        assert fits(scene.calendar, scene.busy, scene.wanted) == covered(spans, scene.wanted)


@given(scenes())
def test_what_is_taken_is_not_shown(scene):
    """No shown slot overlaps a booking or an external busy time."""
    taken = (*scene.busy, *scene.calendar.busy)
    for span in shown(scene, before=1, after=1):
        assert all(one.ends_at <= span.starts_at or span.ends_at <= one.starts_at for one in taken)


@given(scenes())
def test_it_does_not_matter_where_time_is_taken(scene):
    """An external busy time leaves the same free time as a booking."""
    as_bookings = (*scene.busy, *scene.calendar.busy)
    days = scene.day - DAY, scene.day + DAY
    without = evolve(scene.calendar, busy=())
    assert daily_availability(scene.calendar, scene.busy, *days) == daily_availability(
        without, as_bookings, *days
    )


@given(scenes(), st.integers(-2000, 2000), st.integers(1, 3000), st.sampled_from([0, 1, 30]))
def test_bookings_named_elsewhere_show_nothing_too_much(scene, start, length, seconds):
    """Shown slots are free throughout, whatever instants are busy."""
    zone = scene.calendar.timezone
    starts_at = interval(zone, scene.day).starts_at + start * MINUTE
    taken = Interval(starts_at, starts_at + length * MINUTE + timedelta(seconds=seconds))
    busy = (*scene.busy, taken)
    for slot in daily_availability(scene.calendar, busy, scene.day, scene.day)[0].slots:
        assert fits(scene.calendar, busy, interval(zone, scene.day, slot))


@given(scenes())
def test_slots_are_in_order_and_apart(scene):
    """The slots of a day are sorted and do not touch."""
    found = daily_availability(scene.calendar, scene.busy, scene.day, scene.day)[0].slots
    assert all(one.end < other.start for one, other in pairwise(found))


@given(scenes())
def test_a_free_hour_is_a_shown_slot_of_an_hour(scene):
    """`has_free_hour` is true if and only if a shown slot has 60 elapsed minutes."""
    longest = max((span.ends_at - span.starts_at for span in shown(scene)), default=0 * DAY)
    assert has_free_hour(scene.calendar, scene.busy, scene.day) == (longest >= HOUR)


@given(st.integers(0, 1440))
def test_times_round_trip(minute):
    """Parsing a formatted time gives the same minutes."""
    assert parse_hhmm(format_hhmm(minute), ending=True) == minute


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "/etc/passwd", "../../etc/passwd", "Europe/../UTC", "UTC\0", "\ud800"),
        *("utc", "europe/berlin", "Europe", "Europe/Berlin ", "localtime", "Factory"),
    ],
)
def test_only_iana_names_are_zones(name):
    """Paths, directories, other spellings and unknown names are refused."""
    assert not is_timezone(name)
    with pytest.raises(UnknownTimezone):
        Calendar(name)
    with pytest.raises(UnknownTimezone):
        local_time_to_utc(name, FIRST, 0)


def test_the_zones_are_those_of_iana():
    """Well-known zones are supported."""
    assert {"UTC", "Europe/Berlin", "Asia/Kathmandu", "America/New_York"} <= known_timezones()
