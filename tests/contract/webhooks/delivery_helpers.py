"""Steps of webhook deliveries, for the tests of every store."""

from __future__ import annotations

from attrs import evolve

from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus
from tests.contract.stores import read
from tests.support.builders import NOW

HELD, PENDING = DeliveryStatus.HELD, DeliveryStatus.PENDING


def succeeded(delivery):
    return evolve(delivery, status=DeliveryStatus.SUCCEEDED, next_at=None)


async def find(store, delivery):
    return await read(store, lambda view: view.webhooks.delivery(delivery.id))


async def found(store, *deliveries):
    async with store.reading() as view:
        return [await view.webhooks.delivery(each.id) for each in deliveries]


async def add(store, *new):
    async def unit(tx):
        for number in sorted({each.endpoint_id for each in new}):
            await tx.webhooks.lock_endpoint(number)
        await tx.webhooks.add_deliveries(new)

    await store.write(unit)


async def save(store, *deliveries):
    await store.write(lambda unit: unit.webhooks.save_deliveries(deliveries))


async def log(store, delivery, *attempts):
    made = [(delivery.id, each) for each in attempts]
    await store.write(lambda unit: unit.webhooks.add_attempts(made))


async def page(store, endpoint, number=1, limit=10):
    rows = await read(store, lambda view: view.webhooks.deliveries(endpoint.id, number, limit))
    return [(delivery, list(attempts)) for delivery, attempts in rows]


async def of(store, endpoint):
    return [delivery for delivery, _ in await page(store, endpoint, limit=1_000)]


async def on(store, endpoint, work):
    """What `work` on a locked endpoint comes to."""

    async def unit(tx):
        await tx.webhooks.lock_endpoint(endpoint.id)
        return await work(tx.webhooks)

    return await store.write(unit)


async def hold(store, endpoint, now=NOW):
    return await on(store, endpoint, lambda webhooks: webhooks.hold(endpoint.id, now))


async def resume(store, endpoint, now=NOW):
    return await on(store, endpoint, lambda webhooks: webhooks.resume(endpoint.id, now))


async def next_turn(store, now=NOW):
    return await read(store, lambda view: view.webhooks.next_turn(now, troubled=False))
