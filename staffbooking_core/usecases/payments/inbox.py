"""The inbox of processor events: each names a subject to sync, and is added once per name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from staffbooking_core.domain.payments.processor import ProcessorEvent
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.validation import validated

VISIT_SYNC_INTERVAL = timedelta(seconds=5)
"""Page visits within this period sync a subject once."""


@validated
async def add_events(
    ports: Ports,
    events: Sequence[ProcessorEvent],
    cursor: tuple[str, str] | None = None,
    came_at: datetime | None = None,
) -> int:
    """Add events to the inbox, and save a list's cursor (its name and position) in the same
    transaction; returns the number of new events. They came now, or at `came_at` (wall time)."""
    now = ports.clock.wall()
    at = came_at or now

    async def unit(tx: Transaction) -> int:
        added = [await tx.inbox.add_event(ports.payments.name, event, at) for event in events]
        if cursor is not None:
            await tx.cursors.save_cursor(*cursor, now)
        return sum(added)

    return await ports.store.run_transaction(unit)


def visit_event_id(subject: object, at: datetime) -> str:
    """Event name of a sync for a user who waits on a page. It is the same for 5
    seconds, so that page loads do not use up the processor's rate limit."""
    return f"visit:{subject}:{int(at.timestamp() // VISIT_SYNC_INTERVAL.total_seconds())}"
