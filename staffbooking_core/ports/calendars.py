"""Calendars as other programs know them: files in the format of iCalendar (RFC 5545)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions.availability import Interval


class Calendars(Protocol):
    async def format_feed(self, name: str, bookings: Sequence[Booking]) -> bytes:
        """A calendar of that name with these bookings, as their companion may see them: the same
        bytes while they are the same."""
        ...

    async def parse_busy_times(
        self, content: bytes, timezone: str, window: Interval
    ) -> Sequence[Interval]:
        """The times within the window at which somebody is busy by a calendar's file: in order,
        and no two of them touch. Whole days and times with no zone are those of the `timezone`;
        bookings that a feed told of are left out.

        Raises InvalidField on `file` for what is no calendar, and for one that repeats its
        events too often to be followed."""
        ...
