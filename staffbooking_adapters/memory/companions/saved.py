"""Saved people in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_adapters.memory.state import MemoryTransaction
from staffbooking_core.ports import SavedPerson


@frozen
class SavedReader:
    """Reads saved people."""

    tx: MemoryTransaction

    async def saved_people(
        self, customer_id: int, limit: int, offset: int = 0
    ) -> Sequence[SavedPerson]:
        mine = [
            SavedPerson(companion_id, at, self._summary_of(companion_id))
            for (owner, companion_id), at in self.tx.state.saved_people.items()
            if owner == customer_id
        ]
        mine.sort(key=lambda each: (each.saved_at, each.companion_id), reverse=True)
        return mine[offset : offset + limit]

    def _summary_of(self, companion_id: int) -> bytes | None:
        row = self.tx.state.companions.get(companion_id)
        return row.summary if row is not None and row.companion.is_listed else None

    async def has_saved(self, customer_id: int, companion_id: int) -> bool:
        return (customer_id, companion_id) in self.tx.state.saved_people


@frozen
class SavedWriter(SavedReader):
    """Reads and writes saved people."""

    async def save_person(self, customer_id: int, companion_id: int, at: datetime) -> None:
        saved = self.tx.state.saved_people
        if (customer_id, companion_id) not in saved:
            saved[customer_id, companion_id] = at

    async def unsave_person(self, customer_id: int, companion_id: int) -> None:
        self.tx.state.saved_people.discard((customer_id, companion_id))
