"""Timers of bookings in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_adapters.memory.state import (
    MemoryTransaction,
    TimerRow,
    holds_lease,
    is_lease_active,
)
from staffbooking_core.ports import Lease, Timer


@frozen
class TimersWriter:
    """Writes booking timers."""

    tx: MemoryTransaction

    async def claim_timers(
        self, business_now: datetime, now: datetime, lease: Lease, limit: int
    ) -> Sequence[Timer]:
        timers = self.tx.state.timers
        due = [
            (row.due_at, booking_id)
            for booking_id, row in timers.items()
            if is_timer_due(row, business_now, now) and not is_lease_active(row.lease, now)
        ]
        claimed = []
        for _, booking_id in sorted(due)[:limit]:
            row = timers[booking_id]
            row = timers[booking_id] = evolve(row, lease=lease, attempts=row.attempts + 1)
            claimed.append(Timer(booking_id, row.kind, row.due_at, row.attempts))
        return claimed

    async def defer_timer(self, booking_id: int, lease: Lease, until: datetime) -> None:
        timers = self.tx.state.timers
        row = timers.get(booking_id)
        if row is not None and holds_lease(row.lease, lease):
            timers[booking_id] = evolve(row, lease=None, not_before=until)


def is_timer_due(row: TimerRow, business: datetime, now: datetime) -> bool:
    """Whether a timer is due by business time, and not deferred beyond `now` (wall time)."""
    return row.due_at <= business and (row.not_before is None or row.not_before <= now)
