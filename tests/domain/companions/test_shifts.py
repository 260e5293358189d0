"""Shifts over midnight: joined at reading, split at writing, nothing lost on the way."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.strategies import calendars, weekly_slots
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Slot,
    WeeklySlot,
)
from staffbooking_core.domain.companions.shifts import (
    MAX_DAYS_AT_ONCE,
    Shift,
    WeeklyShift,
    find_overlaps,
    join_week,
    list_special_days,
    shifts_on,
    split_week,
    with_shifts,
    without_overrides,
)

HOUR, MIDNIGHT, WEEK = 60, 24 * 60, 7 * 24 * 60
MONDAY = date(2026, 6, 1)
NIGHT = Shift(22 * HOUR, 26 * HOUR)


def day(number: int) -> date:
    return MONDAY + timedelta(days=number)


@st.composite
def shifts(draw: st.DrawFn) -> Shift:
    start = draw(st.integers(0, 47))
    return Shift(start * 30, (start + draw(st.integers(1, 48))) * 30)


WEEKLY_SLOTS = weekly_slots(step_minutes=30)
CALENDARS = calendars("UTC", MONDAY + timedelta(days=4), step_minutes=30, radius_days=5)
WEEKLY_SHIFTS = st.lists(st.builds(WeeklyShift, st.integers(0, 6), shifts()), max_size=8)


def minutes_of_week(weekly: tuple[WeeklySlot, ...] | list[WeeklySlot]) -> set[int]:
    return {
        each.weekday * MIDNIGHT + minute
        for each in weekly
        for minute in range(each.slot.start, each.slot.end, 30)
    }


def minutes_of_shifts(weekly: tuple[WeeklyShift, ...] | list[WeeklyShift]) -> set[int]:
    return {
        (each.weekday * MIDNIGHT + minute) % WEEK
        for each in weekly
        for minute in range(each.shift.start, each.shift.end, 30)
    }


def open_minutes(calendar: Calendar) -> set[int]:
    """The open half-hours of some days, counted from Monday's 00:00."""
    return {
        number * MIDNIGHT + minute
        for number in range(-3, 13)
        for slot in calendar.slots_on(day(number))
        for minute in range(slot.start, slot.end, 30)
    }


def minutes_on(number: int, found: tuple[Shift, ...] | list[Shift]) -> set[int]:
    return {
        number * MIDNIGHT + minute for each in found for minute in range(each.start, each.end, 30)
    }


# The week -------------------------------------------------------------------------------


def test_a_night_is_one_shift() -> None:
    """Slots that meet at midnight are one shift, also from Sunday to Monday."""
    weekly = [
        WeeklySlot(0, Slot(0, 2 * HOUR)),
        WeeklySlot(4, Slot(22 * HOUR, MIDNIGHT)),
        WeeklySlot(5, Slot(0, 2 * HOUR)),
        WeeklySlot(5, Slot(9 * HOUR, 12 * HOUR)),
        WeeklySlot(6, Slot(22 * HOUR, MIDNIGHT)),
    ]
    found = (
        WeeklyShift(4, NIGHT),
        WeeklyShift(5, Shift(9 * HOUR, 12 * HOUR)),
        WeeklyShift(6, NIGHT),
    )
    assert join_week(weekly) == found
    assert list(split_week(found)) == weekly


def test_days_that_are_open_all_day_stay_days() -> None:
    """Seven whole days are seven shifts, and a whole day takes nothing of the evening before."""
    week = [WeeklyShift(weekday, Shift(0, MIDNIGHT)) for weekday in range(7)]
    assert list(join_week(split_week(week))) == week
    evening = [WeeklyShift(0, Shift(20 * HOUR, MIDNIGHT)), WeeklyShift(1, Shift(0, MIDNIGHT))]
    assert list(join_week(split_week(evening))) == evening


@given(WEEKLY_SLOTS)
def test_joined_slots_are_the_same_hours(weekly: tuple[WeeklySlot, ...]) -> None:
    """Joining and splitting loses and adds no hour, and doing it again changes nothing."""
    joined = join_week(weekly)
    assert minutes_of_shifts(joined) == minutes_of_week(weekly)
    split = split_week(joined)
    assert minutes_of_week(split) == minutes_of_week(weekly)
    assert (join_week(split), split_week(join_week(split))) == (joined, split)


@given(WEEKLY_SHIFTS)
def test_split_shifts_are_the_same_hours(weekly: list[WeeklyShift]) -> None:
    """Splitting and joining keeps the hours of shifts, also where they overlap or touch."""
    assert minutes_of_week(split_week(weekly)) == minutes_of_shifts(weekly)


@given(WEEKLY_SHIFTS)
def test_overlaps_are_found(weekly: list[WeeklyShift]) -> None:
    """A shift overlaps an earlier one if and only if they share an hour."""
    found = [
        number
        for number, each in enumerate(weekly)
        if minutes_of_shifts([each]) & minutes_of_shifts(weekly[:number])
    ]
    assert find_overlaps(weekly) == found


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (MIDNIGHT, 1500), (60, 60), (60, 1501)])
def test_a_shift_lasts_at_most_a_day(start: int, end: int) -> None:
    """A shift starts within its day, and ends after its start and within 24 hours."""
    with pytest.raises(ValueError, match="24 hours"):
        Shift(start, end)


# Single days ----------------------------------------------------------------------------


@given(CALENDARS, st.integers(0, 6), st.integers(1, 4), st.lists(shifts(), max_size=3))
def test_days_are_replaced_with_their_nights(
    calendar: Calendar, first: int, length: int, wanted: list[Shift]
) -> None:
    """New shifts of days replace those that started on them, and leave all other hours; weekly
    hours that lie within a replaced night may come back."""
    numbers = range(first, first + length)
    old = {
        each for number in numbers for each in minutes_on(number, shifts_on(calendar, day(number)))
    }
    new = {each for number in numbers for each in minutes_on(number, wanted)}
    changed = with_shifts(calendar, day(first), day(numbers[-1]), wanted)
    expected = (open_minutes(calendar) - old) | new
    usual = without_overrides(calendar).slots_on(day(numbers[-1] + 1))
    weekly = {
        (numbers[-1] + 1) * MIDNIGHT + minute
        for slot in usual
        for minute in range(slot.start, slot.end, 30)
    }
    assert expected <= open_minutes(changed) <= expected | (weekly & old)


def test_nights_of_consecutive_days_replace_open_days() -> None:
    """Without weekly hours, days that are set to a night keep its morning on the days after the
    first."""
    changed = with_shifts(Calendar("UTC"), day(4), day(6), (Shift(18 * HOUR, 30 * HOUR),))
    evening, morning = Slot(18 * HOUR, MIDNIGHT), Slot(0, 6 * HOUR)
    assert [changed.slots_on(day(number)) for number in (4, 5, 6)] == [
        (evening,),
        (morning, evening),
        (morning, evening),
    ]


def test_a_night_before_a_replaced_day_ends_as_it_was_set() -> None:
    """A night that ends within the weekly hours of the next day ends at its own time where these
    are replaced too."""
    late = Shift(18 * HOUR, 33 * HOUR)
    calendar = Calendar("UTC", (WeeklySlot(3, Slot(6 * HOUR, 14 * HOUR)),))
    changed = with_shifts(calendar, day(2), day(3), (late,))
    assert [shifts_on(changed, day(number)) for number in (2, 3)] == [(late,)] * 2


@given(CALENDARS, st.integers(0, 6), st.lists(shifts(), max_size=3))
def test_weekly_hours_can_be_restored(calendar: Calendar, number: int, wanted: list[Shift]) -> None:
    """After special hours of two days, their weekly hours leave no override of these days."""
    plain = Calendar("UTC", calendar.weekly)
    first, last = day(number), day(number + 1)
    special = with_shifts(plain, first, last, wanted)
    restored = with_shifts(special, first, last, None)
    kept = minutes_on(number, wanted) | minutes_on(number + 1, wanted)
    assert open_minutes(restored) - open_minutes(plain) <= kept
    assert open_minutes(restored) >= open_minutes(plain)


def test_restoring_a_day_gives_back_the_morning_that_its_night_had_joined() -> None:
    """A special night that runs into the weekly hours of the next morning is one slot with them;
    they stay when the day gets its weekly hours back, and that morning has no override."""
    plain = Calendar("UTC", (WeeklySlot(6, Slot(0, 30)),))
    special = with_shifts(plain, day(5), day(5), [Shift(90, 25 * HOUR)])
    assert with_shifts(special, day(5), day(5), None) == plain


@pytest.mark.parametrize("wanted", [(), (Shift(18 * HOUR, 23 * HOUR),)])
def test_a_changed_day_gives_back_the_morning_that_its_night_had_joined(
    wanted: tuple[Shift, ...],
) -> None:
    """A special night that runs into the weekly hours of the next morning is one slot with them;
    they stay when the day is closed or gets other hours."""
    plain = Calendar("UTC", (WeeklySlot(5, Slot(6 * HOUR, 14 * HOUR)),))
    special = with_shifts(plain, day(4), day(4), [Shift(18 * HOUR, 30 * HOUR)])
    changed = with_shifts(special, day(4), day(4), wanted)
    assert [shifts_on(changed, day(number)) for number in (4, 5)] == [
        wanted,
        (Shift(6 * HOUR, 14 * HOUR),),
    ]


def test_a_changed_day_takes_the_end_of_its_weekly_night_along() -> None:
    """Of the weekly hours that a special night had joined, the end of the day's own weekly night
    does not come back when the day gets other hours."""
    late = Shift(9 * HOUR, 14 * HOUR)
    plain = Calendar("UTC", split_week([WeeklyShift(4, NIGHT), WeeklyShift(5, late)]))
    special = with_shifts(plain, day(4), day(4), [Shift(18 * HOUR, 33 * HOUR)])
    changed = with_shifts(special, day(4), day(4), ())
    assert [shifts_on(changed, day(number)) for number in (4, 5)] == [(), (late,)]


@pytest.mark.parametrize("wanted", [(), None])
def test_a_changed_night_leaves_the_next_day_closed(wanted: tuple[Shift, ...] | None) -> None:
    """A closed day on which a special night ends within its weekly hours stays closed when that
    night goes."""
    plain = Calendar("UTC", (WeeklySlot(5, Slot(6 * HOUR, 14 * HOUR)),))
    special = with_shifts(plain, day(5), day(5), ())
    special = with_shifts(special, day(4), day(4), [Shift(18 * HOUR, 33 * HOUR)])
    assert shifts_on(with_shifts(special, day(4), day(4), wanted), day(5)) == ()


def test_restoring_a_day_gives_back_the_weekly_night_before() -> None:
    """Special hours that overlap the morning of the weekly night before are one slot with it; the
    night stays when the day gets its weekly hours back."""
    plain = Calendar("UTC", split_week([WeeklyShift(3, Shift(22 * HOUR, 36 * HOUR))]))
    special = with_shifts(plain, day(4), day(4), [Shift(6 * HOUR, MIDNIGHT)])
    assert with_shifts(special, day(4), day(4), None) == plain


def test_restoring_a_day_keeps_the_weekly_hours_of_the_next_morning() -> None:
    """A special shift that ends at midnight is no night with the weekly hours of the next morning,
    which stay when the day gets its weekly hours back."""
    plain = Calendar("UTC", (WeeklySlot(5, Slot(0, 30)),))
    special = with_shifts(plain, day(3), day(4), [Shift(HOUR, 24 * HOUR)])
    restored = with_shifts(special, day(3), day(4), None)
    assert open_minutes(restored) >= open_minutes(plain)
    assert [each for each in restored.overrides if each.date == day(5)] == []


def test_a_closed_day_keeps_the_night_before() -> None:
    """Whoever closes Saturday still works Friday's night to its end, and restores Saturday."""
    week = [WeeklyShift(weekday, NIGHT) for weekday in range(7)]
    calendar = Calendar("UTC", split_week(week))
    closed = with_shifts(calendar, day(5), day(5), ())
    assert [shifts_on(closed, day(number)) for number in (4, 5, 6)] == [(NIGHT,), (), (NIGHT,)]
    assert shifts_on(without_overrides(closed), day(5)) == (NIGHT,)
    assert with_shifts(closed, day(5), day(5), None) == calendar


def test_special_days_are_listed_as_they_were_set() -> None:
    """Days of one kind in a row are one entry; a night that ends on the next day makes that day no
    special one, and past days are left out."""
    calendar = Calendar("UTC", split_week([WeeklyShift(each, NIGHT) for each in range(5)]))
    late = Shift(20 * HOUR, 27 * HOUR)
    special = with_shifts(calendar, day(1), day(3), ())
    special = with_shifts(special, day(5), day(5), (late,))
    assert [
        (each.first, each.last, each.shifts) for each in list_special_days(special, MONDAY)
    ] == [
        (day(1), day(3), ()),
        (day(5), day(5), (late,)),
    ]
    assert [each.first for each in list_special_days(special, day(3))] == [day(3), day(5)]
    assert list_special_days(calendar, MONDAY) == []


@given(CALENDARS)
def test_every_day_with_other_shifts_is_listed(calendar: Calendar) -> None:
    """A day is special if and only if other shifts start on it than in its week."""
    weekly = without_overrides(calendar)
    listed = {
        day(number): each.shifts
        for each in list_special_days(calendar, day(-3))
        for number in range((each.first - MONDAY).days, (each.last - MONDAY).days + 1)
    }
    assert listed == {
        day(number): shifts_on(calendar, day(number))
        for number in range(-3, 13)
        if shifts_on(calendar, day(number)) != shifts_on(weekly, day(number))
    }


def test_the_morning_after_a_closed_day_is_listed() -> None:
    """Where a date is closed with the evening of its night, the morning of the next day is a shift
    of its own, and that day is listed."""
    plain = Calendar("UTC", split_week([WeeklyShift(0, NIGHT)]))
    calendar = evolve(plain, overrides=(DateOverride(day(0)),))
    assert [(each.first, each.shifts) for each in list_special_days(calendar, MONDAY)] == [
        (day(0), ()),
        (day(1), (Shift(0, 2 * HOUR),)),
    ]


def test_a_day_that_its_neighbour_alone_changes_has_nothing_to_restore() -> None:
    """Where a day is open all day, the night before ends at midnight: the day of that night is
    listed, and its weekly hours can't be given back to it."""
    nights = [WeeklyShift(3, NIGHT), WeeklyShift(4, Shift(18 * HOUR, 30 * HOUR))]
    plain = Calendar("UTC", split_week(nights))
    calendar = with_shifts(plain, day(4), day(4), (Shift(0, MIDNIGHT),))
    listed = list_special_days(calendar, MONDAY)
    assert [(each.first, each.can_be_restored(calendar)) for each in listed] == [
        (day(3), False),
        (day(4), True),
    ]


def test_a_long_absence_is_listed_in_rows_that_can_be_changed_at_once() -> None:
    """More equal days than can be changed at once are listed as several rows."""
    calendar = with_shifts(Calendar("UTC"), day(0), day(399), ())
    assert [(each.first, each.last) for each in list_special_days(calendar, MONDAY)] == [
        (day(0), day(MAX_DAYS_AT_ONCE - 1)),
        (day(MAX_DAYS_AT_ONCE), day(399)),
    ]


def test_days_without_weekly_hours_are_open_all_day() -> None:
    """Without weekly hours a day is one shift of 24 hours, and can be closed and opened."""
    calendar = Calendar("UTC")
    assert shifts_on(calendar, MONDAY) == (Shift(0, MIDNIGHT),)
    closed = with_shifts(calendar, day(0), day(13), ())
    assert len(closed.overrides) == 14
    assert with_shifts(closed, day(0), day(13), None) == calendar
