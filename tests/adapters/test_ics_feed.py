"""Calendar feeds of bookings, parsed by icalendar and by another parser."""

from __future__ import annotations

from datetime import timedelta

import icalendar
import pytest
from attrs import evolve
from vobject.base import readOne

from staffbooking_adapters.ics.calendars import IcsCalendars
from staffbooking_adapters.ics.feed import write_feed
from staffbooking_adapters.testing.builders import DAY, NOW, make_booking
from staffbooking_core.domain.bookings.booking import TimelineEntry
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.companions.availability import Interval

pytestmark = pytest.mark.anyio

LONG = "Straße über, die; Brücke\\ " * 11
"""A text that must be escaped and folded, with characters of two bytes."""


def feed(*bookings, name="Bookings of Mia Lindqvist"):
    return write_feed(name, bookings, "book.example.com")


def only_event(content):
    (event,) = icalendar.Calendar.from_ical(content).walk("VEVENT")
    return event


def test_a_booking_is_an_event():
    """A booking is an event with a UID, its version, its times in UTC, and its parties and
    place."""
    booking = make_booking(code="BK0123456789AB", version=3, status=BookingStatus.ACCEPTED)
    lines = feed(booking).decode().split("\r\n")
    begin, end = lines.index("BEGIN:VEVENT"), lines.index("END:VEVENT")
    assert sorted(lines[begin + 1 : end]) == [
        "DESCRIPTION:Booking BK0123456789AB\\, accepted",
        "DTEND:20270303T160000Z",
        "DTSTAMP:20270228T120000Z",
        "DTSTART:20270303T120000Z",
        "LOCATION:Rua Augusta 1\\, Lisbon",
        "SEQUENCE:3",
        "STATUS:CONFIRMED",
        "SUMMARY:Gala dinner: Ada Okoro",
        "TRANSP:OPAQUE",
        "UID:BK0123456789AB@book.example.com",
    ]


def test_a_calendar_has_a_name_and_a_refresh_interval():
    """The calendar has its name in both usual properties, and a refresh interval."""
    calendar = icalendar.Calendar.from_ical(feed(name="Bookings of Zoë; & Co, Ltd"))
    said = {name: calendar[name].to_ical() for name in calendar}
    assert said == {
        "PRODID": b"-//staffbooking//Bookings//EN",
        "VERSION": b"2.0",
        "METHOD": b"PUBLISH",
        "NAME": "Bookings of Zoë\\; & Co\\, Ltd".encode(),
        "X-WR-CALNAME": "Bookings of Zoë\\; & Co\\, Ltd".encode(),
        "REFRESH-INTERVAL": b"PT15M",
    }
    assert b"REFRESH-INTERVAL;VALUE=DURATION:PT15M\r\n" in feed()


@pytest.mark.parametrize(
    "status, said",
    [
        (BookingStatus.PENDING, ("TENTATIVE", "TRANSPARENT")),
        (BookingStatus.ACCEPTED, ("CONFIRMED", "OPAQUE")),
        (BookingStatus.PAID, ("CONFIRMED", "OPAQUE")),
        (BookingStatus.DISPUTED, ("CONFIRMED", "OPAQUE")),
        (BookingStatus.COMPLETED, ("CONFIRMED", "OPAQUE")),
    ],
)
def test_a_pending_booking_is_free(status, said):
    """A pending booking is tentative and free; later ones are confirmed and busy."""
    event = only_event(feed(make_booking(status=status)))
    assert (event["STATUS"], event["TRANSP"]) == said


def test_lines_are_folded_and_texts_escaped():
    """Lines have at most 75 bytes, folded between characters, and parsers restore the text."""
    content = feed(make_booking(location=LONG, service_type='Host;\nDJ, "MC"'))
    assert all(0 < len(line) <= 75 and line.decode() for line in content.split(b"\r\n")[:-1])
    assert b"\n" not in content.replace(b"\r\n", b"")
    event = only_event(content)
    other = readOne(content.decode()).vevent
    assert str(event["LOCATION"]) == other.location.value == LONG
    assert str(event["SUMMARY"]) == other.summary.value == 'Host;\nDJ, "MC": Ada Okoro'


def test_texts_inject_no_event():
    """A customer's text can't inject a property or an event."""
    content = feed(make_booking(location="x\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nSUMMARY:y"))
    assert only_event(content)["SUMMARY"] == "Gala dinner: Ada Okoro"


def test_another_parser_reads_the_same_events():
    """Another parser reads the same events and times."""
    bookings = [make_booking(starts_at=NOW + number * DAY) for number in range(3)]
    events = readOne(feed(*bookings).decode()).vevent_list
    assert [(event.uid.value, event.dtstart.value, event.dtend.value) for event in events] == [
        (f"{one.code}@book.example.com", one.starts_at, one.ends_at) for one in bookings
    ]


def test_a_feed_without_bookings_is_a_calendar():
    """A feed without bookings is a valid empty calendar."""
    assert icalendar.Calendar.from_ical(feed()).walk("VEVENT") == []


def test_a_feed_changes_with_its_bookings_only():
    """The same bookings give the same bytes; a change is stamped with its own time."""
    booking = make_booking()
    assert feed(booking) == feed(booking)
    step = TimelineEntry(
        NOW, BookingStatus.PENDING, BookingStatus.ACCEPTED, Trigger.ACCEPT, Party.STAFF
    )
    accepted = evolve(
        booking, status=BookingStatus.ACCEPTED, version=2, timeline=(*booking.timeline, step)
    )
    event = only_event(feed(accepted))
    assert (event["DTSTAMP"].dt, event["SEQUENCE"]) == (NOW, 2)


async def test_importing_our_own_feed_adds_no_busy_times():
    """A feed imported by its own service adds no busy times, and one of another service does."""
    window = Interval(NOW - DAY, NOW + timedelta(days=10))
    own_feed_reader, other_reader = map(
        IcsCalendars, ("https://book.example.com:8443", "https://other.example.com")
    )
    content = await own_feed_reader.format_feed(
        "Mine", [make_booking(status=BookingStatus.ACCEPTED)]
    )
    assert (await own_feed_reader.parse_busy_times(content, "UTC", window)).times == ()
    assert len((await other_reader.parse_busy_times(content, "UTC", window)).times) == 1
