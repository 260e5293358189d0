"""Writes the calendar feed of a companion's bookings."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from icalendar import Calendar, Event, vText

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party

_PRODUCT_ID = "-//staffbooking//Bookings//EN"
_REFRESH_INTERVAL = timedelta(minutes=15)
"""The polling interval suggested to calendar clients."""


def write_feed(name: str, bookings: Iterable[Booking], host: str) -> bytes:
    """A calendar with this name and these bookings; `host` makes the event UIDs unique."""
    calendar = _new_calendar()
    calendar.add("NAME", vText(name))  # `vText` escapes it; the library would not.
    calendar.add("X-WR-CALNAME", vText(name))
    calendar.add("REFRESH-INTERVAL", _REFRESH_INTERVAL, parameters={"VALUE": "DURATION"})
    for booking in bookings:
        calendar.add_component(_calendar_event(booking, booking.customer_name, host))
    content: bytes = calendar.to_ical()
    return content


def write_booking(booking: Booking, viewer: Party, host: str) -> bytes:
    """A calendar with one booking, named by the other side; its UID is that of the feed's event."""
    other = booking.customer_name if viewer is Party.STAFF else booking.companion_name
    calendar = _new_calendar()
    calendar.add_component(_calendar_event(booking, other, host))
    content: bytes = calendar.to_ical()
    return content


def _new_calendar() -> Calendar:
    calendar = Calendar()
    calendar.add("PRODID", _PRODUCT_ID)
    calendar.add("VERSION", "2.0")
    calendar.add("METHOD", "PUBLISH")
    return calendar


_EVENT_STATUSES = {BookingStatus.PENDING: "TENTATIVE", BookingStatus.CANCELLED: "CANCELLED"}


def _calendar_event(booking: Booking, other: str, host: str) -> Event:
    # A pending booking blocks no time, neither here nor in the client's calendar.
    blocks_no_time = booking.status in _EVENT_STATUSES
    event = Event()
    event.add("UID", f"{booking.code}@{host}")
    event.add("SEQUENCE", booking.version)
    event.add("DTSTAMP", booking.timeline[-1].at)
    event.add("DTSTART", booking.starts_at)
    event.add("DTEND", booking.ends_at)
    event.add("SUMMARY", f"{booking.service_type}: {other}")
    event.add("LOCATION", booking.location)
    event.add("DESCRIPTION", f"Booking {booking.code}, {booking.status}")
    event.add("STATUS", _EVENT_STATUSES.get(booking.status, "CONFIRMED"))
    event.add("TRANSP", "TRANSPARENT" if blocks_no_time else "OPAQUE")
    return event
