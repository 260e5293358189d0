"""Calendars of other programs in the same process, without a network."""

from __future__ import annotations

import hashlib

from attrs import define, field

from staffbooking_core.domain.companions.calendar_subscriptions import (
    CalendarReadFault,
    CalendarVersion,
)
from staffbooking_core.ports import FetchedCalendar


@define
class MemoryCalendarFetcher:
    """A CalendarFetcher whose calendars are files or faults, by URL.

    `calendars` may change at any time; without an entry nothing is found. A file has the digest of
    its bytes as its version. `fetched` records the addresses and the versions that were known.
    """

    calendars: dict[str, bytes | CalendarReadFault] = field(factory=dict)
    fetched: list[tuple[str, CalendarVersion]] = field(factory=list)

    async def fetch(
        self, url: str, known: CalendarVersion, max_bytes: int, timeout_seconds: float
    ) -> FetchedCalendar | CalendarReadFault | None:
        self.fetched.append((url, known))
        found = self.calendars.get(url, CalendarReadFault.NOT_FOUND)
        if isinstance(found, CalendarReadFault):
            return found
        if len(found) > max_bytes:
            return CalendarReadFault.TOO_LARGE
        version = CalendarVersion(f'"{hashlib.sha256(found).hexdigest()}"')
        return None if known == version else FetchedCalendar(found, version)
