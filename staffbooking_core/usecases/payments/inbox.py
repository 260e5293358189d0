"""The inbox of the processor's events: what it says to look at, once for each name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from staffbooking_core.domain.payments.processor import ProcessorEvent
from staffbooking_core.ports import Ports, Transaction

VISIT_SYNC_INTERVAL = timedelta(seconds=5)


async def add_events(
    ports: Ports, events: Sequence[ProcessorEvent], cursor: tuple[str, str] | None = None
) -> int:
    """Put nudges into the inbox and, with them, how far a list was read: the list's name and
    the cursor. How many nudges were new."""
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> int:
        added = [await tx.inbox.add_event(ports.payments.name, nudge, now) for nudge in events]
        if cursor is not None:
            await tx.cursors.save_cursor(*cursor, now)
        return sum(added)

    return await ports.store.run_transaction(unit)


def visit_event_id(subject: object, at: datetime) -> str:
    """The name of a look for somebody who waits on a page: the same for a few seconds, however
    often the page is loaded, since the processor's patience is everybody's."""
    return f"visit:{subject}:{int(at.timestamp() // VISIT_SYNC_INTERVAL.total_seconds())}"
