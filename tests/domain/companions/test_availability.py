"""Free slots by examples; `test_availability_time_zones` tests the rules over all zones."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    DayAvailability,
    Interval,
    NonexistentLocalTime,
    Slot,
    WeeklySlot,
    daily_availability,
    fits,
    format_hhmm,
    free_intervals,
    has_free_hour,
    local_time_to_utc,
    open_intervals,
    parse_hhmm,
    slot_interval,
)

MONDAY = date(2026, 6, 1)
TUESDAY = date(2026, 6, 2)
SPRING = date(2026, 3, 29)  # Berlin: 02:00 becomes 03:00
AUTUMN = date(2026, 10, 25)  # Berlin: 03:00 becomes 02:00
BERLIN = Calendar("Europe/Berlin")


def slot(text):
    """Parse `"09:00-17:00"` to a Slot."""
    start, end = text.split("-")
    return Slot(parse_hhmm(start), parse_hhmm(end, ending=True))


def at(text):
    """Parse `"2026-06-01 09:00"` to an instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def span(start, end):
    return Interval(at(start), at(end))


def booking(zone, day, start, hours):
    starts_at = local_time_to_utc(zone, day, parse_hhmm(start))
    return Interval(starts_at, starts_at + timedelta(hours=hours))


def weekly(zone, *slots):
    """A calendar from `(weekday, "09:00-17:00")` pairs."""
    return Calendar(zone, tuple(WeeklySlot(weekday, slot(text)) for weekday, text in slots))


def every_day(zone, *texts):
    return weekly(zone, *((weekday, text) for weekday in range(7) for text in texts))


def shown(calendar, day, *busy):
    """The day's free slots as texts."""
    slots = daily_availability(calendar, busy, day, day)[0].slots
    return [f"{format_hhmm(slot.start)}-{format_hhmm(slot.end)}" for slot in slots]


# Hours ------------------------------------------------------------------------------------


def test_no_weekly_hours_mean_free_all_day():
    """A calendar without hours is open from 00:00 to 24:00 every day."""
    assert shown(BERLIN, MONDAY) == ["00:00-24:00"]


def test_weekly_hours_hold_on_their_weekday_alone():
    """A weekday without hours is closed if another has some."""
    calendar = weekly("Europe/Berlin", (0, "09:00-12:00"), (0, "13:00-17:00"))
    assert daily_availability(calendar, (), MONDAY, TUESDAY) == [
        DayAvailability(MONDAY, (slot("09:00-12:00"), slot("13:00-17:00"))),
        DayAvailability(TUESDAY, ()),
    ]


def test_a_day_is_available_when_it_has_a_slot():
    """`available` is true if the day has a free slot."""
    assert DayAvailability(MONDAY, (slot("09:00-09:01"),)).available
    assert not DayAvailability(MONDAY, ()).available


def test_slots_that_overlap_or_touch_count_once():
    """The day shows the union of its slots, whatever their order is."""
    calendar = weekly("UTC", (0, "12:00-14:00"), (0, "09:00-12:00"), (0, "10:00-11:00"))
    assert shown(calendar, MONDAY) == ["09:00-14:00"]


def test_an_override_replaces_its_date():
    """An override replaces the weekly hours on its date only."""
    calendar = Calendar(
        "UTC",
        (WeeklySlot(0, slot("09:00-17:00")),),
        (DateOverride(MONDAY, (slot("20:00-24:00"),)),),
    )
    assert shown(calendar, MONDAY) == ["20:00-24:00"]
    assert shown(calendar, MONDAY + timedelta(days=7)) == ["09:00-17:00"]


def test_an_override_without_slots_is_a_day_off():
    """An override without slots closes its date, also without weekly hours."""
    calendar = Calendar("UTC", overrides=(DateOverride(MONDAY),))
    assert shown(calendar, MONDAY) == []
    assert shown(calendar, TUESDAY) == ["00:00-24:00"]


def test_hours_that_meet_at_midnight_join():
    """Hours until Monday 24:00 and from Tuesday 00:00 are one interval."""
    calendar = weekly("Europe/Berlin", (0, "20:00-24:00"), (1, "00:00-04:00"))
    assert open_intervals(calendar, MONDAY, TUESDAY) == [
        span("2026-06-01 18:00", "2026-06-02 02:00")
    ]


def test_a_nights_booking_fits_over_midnight():
    """A booking over midnight fits the joined hours exactly."""
    calendar = weekly("Europe/Berlin", (0, "20:00-24:00"), (1, "00:00-04:00"))
    assert fits(calendar, (), booking("Europe/Berlin", MONDAY, "20:00", 8))
    assert not fits(calendar, (), booking("Europe/Berlin", MONDAY, "20:00", 9))


def test_hours_that_end_before_midnight_do_not_join():
    """A gap of one minute at midnight separates the hours."""
    calendar = weekly("UTC", (0, "20:00-23:59"), (1, "00:00-04:00"))
    assert not fits(calendar, (), booking("UTC", MONDAY, "23:00", 2))


# Bookings ---------------------------------------------------------------------------------


def test_a_booking_takes_its_time_out_of_the_day():
    """The time before and after a booking stays free."""
    taken = booking("Europe/Berlin", MONDAY, "10:30", 2)
    assert shown(BERLIN, MONDAY, taken) == ["00:00-10:30", "12:30-24:00"]


def test_a_booking_over_midnight_is_taken_out_of_both_days():
    """A booking over midnight is removed from both days."""
    taken = booking("Europe/Berlin", MONDAY, "22:00", 4)
    assert shown(BERLIN, MONDAY, taken) == ["00:00-22:00"]
    assert shown(BERLIN, TUESDAY, taken) == ["02:00-24:00"]


def test_touching_a_booking_is_fine():
    """A booking may touch another one, but not overlap it by a minute."""
    taken = booking("UTC", MONDAY, "12:00", 2)
    calendar = Calendar("UTC")
    assert fits(calendar, (taken,), booking("UTC", MONDAY, "11:00", 1))
    assert fits(calendar, (taken,), booking("UTC", MONDAY, "14:00", 1))
    assert not fits(calendar, (taken,), booking("UTC", MONDAY, "11:01", 1))
    assert not fits(calendar, (taken,), booking("UTC", MONDAY, "13:59", 1))


def test_a_booking_around_a_booking_does_not_fit():
    """A booking within another one, or around it, does not fit."""
    taken = booking("UTC", MONDAY, "10:00", 4)
    assert not fits(Calendar("UTC"), (taken,), booking("UTC", MONDAY, "11:00", 1))
    assert not fits(Calendar("UTC"), (taken,), booking("UTC", MONDAY, "09:00", 6))


def test_bookings_may_come_in_any_order_and_overlap():
    """Order, overlaps and duplicates of busy intervals do not matter."""
    late, early = booking("UTC", MONDAY, "15:00", 3), booking("UTC", MONDAY, "14:00", 2)
    assert shown(Calendar("UTC"), MONDAY, late, early, late) == ["00:00-14:00", "18:00-24:00"]


def test_what_is_taken_elsewhere_is_not_free():
    """An external busy time removes the same time as a booking."""
    calendar = Calendar("UTC", busy=(booking("UTC", MONDAY, "10:00", 2),))
    assert shown(calendar, MONDAY) == ["00:00-10:00", "12:00-24:00"]
    assert fits(calendar, (), booking("UTC", MONDAY, "12:00", 1))
    assert not fits(calendar, (), booking("UTC", MONDAY, "11:00", 2))


def test_times_taken_elsewhere_are_kept_in_order():
    """External busy times are sorted and merged."""
    late, early = span("2026-06-02 09:00", "2026-06-02 10:00"), booking("UTC", MONDAY, "10:00", 2)
    longer = booking("UTC", MONDAY, "12:00", 3)
    assert Calendar("UTC", busy=(late, longer, early)).busy == (
        span("2026-06-01 10:00", "2026-06-01 15:00"),
        late,
    )


def test_a_booking_ending_within_a_minute_takes_all_of_it():
    """Slots have whole minutes and are rounded inwards."""
    taken = Interval(at("2026-06-01 10:00:30"), at("2026-06-01 11:00:01"))
    assert shown(Calendar("UTC"), MONDAY, taken) == ["00:00-10:00", "11:01-24:00"]


def test_free_time_is_given_as_instants():
    """`free_intervals` returns the intervals behind the slots."""
    taken = booking("Europe/Berlin", MONDAY, "10:00", 1)
    assert free_intervals(BERLIN, (taken,), MONDAY, TUESDAY) == [
        span("2026-05-31 22:00", "2026-06-01 08:00"),
        span("2026-06-01 09:00", "2026-06-02 22:00"),
    ]


def test_a_free_hour_is_sixty_minutes_on_end():
    """Only 60 contiguous minutes are a free hour, not 59 on each side of a booking."""
    calendar = weekly("UTC", (0, "09:00-12:00"))
    taken = booking("UTC", MONDAY, "10:00", 2)
    later = booking("UTC", MONDAY, "09:59", 1)
    assert has_free_hour(calendar, (taken,), MONDAY)
    assert not has_free_hour(weekly("UTC", (0, "09:00-11:58")), (later,), MONDAY)


def test_a_free_hour_lies_within_its_day():
    """Half an hour on each side of midnight is not a free hour of either day."""
    calendar = weekly("UTC", (0, "23:30-24:00"), (1, "00:00-00:30"))
    assert not has_free_hour(calendar, (), MONDAY)
    assert not has_free_hour(calendar, (), TUESDAY)


# Clock changes ----------------------------------------------------------------------------


def test_hours_are_local_in_summer_and_winter():
    """09:00 in Berlin is 07:00 UTC in June and 08:00 UTC in January."""
    assert local_time_to_utc("Europe/Berlin", MONDAY, 540) == at("2026-06-01 07:00")
    assert local_time_to_utc("Europe/Berlin", date(2026, 1, 5), 540) == at("2026-01-05 08:00")


def test_a_skipped_time_can_not_be_resolved():
    """Times from 02:00 to before 03:00 are skipped in Berlin in spring."""
    with pytest.raises(NonexistentLocalTime, match="2026-03-29 02:00 is skipped"):
        local_time_to_utc("Europe/Berlin", SPRING, 120)
    with pytest.raises(NonexistentLocalTime):
        local_time_to_utc("Europe/Berlin", SPRING, 179)
    assert local_time_to_utc("Europe/Berlin", SPRING, 119) == at("2026-03-29 00:59")
    assert local_time_to_utc("Europe/Berlin", SPRING, 180) == at("2026-03-29 01:00")


def test_a_repeated_time_is_the_earlier():
    """A time that occurs twice, such as 02:30 in Berlin in autumn, is the earlier one."""
    assert local_time_to_utc("Europe/Berlin", AUTUMN, 150) == at("2026-10-25 00:30")
    assert local_time_to_utc("Europe/Berlin", AUTUMN, 180) == at("2026-10-25 02:00")


def test_half_an_hour_may_be_skipped():
    """Clock changes of 30 minutes (Lord Howe) are supported."""
    day = date(2026, 10, 4)
    with pytest.raises(NonexistentLocalTime):
        local_time_to_utc("Australia/Lord_Howe", day, 129)
    assert local_time_to_utc("Australia/Lord_Howe", day, 150) == at("2026-10-03 15:30")


@pytest.mark.parametrize(
    ("zone", "day", "start", "hours"),
    [
        ("Europe/Berlin", SPRING, "2026-03-28 23:00", 23),
        ("Europe/Berlin", AUTUMN, "2026-10-24 22:00", 25),
        ("Asia/Kathmandu", MONDAY, "2026-05-31 18:15", 24),
        ("Australia/Lord_Howe", date(2026, 10, 4), "2026-10-03 13:30", 23.5),
        ("America/Sao_Paulo", date(2018, 11, 4), "2018-11-04 03:00", 23),
        ("America/Sao_Paulo", date(2018, 2, 17), "2018-02-17 02:00", 25),
        ("Africa/Cairo", date(2026, 4, 24), "2026-04-23 22:00", 23),
        ("Asia/Beirut", date(2026, 3, 29), "2026-03-28 22:00", 23),
        ("America/Havana", date(2026, 3, 8), "2026-03-08 05:00", 23),
        ("America/Havana", date(2026, 11, 1), "2026-11-01 04:00", 25),
        ("Antarctica/Troll", date(2026, 3, 29), "2026-03-29 00:00", 22),
        ("Pacific/Apia", date(2011, 12, 31), "2011-12-30 10:00", 24),
    ],
)
def test_a_day_covers_all_its_hours(zone, day, start, hours):
    """A slot 00:00-24:00 covers the whole day, whatever its length is."""
    starts_at = at(start)
    assert slot_interval(zone, day, slot("00:00-24:00")) == Interval(
        starts_at, starts_at + timedelta(hours=hours)
    )


def test_a_day_that_a_zone_leaves_out_has_no_time():
    """A date that a zone skips has no slots, and its neighbours join (Apia, 30 December 2011)."""
    calendar = Calendar("Pacific/Apia")
    days = daily_availability(calendar, (), date(2011, 12, 29), date(2011, 12, 31))
    assert [len(day.slots) for day in days] == [1, 0, 1]
    assert slot_interval("Pacific/Apia", date(2011, 12, 30), slot("09:00-17:00")) is None
    assert not has_free_hour(calendar, (), date(2011, 12, 30))
    assert fits(calendar, (), span("2011-12-30 05:00", "2011-12-30 15:00"))
    with pytest.raises(NonexistentLocalTime):
        local_time_to_utc("Pacific/Apia", date(2011, 12, 30), 720)


def test_a_day_that_starts_with_a_gap_shows_its_first_real_time():
    """Beirut's 29 March 2026 begins at 01:00; the day before still ends at 24:00."""
    calendar = Calendar("Asia/Beirut")
    assert shown(calendar, date(2026, 3, 28)) == ["00:00-24:00"]
    assert shown(calendar, date(2026, 3, 29)) == ["01:00-24:00"]


def test_a_clock_set_back_over_midnight_leaves_no_hole():
    """An hour repeated over midnight belongs to the later day (St. John's)."""
    zone, day = "America/St_Johns", date(2006, 10, 29)
    whole = slot("00:00-24:00")
    assert slot_interval(zone, date(2006, 10, 28), whole) == span(
        "2006-10-28 02:30", "2006-10-29 02:30"
    )
    assert slot_interval(zone, day, whole) == span("2006-10-29 02:30", "2006-10-30 03:30")
    assert shown(Calendar(zone), day) == ["00:00-24:00"]
    assert fits(Calendar(zone), (), span("2006-10-29 02:35", "2006-10-29 03:25"))


def test_hours_that_begin_in_a_gap_begin_after_it():
    """Hours that start in a skipped hour start after it; hours within it do not exist."""
    assert shown(every_day("Europe/Berlin", "02:30-05:00"), SPRING) == ["03:00-05:00"]
    assert shown(every_day("Europe/Berlin", "02:00-03:00"), SPRING) == []


def test_hours_that_end_in_a_gap_end_before_it():
    """Hours that end in a skipped hour end at the clock change."""
    assert shown(every_day("Europe/Berlin", "00:30-02:30"), SPRING) == ["00:30-02:00"]


def test_hours_that_end_in_a_repeated_hour_end_the_first_time():
    """Hours that end in a repeated hour end at its first occurrence."""
    first = slot_interval("Europe/Berlin", AUTUMN, slot("00:00-02:30"))
    second = slot_interval("Europe/Berlin", AUTUMN, slot("02:30-03:00"))
    assert first == span("2026-10-24 22:00", "2026-10-25 00:30")
    assert second == span("2026-10-25 00:30", "2026-10-25 02:00")
    assert shown(every_day("Europe/Berlin", "00:00-02:30"), AUTUMN) == ["00:00-02:30"]


def test_duration_is_elapsed_over_a_clock_change():
    """Durations are elapsed hours: 01:00-04:00 has 4 hours in autumn and 2 in spring."""
    calendar = every_day("Europe/Berlin", "01:00-04:00")
    assert fits(calendar, (), booking("Europe/Berlin", AUTUMN, "01:00", 4))
    assert not fits(calendar, (), booking("Europe/Berlin", SPRING, "01:00", 3))
    assert fits(calendar, (), booking("Europe/Berlin", SPRING, "01:00", 2))


def test_time_that_can_not_be_named_is_not_shown():
    """Free time within the second of two equal hours only is not shown."""
    taken = booking("Europe/Berlin", AUTUMN, "02:30", 1)
    assert shown(BERLIN, AUTUMN, taken) == ["00:00-02:30", "03:00-24:00"]


def test_a_booking_named_elsewhere_never_makes_a_slot_too_long():
    """A booking that starts in the second 02:30, in another zone's terms, also closes the first."""
    taken = span("2026-10-25 01:30", "2026-10-25 03:30")
    assert shown(BERLIN, AUTUMN, taken) == ["00:00-02:59", "04:30-24:00"]


def test_a_free_hour_is_measured_in_elapsed_minutes():
    """A free hour has 60 elapsed minutes, also across a clock change."""
    assert has_free_hour(every_day("Europe/Berlin", "02:30-03:00"), (), AUTUMN)
    assert not has_free_hour(every_day("Europe/Berlin", "01:30-03:00"), (), SPRING)


# Bounds and texts --------------------------------------------------------------------------


@pytest.mark.parametrize("day", [date.min, date(1899, 12, 31), date(3000, 1, 1), date.max])
def test_days_that_no_calendar_knows_are_closed(day):
    """Days outside the calendar are closed and cause no overflow."""
    assert daily_availability(Calendar("Pacific/Kiritimati"), (), day, day) == [
        DayAvailability(day, ())
    ]
    assert not has_free_hour(Calendar("Etc/GMT+12"), (), day)
    with pytest.raises(ValueError, match="days are from 1900-01-01"):
        local_time_to_utc("UTC", day, 0)
