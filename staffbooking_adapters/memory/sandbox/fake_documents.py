"""The fake processor's book in memory: one transaction at a time, undone when it raises."""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, TypeVar

from attrs import define, field, frozen

T = TypeVar("T")

BATCH = 100
STRETCH = 500


@frozen
class Document:
    body: str
    due_at: datetime | None
    amount: int


@define
class Shelf:
    """The documents of one kind, also in the orders in which they are asked for."""

    documents: dict[str, Document] = field(factory=dict)
    keys: list[str] = field(factory=list)
    dues: list[tuple[datetime, str]] = field(factory=list)
    total: int = 0

    def replace(self, key: str, document: Document | None) -> Document | None:
        """Put a document in the place of another; None is none. Returns what was there."""
        was = self.documents.pop(key, None)
        if was is not None:
            self.total -= was.amount
            if was.due_at is not None:
                _remove(self.dues, (was.due_at, key))
        if document is not None:
            self.documents[key] = document
            self.total += document.amount
            if document.due_at is not None:
                insort(self.dues, (document.due_at, key))
        if was is None and document is not None:
            insort(self.keys, key)
        elif was is not None and document is None:
            _remove(self.keys, key)
        return was

    def due(self, now: datetime) -> list[str]:
        return [key for _, key in takewhile(lambda due: due[0] <= now, self.dues)]


def _remove(ordered: list[Any], item: object) -> None:
    del ordered[bisect_left(ordered, item)]


@frozen
class MemoryDocuments:
    shelves: defaultdict[str, Shelf]
    replaced: list[tuple[str, str, Document | None]] = field(factory=list)
    """What a transaction has changed: how it was before, the latest last."""

    async def get(self, kind: str, key: str) -> str | None:
        document = self.shelves[kind].documents.get(key)
        return None if document is None else document.body

    async def due(self, kind: str, now: datetime) -> Sequence[tuple[str, str]]:
        shelf = self.shelves[kind]
        return [(key, shelf.documents[key].body) for key in islice(shelf.due(now), BATCH)]

    async def after(self, kind: str, key: str) -> Sequence[tuple[str, str]]:
        shelf = self.shelves[kind]
        start = bisect_right(shelf.keys, key)
        return [(key, shelf.documents[key].body) for key in shelf.keys[start : start + STRETCH]]

    async def total(self, kind: str) -> int:
        return self.shelves[kind].total

    async def lock(self, name: str) -> None:
        """Nothing to wait for: a transaction has the whole book to itself."""

    async def put(
        self, kind: str, key: str, body: str, due_at: datetime | None = None, amount: int = 0
    ) -> None:
        self._replace(kind, key, Document(body, due_at, amount))

    async def delete(self, kind: str, key: str) -> None:
        self._replace(kind, key, None)

    async def forget(self, kind: str, now: datetime) -> None:
        for key in self.shelves[kind].due(now):
            self._replace(kind, key, None)

    def _replace(self, kind: str, key: str, document: Document | None) -> None:
        self.replaced.append((kind, key, self.shelves[kind].replace(key, document)))

    def undo(self) -> None:
        for kind, key, was in reversed(self.replaced):
            self.shelves[kind].replace(key, was)


class MemoryFakeBook:
    """Lives in the process, on one event loop. Who reads waits for who writes."""

    def __init__(self) -> None:
        self._shelves: defaultdict[str, Shelf] = defaultdict(Shelf)
        self._turn = asyncio.Lock()

    async def read(self, work: Callable[[MemoryDocuments], Awaitable[T]]) -> T:
        async with self._turn:
            return await work(MemoryDocuments(self._shelves))

    async def transact(self, work: Callable[[MemoryDocuments], Awaitable[T]]) -> T:
        async with self._turn:
            documents = MemoryDocuments(self._shelves)
            try:
                return await work(documents)
            except BaseException:
                documents.undo()
                raise
