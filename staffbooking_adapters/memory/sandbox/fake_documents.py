"""The fake processor's document store in memory: one transaction at a time."""

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

DUE_BATCH_SIZE = 100
PAGE_SIZE = 500


@frozen
class Document:
    body: str
    due_at: datetime | None
    amount: int


@define
class DocumentTable:
    """The documents of one kind, with indexes by key and by due time."""

    documents: dict[str, Document] = field(factory=dict)
    sorted_keys: list[str] = field(factory=list)
    due_index: list[tuple[datetime, str]] = field(factory=list)
    total_amount: int = 0

    def replace(self, key: str, document: Document | None) -> Document | None:
        """Set a document, or delete it with None. Returns the previous document."""
        before = self.documents.pop(key, None)
        if before is not None:
            self.total_amount -= before.amount
            if before.due_at is not None:
                _remove_sorted(self.due_index, (before.due_at, key))
        if document is not None:
            self.documents[key] = document
            self.total_amount += document.amount
            if document.due_at is not None:
                insort(self.due_index, (document.due_at, key))
        if before is None and document is not None:
            insort(self.sorted_keys, key)
        elif before is not None and document is None:
            _remove_sorted(self.sorted_keys, key)
        return before

    def due_keys(self, now: datetime) -> list[str]:
        return [key for _, key in takewhile(lambda due: due[0] <= now, self.due_index)]


def _remove_sorted(ordered: list[Any], item: object) -> None:
    del ordered[bisect_left(ordered, item)]


@frozen
class MemoryFakeStoreTransaction:
    tables: defaultdict[str, DocumentTable]
    undo_log: list[tuple[str, str, Document | None]] = field(factory=list)
    """The undo log: previous documents, the latest change last."""

    async def get(self, kind: str, key: str) -> str | None:
        document = self.tables[kind].documents.get(key)
        return None if document is None else document.body

    async def due(self, kind: str, now: datetime) -> Sequence[tuple[str, str]]:
        table = self.tables[kind]
        return [
            (key, table.documents[key].body) for key in islice(table.due_keys(now), DUE_BATCH_SIZE)
        ]

    async def after(self, kind: str, key: str) -> Sequence[tuple[str, str]]:
        table = self.tables[kind]
        start = bisect_right(table.sorted_keys, key)
        return [
            (key, table.documents[key].body) for key in table.sorted_keys[start : start + PAGE_SIZE]
        ]

    async def total(self, kind: str) -> int:
        return self.tables[kind].total_amount

    async def lock(self, name: str) -> None:
        """Does nothing: transactions are serialized."""

    async def put(
        self, kind: str, key: str, body: str, due_at: datetime | None = None, amount: int = 0
    ) -> None:
        self._replace(kind, key, Document(body, due_at, amount))

    async def delete(self, kind: str, key: str) -> None:
        self._replace(kind, key, None)

    async def delete_due(self, kind: str, now: datetime) -> None:
        for key in self.tables[kind].due_keys(now):
            self._replace(kind, key, None)

    def _replace(self, kind: str, key: str, document: Document | None) -> None:
        self.undo_log.append((kind, key, self.tables[kind].replace(key, document)))

    def roll_back(self) -> None:
        for kind, key, before in reversed(self.undo_log):
            self.tables[kind].replace(key, before)


class MemoryFakeDocumentStore:
    """A document store for one process and one event loop. Readers wait for the writer."""

    def __init__(self) -> None:
        self._tables: defaultdict[str, DocumentTable] = defaultdict(DocumentTable)
        self._lock = asyncio.Lock()

    async def read(self, work: Callable[[MemoryFakeStoreTransaction], Awaitable[T]]) -> T:
        async with self._lock:
            return await work(MemoryFakeStoreTransaction(self._tables))

    async def transact(self, work: Callable[[MemoryFakeStoreTransaction], Awaitable[T]]) -> T:
        async with self._lock:
            documents = MemoryFakeStoreTransaction(self._tables)
            try:
                return await work(documents)
            except BaseException:
                documents.roll_back()
                raise
