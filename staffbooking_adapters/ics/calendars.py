"""Calendars in the format of iCalendar: what is written and read, loaded by its first use."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions.availability import Interval, merge_intervals
from staffbooking_core.errors import invalid_field


class IcsCalendars:
    """Files are read in one thread, so that a rush of them slows nothing but each other; they
    are written in another."""

    def __init__(self, base_url: str) -> None:
        """The address tells the bookings of this deployment from those of others."""
        self._host = urlsplit(base_url).hostname or "localhost"
        self._read_limiter, self._write_limiter = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)

    def load(self) -> None:
        """Take the time that it takes now: in a process that serves, nobody is to wait for it."""
        from staffbooking_adapters.ics import events, feed  # noqa: F401

    async def format_feed(self, name: str, bookings: Sequence[Booking]) -> bytes:
        from staffbooking_adapters.ics import feed

        return await anyio.to_thread.run_sync(
            feed.write_feed, name, bookings, self._host, limiter=self._write_limiter
        )

    async def parse_busy_times(
        self, content: bytes, timezone: str, window: Interval
    ) -> Sequence[Interval]:
        return await anyio.to_thread.run_sync(
            self._read, content, timezone, window, limiter=self._read_limiter
        )

    def _read(self, content: bytes, timezone: str, window: Interval) -> Sequence[Interval]:
        from staffbooking_adapters.ics.events import busy_intervals
        from staffbooking_adapters.ics.reading import UnreadableCalendar

        try:
            return merge_intervals(busy_intervals(content, timezone, window, self._host))
        except UnreadableCalendar as error:
            raise invalid_field("file", str(error)) from None
        except (ValueError, OverflowError):  # The library's tell what stands in the file.
            raise invalid_field("file", "has an event that can't be read") from None
