"""Contract of the stores: what a request causes keeps the id of the request."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import NOW, add_booking, make_lease, make_refund_order
from staffbooking_adapters.testing.builders_notifications import add_notification, make_notification
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    add_event,
    claim_endpoint_batches,
)
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_core.ports import Store
from staffbooking_core.request_id import caused_by_request

pytestmark = pytest.mark.anyio


async def add_work(store: Store) -> int:
    """A booking with an operation and a notification, another notification, and a delivery of an
    event; returns the booking's id."""
    orders = [make_refund_order(1)]
    change = {"notifications": [make_notification()], "orders": orders}
    booking = await add_booking(store, change=change)
    await add_notification(store, make_notification())
    await add_delivery(store, await add_endpoint(store), await add_event(store))
    return booking.id


@pytest.mark.parametrize("request_id", ["req-1", None])
async def test_work_keeps_the_id_of_its_request(store: Store, request_id: str | None) -> None:
    """Operations, notifications and deliveries have the id of the request that caused them."""
    with caused_by_request(request_id):
        booking_id = await add_work(store)
    found = await read_store(store, lambda view: view.operations.operations_of(booking_id))
    due = await store.run_transaction(
        lambda tx: tx.notifications.claim_notifications(NOW, make_lease(), 9)
    )
    [batch] = await claim_endpoint_batches(store)
    works = (*found, *due, *batch.due_deliveries)
    assert len(works) == 4
    assert [work.request_id for work in works] == [request_id] * 4
