"""The queue of an endpoint's deliveries in memory: which are due, which wait for others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve

from staffbooking_adapters.memory.state import DeliveryRow, MemoryState
from staffbooking_adapters.memory.webhooks import log
from staffbooking_core.domain.webhooks.deliveries import Delivery, DeliveryStatus, WebhookEndpoint
from staffbooking_core.ports import DueDelivery


def pending_deliveries(rows: Iterable[DeliveryRow]) -> list[tuple[datetime, DeliveryRow]]:
    """The pending deliveries with their due times."""
    return [
        (row.delivery.next_at, row)
        for row in rows
        if row.delivery.status is DeliveryStatus.PENDING and row.delivery.next_at is not None
    ]


def held_deliveries(rows: Iterable[DeliveryRow]) -> list[DeliveryRow]:
    return [row for row in rows if row.delivery.status is DeliveryStatus.HELD]


def waiting_deliveries(rows: Iterable[DeliveryRow]) -> list[DeliveryRow]:
    return [row for row in rows if row.delivery.status is DeliveryStatus.WAITING]


def has_earlier_unfinished(state: MemoryState, row: DeliveryRow) -> bool:
    """Whether the delivery comes after an unfinished one of its booking; redeliveries are outside
    the order."""
    in_order = log.deliveries_of_booking(state, row)
    index = next((i for i, each in enumerate(in_order) if each.delivery.id == row.delivery.id), 0)
    return any(each.delivery.counts and not each.delivery.is_finished for each in in_order[:index])


def _leave_out_waiting(state: MemoryState, due: Sequence[DueDelivery]) -> list[DueDelivery]:
    """Make deliveries of an ordered endpoint wait for earlier ones of their bookings; returns the
    others."""
    ready = []
    for each in due:
        row = state.deliveries[each.delivery.id]
        if row.delivery.counts and has_earlier_unfinished(state, row):
            update_delivery(state, row, status=DeliveryStatus.WAITING)
        else:
            ready.append(each)
    return ready


def next_deliveries(
    state: MemoryState,
    endpoint: WebhookEndpoint,
    now: datetime,
    limit: int,
    last: Delivery | None = None,
) -> list[DueDelivery]:
    """The due deliveries of an endpoint: retries first, then first attempts after the last one,
    each by due time."""
    after = None if last is None else (last.next_at, last.id)
    pending = pending_deliveries(log.deliveries_of(state, endpoint.id))
    due = sorted(
        (row.delivery.tries == 0, at, row.delivery.id)
        for at, row in pending
        if at <= now and (after is None or row.delivery.tries or (at, row.delivery.id) > after)
    )
    found = [
        log.due_delivery(state, state.deliveries[delivery_id]) for *_, delivery_id in due[:limit]
    ]
    return _leave_out_waiting(state, found) if endpoint.ordered else found


def update_delivery(state: MemoryState, row: DeliveryRow, **progress: Any) -> None:
    updated = evolve(row.delivery, **progress)
    state.deliveries[updated.id] = evolve(row, delivery=updated)


def cancel_deliveries(state: MemoryState, rows: Iterable[DeliveryRow]) -> None:
    for row in rows:
        update_delivery(state, row, status=DeliveryStatus.CANCELLED, next_at=None, held_at=None)
