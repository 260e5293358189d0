"""A weekday's bit and the marks of exceptional days together say what the calendar says."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st

from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Interval,
    Slot,
    WeeklySlot,
    has_free_hour,
)
from staffbooking_core.domain.companions.search_index import (
    find_marked_days,
    find_marks_on,
    local_days,
    weekday_mask,
)

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MONDAY = date(2027, 3, 1)
SPRING = date(2027, 3, 28)  # Berlin: 02:00 becomes 03:00
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"]


def weekly(*hours, days=range(7), zone="UTC"):
    slots = [Slot(start, end) for start, end in hours]
    return Calendar(zone, tuple(WeeklySlot(day, slot) for day in days for slot in slots))


def test_without_weekly_hours_every_day_is_free():
    """No hours at all means free all day."""
    assert weekday_mask(Calendar("UTC")) == 0b1111111


def test_the_mask_has_the_days_with_an_hour():
    """Monday is bit 0; less than an hour does not count."""
    calendar = Calendar("UTC", (WeeklySlot(0, Slot(540, 600)), WeeklySlot(2, Slot(540, 599))))
    assert weekday_mask(calendar) == 0b0000001


def test_slots_that_touch_are_one_hour():
    """Two halves that meet make an hour; over midnight they do not."""
    assert weekday_mask(weekly((540, 570), (570, 600), days=[0])) == 0b1
    assert weekday_mask(weekly((0, 30), (1410, 1440))) == 0


def test_a_day_off_is_marked():
    """An override that differs from the weekday is a mark, one that agrees is none."""
    calendar = Calendar(
        "UTC", (), (DateOverride(MONDAY), DateOverride(MONDAY + DAY, (Slot(0, 600),)))
    )
    assert find_marked_days(calendar, ()) == {MONDAY: False}


def test_a_full_day_is_marked():
    """Where bookings leave no hour the day is marked as full."""
    start = datetime(2027, 3, 1, tzinfo=UTC)
    busy = [Interval(start, start + 23 * HOUR + timedelta(minutes=1))]
    assert find_marked_days(Calendar("UTC"), busy) == {MONDAY: False}
    assert find_marked_days(Calendar("UTC"), [Interval(start, start + 23 * HOUR)]) == {}


def test_days_taken_elsewhere_are_marked():
    """Each full day of a holiday is a mark; the weekdays' bits do not know of it."""
    start = datetime(2027, 3, 1, 12, tzinfo=UTC)
    calendar = Calendar("UTC", busy=(Interval(start, start + 3 * DAY),))
    assert find_marked_days(calendar, ()) == {MONDAY + DAY: False, MONDAY + 2 * DAY: False}
    assert weekday_mask(calendar) == 0b1111111


def test_the_mask_knows_nothing_of_single_weeks():
    """Also where the week that it is worked out from is full."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    assert weekday_mask(Calendar("UTC", busy=(Interval(start, start + 7 * DAY),))) == 0b1111111


def test_a_night_that_the_clock_skips_is_marked():
    """02:00 to 03:00 does not exist on the day of the change."""
    calendar = weekly((120, 180), zone="Europe/Berlin")
    found = find_marked_days(calendar, ())
    assert found[SPRING] is False
    assert SPRING + DAY not in found


@pytest.mark.parametrize("days, nights", [([6], True), ([0], False), ([], False)])
def test_only_hours_of_the_days_own_weekday_are_skipped(days, nights):
    """The clock changes on a Sunday: who works these hours on Mondays, and long ones on Sundays,
    loses none."""
    long = [WeeklySlot(day, Slot(540, 1020)) for day in range(7)]
    short = [WeeklySlot(day, Slot(120, 180)) for day in days]
    slots = [slot for slot in long if slot.weekday not in days] + short
    found = find_marked_days(Calendar("Europe/Berlin", tuple(slots)), ())
    assert (found.get(SPRING) is False) == nights
    assert bool(found) == nights


def test_a_date_that_was_set_outlasts_the_clocks_change():
    """Extra hours on the day of the change are what holds on it."""
    night = weekly((120, 180), zone="Europe/Berlin")
    extra = Calendar("Europe/Berlin", night.weekly, (DateOverride(SPRING, (Slot(600, 700),)),))
    assert SPRING not in find_marked_days(extra, ())
    assert {**find_marked_days(extra, ()), SPRING: False} == find_marked_days(night, ())


def test_long_hours_need_no_marks_of_the_clock():
    """Slots of three hours and more keep an hour whatever the clock does."""
    assert find_marked_days(weekly((60, 240), zone="Europe/Berlin"), ()) == {}


@pytest.mark.parametrize(
    "zone, days",
    [
        ("UTC", [MONDAY, MONDAY + DAY]),
        ("Asia/Kathmandu", [MONDAY + DAY]),
        ("America/New_York", [MONDAY]),
    ],
)
def test_an_interval_touches_local_days(zone, days):
    """Its end is not part of it; the zone decides which days those are."""
    start = datetime(2027, 3, 1, 20, tzinfo=UTC)
    assert list(local_days(zone, Interval(start, start + 8 * HOUR))) == days


def test_an_end_at_midnight_touches_no_next_day():
    """Until 24:00 is not into the next day."""
    start = datetime(2027, 3, 1, 20, tzinfo=UTC)
    assert list(local_days("UTC", Interval(start, start + 4 * HOUR))) == [MONDAY]


def test_marks_anew_take_old_ones_away():
    """A day that is as its weekday again has no mark: None."""
    assert find_marks_on(Calendar("UTC"), (), [MONDAY]) == {MONDAY: None}


MINUTES = st.integers(0, 1440)
SLOTS = st.tuples(MINUTES, MINUTES).filter(lambda pair: pair[0] < pair[1]).map(lambda p: Slot(*p))
DAYS = st.integers(-3, 40).map(lambda number: SPRING + number * DAY)
EARLIEST = datetime(2027, 3, 25, tzinfo=UTC)


def spans(longest):
    """Times of up to so many hours, around the change of the clock."""
    return st.builds(
        lambda minutes, hours: Interval(
            EARLIEST + minutes * timedelta(minutes=1),
            EARLIEST + minutes * timedelta(minutes=1) + hours * HOUR,
        ),
        st.integers(0, 40 * 1440),
        st.integers(1, longest),
    )


CALENDARS = st.builds(
    Calendar,
    st.sampled_from(ZONES),
    st.lists(st.builds(WeeklySlot, st.integers(0, 6), SLOTS), max_size=5).map(tuple),
    st.lists(
        st.builds(DateOverride, DAYS, st.lists(SLOTS, max_size=2).map(tuple)),
        max_size=3,
        unique_by=lambda override: override.date,
    ).map(tuple),
    st.lists(spans(100), max_size=3).map(tuple),
)
SPANS = spans(24)


@settings(max_examples=60)
@given(CALENDARS, st.lists(SPANS, max_size=4))
def test_mask_and_marks_say_what_the_calendar_says(calendar, busy):
    """On each day around a change of the clock, whatever the hours, bookings and times taken
    elsewhere are."""
    mask, marked = weekday_mask(calendar), find_marked_days(calendar, busy)
    for number in range(-3, 12):
        day = SPRING + number * DAY
        said = marked.get(day, bool(mask >> day.weekday() & 1))
        assert said is has_free_hour(calendar, busy, day), day


@settings(max_examples=40)
@given(CALENDARS, st.lists(SPANS, min_size=1, max_size=3))
def test_marks_of_single_days_agree_with_all_marks(calendar, busy):
    """What is set day by day as bookings come and go is what would be set at once."""
    days = {day for span in busy for day in local_days(calendar.timezone, span)}
    every = find_marked_days(calendar, busy)
    assert find_marks_on(calendar, busy, days) == {day: every.get(day) for day in days}
