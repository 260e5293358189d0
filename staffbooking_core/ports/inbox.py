"""The inbox: the payment processor's events, each handled at least once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from staffbooking_core.domain.payments.processor import ProcessorEvent
from staffbooking_core.ports.leases import Lease

__all__ = ["InboxWritePort"]


class InboxWritePort(Protocol):
    """Commands on the inbox. Times are wall time."""

    async def add_event(self, provider: str, event: ProcessorEvent, now: datetime) -> bool:
        """Add an event, due at once; False where its id is already known."""
        ...

    async def claim_events(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[tuple[str, ProcessorEvent]]:
        """Claim up to `limit` due events that are not done, with their providers, the earliest
        due first: an event that is retried again and again delays no other."""
        ...

    async def finish_event(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        """Mark a claimed event as done, or with `retry_at` release it until then. Does nothing
        where the lease was lost."""
        ...

    async def has_unfinished_event(self, intent_id: int, until: datetime) -> bool:
        """Whether an event of this intent, added at or before `until`, is not done."""
        ...
