"""Writes the calendar feed of a companion's bookings."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from icalendar import Calendar, Event, vText

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus

_PRODUCT_ID = "-//staffbooking//Bookings//EN"
_REFRESH_INTERVAL = timedelta(minutes=15)
"""The polling interval suggested to calendar clients."""


def write_feed(name: str, bookings: Iterable[Booking], host: str) -> bytes:
    """A calendar with this name and these bookings; `host` makes the event UIDs unique."""
    calendar = Calendar()
    calendar.add("PRODID", _PRODUCT_ID)
    calendar.add("VERSION", "2.0")
    calendar.add("METHOD", "PUBLISH")
    calendar.add("NAME", vText(name))  # `vText` escapes it; the library would not.
    calendar.add("X-WR-CALNAME", vText(name))
    calendar.add("REFRESH-INTERVAL", _REFRESH_INTERVAL, parameters={"VALUE": "DURATION"})
    for booking in bookings:
        calendar.add_component(_calendar_event(booking, host))
    content: bytes = calendar.to_ical()
    return content


def _calendar_event(booking: Booking, host: str) -> Event:
    # A pending booking blocks no time, neither here nor in the client's calendar.
    is_pending = booking.status is BookingStatus.PENDING
    event = Event()
    event.add("UID", f"{booking.code}@{host}")
    event.add("SEQUENCE", booking.version)
    event.add("DTSTAMP", booking.timeline[-1].at)
    event.add("DTSTART", booking.starts_at)
    event.add("DTEND", booking.ends_at)
    event.add("SUMMARY", f"{booking.service_type}: {booking.customer_name}")
    event.add("LOCATION", booking.location)
    event.add("DESCRIPTION", f"Booking {booking.code}, {booking.status}")
    event.add("STATUS", "TENTATIVE" if is_pending else "CONFIRMED")
    event.add("TRANSP", "TRANSPARENT" if is_pending else "OPAQUE")
    return event
