"""Busy times from iCalendar files, as written by calendar programs and defined by the standard."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from staffbooking_adapters.ics.calendars import IcsCalendars
from staffbooking_core.domain.companions.availability import Interval
from tests.support.ics import (
    APPLE_CALENDAR,
    CUSTOM_TIMEZONE,
    GOOGLE_CALENDAR,
    OUTLOOK_CALENDAR,
    make_ics_calendar,
    make_ics_hour,
)

pytestmark = pytest.mark.anyio

WINDOW = Interval(datetime(2027, 3, 1, tzinfo=UTC), datetime(2027, 5, 1, tzinfo=UTC))


async def busy(content, timezone="UTC", window=WINDOW):
    """The busy times in UTC as `03-10 09:00 - 03-10 10:00`."""
    found = await IcsCalendars("https://book.example.com:8443").parse_busy_times(
        content, timezone, window
    )
    return [f"{span.starts_at:%m-%d %H:%M} - {span.ends_at:%m-%d %H:%M}" for span in found.times]


NINE = ["03-10 09:00 - 03-10 10:00"]

# Programs -------------------------------------------------------------------------------


async def test_google_calendar():
    """A weekly event with an exception and a moved occurrence is read across the clock change."""
    assert await busy(GOOGLE_CALENDAR, "Europe/Lisbon") == [
        "03-01 18:00 - 03-01 19:30",
        "03-08 18:00 - 03-08 19:30",
        "03-23 20:00 - 03-23 21:00",
        "03-29 17:00 - 03-29 18:30",
        "04-05 17:00 - 04-05 18:30",
        "04-12 17:00 - 04-12 18:30",
    ]


async def test_outlook():
    """Windows zone names are known; the start counts even if the rule does not include it."""
    assert await busy(OUTLOOK_CALENDAR, "Europe/Berlin") == [
        "03-08 08:00 - 03-08 08:30",
        "03-10 23:00 - 03-12 23:00",
        "03-31 07:00 - 03-31 07:30",
        "04-30 07:00 - 04-30 07:30",
    ]


async def test_apple_calendar():
    """A time without a zone is in the companion's; an evening spans a clock change."""
    assert await busy(APPLE_CALENDAR, "Asia/Tokyo") == [
        "03-14 01:00 - 03-14 03:00",
        "03-15 00:00 - 03-15 02:00",
        "03-20 01:00 - 03-20 01:45",
    ]


# Zones ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "Europe/Berlin",
        "W. Europe Standard Time",
        "/freeassociation.sourceforge.net/Europe/Berlin",
        "/mozilla.org/20050126_1/Europe/Berlin",
        "Customized Time Zone",
        '"(UTC+01:00) Amsterdam, Berlin"',
        "Amsterdam, Berlin",
    ],
)
async def test_zones_are_found_by_several_names(name):
    """Zones are found by IANA name, Windows name, prefixed name and the file's own description."""
    line = f"DTSTART;TZID={name}:20270327T090000\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=3"
    described = CUSTOM_TIMEZONE + "".join(
        CUSTOM_TIMEZONE.replace("Customized Time Zone", known)
        for known in ("(UTC+01:00) Amsterdam\\, Berlin", "Amsterdam\\, Berlin")
    )
    assert await busy(make_ics_calendar(line, before=described), "Asia/Tokyo") == [
        "03-27 08:00 - 03-27 09:00",
        "03-28 07:00 - 03-28 08:00",
        "03-29 07:00 - 03-29 08:00",
    ]


async def test_a_described_zone_changes_at_its_hour():
    """In a described zone the old offset applies until the hour of the change."""
    events = [
        f"DTSTART;TZID=Customized Time Zone:2027{when}\nDURATION:PT10M"
        for when in ("0328T010000", "0328T030000", "1031T023000", "1031T030000")
    ]
    year = Interval(WINDOW.starts_at, datetime(2028, 1, 1, tzinfo=UTC))
    assert await busy(make_ics_calendar(*events, before=CUSTOM_TIMEZONE), window=year) == [
        "03-28 00:00 - 03-28 00:10",
        "03-28 01:00 - 03-28 01:10",
        "10-31 00:30 - 10-31 00:40",
        "10-31 02:00 - 10-31 02:10",
    ]


async def test_a_zone_change_before_the_window_counts():
    """A change before the window determines the offset at its start."""
    summer = Interval(datetime(2027, 6, 1, tzinfo=UTC), datetime(2027, 7, 1, tzinfo=UTC))
    event = "DTSTART;TZID=Customized Time Zone:20270610T090000\nDURATION:PT1H"
    assert await busy(make_ics_calendar(event, before=CUSTOM_TIMEZONE), window=summer) == [
        "06-10 07:00 - 06-10 08:00"
    ]


@pytest.mark.parametrize(
    "standard, daylight",
    [
        ("UNTIL=20221030T010000Z", "UNTIL=20220327T010000Z"),
        ("UNTIL=20260215T000000Z", "UNTIL=20260215T000000Z"),
        ("COUNT=27", "COUNT=21"),
    ],
    ids=["long over", "just over", "counted"],
)
async def test_rules_of_a_described_zone_may_have_ended(standard, daylight):
    """After all rules have ended the last change stays in force."""
    zone = f"""\
BEGIN:VTIMEZONE
TZID:Ours
BEGIN:STANDARD
DTSTART:19961027T030000
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10;{standard}
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:20020331T020000
RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3;{daylight}
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
END:DAYLIGHT
END:VTIMEZONE
"""
    event = "DTSTART;TZID=Ours:20270310T090000\nDURATION:PT1H"
    assert await busy(make_ics_calendar(event, before=zone)) == ["03-10 08:00 - 03-10 09:00"]


@pytest.mark.parametrize(
    "name, is_described, hour_of_it",
    [
        ("EST", True, 13),
        ("EST", False, 14),
        ("UTC", True, 9),
        ("America/New_York", True, 13),
        ("Eastern Standard Time", True, 13),
    ],
)
async def test_a_described_zone_overrides_abbreviations_only(name, is_described, hour_of_it):
    """A file's description overrides IANA's `EST`, but no name of a place or of Windows."""
    eastern = APPLE_CALENDAR.decode().partition("BEGIN:VTIMEZONE")[2].partition("END:VTIMEZONE")[0]
    described = f"BEGIN:VTIMEZONE{eastern}END:VTIMEZONE\n".replace("America/New_York", name)
    event = f"DTSTART;TZID={name}:20270401T090000\nDURATION:PT1H"
    (found,) = await busy(make_ics_calendar(event, before=described if is_described else ""))
    assert found.startswith(f"04-01 {hour_of_it:02}:00")


async def test_a_described_zone_does_not_affect_other_files():
    """A zone described in one file does not affect later files."""
    wrong_zone = CUSTOM_TIMEZONE.replace("+0100", "+1100").replace(
        "Customized Time Zone", "Eastern Own Time"
    )
    other_file = make_ics_calendar(
        "DTSTART;TZID=Eastern Own Time:20270310T090000\nDURATION:PT1H", before=wrong_zone
    )
    assert await busy(other_file) == ["03-09 22:00 - 03-09 23:00"]
    right_zone = CUSTOM_TIMEZONE.replace("Customized Time Zone", "Eastern Own Time")
    own_file = make_ics_calendar(
        "DTSTART;TZID=Eastern Own Time:20270310T090000\nDURATION:PT1H", before=right_zone
    )
    assert await busy(own_file) == ["03-10 08:00 - 03-10 09:00"]


@pytest.mark.parametrize(
    "zone, expected",
    [
        ("UTC", "03-10 00:00 - 03-12 00:00"),
        ("Asia/Tokyo", "03-09 15:00 - 03-11 15:00"),
        ("America/Los_Angeles", "03-10 08:00 - 03-12 08:00"),
    ],
)
async def test_whole_days_are_in_the_companions_zone(zone, expected):
    """A whole day lasts from midnight to midnight in the companion's zone; the end date is
    excluded."""
    days = "DTSTART;VALUE=DATE:20270310\nDTEND;VALUE=DATE:20270312"
    assert await busy(make_ics_calendar(days), zone) == [expected]


async def test_a_day_of_a_clock_change_has_its_own_length():
    """The day of the clock change in spring has 23 hours."""
    day = "DTSTART;VALUE=DATE:20270328"
    assert await busy(make_ics_calendar(day), "Europe/Berlin") == ["03-27 23:00 - 03-28 22:00"]


# Busy events ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said, is_busy",
    [
        ("", True),
        ("TRANSP:OPAQUE", True),
        ("TRANSP:TRANSPARENT", False),
        ("STATUS:TENTATIVE", True),
        ("STATUS:CANCELLED", False),
        ("status:cancelled", False),
    ],
)
async def test_free_and_cancelled_events_are_not_busy(said, is_busy):
    """Free and cancelled events are not busy."""
    assert await busy(make_ics_calendar(make_ics_hour("20270310T090000Z", said))) == (
        NINE if is_busy else []
    )


@pytest.mark.parametrize(
    "event, expected",
    [
        ("DTSTART:20270310T090000Z\nDTEND:20270310T100000Z", NINE),
        ("DTSTART;VALUE=DATE:20270310\nDURATION:P2D", ["03-10 00:00 - 03-12 00:00"]),
        ("DTSTART;VALUE=DATE:20270310\nDURATION:PT9H", ["03-10 00:00 - 03-10 09:00"]),
        ("DTSTART:20270310T090000Z", []),
        ("DTSTART:20270310T090000Z\nDTEND:20270310T090000Z", []),
        ("DTSTART;VALUE=DATE:20270310\nDTEND;VALUE=DATE:20270310", ["03-10 00:00 - 03-11 00:00"]),
    ],
)
async def test_an_event_has_an_end_or_a_duration(event, expected):
    """Without an end or duration a whole-day event lasts a day, and a timed event no time."""
    assert await busy(make_ics_calendar(event)) == expected


@pytest.mark.parametrize("said", ["TRANSP:TRANSPARENT", "STATUS:CANCELLED"])
@pytest.mark.parametrize(
    "event",
    [
        "",
        "DTSTART:20270310T090000Z\nDTEND:20270310T080000Z",
        "DTSTART:20270230T090000Z",
        "DTSTART;TZID=Nowhere:20270310T120000",
        "DTSTART;VALUE=DATE:99991231",
        make_ics_hour("20270310T120000Z", "SEQUENCE:first"),
        make_ics_hour("20270310T120000Z", "RRULE:FREQ=HOURLY"),
        make_ics_hour("20270310T120000Z", "RDATE:20270230T120000Z"),
    ],
)
async def test_an_event_that_is_not_busy_needs_no_times(said, event):
    """An event that is not busy may lack its times, or have some that can't be read."""
    assert await busy(make_ics_calendar(f"{event}\n{said}", make_ics_hour())) == NINE


async def test_a_time_in_the_skipped_hour():
    """An event that begins within the skipped hour keeps its duration."""
    zone = ";TZID=Europe/Berlin:20270328T"
    event = f"DTSTART{zone}023000\nDTEND{zone}030000"
    assert await busy(make_ics_calendar(event)) == ["03-28 01:30 - 03-28 02:00"]


async def test_busy_periods():
    """VFREEBUSY periods are busy, by end or duration, except free ones."""
    periods = """\
BEGIN:VFREEBUSY
FREEBUSY:20270310T090000Z/20270310T100000Z,20270311T090000Z/PT30M
FREEBUSY;FBTYPE=BUSY-TENTATIVE:20270312T090000Z/PT1H
FREEBUSY;FBTYPE=FREE:20270313T090000Z/PT1H
END:VFREEBUSY
"""
    assert await busy(make_ics_calendar(before=periods)) == [
        *NINE,
        "03-11 09:00 - 03-11 09:30",
        "03-12 09:00 - 03-12 10:00",
    ]


async def test_adjacent_times_are_merged():
    """Adjacent and overlapping busy times are merged, whatever their order."""
    events = (
        make_ics_hour("20270310T093000Z"),
        make_ics_hour("20270310T090000Z"),
        make_ics_hour("20270310T103000Z"),
    )
    assert await busy(make_ics_calendar(*events)) == ["03-10 09:00 - 03-10 11:30"]


async def test_events_are_clipped_to_the_window():
    """An event of a hundred years is clipped to the window."""
    events = (
        "DTSTART:20000101T000000Z\nDTEND:21000101T000000Z",
        make_ics_hour("20270201T090000Z"),
        make_ics_hour("20270601T090000Z"),
    )
    assert await busy(make_ics_calendar(*events)) == ["03-01 00:00 - 05-01 00:00"]


async def test_our_own_bookings_are_ignored():
    """Events with the UID of our own bookings are ignored, and others of our host are not."""
    own_file = make_ics_hour("20270310T090000Z", "UID:BK0123456789AB@book.example.com")
    other_file = make_ics_hour("20270311T090000Z", "UID:BK0123456789AB@other.example.com")
    meeting = make_ics_hour("20270312T090000Z", "UID:meeting-7@book.example.com")
    assert await busy(make_ics_calendar(own_file, other_file, meeting)) == [
        "03-11 09:00 - 03-11 10:00",
        "03-12 09:00 - 03-12 10:00",
    ]


async def test_several_calendars_in_a_file():
    """All calendars of a file are read."""
    both = make_ics_calendar(make_ics_hour()) + make_ics_calendar(make_ics_hour("20270311T090000Z"))
    assert await busy(both) == [*NINE, "03-11 09:00 - 03-11 10:00"]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + make_ics_calendar(make_ics_hour()),
        make_ics_calendar(make_ics_hour()).replace(b"\r\n", b"\n"),
        make_ics_calendar(make_ics_hour()).replace(b"DTSTART:2027", b"DTSTART:\r\n 20\r\n\t27"),
        make_ics_calendar("dtstart:20270310T090000Z\nduration:PT1H").replace(b"VEVENT", b"vevent"),
        make_ics_calendar(make_ics_hour()) + b"\r\n \r\n\r\n",
        make_ics_calendar(make_ics_hour("20270310T090000Z", "SUMMARY:\u202e\x07 \u2028 x")),
    ],
    ids=["mark", "newlines", "folded", "lower case", "blank lines", "odd texts"],
)
async def test_variants_of_the_format_are_read(content):
    """Variants of line ends, folding and letter case are read."""
    assert await busy(content) == NINE


# Repetitions ----------------------------------------------------------------------------


async def test_a_rule_without_an_end_is_expanded_to_the_end_of_the_window():
    """A rule without an end is expanded up to the window's end, however long ago it began."""
    found = await busy(make_ics_calendar(make_ics_hour("19010101T090000Z", "RRULE:FREQ=DAILY")))
    assert (len(found), found[0], found[-1]) == (
        61,
        "03-01 09:00 - 03-01 10:00",
        "04-30 09:00 - 04-30 10:00",
    )


@pytest.mark.parametrize(
    "until, last",
    [
        ("20270312T090000Z", "03-12"),
        ("20270312T085959Z", "03-11"),
        ("20270312", "03-12"),
        ("20270312T090000", "03-12"),
        ("20010101", "03-10"),
    ],
)
async def test_a_rule_ends(until, last):
    """UNTIL may be an instant, a date or a local time; the event's start always counts."""
    found = await busy(
        make_ics_calendar(make_ics_hour("20270310T090000Z", f"RRULE:FREQ=DAILY;UNTIL={until}"))
    )
    assert found[-1].startswith(last)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
async def test_a_rule_of_whole_days_ends_with_a_day(zone):
    """A whole-day rule ends with a day even if UNTIL is an instant, in any zone."""
    days = "DTSTART;VALUE=DATE:20270310\nRRULE:FREQ=WEEKLY;UNTIL=20270324T000000Z"
    assert len(await busy(make_ics_calendar(days), zone)) == 3


async def test_an_extra_whole_day_has_its_own_length():
    """An extra whole day has the length of that day."""
    days = "DTSTART;VALUE=DATE:20270310\nRDATE;VALUE=DATE:20270328"
    assert await busy(make_ics_calendar(days), "Europe/Berlin") == [
        "03-09 23:00 - 03-10 23:00",
        "03-27 23:00 - 03-28 22:00",
    ]


async def test_an_occurrence_may_reach_into_the_window():
    """An occurrence that began before the window is busy within it."""
    weeks = "DTSTART:20260220T000000Z\nDURATION:P14D\nRRULE:FREQ=YEARLY"
    assert await busy(make_ics_calendar(weeks)) == ["03-01 00:00 - 03-06 00:00"]


async def test_dates_are_added_and_excluded():
    """An exception overrides extra dates and rules; a whole-day one removes its whole day."""
    event = make_ics_hour(
        "20270310T090000Z",
        "RRULE:FREQ=DAILY;COUNT=5",
        "RDATE:20270320T120000Z,20270321T120000Z",
        "RDATE;VALUE=PERIOD:20270322T120000Z/PT10M",
        "EXDATE:20270311T090000Z,20270321T120000Z",
        "EXDATE;VALUE=DATE:20270313",
    )
    assert await busy(make_ics_calendar(event)) == [
        *NINE,
        "03-12 09:00 - 03-12 10:00",
        "03-14 09:00 - 03-14 10:00",
        "03-20 12:00 - 03-20 13:00",
        "03-22 12:00 - 03-22 12:10",
    ]


async def test_exceptions_of_whole_days_may_have_a_time():
    """A whole-day exception may be written as midnight with a zone, as Outlook does."""
    days = (
        "DTSTART;VALUE=DATE:20270310\nRRULE:FREQ=DAILY;COUNT=3\n"
        "EXDATE;TZID=Pacific Standard Time:20270311T000000"
    )
    assert await busy(make_ics_calendar(days)) == [
        "03-10 00:00 - 03-11 00:00",
        "03-12 00:00 - 03-13 00:00",
    ]


async def test_a_whole_day_may_be_excluded_by_its_instant():
    """An exception that is the instant of a whole day's local midnight removes that day alone."""
    days = "DTSTART;VALUE=DATE:20270310\nRRULE:FREQ=DAILY;COUNT=3\nEXDATE:20270310T230000Z"
    assert await busy(make_ics_calendar(days), "Europe/Berlin") == [
        "03-09 23:00 - 03-10 23:00",
        "03-11 23:00 - 03-12 23:00",
    ]


async def test_occurrences_keep_their_local_time():
    """Occurrences keep their local time and duration across a clock change."""
    event = "DTSTART;TZID=Europe/Berlin:20270327T230000\nDTEND;TZID=Europe/Berlin:20270328T010000"
    assert await busy(make_ics_calendar(f"{event}\nRRULE:FREQ=DAILY;COUNT=2")) == [
        "03-27 22:00 - 03-28 00:00",
        "03-28 21:00 - 03-28 23:00",
    ]
