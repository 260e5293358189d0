"""Files that are not calendars or exceed the limits are refused quickly."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings, strategies as st

from staffbooking_adapters.ics import events, parsing, zones
from staffbooking_adapters.ics.calendars import IcsCalendars
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.errors import InvalidField
from staffbooking_core.policy import Policy
from tests.support.ics import (
    APPLE_CALENDAR,
    CUSTOM_TIMEZONE,
    GOOGLE_CALENDAR,
    OUTLOOK_CALENDAR,
    make_ics_calendar,
    make_ics_hour,
)

pytestmark = pytest.mark.anyio

NOW = datetime(2027, 3, 1, tzinfo=UTC)
WINDOW = Interval(NOW, NOW + Policy().busy_import_horizon)
MAX_BYTES = Policy().max_calendar_bytes


async def refusal(content):
    """The message with which a file is refused."""
    assert len(content) <= MAX_BYTES
    with pytest.raises(InvalidField) as refused:
        await IcsCalendars("https://book.example.com").parse_busy_times(
            content, "Europe/Berlin", WINDOW
        )
    (fault,) = refused.value.field_errors
    assert fault.field == "file"
    return fault.message


HUNDRED_TIMES = "BYHOUR=0,1,2,3,4,5,6,7,8,9;BYMINUTE=0,5,10,15,20,25,30,35,40,45"

TOO_MANY = "has too many recurring events"

ENDED_RULE = "RRULE:FREQ=DAILY;UNTIL=20000101"


def many(lines, number):
    """A calendar with this many events; `#` is replaced by their number."""
    return make_ics_calendar(*(lines.replace("#", str(one)) for one in range(number)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"{}",
        b"\n" * MAX_BYTES,
        b"BEGIN:VCALENDAR",
        b"BEGIN:VCALENDAR\r\nEND:VEVENT\r\n",
        b"END:VCALENDAR\r\n",
        b"BEGIN:VCARD\r\nEND:VCARD\r\n",
        b"BEGIN:VEVENT\r\nEND:VEVENT\r\n",
        b"DTSTART:20270310T090000Z\r\n" + make_ics_calendar(make_ics_hour()),
        make_ics_calendar(make_ics_hour()) + b"x",
        make_ics_calendar(make_ics_hour()).removesuffix(b"END:VCALENDAR\r\n"),
        make_ics_calendar(make_ics_hour(), "SUMMARY:\x00"),
        make_ics_calendar(make_ics_hour(), "DTSTART:20270310T090000Z\x00"),
    ],
)
async def test_other_content_is_refused(content):
    """Other content, a truncated calendar and NUL characters are refused."""
    assert await refusal(content) == "is not an iCalendar file"


@pytest.mark.parametrize(
    "content", [b"\xff\xfe", GOOGLE_CALENDAR.decode().encode("utf-16"), b"\xed\xa0\x80"]
)
async def test_other_encodings_are_refused(content):
    """Other encodings than UTF-8 are refused."""
    assert await refusal(content) == "is not in UTF-8"


@pytest.mark.parametrize(
    "event",
    [
        "DTSTART:tomorrow",
        "DTSTART:20270230T090000Z",
        "DTSTART:20270310T250000Z",
        "DTSTART:20270310T090000Z\nDTEND:P1D",
        "DTSTART:20270310T090000Z\nDURATION:20270310T090000Z",
        "DTSTART:20270310T090000Z\nDURATION:PT1HOUR",
        "DTSTART:20270310T090000Z\nDTEND:20270310T080000Z",
        "DTSTART:20270310T090000Z\nDURATION:-PT1H",
        "DTSTART;VALUE=DATE:20270310\nDTEND;VALUE=DATE:20270309",
        "DTSTART:20270310T090000Z\nRDATE;VALUE=PERIOD:20270310T090000Z/20270310T080000Z",
        "SUMMARY:Some day",
        "DTSTART:P1D",
        "DTSTART:090000Z",
        "DTSTART",
        "DTSTART;=:20270310T090000",
        "DTSTART:20270310T090000Z\nSEQUENCE:first",
        "DTSTART:20270310T090000Z\nRDATE:20270310T090000Z/x",
        "DTSTART:20270310T090000Z\nRRULE:FREQ=DAILY;UNTIL=soon",
        "DTSTART:20270310T090000Z\nRRULE:FREQ=DAILY;COUNT=" + "9" * 5_000,
        "DTSTART:20270310T090000Z\nDURATION:P" + "9" * 12 + "W",
        "DTSTART:20270310T090000Z\nDURATION:P99999999D\nRRULE:FREQ=DAILY",
        "DTSTART:99991231T235959Z\nDURATION:P1D",
        "DTSTART;TZID=America/New_York:99991231T235959",
        "DTSTART;TZID=Asia/Tokyo:00010101T000000",
        "DTSTART;TZID=Nowhere:20270310T090000",
        "DTSTART;TZID=../../etc/passwd:20270310T090000",
        "DTSTART;TZID=" + "/" * 60_000 + ":20270310T090000",
    ],
)
async def test_an_unreadable_event_is_refused(event):
    """One unreadable event is enough to refuse the file, since its time would stay bookable."""
    said = await refusal(make_ics_calendar(make_ics_hour(), event))
    assert said.startswith(("has an event", "names a time zone", "is not"))


@pytest.mark.parametrize(
    "zone",
    [
        "BEGIN:VTIMEZONE\nTZID:Z\nEND:VTIMEZONE\n",
        CUSTOM_TIMEZONE.replace("Customized Time Zone", "Z").replace("TZOFFSETFROM:+0100\n", ""),
        CUSTOM_TIMEZONE.replace("Customized Time Zone", "Z").replace("+0100", "+9900"),
        CUSTOM_TIMEZONE.replace("Customized Time Zone", "Z").replace("16010101T030000", "20270101"),
        CUSTOM_TIMEZONE.replace("Customized Time Zone", "Z").replace("YEARLY", "SECONDLY"),
    ],
)
async def test_an_unreadable_zone_is_refused(zone):
    """An incompletely described time zone is refused."""
    event = "DTSTART;TZID=Z:20270310T090000\nDURATION:PT1H"
    assert await refusal(make_ics_calendar(event, before=zone))


@pytest.mark.parametrize("step", ["SECONDLY", "MINUTELY", "HOURLY"])
async def test_short_frequencies_are_refused(step):
    """Hourly and shorter frequencies are refused."""
    said = await refusal(make_ics_calendar(make_ics_hour("20270310T090000Z", f"RRULE:FREQ={step}")))
    assert said == "has an event with an unsupported recurrence rule"


async def test_a_zone_that_cannot_be_read_is_tried_once(monkeypatch):
    """The description of a zone that can't be read is tried once, however many free events have
    it."""
    tried = []

    def fail(*_args):
        tried.append(1)
        raise ValueError

    monkeypatch.setattr(zones, "_build_described_clock", fail)
    event = "DTSTART;TZID=Customized Time Zone:20270310T090000\nTRANSP:TRANSPARENT"
    content = make_ics_calendar(*[event] * 3, before=CUSTOM_TIMEZONE)
    found = await IcsCalendars("https://book.example.com").parse_busy_times(content, "UTC", WINDOW)
    assert (found.skipped, tried) == ({"free": 3}, [1])


async def test_too_many_occurrences_are_refused():
    """A file whose recurrence rules exceed the shared budget is refused."""
    content = many(make_ics_hour("20270310T090000Z", "UID:#", "RRULE:FREQ=DAILY"), 5_000)
    assert await refusal(content) == TOO_MANY


@pytest.mark.parametrize(
    "content",
    [
        many(make_ics_hour("00010101T090000Z", "UID:#", "RRULE:FREQ=DAILY;COUNT=99999999"), 50),
        many(make_ics_hour("20270310T090000Z", "RRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30"), 500),
        many(make_ics_hour("20270310T090000Z", "RRULE:FREQ=YEARLY;BYSETPOS=1,-1,300"), 500),
        make_ics_calendar(make_ics_hour("20270310T090000Z", *["RRULE:FREQ=DAILY"] * 4_000)),
        make_ics_calendar(make_ics_hour("20260310T090000Z", *[ENDED_RULE] * 2_500)),
        make_ics_calendar(
            "DTSTART;TZID=Customized Time Zone:20270310T090000",
            before=CUSTOM_TIMEZONE.replace(
                "END:STANDARD", f"{ENDED_RULE}T000000\n" * 2_100 + "END:STANDARD"
            ),
        ),
        many(make_ics_hour("20270301T090000Z", "UID:#", f"RRULE:FREQ=DAILY;{HUNDRED_TIMES}"), 1),
        make_ics_calendar(
            make_ics_hour("19000101T000000Z", "RRULE:FREQ=DAILY").replace("PT1H", "P47000D")
        )
        + many("DTSTART:19000101T000000Z\nDURATION:P47000D\nRRULE:FREQ=DAILY", 5),
    ],
    ids=["counted", "never true", "positions", "rules", "over", "zone", "times", "long"],
)
async def test_each_kind_of_occurrence_counts(content, monkeypatch):
    """Every kind of recurrence uses up the budget: a tenth of the largest file is refused with a
    tenth of the budget."""
    assert len(content) <= MAX_BYTES // 10
    monkeypatch.setattr(events, "_MAX_RECURRENCE_STEPS", events._MAX_RECURRENCE_STEPS // 10)
    assert await refusal(content) == TOO_MANY


@pytest.mark.parametrize(
    "content",
    [
        b"BEGIN:VCALENDAR\n" + b"BEGIN:VEVENT\n" * 70_000,
        b"BEGIN:VCALENDAR\n" * 60_000,
        b"BEGIN:VCALENDAR\n" * 5 + b"END:VCALENDAR\n" * 5,
        many("UID:#", parsing.MAX_COMPONENTS),
        make_ics_calendar(
            make_ics_hour("20270310T090000Z", "EXDATE:" + "20270310T090000Z," * 60_000)
        ),
        make_ics_calendar(f"DTSTART;TZID={'x' * 1_000_000}:20270310T090000"),
    ],
)
async def test_too_large_structures_are_refused(content):
    """Too many events, too deep nesting and too long lines are refused."""
    assert (await refusal(content)).startswith(("has too many", "has a line"))


async def test_a_long_line_of_a_skipped_property_is_allowed():
    """A long line of a skipped property is allowed."""
    content = make_ics_calendar(make_ics_hour("20270310T090000Z", "ATTACH:" + "A" * 1_000_000))
    found = await IcsCalendars("https://book.example.com").parse_busy_times(content, "UTC", WINDOW)
    assert len(found.times) == 1


FILES = st.sampled_from(
    [
        GOOGLE_CALENDAR,
        OUTLOOK_CALENDAR,
        APPLE_CALENDAR,
        make_ics_calendar(make_ics_hour(), before=CUSTOM_TIMEZONE),
    ]
)
PIECES = st.sampled_from(
    [
        *(b"", b"\r\n", b":", b";", b'"', b",", b"=", b"/", b"\\", b"0", b"99999999", b"-", b"P"),
        *(b"BEGIN:VEVENT\r\n", b"END:VEVENT\r\n", b"RRULE:FREQ=DAILY\r\n", b"TZID=", b"\xff"),
    ]
)


@given(FILES, st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 9), PIECES), max_size=4))
@settings(max_examples=400)
def test_damaged_files_cause_no_internal_error(content, changes):
    """A damaged file is read or refused, and never causes an internal error."""
    for place, length, piece in changes:
        content = content[:place] + piece + content[place + length :]
    try:
        found = events.read_calendar(content, "UTC", WINDOW, "book.example.com").times
    except (ValueError, OverflowError):
        return
    assert all(WINDOW.starts_at <= one.starts_at < one.ends_at <= WINDOW.ends_at for one in found)
