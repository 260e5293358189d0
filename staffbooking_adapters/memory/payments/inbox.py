"""The inbox of the processor's events in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_adapters.memory.state import (
    MemoryState,
    MemoryTransaction,
    ProcessorEventRow,
    holds_lease,
    is_lease_active,
)
from staffbooking_core.domain.payments.processor import ProcessorEvent
from staffbooking_core.ports import Lease


@frozen
class InboxWriter:
    """Writes processor events."""

    tx: MemoryTransaction

    async def add_event(self, provider: str, event: ProcessorEvent, now: datetime) -> bool:
        rows, name = self.tx.state.processor_events, (provider, event.event_id)
        if name in rows:
            return False
        rows[name] = ProcessorEventRow(event, received_at=now, next_at=now)
        return True

    async def claim_events(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[tuple[str, ProcessorEvent]]:
        rows = self.tx.state.processor_events
        due = [
            name
            for name, row in rows.items()
            if is_event_due(row, now) and not is_lease_active(row.lease, now)
        ]
        due.sort(key=lambda name: rows[name].next_at)
        for name in due[:limit]:
            rows[name] = evolve(rows[name], lease=lease)
        return [(name[0], rows[name].event) for name in due[:limit]]

    async def finish_event(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        rows, name = self.tx.state.processor_events, (provider, event_id)
        row = rows.get(name)
        if row is not None and holds_lease(row.lease, lease):
            next_at = row.next_at if retry_at is None else retry_at
            rows[name] = evolve(row, lease=None, next_at=next_at, is_done=retry_at is None)

    async def has_unfinished_event(self, intent_id: int, until: datetime) -> bool:
        return any(
            row.event.intent_id == intent_id and row.received_at <= until and not row.is_done
            for row in self.tx.state.processor_events.values()
        )


def is_event_due(row: ProcessorEventRow, now: datetime) -> bool:
    """Whether an unfinished event is due for its next attempt; `now` is wall time."""
    return not row.is_done and row.next_at <= now


def intents_with_pending_events(state: MemoryState) -> set[int | None]:
    """The intents with unfinished events in the inbox."""
    return {row.event.intent_id for row in state.processor_events.values() if not row.is_done}
