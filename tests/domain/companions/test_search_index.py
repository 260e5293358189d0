"""The weekday mask and the marks together equal the calendar's availability."""

from __future__ import annotations

from cProfile import Profile
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
ZONES = [
    "UTC",
    "Europe/Berlin",
    "Atlantic/Azores",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
]


def weekly(*hours, days=range(7), zone="UTC"):
    slots = [Slot(start, end) for start, end in hours]
    return Calendar(zone, tuple(WeeklySlot(day, slot) for day in days for slot in slots))


def test_without_weekly_hours_every_day_is_free():
    """A calendar without hours has all bits set."""
    assert weekday_mask(Calendar("UTC")) == 0b1111111


def test_the_mask_has_the_days_with_an_hour():
    """Monday is bit 0; less than an hour sets no bit."""
    calendar = Calendar("UTC", (WeeklySlot(0, Slot(540, 600)), WeeklySlot(2, Slot(540, 599))))
    assert weekday_mask(calendar) == 0b0000001


def test_slots_that_touch_are_one_hour():
    """Two slots that touch count as one hour, but not over midnight."""
    assert weekday_mask(weekly((540, 570), (570, 600), days=[0])) == 0b1
    assert weekday_mask(weekly((0, 30), (1410, 1440))) == 0


def test_a_day_off_is_marked():
    """An override that differs from its weekday is marked, one that agrees is not."""
    calendar = Calendar(
        "UTC", (), (DateOverride(MONDAY), DateOverride(MONDAY + DAY, (Slot(0, 600),)))
    )
    assert find_marked_days(calendar, ()) == {MONDAY: False}


def test_a_full_day_is_marked():
    """A day without a free hour because of bookings is marked as not free."""
    start = datetime(2027, 3, 1, tzinfo=UTC)
    busy = [Interval(start, start + 23 * HOUR + timedelta(minutes=1))]
    assert find_marked_days(Calendar("UTC"), busy) == {MONDAY: False}
    assert find_marked_days(Calendar("UTC"), [Interval(start, start + 23 * HOUR)]) == {}


def test_days_taken_elsewhere_are_marked():
    """Each fully busy day of an external calendar is marked."""
    start = datetime(2027, 3, 1, 12, tzinfo=UTC)
    calendar = Calendar("UTC", busy=(Interval(start, start + 3 * DAY),))
    assert find_marked_days(calendar, ()) == {MONDAY + DAY: False, MONDAY + 2 * DAY: False}
    assert weekday_mask(calendar) == 0b1111111


def test_the_mask_knows_nothing_of_single_weeks():
    """The mask ignores busy times, also in its reference week."""
    start = datetime(2024, 1, 1, tzinfo=UTC)
    assert weekday_mask(Calendar("UTC", busy=(Interval(start, start + 7 * DAY),))) == 0b1111111


def test_a_night_that_the_clock_skips_is_marked():
    """Hours that a clock change skips are marked as not free on that day."""
    calendar = weekly((120, 180), zone="Europe/Berlin")
    found = find_marked_days(calendar, ())
    assert found[SPRING] is False
    assert SPRING + DAY not in found


def test_a_clock_change_at_midnight_is_marked():
    """On the Azores the clock skips the first hour of the day, and that day is marked."""
    found = find_marked_days(weekly((0, 90), zone="Atlantic/Azores"), ())
    assert found[SPRING] is False


def test_hours_that_the_skipped_hour_joins_are_marked():
    """Two half hours before and after the hour that the clock skips are one free hour."""
    found = find_marked_days(weekly((90, 120), (180, 210), zone="Europe/Berlin"), ())
    assert found[SPRING] is True


@pytest.mark.parametrize("days, nights", [([6], True), ([0], False), ([], False)])
def test_only_hours_of_the_days_own_weekday_are_skipped(days, nights):
    """A clock change on Sunday does not affect hours of Monday."""
    long = [WeeklySlot(day, Slot(540, 1020)) for day in range(7)]
    short = [WeeklySlot(day, Slot(120, 180)) for day in days]
    slots = [slot for slot in long if slot.weekday not in days] + short
    found = find_marked_days(Calendar("Europe/Berlin", tuple(slots)), ())
    assert (found.get(SPRING) is False) == nights
    assert bool(found) == nights


def test_a_date_that_was_set_outlasts_the_clocks_change():
    """An override on the day of a clock change replaces the hours."""
    night = weekly((120, 180), zone="Europe/Berlin")
    extra = Calendar("Europe/Berlin", night.weekly, (DateOverride(SPRING, (Slot(600, 700),)),))
    assert SPRING not in find_marked_days(extra, ())
    assert {**find_marked_days(extra, ()), SPRING: False} == find_marked_days(night, ())


def test_long_hours_need_no_marks_of_the_clock():
    """Slots of three hours or more need no marks for clock changes."""
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
    """An interval's end is exclusive; its local days depend on the zone."""
    start = datetime(2027, 3, 1, 20, tzinfo=UTC)
    assert list(local_days(zone, Interval(start, start + 8 * HOUR))) == days


def test_an_end_at_midnight_touches_no_next_day():
    """An interval until 24:00 does not touch the next day."""
    start = datetime(2027, 3, 1, 20, tzinfo=UTC)
    assert list(local_days("UTC", Interval(start, start + 4 * HOUR))) == [MONDAY]


def test_marks_anew_take_old_ones_away():
    """A day that equals its weekday's bit again has the mark None."""
    assert find_marks_on(Calendar("UTC"), (), [MONDAY]) == {MONDAY: None}


def test_marks_of_many_slots_are_cheap():
    """A thousand dates with twenty slots and a busy hour each take a few calls per date, not per
    slot: a save computes them while its process does nothing else."""
    slots = tuple(Slot(65 * number, 65 * number + 60) for number in range(20))
    dates = [MONDAY + number * DAY for number in range(1000)]
    start = datetime(2027, 3, 1, 5, tzinfo=UTC)
    busy = tuple(Interval(start + n * DAY, start + n * DAY + HOUR) for n in range(1000))
    calendar = Calendar("UTC", (), tuple(DateOverride(each, slots) for each in dates), busy)
    profile = Profile()
    assert profile.runcall(find_marked_days, calendar, ()) == {}
    assert sum(entry.callcount for entry in profile.getstats()) < 100 * len(dates)


MINUTES = st.integers(0, 1440)
SLOTS = st.tuples(MINUTES, MINUTES).filter(lambda pair: pair[0] < pair[1]).map(lambda p: Slot(*p))
DAYS = st.integers(-3, 40).map(lambda number: SPRING + number * DAY)
EARLIEST = datetime(2027, 3, 25, tzinfo=UTC)


def spans(longest):
    """Intervals of a limited number of hours around a clock change."""
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
    """Mask and marks equal the calendar around a clock change, for any hours and busy times."""
    mask, marked = weekday_mask(calendar), find_marked_days(calendar, busy)
    for number in range(-3, 12):
        day = SPRING + number * DAY
        said = marked.get(day, bool(mask >> day.weekday() & 1))
        assert said is has_free_hour(calendar, busy, day), day


@settings(max_examples=40)
@given(CALENDARS, st.lists(SPANS, min_size=1, max_size=3))
def test_marks_of_single_days_agree_with_all_marks(calendar, busy):
    """Marks updated day by day equal marks computed at once."""
    days = {day for span in busy for day in local_days(calendar.timezone, span)}
    every = find_marked_days(calendar, busy)
    assert find_marks_on(calendar, busy, days) == {day: every.get(day) for day in days}
