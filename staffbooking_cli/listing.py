"""Iterates over a whole list that the store returns page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

PAGE_SIZE = 500


async def iterate_pages(
    fetch_page: Callable[[int, int], Awaitable[Sequence[T]]],
) -> AsyncIterator[T]:
    """All rows of a list, ordered by id. `fetch_page(after_id, limit)` returns up to `limit`
    rows with an id above `after_id`."""
    after_id: int = 0
    while page := await fetch_page(after_id, PAGE_SIZE):
        for row in page:
            yield row
        last: Any = page[-1]
        after_id = last.id


async def iterate_records(
    rows: Sequence[T], to_record: Callable[[T], Mapping[str, Any]]
) -> AsyncIterator[Any]:
    """The records of rows that are already loaded."""
    for row in rows:
        yield to_record(row)
