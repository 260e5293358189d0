"""Calendars in the format of iCalendar: what is written and read, loaded by its first use."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

import anyio
import anyio.to_thread

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.companions.availability import Interval, merged
from staffbooking_core.errors import invalid


class IcsCalendars:
    """Files are read in one thread, so that a rush of them slows nothing but each other; they
    are written in another."""

    def __init__(self, base_url: str) -> None:
        """The address tells the bookings of this deployment from those of others."""
        self._site = urlsplit(base_url).hostname or "localhost"
        self._reading, self._writing = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)

    def load(self) -> None:
        """Take the time that it takes now: in a process that serves, nobody is to wait for it."""
        from staffbooking_adapters.ics import events, feed  # noqa: F401

    async def feed(self, name: str, bookings: Sequence[Booking]) -> bytes:
        from staffbooking_adapters.ics import feed

        return await anyio.to_thread.run_sync(
            feed.write, name, bookings, self._site, limiter=self._writing
        )

    async def busy(self, content: bytes, timezone: str, window: Interval) -> Sequence[Interval]:
        return await anyio.to_thread.run_sync(
            self._read, content, timezone, window, limiter=self._reading
        )

    def _read(self, content: bytes, timezone: str, window: Interval) -> Sequence[Interval]:
        from staffbooking_adapters.ics.events import busy_spans
        from staffbooking_adapters.ics.reading import Unreadable

        try:
            return merged(busy_spans(content, timezone, window, self._site))
        except Unreadable as error:
            raise invalid("file", str(error)) from None
        except (ValueError, OverflowError):  # The library's tell what stands in the file.
            raise invalid("file", "has an event that can't be read") from None
