"""Webhook endpoints in memory, their turns, and the deliveries on their way to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import asdict, evolve, frozen

from staffbooking_adapters import codec
from staffbooking_adapters.memory.state import (
    DeliveryRow,
    EndpointRow,
    Place,
    State,
    is_running,
)
from staffbooking_adapters.memory.webhooks import feed
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.webhooks.deliveries import (
    Attempt,
    Delivery,
    DeliveryStatus,
    Endpoint,
    NewDelivery,
    Secrets,
    Subscriber,
    Told,
)
from staffbooking_core.ports import Claim, Hint, Lease, NewEndpoint, Parcel, Turn, WebhookFigures

OPEN = frozenset({DeliveryStatus.PENDING, DeliveryStatus.HELD})


@frozen
class WebhooksReader:
    _place: Place

    async def endpoint(self, endpoint_id: int) -> Endpoint | None:
        row = self._place.state.endpoints.get(endpoint_id)
        return None if row is None else row.endpoint

    async def endpoints_of(self, owner_id: int) -> Sequence[Endpoint]:
        rows = _kept(self._place.state)
        return [row.endpoint for row in rows if row.endpoint.owner_id == owner_id]

    async def endpoints(self, after_id: int, limit: int) -> Sequence[Subscriber]:
        state = self._place.state
        rows = [row for row in _kept(state) if row.endpoint.id > after_id]
        return [_subscriber(state, row) for row in rows[:limit]]

    async def delivery(self, delivery_id: int) -> Delivery | None:
        row = self._place.state.deliveries.get(delivery_id)
        return None if row is None else row.delivery

    async def deliveries(
        self, endpoint_id: int, page: int, limit: int
    ) -> Sequence[tuple[Delivery, Sequence[Attempt]]]:
        newest = _deliveries_of(self._place.state, endpoint_id)[::-1]
        start = (page - 1) * limit
        return [(row.delivery, row.attempts) for row in newest[start : start + limit + 1]]

    async def attempts_of(self, delivery_id: int) -> Sequence[Attempt]:
        row = self._place.state.deliveries.get(delivery_id)
        return () if row is None else row.attempts

    async def attempts_since(
        self, since: datetime, limit: int
    ) -> Sequence[tuple[Delivery, Attempt]]:
        found = [
            (row.delivery, attempt)
            for row in self._place.state.deliveries.values()
            for attempt in row.attempts
            if attempt.at >= since
        ]
        found.sort(key=lambda each: (each[1].at, each[0].id, each[1].number))
        return found[:limit]

    async def position(self, event_id: str, reader_id: int | None) -> int | None:
        return feed.position_in_feed(self._place.state, event_id, reader_id)

    async def feed(self, reader_id: int | None, after: int, limit: int) -> Sequence[bytes]:
        return feed.read_feed(self._place.state, reader_id, after, limit)

    async def has_unplaced(self) -> bool:
        return any(feed.unplaced(self._place.state))

    async def unplaced(self, limit: int) -> Sequence[Told]:
        return feed.next_unplaced(self._place.state, limit)

    async def holding(self, after_id: int, limit: int) -> Sequence[Subscriber]:
        state = self._place.state
        holding = {row.delivery.endpoint_id for row in _held(state.deliveries.values())}
        rows = [row for row in _kept(state) if row.endpoint.active and row.endpoint.id > after_id]
        found = [_subscriber(state, row) for row in rows if row.endpoint.id in holding]
        return found[:limit]

    async def next_turn(self, now: datetime, *, troubled: bool) -> datetime | None:
        turns = _free_turns(self._place.state, now, troubled)
        return turns[0][0] if turns else None

    async def figures(self, now: datetime) -> WebhookFigures:
        state = self._place.state
        endpoints = [row.endpoint for row in state.endpoints.values()]
        due = [at for at, _ in _pending(state.deliveries.values())]
        return WebhookFigures(
            succeeded=sum(endpoint.succeeded for endpoint in endpoints),
            failed=sum(endpoint.failed for endpoint in endpoints),
            pending=len(due),
            held=len(_held(state.deliveries.values())),
            unplaced=sum(1 for _ in feed.unplaced(state)),
            lag=(now - min(now, *due)).total_seconds() if due else 0.0,
        )


@frozen
class WebhooksWriter(WebhooksReader):
    async def add_endpoint(self, new: NewEndpoint) -> Endpoint:
        number = next(self._place.shared.endpoint_ids)
        added = Endpoint(id=number, secrets=Secrets(b""), **asdict(new, recurse=False))
        self._place.state.endpoints[number] = EndpointRow(added)
        return added

    async def lock_endpoint(self, endpoint_id: int) -> Endpoint | None:
        return await self.endpoint(endpoint_id)

    async def save_endpoints(self, endpoints: Sequence[Endpoint]) -> None:
        rows = self._place.state.endpoints
        for endpoint in endpoints:
            rows[endpoint.id] = evolve(rows[endpoint.id], endpoint=endpoint)

    # Placing ----------------------------------------------------------------------------

    async def lock_feed(self) -> int:
        return max(self._place.state.event_by_position, default=0)

    async def place(self, placed: Sequence[tuple[Told, int]]) -> None:
        feed.place_events(self._place.state, placed)

    async def subscribers(self, user_ids: Sequence[int]) -> Sequence[Subscriber]:
        state = self._place.state
        everybody = (_subscriber(state, row) for row in _kept(state))
        return [
            each for each in everybody if each.owner.id in user_ids or each.owner.role is Role.ADMIN
        ]

    async def add_deliveries(self, new: Sequence[NewDelivery]) -> None:
        for each in new:
            if (each.endpoint_id, each.event_id) in self._place.state.delivery_by_event:
                continue
            _add_delivery(self._place, each)
            if each.status is DeliveryStatus.PENDING and each.next_at is not None:
                await self.wake(each.endpoint_id, each.next_at)

    async def add_test(self, new: NewDelivery, envelope: dict[str, Any]) -> Parcel:
        body = codec.encode(envelope)
        return Parcel(_add_delivery(self._place, new, body).delivery, body)

    # Sending ----------------------------------------------------------------------------

    async def claim_turns(
        self, now: datetime, lease: Lease, limit: int, batch: int, *, troubled: bool
    ) -> Sequence[Turn]:
        state, turns = self._place.state, []
        for due_at, number in _free_turns(state, now, troubled)[:limit]:
            if due_at > now:
                break
            row = state.endpoints[number] = evolve(state.endpoints[number], lease=lease)
            owner = state.users[row.endpoint.owner_id]
            parcels = _due_parcels(state, number, now)[:batch]
            turns.append(Turn(row.endpoint, owner, lease, tuple(parcels)))
        return turns

    async def renew_turns(self, tokens: Sequence[str], until: datetime) -> None:
        rows = self._place.state.endpoints
        for number, row in list(rows.items()):
            if row.lease is not None and row.lease.token in tokens:
                rows[number] = evolve(row, lease=Lease(row.lease.token, until))

    async def lock_turns(self, claims: Sequence[Claim]) -> Mapping[Claim, Subscriber]:
        state = self._place.state
        return {
            (number, row.lease.token): _subscriber(state, row)
            for number, row in state.endpoints.items()
            if row.lease is not None and (number, row.lease.token) in claims
        }

    async def end_turns(self, endpoint_ids: Sequence[int], now: datetime) -> None:
        rows = self._place.state.endpoints
        for number in endpoint_ids:
            rows[number] = evolve(rows[number], lease=None, due_at=None)
            self._next_turn(number, now)

    async def lock_deliveries(self, delivery_ids: Sequence[int]) -> Sequence[Delivery]:
        rows = self._place.state.deliveries
        return [rows[number].delivery for number in sorted(delivery_ids) if number in rows]

    async def save_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        rows = self._place.state.deliveries
        for delivery in deliveries:
            due_at = delivery.next_at or rows[delivery.id].due_at
            rows[delivery.id] = evolve(rows[delivery.id], delivery=delivery, due_at=due_at)

    async def add_attempts(self, made: Sequence[tuple[int, Attempt]]) -> None:
        rows = self._place.state.deliveries
        for number, attempt in made:
            row = rows[number]
            rows[number] = evolve(row, attempts=(*row.attempts, attempt))

    async def wake(self, endpoint_id: int, at: datetime) -> None:
        rows = self._place.state.endpoints
        row = rows[endpoint_id]
        due_at = at if row.due_at is None else min(at, row.due_at)
        rows[endpoint_id] = evolve(row, due_at=due_at)
        self._place.hints.add(Hint.DELIVERIES)

    # Holding ----------------------------------------------------------------------------

    async def hold(self, endpoint_id: int, now: datetime) -> int:
        state = self._place.state
        pending = [row for _, row in _pending(_deliveries_of(state, endpoint_id))]
        for row in pending:
            _move(state, row, status=DeliveryStatus.HELD, held_at=now)
        self._next_turn(endpoint_id, now)
        return len(pending)

    async def resume(self, endpoint_id: int, now: datetime) -> int:
        state = self._place.state
        held = _held(_deliveries_of(state, endpoint_id))
        for row in held:
            _move(state, row, status=DeliveryStatus.PENDING, held_at=None)
        self._next_turn(endpoint_id, now)
        return len(held)

    async def cancel(self, endpoint_id: int, now: datetime) -> int:
        state = self._place.state
        rows = _deliveries_of(state, endpoint_id)
        waiting = [*(row for _, row in _pending(rows)), *_held(rows)]
        _cancel(state, waiting)
        self._next_turn(endpoint_id, now)
        return len(waiting)

    async def cancel_held(self, before: datetime, limit: int) -> int:
        state = self._place.state
        held = [
            (row.delivery.held_at, row.delivery.id)
            for row in _held(state.deliveries.values())
            if row.delivery.held_at is not None and row.delivery.held_at <= before
        ]
        late = [state.deliveries[number] for _, number in sorted(held)[:limit]]
        _cancel(state, late)
        return len(late)

    def _next_turn(self, endpoint_id: int, now: datetime) -> None:
        """Let an endpoint have a turn with its first pending delivery: now at the earliest, so
        that it gets in line behind those that wait already."""
        state = self._place.state
        pending = _pending(_deliveries_of(state, endpoint_id))
        due_at = max(now, min(at for at, _ in pending)) if pending else None
        state.endpoints[endpoint_id] = evolve(state.endpoints[endpoint_id], due_at=due_at)
        if due_at == now:
            self._place.hints.add(Hint.DELIVERIES)


def drop_deliveries(state: State, before: datetime) -> int:
    """Drop those that are done and were due before then, with their attempts; how many."""
    old = [
        row.delivery
        for row in state.deliveries.values()
        if row.delivery.status not in OPEN and row.due_at <= before
    ]
    for delivery in old:
        state.deliveries.discard(delivery.id)
        state.delivery_by_event.discard((delivery.endpoint_id, delivery.event_id))
        others = state.deliveries_of[delivery.endpoint_id]
        state.deliveries_of[delivery.endpoint_id] = tuple(
            number for number in others if number != delivery.id
        )
    return len(old)


def _kept(state: State) -> list[EndpointRow]:
    """The endpoints that are not deleted, in the order of ids."""
    return [row for row in state.endpoints.values() if row.endpoint.deleted_at is None]


def _subscriber(state: State, row: EndpointRow) -> Subscriber:
    return Subscriber(row.endpoint, state.users[row.endpoint.owner_id])


def _free_turns(state: State, now: datetime, troubled: bool) -> list[tuple[datetime, int]]:
    """When each endpoint that nobody has claimed is due, the earliest first."""
    return sorted(
        (row.due_at, number)
        for number, row in state.endpoints.items()
        if row.due_at is not None
        and row.endpoint.troubled is troubled
        and not is_running(row.lease, now)
    )


def _add_delivery(place: Place, new: NewDelivery, body: bytes | None = None) -> DeliveryRow:
    state, number = place.state, next(place.shared.delivery_ids)
    delivery = Delivery(id=number, **asdict(new, recurse=False))
    row = DeliveryRow(delivery, new.next_at or new.created_at, body=body)
    state.deliveries[number] = row
    others = state.deliveries_of.get(new.endpoint_id) or ()
    state.deliveries_of[new.endpoint_id] = (*others, number)
    state.delivery_by_event[new.endpoint_id, new.event_id] = number
    return row


def _deliveries_of(state: State, endpoint_id: int) -> list[DeliveryRow]:
    return [state.deliveries[number] for number in state.deliveries_of.get(endpoint_id) or ()]


def _pending(rows: Iterable[DeliveryRow]) -> list[tuple[datetime, DeliveryRow]]:
    """Those of the deliveries that are pending, with when they are due."""
    return [
        (row.delivery.next_at, row)
        for row in rows
        if row.delivery.status is DeliveryStatus.PENDING and row.delivery.next_at is not None
    ]


def _held(rows: Iterable[DeliveryRow]) -> list[DeliveryRow]:
    return [row for row in rows if row.delivery.status is DeliveryStatus.HELD]


def _due_parcels(state: State, endpoint_id: int, now: datetime) -> list[Parcel]:
    """What may be sent to an endpoint: retries before first tries, each by its time."""
    pending = _pending(_deliveries_of(state, endpoint_id))
    due = [(row.delivery.tries == 0, at, row.delivery.id) for at, row in pending if at <= now]
    return [_parcel(state, state.deliveries[number]) for _, _, number in sorted(due)]


def _parcel(state: State, row: DeliveryRow) -> Parcel:
    body = state.events[row.delivery.event_id].body if row.body is None else row.body
    return Parcel(row.delivery, body)


def _move(state: State, row: DeliveryRow, **progress: Any) -> None:
    moved = evolve(row.delivery, **progress)
    state.deliveries[moved.id] = evolve(row, delivery=moved)


def _cancel(state: State, rows: Iterable[DeliveryRow]) -> None:
    for row in rows:
        _move(state, row, status=DeliveryStatus.CANCELLED, next_at=None, held_at=None)
