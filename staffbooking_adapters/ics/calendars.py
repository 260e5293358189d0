"""Reads and writes iCalendar files; the library (extra `calendar`) is loaded on first use."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from staffbooking_adapters.extras import check_extra, has_extra
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.calendar_files import CalendarFile
from staffbooking_core.errors import invalid_field


class IcsCalendars:
    """Implements `Calendars`. Files are parsed in one thread and written in another, so that many
    uploads delay only each other."""

    def __init__(self, base_url: str) -> None:
        """The host of `base_url` marks this deployment's bookings in event UIDs."""
        self._host = urlsplit(base_url).hostname or "localhost"
        self._read_limiter, self._write_limiter = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)

    def load(self) -> None:
        """Preload the library if it is installed, so that no request waits for it."""
        if has_extra("calendar"):
            from staffbooking_adapters.ics import events, feed  # noqa: F401

    async def format_feed(self, name: str, bookings: Sequence[Booking]) -> bytes:
        check_extra("calendar")
        from staffbooking_adapters.ics import feed

        return await anyio.to_thread.run_sync(
            feed.write_feed, name, bookings, self._host, limiter=self._write_limiter
        )

    async def format_booking(self, booking: Booking, viewer: Party) -> bytes:
        check_extra("calendar")
        from staffbooking_adapters.ics import feed

        return await anyio.to_thread.run_sync(
            feed.write_booking, booking, viewer, self._host, limiter=self._write_limiter
        )

    async def parse_busy_times(
        self, content: bytes, timezone: str, window: Interval
    ) -> CalendarFile:
        check_extra("calendar")
        return await anyio.to_thread.run_sync(
            self._read, content, timezone, window, limiter=self._read_limiter
        )

    def _read(self, content: bytes, timezone: str, window: Interval) -> CalendarFile:
        from staffbooking_adapters.ics.events import read_calendar
        from staffbooking_adapters.ics.parsing import UnreadableCalendar

        try:
            return read_calendar(content, timezone, window, self._host)
        except UnreadableCalendar as error:
            raise invalid_field("file", str(error)) from None
        except (ValueError, OverflowError):  # The library's messages quote the file.
            raise invalid_field("file", "has an event that can't be read") from None
