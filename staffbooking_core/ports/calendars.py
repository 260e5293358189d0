"""Calendars: iCalendar files (RFC 5545)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.availability import Interval


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
    ) -> Sequence[Interval]:
        """The busy times of a calendar file within a window, in order; no two of them touch. Whole
        days and floating times are in `timezone`; bookings from this service's own feed are left
        out.

        Raises InvalidField on `file` where it is no calendar, or repeats its events too often to be
        expanded.
        """
        ...
