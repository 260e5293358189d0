"""The inbox of the processor's events: what it says to look at, once for each name."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from staffbooking_core.domain.payments.processor import Nudge
from staffbooking_core.ports import Ports, Writing

VISIT = timedelta(seconds=5)


async def note(ports: Ports, nudges: Sequence[Nudge], cursor: tuple[str, str] | None = None) -> int:
    """Put nudges into the inbox and, with them, how far a list was read: the list's name and
    the cursor. How many nudges were new."""
    now = ports.clock.wall()

    async def unit(tx: Writing) -> int:
        added = [await tx.money.add_nudge(ports.payments.name, nudge, now) for nudge in nudges]
        if cursor is not None:
            await tx.money.save_cursor(*cursor, now)
        return sum(added)

    return await ports.store.write(unit)


def visit(subject: object, at: datetime) -> str:
    """The name of a look for somebody who waits on a page: the same for a few seconds, however
    often the page is loaded, since the processor's patience is everybody's."""
    return f"visit:{subject}:{int(at.timestamp() // VISIT.total_seconds())}"
