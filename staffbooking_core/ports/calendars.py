"""Calendars: iCalendar files (RFC 5545)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import field, frozen

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.calendar_files import CalendarFile
from staffbooking_core.domain.companions.calendar_subscriptions import (
    CalendarReadFault,
    CalendarVersion,
)

__all__ = ["CalendarFetcher", "Calendars", "FetchedCalendar"]


class Calendars(Protocol):
    """Formats and parses iCalendar files."""

    async def format_feed(self, name: str, bookings: Sequence[Booking]) -> bytes:
        """A calendar with these bookings as their companion may see them; equal input gives equal
        bytes."""
        ...

    async def format_booking(self, booking: Booking, viewer: Party) -> bytes:
        """A calendar with one booking as one side of it sees it: the event is named by the other
        side."""
        ...

    async def parse_busy_times(
        self, content: bytes, timezone: str, window: Interval
    ) -> CalendarFile:
        """The busy times of a calendar file within a window, and why its other events give none.
        Whole days and floating times are in `timezone`; bookings from this service's own feed give
        none.

        Raises InvalidField on `file` where it is no calendar, or repeats its events too often to be
        expanded.
        """
        ...


@frozen
class FetchedCalendar:
    """A calendar file that was read from an address."""

    content: bytes = field(repr=False)
    version: CalendarVersion


class CalendarFetcher(Protocol):
    """Reads calendar files from addresses that users give."""

    async def fetch(
        self, url: str, known: CalendarVersion, max_bytes: int, timeout_seconds: float
    ) -> FetchedCalendar | CalendarReadFault | None:
        """The file at an address of at most `max_bytes`, uncompressed; None where its version is
        the known one.

        Connects to public addresses only, also after a redirect, and by https unless the deployment
        permits http. The whole read, with all redirects, ends within `timeout_seconds`. Addresses
        and contents are never logged.
        """
        ...
