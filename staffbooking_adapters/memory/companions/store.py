"""Companions in memory. Searches compute free days from calendars and bookings.

Day marks are not stored, unlike in the SQL stores, whose marks must give the same results.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime

from attrs import frozen

from staffbooking_adapters import codec
from staffbooking_adapters.memory.companions.portfolio import portfolio_items_of
from staffbooking_adapters.memory.companions.reviews import newest_reviews
from staffbooking_adapters.memory.slots import all_busy_intervals, busy_intervals
from staffbooking_adapters.memory.state import CompanionRow, MemoryTransaction
from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.companions.availability import Interval, has_free_hour
from staffbooking_core.domain.companions.booking_limits import ANY_DATE, DateBounds
from staffbooking_core.domain.companions.companion import (
    Approval,
    Companion,
    CompanionQuery,
    normalize_place,
    normalize_text,
)
from staffbooking_core.ports import CompanionAvailability, SearchCandidate, SearchPage
from staffbooking_core.representations.companions import companion_detail, companion_summary


@frozen
class CompanionsReader:
    """Reads companions."""

    tx: MemoryTransaction

    async def search(self, query: CompanionQuery, bounds: DateBounds = ANY_DATE) -> SearchPage:
        start = (query.page - 1) * query.limit
        matching = self._find_matching(query, bounds)
        is_exact = query.date is None or all(
            bounds.surely_allow(row.companion.calendar.limits) for row in matching
        )
        summaries = [row.summary for row in matching[start : start + query.limit + 1]]
        return SearchPage(summaries, is_exact or not summaries)

    async def detail(self, companion_id: int) -> bytes | None:
        row = self._find_listed(companion_id)
        return None if row is None else row.detail

    async def availability(
        self, companion_id: int, first: datetime, last: datetime
    ) -> CompanionAvailability | None:
        row = self._find_listed(companion_id)
        return None if row is None else self._build_agenda(row, first, last)

    async def service_type_counts(self) -> Sequence[tuple[str, int]]:
        spellings: defaultdict[str, Counter[str]] = defaultdict(Counter)
        offering: Counter[str] = Counter()
        for row in self.tx.state.companions.values():
            if row.companion.is_listed:
                offering.update(row.services)
                for folded, name in _services_by_folded_name(row.companion).items():
                    spellings[folded][name] += 1
        return [
            (max(sorted(names), key=names.__getitem__), offering[folded])
            for folded, names in sorted(spellings.items())
        ]

    async def service_names(self) -> Sequence[str]:
        listed = (row for row in self.tx.state.companions.values() if row.companion.is_listed)
        names: dict[str, str] = {}
        for row in sorted(listed, key=lambda row: row.sort_key, reverse=True):
            names |= _services_by_folded_name(row.companion)
        return [name for _, name in sorted(names.items())]

    async def city_counts(self, limit: int) -> Sequence[tuple[str, str, int]]:
        names: dict[tuple[str, str], tuple[str, str]] = {}
        counts: Counter[tuple[str, str]] = Counter()
        for companion_id in await self.listed_ids(1, MAX_ID):
            companion = self.tx.state.companions[companion_id].companion
            place = companion.location_city, companion.location_country
            folded = normalize_place(place[0]), normalize_place(place[1])
            names.setdefault(folded, place)
            counts[folded] += 1
        return [(*names[folded], count) for folded, count in counts.most_common(limit)]

    async def last_listed_id(self) -> int:
        return max(await self.listed_ids(1, MAX_ID), default=0)

    async def listed_ids(self, first_id: int, last_id: int) -> Sequence[int]:
        rows = self.tx.state.companions
        return [
            companion_id
            for companion_id in sorted(rows)
            if first_id <= companion_id <= last_id and rows[companion_id].companion.is_listed
        ]

    async def profile_photos(self, companion_ids: Collection[int]) -> Mapping[int, str]:
        rows = self.tx.state.companions
        photos = {
            companion_id: rows[companion_id].companion.profile_photo
            for companion_id in companion_ids
            if companion_id in rows
        }
        return {companion_id: photo for companion_id, photo in photos.items() if photo}

    async def search_candidates(
        self,
        query: CompanionQuery,
        first: datetime,
        last: datetime,
        bounds: DateBounds = ANY_DATE,
    ) -> Sequence[SearchCandidate]:
        offset = (query.page - 1) * query.limit
        rows = self._find_matching(query, bounds)[offset : offset + query.limit]
        return [
            SearchCandidate(
                row.summary,
                row.companion.location_city,
                row.companion.location_country,
                self._build_agenda(row, first, last),
            )
            for row in rows
        ]

    async def companion(self, companion_id: int) -> Companion | None:
        row = self.tx.state.companions.get(companion_id)
        return None if row is None else row.companion

    async def companions(
        self, after_id: int, limit: int, offset: int = 0, approval: Approval | None = None
    ) -> Sequence[Companion]:
        rows = self.tx.state.companions
        found = [
            rows[companion_id].companion for companion_id in sorted(rows) if companion_id > after_id
        ]
        chosen = [each for each in found if approval in (None, each.approval)]
        return chosen[offset : offset + limit]

    def _find_listed(self, companion_id: int) -> CompanionRow | None:
        row = self.tx.state.companions.get(companion_id)
        return row if row is not None and row.companion.is_listed else None

    def _build_agenda(
        self, row: CompanionRow, first: datetime, last: datetime
    ) -> CompanionAvailability:
        companion = row.companion
        held_intervals = busy_intervals(self.tx.state, companion.id, first, last)
        return CompanionAvailability(companion.id, companion.calendar, tuple(held_intervals))

    def _find_matching(self, query: CompanionQuery, bounds: DateBounds) -> list[CompanionRow]:
        rows: Iterable[CompanionRow] = self.tx.state.companions.values()
        rows = (row for row in rows if row.companion.is_listed and _matches_filters(row, query))
        if (day := query.date) is not None:
            rows = (
                row
                for row in rows
                if bounds.may_allow(row.companion.calendar.limits)
                and self._is_free(row.companion, day)
            )
        return sorted(rows, key=lambda row: row.sort_key)

    def _is_free(self, companion: Companion, day: date) -> bool:
        return has_free_hour(
            companion.calendar, all_busy_intervals(self.tx.state, companion.id), day
        )

    async def companions_to_approve(self, after_id: int, limit: int) -> Sequence[Companion]:
        rows = self.tx.state.companions
        found = [
            rows[companion_id].companion for companion_id in sorted(rows) if companion_id > after_id
        ]
        return [each for each in found if each.awaits_approval][:limit]


@frozen
class CompanionsWriter(CompanionsReader):
    """Reads and writes companions."""

    async def lock_companion(self, companion_id: int) -> Companion | None:
        return await self.companion(companion_id)

    async def save_companion(self, companion: Companion) -> None:
        put_companion(self.tx, companion)

    async def busy_intervals(
        self, companion_id: int, first: datetime, last: datetime
    ) -> Sequence[Interval]:
        return busy_intervals(self.tx.state, companion_id, first, last)

    async def save_day_marks(self, companion_id: int, days: Mapping[date, bool | None]) -> None:
        """Does nothing: searches compute free days."""


def put_companion(tx: MemoryTransaction, companion: Companion) -> None:
    """Insert or replace a companion with its encoded summary and detail."""
    currency = tx.policy.currency
    reviews = newest_reviews(tx.state, companion.id, 0, tx.policy.detail_reviews)
    portfolio = portfolio_items_of(tx.state, companion.id)
    tx.state.companions[companion.id] = CompanionRow(
        companion,
        summary=codec.encode(companion_summary(companion, currency)),
        detail=codec.encode(companion_detail(companion, currency, reviews, portfolio)),
        sort_key=(-companion.rating_avg, -companion.total_reviews, companion.id),
        locations=(
            normalize_place(companion.location_city),
            normalize_place(companion.location_country),
        ),
        services=frozenset(normalize_text(name) for name in companion.service_types),
    )


def _services_by_folded_name(companion: Companion) -> dict[str, str]:
    """The services of a companion by case-folded name; the first spelling wins."""
    return {normalize_text(name): name for name in reversed(companion.service_types)}


def _matches_filters(row: CompanionRow, query: CompanionQuery) -> bool:
    """Whether a companion meets every filter but the date."""
    rate, location, service = row.companion.hourly_rate, query.location, query.service
    return (
        (query.min_price is None or query.min_price <= rate)
        and (query.max_price is None or rate <= query.max_price)
        and (service is None or normalize_text(service) in row.services)
        and (location is None or any(normalize_place(location) in name for name in row.locations))
    )
