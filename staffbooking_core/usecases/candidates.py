"""The companions whose hours a search looks at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime

from attrs import evolve

from staffbooking_core.domain.companions.booking_limits import DateBounds
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.ports import ReadView, SearchCandidate

_FIRST_BATCH_SIZE, _BATCH_SIZE = 100, 500
MAX_CANDIDATES = 5_000
"""Companions whose hours one search looks at. Those ranked after them are not found."""


async def candidate_batches(
    view: ReadView, query: CompanionQuery, first: datetime, last: datetime, bounds: DateBounds
) -> AsyncIterator[Sequence[SearchCandidate]]:
    """The first MAX_CANDIDATES of a search in batches, whatever its page, with the busy intervals
    that touch [first, last]."""
    offset = 0
    while offset < MAX_CANDIDATES:
        size = _FIRST_BATCH_SIZE if offset < _BATCH_SIZE else _BATCH_SIZE
        batch = evolve(query, page=offset // size + 1, limit=size)
        candidates = await view.companions.search_candidates(batch, first, last, bounds)
        yield candidates
        if len(candidates) < size:
            return
        offset += size
