"""Timers: the next moment at which a booking changes by itself, at most one per booking.

A timer is saved with a transition of its booking (`BookingWrite.due`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.bookings.lifecycle import TimerKind
from staffbooking_core.ports.leases import Lease

__all__ = ["Timer", "TimersWritePort"]


@frozen
class Timer:
    """A claimed timer of a booking; `due_at` is business time."""

    booking_id: int
    kind: TimerKind
    due_at: datetime
    attempts: int


class TimersWritePort(Protocol):
    """Commands on timers."""

    async def claim_timers(
        self, business_now: datetime, now: datetime, lease: Lease, limit: int
    ) -> Sequence[Timer]:
        """Claim up to `limit` timers that are due by business time and not deferred beyond `now`
        (wall time), the earliest due first. Saving the booking replaces its timer and ends
        the claim."""
        ...

    async def defer_timer(self, booking_id: int, lease: Lease, until: datetime) -> None:
        """Release a claimed timer, not to be claimed before `until` (wall time). Does nothing
        where the lease was lost."""
        ...
