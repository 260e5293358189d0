"""Contract of the SQL stores: many deliveries are held, resumed and deleted in batches."""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_adapters.sql.pruning import BATCH_SIZE
from staffbooking_adapters.sql.webhooks.writer import DELIVERY_UPDATE_BATCH_SIZE
from staffbooking_adapters.testing.builders import NOW, POLICY
from staffbooking_adapters.testing.builders_webhooks import add_endpoint, make_new_delivery
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_adapters.testing.store.webhooks.delivery_helpers import (
    add_deliveries,
    hold_endpoint,
    resume_endpoint,
    with_locked_endpoint,
)
from staffbooking_core.ports import WebhookStats
from tests.contract.stores import STORES

pytestmark = pytest.mark.anyio

MANY = DELIVERY_UPDATE_BATCH_SIZE + 1


@pytest.fixture(params=["sqlite", "postgresql"])
async def sql_store(request):
    async with STORES[request.param](request) as opened:
        yield opened


async def pending_and_held(store):
    """The numbers of pending and held deliveries."""
    figures: WebhookStats = await read_store(store, lambda view: view.webhooks.stats(NOW))
    return figures.pending, figures.held


async def test_holding_runs_in_batches(sql_store):
    """One call holds a batch; deliveries that remain pending make the endpoint due."""
    endpoint = await add_endpoint(sql_store)
    await add_deliveries(sql_store, *(make_new_delivery(endpoint.id) for _ in range(MANY)))
    assert (await hold_endpoint(sql_store, endpoint), await pending_and_held(sql_store)) == (
        DELIVERY_UPDATE_BATCH_SIZE,
        (1, DELIVERY_UPDATE_BATCH_SIZE),
    )
    assert (
        await read_store(
            sql_store, lambda view: view.webhooks.next_batch_due_at(NOW, degraded=False)
        )
        == NOW
    )
    assert (await hold_endpoint(sql_store, endpoint), await pending_and_held(sql_store)) == (
        1,
        (0, MANY),
    )
    assert (
        await read_store(
            sql_store, lambda view: view.webhooks.next_batch_due_at(NOW, degraded=False)
        )
        is None
    )


async def test_resuming_runs_in_batches(sql_store):
    """An endpoint is listed as having held deliveries until the last batch is resumed."""
    endpoint = await add_endpoint(sql_store)
    await add_deliveries(sql_store, *(make_new_delivery(endpoint.id) for _ in range(MANY)))
    while await hold_endpoint(sql_store, endpoint):
        pass
    resumed = []
    while await read_store(
        sql_store, lambda view: view.webhooks.endpoints_with_held_deliveries(0, 10)
    ):
        resumed.append(await resume_endpoint(sql_store, endpoint))
    assert (resumed, await pending_and_held(sql_store)) == (
        [DELIVERY_UPDATE_BATCH_SIZE, 1],
        (MANY, 0),
    )


async def test_cancelling_and_deleting_run_in_batches(sql_store):
    """Each call cancels a batch, or deletes a batch of those that expired."""
    endpoint = await add_endpoint(sql_store)
    await add_deliveries(sql_store, *(make_new_delivery(endpoint.id) for _ in range(MANY)))
    cancelled = [
        await with_locked_endpoint(
            sql_store, endpoint, lambda webhooks: webhooks.cancel_deliveries(endpoint.id, NOW)
        )
        for _ in range(2)
    ]
    assert (cancelled, await pending_and_held(sql_store)) == (
        [DELIVERY_UPDATE_BATCH_SIZE, 1],
        (0, 0),
    )
    swept_at = NOW + POLICY.webhook_delivery_retention + timedelta(seconds=1)
    deleted = [await sql_store.delete_expired(swept_at, POLICY) for _ in range(4)]
    assert deleted == [BATCH_SIZE, BATCH_SIZE, MANY - 2 * BATCH_SIZE, 0]
