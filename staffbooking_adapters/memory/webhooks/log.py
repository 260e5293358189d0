"""Lookups of deliveries in memory: by endpoint, booking and status, and their bodies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from staffbooking_adapters.memory.state import DeliveryRow, MemoryState
from staffbooking_core.domain.webhooks.deliveries import Delivery, DeliveryGroup, DeliveryStatus
from staffbooking_core.ports import MAX_COUNTED_DELIVERIES, DueDelivery

_UNCOUNTED_STATUSES = (DeliveryStatus.SUCCEEDED, DeliveryStatus.CANCELLED)


def deliveries_of(state: MemoryState, endpoint_id: int) -> list[DeliveryRow]:
    return [
        state.deliveries[delivery_id] for delivery_id in state.deliveries_of.get(endpoint_id) or ()
    ]


def deliveries_of_booking(state: MemoryState, row: DeliveryRow) -> list[DeliveryRow]:
    """The deliveries of the row's booking to the row's endpoint, in the order of their events."""
    if (event := state.events.get(row.delivery.event_id)) is None:
        return []
    ids = sorted(
        state.events_of[event.event.booking_id],
        key=lambda event_id: state.events[event_id].event.sequence,
    )
    keys = [(row.delivery.endpoint_id, event_id) for event_id in ids]
    delivery_ids = [state.delivery_by_event.get(key) for key in keys]
    return [
        state.deliveries[delivery_id] for delivery_id in delivery_ids if delivery_id is not None
    ]


def find_deliveries(
    state: MemoryState, endpoint_id: int, group: DeliveryGroup | None, event: str | None
) -> list[DeliveryRow]:
    """The deliveries of a group of statuses and of an event's name, the newest first."""
    return [
        row
        for row in reversed(deliveries_of(state, endpoint_id))
        if (group is None or row.delivery.status in group.statuses)
        and (event is None or row.delivery.event == event)
    ]


def failed_deliveries(state: MemoryState, endpoint_id: int, since: datetime) -> list[Delivery]:
    failed = find_deliveries(state, endpoint_id, DeliveryGroup.FAILED, None)
    return [row.delivery for row in failed if any(each.at >= since for each in row.attempts)]


def count_deliveries(state: MemoryState, endpoint_id: int) -> Mapping[DeliveryStatus, int]:
    """The number of deliveries by status, of the newest ones that are neither succeeded nor
    cancelled."""
    newest = [row.delivery.status for row in reversed(deliveries_of(state, endpoint_id))]
    counted = [status for status in newest if status not in _UNCOUNTED_STATUSES]
    return Counter(counted[:MAX_COUNTED_DELIVERIES])


def due_delivery(state: MemoryState, row: DeliveryRow) -> DueDelivery:
    event = state.events.get(row.delivery.event_id)
    if row.body is not None or event is None:
        return DueDelivery(row.delivery, row.body or b"")
    return DueDelivery(row.delivery, event.body, event.request_id)


def delivery_body(state: MemoryState, delivery_id: int) -> bytes | None:
    row = state.deliveries.get(delivery_id)
    return (due_delivery(state, row).body or None) if row is not None else None
