"""Calendar subscriptions: addresses of staff members' other calendars, read again each hour."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from staffbooking_core.domain.companions.calendar_subscriptions import CalendarSubscription
from staffbooking_core.ports.leases import Lease

__all__ = ["CalendarSubscriptionsReadPort", "CalendarSubscriptionsWritePort"]


class CalendarSubscriptionsReadPort(Protocol):
    """Queries on calendar subscriptions."""

    async def subscriptions_of(self, companion_id: int) -> Sequence[CalendarSubscription]:
        """All subscriptions of a companion, the oldest first; the use-cases limit their number."""
        ...

    async def subscriptions(self, after_id: int, limit: int) -> Sequence[CalendarSubscription]:
        """Up to `limit` subscriptions of all companions above `after_id`, by id."""
        ...


class CalendarSubscriptionsWritePort(CalendarSubscriptionsReadPort, Protocol):
    """Commands on calendar subscriptions. A caller that changes busy times locks the companion
    before: its calendar has the busy times of all subscriptions."""

    async def add_subscription(self, subscription: CalendarSubscription) -> CalendarSubscription:
        """Insert a subscription under a new id, which replaces the given one. The caller saves it
        with its sealed address in the same transaction: the seal depends on the id."""
        ...

    async def claim_subscriptions(
        self, now: datetime, lease: Lease, limit: int, subscription_id: int | None = None
    ) -> Sequence[CalendarSubscription]:
        """Claim up to `limit` subscriptions whose `next_read_at` (wall time) has come, the earliest
        first. With `subscription_id`, claim that one alone, due or not, unless it is claimed."""
        ...

    async def lock_subscription(self, subscription_id: int, lease: Lease) -> CalendarSubscription:
        """A claimed subscription, locked until the transaction ends.

        Raises Conflict where the lease was lost, or the subscription was removed.
        """
        ...

    async def save_subscription(self, subscription: CalendarSubscription) -> None:
        """Update a subscription and end its lease; one that was removed stays removed."""
        ...

    async def reseal_subscription(self, subscription_id: int, before: bytes, after: bytes) -> bool:
        """Replace a sealed address unless it has changed since; whether it was replaced. A lease
        continues."""
        ...

    async def remove_subscription(self, companion_id: int, subscription_id: int) -> bool:
        """Delete a companion's subscription; whether there was one."""
        ...
