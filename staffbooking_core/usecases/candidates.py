"""The companions whose hours a search looks at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from attrs import evolve

from staffbooking_core.domain.companions.booking_limits import DateBounds
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.ports import ReadView, SearchCandidate

_FIRST_BATCH_SIZE, _BATCH_SIZE = 100, 500
MAX_CANDIDATES = 5_000
"""Companions whose hours one search looks at. Those ranked after them are not found."""


async def find_candidates(
    view: ReadView,
    query: CompanionQuery,
    busy_within: tuple[datetime, datetime],
    bounds: DateBounds,
    is_wanted: Callable[[SearchCandidate], bool],
    count: int,
) -> Sequence[bytes]:
    """Encoded summaries of the first `count` wanted companions of a search, whatever its page; of
    the first MAX_CANDIDATES, which are read with the busy intervals that touch `busy_within`."""
    found, offset = list[bytes](), 0
    while offset < MAX_CANDIDATES and len(found) < count:
        size = _FIRST_BATCH_SIZE if offset < _BATCH_SIZE else _BATCH_SIZE
        batch = evolve(query, page=offset // size + 1, limit=size)
        candidates = await view.companions.search_candidates(batch, *busy_within, bounds)
        found += [candidate.summary for candidate in candidates if is_wanted(candidate)]
        if len(candidates) < size:
            break
        offset += size
    return found[:count]
