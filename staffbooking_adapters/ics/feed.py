"""A feed of bookings, for programs that follow calendars."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from icalendar import Calendar, Event, vText

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Status

PRODUCT = "-//staffbooking//Bookings//EN"
REFRESH = timedelta(minutes=15)
"""After which it is worth a look again."""


def write(name: str, bookings: Iterable[Booking], site: str) -> bytes:
    """A calendar of that name with these bookings; `site` makes their names unique."""
    calendar = Calendar()
    calendar.add("PRODID", PRODUCT)
    calendar.add("VERSION", "2.0")
    calendar.add("METHOD", "PUBLISH")
    calendar.add("NAME", vText(name))  # Else the library takes it as it is, unescaped.
    calendar.add("X-WR-CALNAME", vText(name))
    calendar.add("REFRESH-INTERVAL", REFRESH, parameters={"VALUE": "DURATION"})
    for booking in bookings:
        calendar.add_component(_event(booking, site))
    content: bytes = calendar.to_ical()
    return content


def _event(booking: Booking, site: str) -> Event:
    # A request takes no time yet, here as little as in the calendar that shows it.
    asked = booking.status is Status.PENDING
    event = Event()
    event.add("UID", f"{booking.code}@{site}")
    event.add("SEQUENCE", booking.version)
    event.add("DTSTAMP", booking.timeline[-1].at)
    event.add("DTSTART", booking.starts_at)
    event.add("DTEND", booking.ends_at)
    event.add("SUMMARY", f"{booking.service_type}: {booking.customer_name}")
    event.add("LOCATION", booking.location)
    event.add("DESCRIPTION", f"Booking {booking.code}, {booking.status}")
    event.add("STATUS", "TENTATIVE" if asked else "CONFIRMED")
    event.add("TRANSP", "TRANSPARENT" if asked else "OPAQUE")
    return event
