"""Calendar subscriptions in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_adapters.memory.state import (
    CalendarSubscriptionRow,
    MemoryTransaction,
    holds_lease,
    is_lease_active,
)
from staffbooking_core.domain.companions.calendar_subscriptions import CalendarSubscription
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Lease


@frozen
class CalendarSubscriptionsReader:
    """Reads calendar subscriptions."""

    tx: MemoryTransaction

    async def subscriptions_of(self, companion_id: int) -> Sequence[CalendarSubscription]:
        rows = self.tx.state.calendar_subscriptions.values()
        mine = (row.subscription for row in rows)
        found = [each for each in mine if each.companion_id == companion_id]
        return sorted(found, key=lambda each: each.id)

    async def subscriptions(self, after_id: int, limit: int) -> Sequence[CalendarSubscription]:
        rows = self.tx.state.calendar_subscriptions
        ids = [number for number in sorted(rows) if number > after_id]
        return [rows[number].subscription for number in ids[:limit]]


@frozen
class CalendarSubscriptionsWriter(CalendarSubscriptionsReader):
    """Claims, locks and writes calendar subscriptions."""

    async def add_subscription(self, subscription: CalendarSubscription) -> CalendarSubscription:
        added = evolve(subscription, id=next(self.tx.shared.calendar_subscription_ids))
        self.tx.state.calendar_subscriptions[added.id] = CalendarSubscriptionRow(added)
        return added

    async def claim_subscriptions(
        self, now: datetime, lease: Lease, limit: int, subscription_id: int | None = None
    ) -> Sequence[CalendarSubscription]:
        rows = self.tx.state.calendar_subscriptions
        due = [
            row.subscription
            for known_id, row in rows.items()
            if (
                row.subscription.is_due(now)
                if subscription_id is None
                else known_id == subscription_id
            )
            and not is_lease_active(row.lease, now)
        ]
        due.sort(key=lambda each: (each.next_read_at or now, each.id))
        for each in due[:limit]:
            rows[each.id] = CalendarSubscriptionRow(each, lease)
        return due[:limit]

    async def lock_subscription(self, subscription_id: int, lease: Lease) -> CalendarSubscription:
        row = self.tx.state.calendar_subscriptions.get(subscription_id)
        if row is None or not holds_lease(row.lease, lease):
            raise Conflict("calendar subscription")
        return row.subscription

    async def save_subscription(self, subscription: CalendarSubscription) -> None:
        rows = self.tx.state.calendar_subscriptions
        if subscription.id in rows:
            rows[subscription.id] = CalendarSubscriptionRow(subscription)

    async def reseal_subscription(self, subscription_id: int, before: bytes, after: bytes) -> bool:
        rows = self.tx.state.calendar_subscriptions
        row = rows.get(subscription_id)
        if row is None or row.subscription.address != before:
            return False
        rows[subscription_id] = evolve(row, subscription=evolve(row.subscription, address=after))
        return True

    async def remove_subscription(self, companion_id: int, subscription_id: int) -> bool:
        rows = self.tx.state.calendar_subscriptions
        row = rows.get(subscription_id)
        if row is None or row.subscription.companion_id != companion_id:
            return False
        rows.discard(subscription_id)
        return True
