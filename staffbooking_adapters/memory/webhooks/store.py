"""Webhook endpoints, their delivery batches and their deliveries in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from attrs import asdict, evolve, frozen

from staffbooking_adapters import codec
from staffbooking_adapters.memory.state import (
    DeliveryRow,
    EndpointRow,
    MemoryState,
    MemoryTransaction,
    is_lease_active,
)
from staffbooking_adapters.memory.webhooks import feed, log, queue
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    Delivery,
    DeliveryAttempt,
    DeliveryGroup,
    DeliveryStatus,
    EndpointSecrets,
    EndpointSubscription,
    NewDelivery,
    PublishedEvent,
    WebhookEndpoint,
)
from staffbooking_core.ports import (
    DueDelivery,
    EndpointBatch,
    EndpointClaim,
    Hint,
    Lease,
    NewWebhookEndpoint,
    WebhookStats,
)
from staffbooking_core.representations.events import WebhookTestEvent


@frozen
class WebhooksReader:
    """Reads endpoints, deliveries and the event feed."""

    _tx: MemoryTransaction

    async def endpoint(self, endpoint_id: int) -> WebhookEndpoint | None:
        row = self._tx.state.endpoints.get(endpoint_id)
        return None if row is None else row.endpoint

    async def endpoints_of(self, owner_id: int) -> Sequence[WebhookEndpoint]:
        rows = _undeleted_endpoints(self._tx.state)
        return [row.endpoint for row in rows if row.endpoint.owner_id == owner_id]

    async def endpoints(
        self, after_id: int, limit: int, offset: int = 0
    ) -> Sequence[EndpointSubscription]:
        state = self._tx.state
        rows = [row for row in _undeleted_endpoints(state) if row.endpoint.id > after_id]
        return [_subscription_of(state, row) for row in rows[offset : offset + limit]]

    async def silent_endpoints(
        self, before_id: int | None, limit: int
    ) -> Sequence[EndpointSubscription]:
        state = self._tx.state
        rows = [
            row
            for row in reversed(_undeleted_endpoints(state))
            if row.endpoint.is_silent and (before_id is None or row.endpoint.id < before_id)
        ]
        return [_subscription_of(state, row) for row in rows[:limit]]

    async def delivery(self, delivery_id: int) -> Delivery | None:
        row = self._tx.state.deliveries.get(delivery_id)
        return None if row is None else row.delivery

    async def deliveries(
        self,
        endpoint_id: int,
        page: int,
        limit: int,
        group: DeliveryGroup | None = None,
        event: str | None = None,
    ) -> Sequence[tuple[Delivery, Sequence[DeliveryAttempt]]]:
        newest = log.find_deliveries(self._tx.state, endpoint_id, group, event)
        start = (page - 1) * limit
        return [(row.delivery, row.attempts) for row in newest[start : start + limit + 1]]

    async def delivery_body(self, delivery_id: int) -> bytes | None:
        return log.delivery_body(self._tx.state, delivery_id)

    async def delivery_counts(self, endpoint_id: int) -> Mapping[DeliveryStatus, int]:
        return log.count_deliveries(self._tx.state, endpoint_id)

    async def failed_deliveries(
        self, endpoint_id: int, since: datetime, limit: int
    ) -> Sequence[Delivery]:
        return log.failed_deliveries(self._tx.state, endpoint_id, since)[:limit]

    async def attempts_of(self, delivery_id: int) -> Sequence[DeliveryAttempt]:
        row = self._tx.state.deliveries.get(delivery_id)
        return () if row is None else row.attempts

    async def attempts_since(
        self, since: datetime, limit: int
    ) -> Sequence[tuple[Delivery, DeliveryAttempt]]:
        found = [
            (row.delivery, attempt)
            for row in self._tx.state.deliveries.values()
            for attempt in row.attempts
            if attempt.at >= since
        ]
        found.sort(key=lambda each: (each[1].at, each[0].id, each[1].number))
        return found[:limit]

    async def feed_position(self, event_id: str, reader_id: int | None) -> int | None:
        return feed.position_in_feed(self._tx.state, event_id, reader_id)

    async def feed_events_after(
        self, reader_id: int | None, after_position: int, names: Collection[EventName], limit: int
    ) -> Sequence[bytes]:
        return feed.read_feed(self._tx.state, reader_id, after_position, names, limit)

    async def feed_events_before(
        self,
        reader_id: int | None,
        before_position: int,
        names: Collection[EventName],
        limit: int,
    ) -> Sequence[tuple[int, bytes]]:
        return feed.read_latest(self._tx.state, reader_id, before_position, names, limit)

    async def has_unsequenced_events(self) -> bool:
        return any(feed.events_without_position(self._tx.state))

    async def unsequenced_events(self, limit: int) -> Sequence[PublishedEvent]:
        return feed.next_events_without_position(self._tx.state, limit)

    async def endpoints_with_held_deliveries(
        self, after_id: int, limit: int
    ) -> Sequence[EndpointSubscription]:
        state = self._tx.state
        holding = {
            row.delivery.endpoint_id for row in queue.held_deliveries(state.deliveries.values())
        }
        rows = [
            row
            for row in _undeleted_endpoints(state)
            if row.endpoint.active and row.endpoint.id > after_id
        ]
        found = [_subscription_of(state, row) for row in rows if row.endpoint.id in holding]
        return found[:limit]

    async def next_batch_due_at(self, now: datetime, *, degraded: bool) -> datetime | None:
        claimable = _claimable_endpoints(self._tx.state, now, degraded)
        return claimable[0][0] if claimable else None

    async def stats(self, now: datetime) -> WebhookStats:
        state = self._tx.state
        endpoints = [row.endpoint for row in state.endpoints.values()]
        due = [at for at, _ in queue.pending_deliveries(state.deliveries.values())]
        return WebhookStats(
            succeeded=sum(endpoint.succeeded for endpoint in endpoints),
            failed=sum(endpoint.failed for endpoint in endpoints),
            pending=len(due) + len(queue.waiting_deliveries(state.deliveries.values())),
            held=len(queue.held_deliveries(state.deliveries.values())),
            unplaced=sum(1 for _ in feed.events_without_position(state)),
            lag=(now - min(now, *due)).total_seconds() if due else 0.0,
        )


@frozen
class WebhooksWriter(WebhooksReader):
    """Reads and writes endpoints, deliveries and the event feed."""

    async def add_endpoint(self, new_endpoint: NewWebhookEndpoint) -> WebhookEndpoint:
        endpoint_id = next(self._tx.shared.endpoint_ids)
        added = WebhookEndpoint(
            id=endpoint_id, secrets=EndpointSecrets(b""), **asdict(new_endpoint, recurse=False)
        )
        self._tx.state.endpoints[endpoint_id] = EndpointRow(added)
        return added

    async def lock_endpoint(self, endpoint_id: int) -> WebhookEndpoint | None:
        return await self.endpoint(endpoint_id)

    async def save_endpoints(self, endpoints: Sequence[WebhookEndpoint]) -> None:
        rows = self._tx.state.endpoints
        for endpoint in endpoints:
            rows[endpoint.id] = evolve(rows[endpoint.id], endpoint=endpoint)

    # Feed positions and new deliveries --------------------------------------------------

    async def lock_feed(self) -> int:
        return max(self._tx.state.event_by_position, default=0)

    async def save_feed_positions(
        self, positioned_events: Sequence[tuple[PublishedEvent, int]]
    ) -> None:
        feed.assign_positions(self._tx.state, positioned_events)

    async def lock_endpoints_of(self, user_ids: Sequence[int]) -> Sequence[EndpointSubscription]:
        state = self._tx.state
        subscriptions = (_subscription_of(state, row) for row in _undeleted_endpoints(state))
        return [
            each
            for each in subscriptions
            if each.owner.id in user_ids or each.owner.role is Role.ADMIN
        ]

    async def add_deliveries(self, new_deliveries: Sequence[NewDelivery]) -> None:
        for each in new_deliveries:
            if (each.endpoint_id, each.event_id) in self._tx.state.delivery_by_event:
                continue
            _add_delivery(self._tx, each)
            if each.status is DeliveryStatus.PENDING and each.next_at is not None:
                await self.schedule_endpoint(each.endpoint_id, each.next_at)

    async def add_test_delivery(
        self, new_delivery: NewDelivery, envelope: WebhookTestEvent
    ) -> DueDelivery:
        body = codec.encode(envelope)
        return DueDelivery(_add_delivery(self._tx, new_delivery, body).delivery, body)

    # Sending ----------------------------------------------------------------------------

    async def claim_batches(
        self, now: datetime, lease: Lease, limit: int, batch_size: int, *, degraded: bool
    ) -> Sequence[EndpointBatch]:
        state, batches = self._tx.state, []
        for due_at, endpoint_id in _claimable_endpoints(state, now, degraded)[:limit]:
            if due_at > now:
                break
            row = state.endpoints[endpoint_id] = evolve(state.endpoints[endpoint_id], lease=lease)
            owner = state.users[row.endpoint.owner_id]
            due = queue.next_deliveries(state, row.endpoint, now, batch_size)
            batches.append(EndpointBatch(row.endpoint, owner, lease, tuple(due)))
        return batches

    async def next_deliveries(
        self, batches: Sequence[tuple[WebhookEndpoint, Delivery]], now: datetime, limit: int
    ) -> Mapping[int, Sequence[DueDelivery]]:
        return {
            endpoint.id: queue.next_deliveries(self._tx.state, endpoint, now, limit, last)
            for endpoint, last in batches
        }

    async def renew_claims(self, tokens: Sequence[str], until: datetime) -> None:
        rows = self._tx.state.endpoints
        for endpoint_id, row in list(rows.items()):
            if row.lease is not None and row.lease.token in tokens:
                rows[endpoint_id] = evolve(row, lease=Lease(row.lease.token, until))

    async def lock_claims(
        self, claims: Sequence[EndpointClaim]
    ) -> Mapping[EndpointClaim, EndpointSubscription]:
        state = self._tx.state
        return {
            (endpoint_id, row.lease.token): _subscription_of(state, row)
            for endpoint_id, row in state.endpoints.items()
            if row.lease is not None and (endpoint_id, row.lease.token) in claims
        }

    async def release_endpoints(self, endpoint_ids: Sequence[int], now: datetime) -> None:
        rows = self._tx.state.endpoints
        for endpoint_id in endpoint_ids:
            rows[endpoint_id] = evolve(rows[endpoint_id], lease=None, due_at=None)
            self._schedule_next_batch(endpoint_id, now)

    async def lock_deliveries(self, delivery_ids: Sequence[int]) -> Sequence[Delivery]:
        rows = self._tx.state.deliveries
        return [
            rows[delivery_id].delivery
            for delivery_id in sorted(delivery_ids)
            if delivery_id in rows
        ]

    async def save_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        rows = self._tx.state.deliveries
        for delivery in deliveries:
            due_at = delivery.next_at or rows[delivery.id].due_at
            rows[delivery.id] = evolve(rows[delivery.id], delivery=delivery, due_at=due_at)

    async def advance_deliveries(self, deliveries: Sequence[Delivery]) -> Collection[int]:
        rows = self._tx.state.deliveries
        advanced = [
            each
            for each in deliveries
            if (row := rows.get(each.id)) is not None
            and row.delivery.status is DeliveryStatus.PENDING
            and row.delivery.attempts == each.attempts - 1
        ]
        await self.save_deliveries(advanced)
        return [each.id for each in advanced]

    async def release_waiting_deliveries(self, finished_ids: Sequence[int]) -> None:
        state = self._tx.state
        for delivery_id in finished_ids:
            for row in log.deliveries_of_booking(state, state.deliveries[delivery_id]):
                is_waiting = row.delivery.status is DeliveryStatus.WAITING
                if is_waiting and not queue.has_earlier_unfinished(state, row):
                    queue.update_delivery(state, row, status=DeliveryStatus.PENDING)

    async def add_attempts(self, attempts: Sequence[tuple[int, DeliveryAttempt]]) -> None:
        rows = self._tx.state.deliveries
        for delivery_id, attempt in attempts:
            row = rows[delivery_id]
            rows[delivery_id] = evolve(row, attempts=(*row.attempts, attempt))

    async def schedule_endpoint(self, endpoint_id: int, earliest_at: datetime) -> None:
        rows = self._tx.state.endpoints
        row = rows[endpoint_id]
        due_at = earliest_at if row.due_at is None else min(earliest_at, row.due_at)
        rows[endpoint_id] = evolve(row, due_at=due_at)
        self._tx.hints.add(Hint.DELIVERIES)

    # Holding ----------------------------------------------------------------------------

    async def hold_deliveries(self, endpoint_id: int, now: datetime) -> int:
        state = self._tx.state
        rows = log.deliveries_of(state, endpoint_id)
        pending = [
            *(row for _, row in queue.pending_deliveries(rows)),
            *queue.waiting_deliveries(rows),
        ]
        for row in pending:
            queue.update_delivery(state, row, status=DeliveryStatus.HELD, held_at=now)
        self._schedule_next_batch(endpoint_id, now)
        return len(pending)

    async def resume_deliveries(self, endpoint_id: int, now: datetime) -> int:
        state = self._tx.state
        rows = log.deliveries_of(state, endpoint_id)
        held = [*queue.held_deliveries(rows), *queue.waiting_deliveries(rows)]
        for row in held:
            queue.update_delivery(state, row, status=DeliveryStatus.PENDING, held_at=None)
        self._schedule_next_batch(endpoint_id, now)
        return len(held)

    async def cancel_deliveries(self, endpoint_id: int, now: datetime) -> int:
        state = self._tx.state
        rows = log.deliveries_of(state, endpoint_id)
        pending = [row for _, row in queue.pending_deliveries(rows)]
        unfinished = [*pending, *queue.waiting_deliveries(rows), *queue.held_deliveries(rows)]
        queue.cancel_deliveries(state, unfinished)
        self._schedule_next_batch(endpoint_id, now)
        return len(unfinished)

    async def cancel_held_deliveries(self, held_before: datetime, now: datetime, limit: int) -> int:
        state = self._tx.state
        held = [
            (row.delivery.held_at, row.delivery.id)
            for row in queue.held_deliveries(state.deliveries.values())
            if row.delivery.held_at is not None and row.delivery.held_at <= held_before
        ]
        late = [state.deliveries[delivery_id] for _, delivery_id in sorted(held)[:limit]]
        queue.cancel_deliveries(state, late)
        await self.release_waiting_deliveries([row.delivery.id for row in late])
        for endpoint_id in {row.delivery.endpoint_id for row in late}:
            self._schedule_next_batch(endpoint_id, now)
        return len(late)

    def _schedule_next_batch(self, endpoint_id: int, now: datetime) -> None:
        """Schedule an endpoint's next batch at its first pending delivery, but not before `now`,
        so that endpoints already due go first."""
        state = self._tx.state
        pending = queue.pending_deliveries(log.deliveries_of(state, endpoint_id))
        due_at = max(now, min(at for at, _ in pending)) if pending else None
        state.endpoints[endpoint_id] = evolve(state.endpoints[endpoint_id], due_at=due_at)
        if due_at == now:
            self._tx.hints.add(Hint.DELIVERIES)


def drop_deliveries(state: MemoryState, before: datetime) -> int:
    """Delete finished deliveries due by `before`, with their attempts; returns their number."""
    old = [
        row.delivery
        for row in state.deliveries.values()
        if row.delivery.is_finished and row.due_at <= before
    ]
    for delivery in old:
        state.deliveries.discard(delivery.id)
        state.delivery_by_event.discard((delivery.endpoint_id, delivery.event_id))
        others = state.deliveries_of[delivery.endpoint_id]
        state.deliveries_of[delivery.endpoint_id] = tuple(
            delivery_id for delivery_id in others if delivery_id != delivery.id
        )
    return len(old)


def _undeleted_endpoints(state: MemoryState) -> list[EndpointRow]:
    """The endpoints that are not deleted, in id order."""
    return [row for row in state.endpoints.values() if row.endpoint.deleted_at is None]


def _subscription_of(state: MemoryState, row: EndpointRow) -> EndpointSubscription:
    return EndpointSubscription(row.endpoint, state.users[row.endpoint.owner_id])


def _claimable_endpoints(
    state: MemoryState, now: datetime, degraded: bool
) -> list[tuple[datetime, int]]:
    """The due time and id of each unclaimed endpoint with a batch, the earliest first."""
    return sorted(
        (row.due_at, endpoint_id)
        for endpoint_id, row in state.endpoints.items()
        if row.due_at is not None
        and row.endpoint.degraded is degraded
        and not is_lease_active(row.lease, now)
    )


def _add_delivery(
    tx: MemoryTransaction, new: NewDelivery, body: bytes | None = None
) -> DeliveryRow:
    state, delivery_id = tx.state, next(tx.shared.delivery_ids)
    delivery = Delivery(id=delivery_id, **asdict(new, recurse=False))
    row = DeliveryRow(delivery, new.next_at or new.created_at, body=body)
    state.deliveries[delivery_id] = row
    others = state.deliveries_of.get(new.endpoint_id) or ()
    state.deliveries_of[new.endpoint_id] = (*others, delivery_id)
    state.delivery_by_event[new.endpoint_id, new.event_id] = delivery_id
    return row
