"""Companions in memory: searches look at calendars and bookings themselves.

So a day's mark has no use here: whether it has a free hour is worked out anew each time,
which is what the marks of the other stores have to amount to.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime

from attrs import frozen

from staffbooking_adapters import codec
from staffbooking_adapters.memory.companions.portfolio import items_of
from staffbooking_adapters.memory.companions.reviews import newest
from staffbooking_adapters.memory.slots import all_busy, busy
from staffbooking_adapters.memory.state import CompanionRow, Place
from staffbooking_core.domain.companions.availability import Interval, has_free_hour
from staffbooking_core.domain.companions.companion import Companion, CompanionQuery, fold
from staffbooking_core.ports import Agenda, Candidate
from staffbooking_core.representations.records import companion_detail, companion_summary


@frozen
class CompanionsReader:
    place: Place

    async def search(self, query: CompanionQuery) -> Sequence[bytes]:
        start = (query.page - 1) * query.limit
        found = self._matching(query)[start : start + query.limit + 1]
        return [row.summary for row in found]

    async def detail(self, companion_id: int) -> bytes | None:
        row = self._listed(companion_id)
        return None if row is None else row.detail

    async def agenda(self, companion_id: int, first: datetime, last: datetime) -> Agenda | None:
        row = self._listed(companion_id)
        return None if row is None else self._agenda(row, first, last)

    async def service_types(self) -> Sequence[tuple[str, int]]:
        spellings: defaultdict[str, Counter[str]] = defaultdict(Counter)
        offering: Counter[str] = Counter()
        for row in self.place.state.companions.values():
            if row.companion.is_listed:
                offering.update(row.services)
                for folded, name in _spelled(row.companion).items():
                    spellings[folded][name] += 1
        return [
            (max(sorted(names), key=names.__getitem__), offering[folded])
            for folded, names in sorted(spellings.items())
        ]

    async def services(self) -> Sequence[str]:
        listed = (row for row in self.place.state.companions.values() if row.companion.is_listed)
        names: dict[str, str] = {}
        for row in sorted(listed, key=lambda row: row.rank, reverse=True):
            names |= _spelled(row.companion)
        return [name for _, name in sorted(names.items())]

    async def candidates(
        self, service: str, day: date, first: datetime, last: datetime, limit: int
    ) -> Sequence[Candidate]:
        rows = self._matching(CompanionQuery(service=service, date=day))[:limit]
        return [Candidate(row.summary, self._agenda(row, first, last)) for row in rows]

    async def companion(self, companion_id: int) -> Companion | None:
        row = self.place.state.companions.get(companion_id)
        return None if row is None else row.companion

    async def companions(self, after_id: int, limit: int) -> Sequence[Companion]:
        rows = self.place.state.companions
        return [rows[number].companion for number in sorted(rows) if number > after_id][:limit]

    def _listed(self, companion_id: int) -> CompanionRow | None:
        row = self.place.state.companions.get(companion_id)
        return row if row is not None and row.companion.is_listed else None

    def _agenda(self, row: CompanionRow, first: datetime, last: datetime) -> Agenda:
        companion = row.companion
        taken = busy(self.place.state, companion.id, first, last)
        return Agenda(companion.id, companion.calendar, tuple(taken))

    def _matching(self, query: CompanionQuery) -> list[CompanionRow]:
        rows: Iterable[CompanionRow] = self.place.state.companions.values()
        rows = (row for row in rows if row.companion.is_listed and _meets(row, query))
        if (day := query.date) is not None:
            rows = (row for row in rows if self._is_free(row.companion, day))
        return sorted(rows, key=lambda row: row.rank)

    def _is_free(self, companion: Companion, day: date) -> bool:
        return has_free_hour(companion.calendar, all_busy(self.place.state, companion.id), day)


@frozen
class CompanionsWriter(CompanionsReader):
    async def lock_companion(self, companion_id: int) -> Companion | None:
        return await self.companion(companion_id)

    async def save_companion(self, companion: Companion) -> None:
        put_companion(self.place, companion)

    async def busy(self, companion_id: int, first: datetime, last: datetime) -> Sequence[Interval]:
        return busy(self.place.state, companion_id, first, last)

    async def mark_days(self, companion_id: int, days: Mapping[date, bool | None]) -> None:
        """Nothing to do: see above."""


def put_companion(place: Place, companion: Companion) -> None:
    """Insert or replace a companion, with its ready-made bytes."""
    currency = place.policy.currency
    reviews = newest(place.state, companion.id, 0, place.policy.detail_reviews)
    portfolio = items_of(place.state, companion.id)
    place.state.companions[companion.id] = CompanionRow(
        companion,
        summary=codec.encode(companion_summary(companion, currency)),
        detail=codec.encode(companion_detail(companion, currency, reviews, portfolio)),
        rank=(-companion.rating_avg, -companion.total_reviews, companion.id),
        places=(fold(companion.location_city), fold(companion.location_country)),
        services=frozenset(fold(name) for name in companion.service_types),
    )


def _spelled(companion: Companion) -> dict[str, str]:
    """The services of a companion, each as it comes first."""
    return {fold(name): name for name in reversed(companion.service_types)}


def _meets(row: CompanionRow, query: CompanionQuery) -> bool:
    """Whether a companion meets every filter but the date."""
    rate, place, service = row.companion.hourly_rate, query.location, query.service
    return (
        (query.min_price is None or query.min_price <= rate)
        and (query.max_price is None or rate <= query.max_price)
        and (service is None or fold(service) in row.services)
        and (place is None or any(fold(place) in name for name in row.places))
    )
