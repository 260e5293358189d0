"""Cursors of periodic polls of the processor in memory."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from staffbooking_adapters.memory.state import MemoryTransaction


@frozen
class CursorsReader:
    """Reads cursors."""

    tx: MemoryTransaction

    async def cursor(self, name: str) -> tuple[str, datetime] | None:
        return self.tx.state.cursors.get(name)


@frozen
class CursorsWriter(CursorsReader):
    """Reads and writes cursors."""

    async def save_cursor(self, name: str, cursor: str, now: datetime) -> None:
        self.tx.state.cursors[name] = (cursor, now)
