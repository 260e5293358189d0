"""The fake processor's book in memory: one transaction at a time, undone when it raises."""

from __future__ import annotations

import asyncio
from collections import ChainMap
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from datetime import datetime
from typing import TypeAlias, TypeVar

from attrs import frozen

T = TypeVar("T")

BATCH = 100


@frozen
class Document:
    body: str
    due_at: datetime | None
    amount: int


Rows: TypeAlias = MutableMapping[tuple[str, str], Document | None]
"""By kind and key; None is a deleted one."""


@frozen
class MemoryDocuments:
    rows: Rows

    async def get(self, kind: str, key: str) -> str | None:
        document = self.rows.get((kind, key))
        return None if document is None else document.body

    async def due(self, kind: str, now: datetime) -> Sequence[tuple[str, str]]:
        found = sorted(
            (document.due_at, key, document.body)
            for (its_kind, key), document in self.rows.items()
            if its_kind == kind and document is not None
            if document.due_at is not None and document.due_at <= now
        )
        return [(key, body) for _, key, body in found[:BATCH]]

    async def total(self, kind: str) -> int:
        return sum(
            document.amount
            for (its_kind, _), document in self.rows.items()
            if its_kind == kind and document is not None
        )

    async def lock(self, name: str) -> None:
        """Nothing to wait for: a transaction has the whole book to itself."""

    async def put(
        self, kind: str, key: str, body: str, due_at: datetime | None = None, amount: int = 0
    ) -> None:
        self.rows[kind, key] = Document(body, due_at, amount)

    async def delete(self, kind: str, key: str) -> None:
        self.rows[kind, key] = None


class MemoryFakeBook:
    """Lives in the process, on one event loop."""

    def __init__(self) -> None:
        self._rows: Rows = {}
        self._writer = asyncio.Lock()

    async def read(self, work: Callable[[MemoryDocuments], Awaitable[T]]) -> T:
        return await work(MemoryDocuments(self._rows))

    async def transact(self, work: Callable[[MemoryDocuments], Awaitable[T]]) -> T:
        async with self._writer:
            changes: Rows = {}
            result = await work(MemoryDocuments(ChainMap(changes, self._rows)))
            for name, document in changes.items():
                if document is None:
                    self._rows.pop(name, None)
                else:
                    self._rows[name] = document
        return result
