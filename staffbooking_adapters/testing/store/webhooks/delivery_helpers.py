"""Steps of webhook deliveries for the contract tests of the stores."""

from __future__ import annotations

from attrs import evolve

from staffbooking_adapters.testing.builders import NOW
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus

STATUS_HELD, STATUS_PENDING = DeliveryStatus.HELD, DeliveryStatus.PENDING


def succeeded(delivery):
    return evolve(delivery, status=DeliveryStatus.SUCCEEDED, next_at=None)


async def find_delivery(store, delivery):
    return await read_store(store, lambda view: view.webhooks.delivery(delivery.id))


async def find_deliveries(store, *deliveries):
    async with store.read_view() as view:
        return [await view.webhooks.delivery(each.id) for each in deliveries]


async def add_deliveries(store, *new):
    async def unit(tx):
        for number in sorted({each.endpoint_id for each in new}):
            await tx.webhooks.lock_endpoint(number)
        await tx.webhooks.add_deliveries(new)

    await store.run_transaction(unit)


async def save_deliveries(store, *deliveries):
    await store.run_transaction(lambda unit: unit.webhooks.save_deliveries(deliveries))


async def add_attempts(store, delivery, *attempts):
    made = [(delivery.id, each) for each in attempts]
    await store.run_transaction(lambda unit: unit.webhooks.add_attempts(made))


async def delivery_page(store, endpoint, number=1, limit=10):
    rows = await read_store(
        store, lambda view: view.webhooks.deliveries(endpoint.id, number, limit)
    )
    return [(delivery, list(attempts)) for delivery, attempts in rows]


async def deliveries_of(store, endpoint):
    return [delivery for delivery, _ in await delivery_page(store, endpoint, limit=1_000)]


async def with_locked_endpoint(store, endpoint, work):
    """Lock an endpoint and return the result of `work`, which gets the port `webhooks`."""

    async def unit(tx):
        await tx.webhooks.lock_endpoint(endpoint.id)
        return await work(tx.webhooks)

    return await store.run_transaction(unit)


async def hold_endpoint(store, endpoint, now=NOW):
    return await with_locked_endpoint(
        store, endpoint, lambda webhooks: webhooks.hold_deliveries(endpoint.id, now)
    )


async def resume_endpoint(store, endpoint, now=NOW):
    return await with_locked_endpoint(
        store, endpoint, lambda webhooks: webhooks.resume_deliveries(endpoint.id, now)
    )


async def next_batch_time(store, now=NOW):
    return await read_store(
        store, lambda view: view.webhooks.next_batch_due_at(now, degraded=False)
    )
