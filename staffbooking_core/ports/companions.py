"""Companions: search, details and agendas, and the rows behind them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.companions.availability import Calendar, Interval
from staffbooking_core.domain.companions.booking_limits import ANY_DATE, DateBounds
from staffbooking_core.domain.companions.companion import Approval, Companion, CompanionQuery

__all__ = [
    "CompanionAvailability",
    "CompanionsReadPort",
    "CompanionsWritePort",
    "SearchCandidate",
    "SearchPage",
]


@frozen
class CompanionAvailability:
    """A companion's calendar with its busy intervals."""

    companion_id: int
    calendar: Calendar
    busy: tuple[Interval, ...]


@frozen
class SearchCandidate:
    """A found companion: encoded summary, place and agenda."""

    summary: bytes
    location_city: str
    location_country: str
    availability: CompanionAvailability


@frozen
class SearchPage:
    """Encoded summaries of a search. If the page is not exact, the limits of some companions leave
    open whether they can be booked on the date: the page may contain too many."""

    summaries: Sequence[bytes]
    is_exact: bool = True


class CompanionsReadPort(Protocol):
    """Queries on companions. Listed companions are those that the public may see."""

    async def search(self, query: CompanionQuery, bounds: DateBounds = ANY_DATE) -> SearchPage:
        """Encoded summaries of listed companions in the order of CONTRACT 3: up to `limit + 1`
        from the page's start, so that the caller sees whether another page follows. With a date,
        of the companions with a free hour on it, those whose limits the bounds may allow; the
        page is exact if they surely allow each of them, or it is empty."""
        ...

    async def detail(self, companion_id: int) -> bytes | None:
        """The encoded detail of a listed companion; None where there is none."""
        ...

    async def availability(
        self, companion_id: int, first: datetime, last: datetime
    ) -> CompanionAvailability | None:
        """The agenda of a listed companion, with the busy intervals that touch [first, last]."""
        ...

    async def service_type_counts(self) -> Sequence[tuple[str, int]]:
        """Each offered service type in its most frequent spelling, with the number of listed
        companions that offer it; by name. Reads all listed companions: `service_names` is
        the cheap query."""
        ...

    async def service_names(self) -> Sequence[str]:
        """The names of the offered service types, each as its best-ranked companion spells it."""
        ...

    async def city_counts(self, limit: int) -> Sequence[tuple[str, str, int]]:
        """The cities with the most listed companions, with their country and that number. Reads
        the search rows of all listed companions."""
        ...

    async def last_listed_id(self) -> int:
        """The highest id of a listed companion; 0 where none is listed."""
        ...

    async def listed_ids(self, first_id: int, last_id: int) -> Sequence[int]:
        """The ids of the listed companions from `first_id` to `last_id`, ascending."""
        ...

    async def profile_photos(self, companion_ids: Collection[int]) -> Mapping[int, str]:
        """The photos of those companions that have one, listed or not, by id."""
        ...

    async def search_candidates(
        self,
        query: CompanionQuery,
        first: datetime,
        last: datetime,
        bounds: DateBounds = ANY_DATE,
    ) -> Sequence[SearchCandidate]:
        """Up to `query.limit` companions of a page of a search, in its order, with the busy
        intervals that touch [first, last]. Of companions with booking limits only those that the
        bounds may allow."""
        ...

    async def companion(self, companion_id: int) -> Companion | None:
        """A companion by id, listed or not."""
        ...

    async def companions(
        self, after_id: int, limit: int, offset: int = 0, approval: Approval | None = None
    ) -> Sequence[Companion]:
        """Up to `limit` companions above `after_id`, after the first `offset` of them, listed or
        not, by id; with an approval, those alone."""
        ...

    async def companions_to_approve(self, after_id: int, limit: int) -> Sequence[Companion]:
        """Up to `limit` companions above `after_id` that wait for an approval (`awaits_approval`),
        by id."""
        ...


class CompanionsWritePort(CompanionsReadPort, Protocol):
    """Commands on companions."""

    async def lock_companion(self, companion_id: int) -> Companion | None:
        """A companion by id, locked until the transaction ends."""
        ...

    async def save_companion(self, companion: Companion) -> None:
        """Insert or replace a companion, with its encoded summary and detail (which includes its
        newest reviews and approved portfolio items) and its search columns."""
        ...

    async def busy_intervals(
        self, companion_id: int, first: datetime, last: datetime
    ) -> Sequence[Interval]:
        """The busy intervals of a companion that touch [first, last], in order."""
        ...

    async def save_day_marks(self, companion_id: int, days: Mapping[date, bool | None]) -> None:
        """Mark local days as having a free hour (True) or none (False) where the weekly hours
        alone would say otherwise; None deletes the mark. Searches by date read these marks."""
        ...
