"""Contract of the stores: deliveries of ordered endpoints wait for earlier ones of a booking."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, NOW, SECOND, add_booking, make_lease
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    add_event,
    claim_endpoint_batches,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_adapters.testing.store.webhooks.delivery_helpers import (
    find_deliveries,
    hold_endpoint,
    next_batch_time,
    resume_endpoint,
    save_deliveries,
    succeeded,
    with_locked_endpoint,
)
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus

PENDING, WAITING, HELD = DeliveryStatus.PENDING, DeliveryStatus.WAITING, DeliveryStatus.HELD
LATER = NOW + 60 * SECOND


async def add_line(store, endpoint, count=3, **given):
    """Pending deliveries of a booking's events in their order."""
    booking = await add_booking(store)
    return [
        await add_delivery(store, endpoint, await add_event(store, booking), **given)
        for _ in range(count)
    ]


async def claim(store, endpoint, now=NOW):
    """Claim the endpoint's batch and release it; returns the ids of its deliveries."""
    batches = await claim_endpoint_batches(store, now, make_lease(now))
    ids = [due.delivery.id for batch in batches for due in batch.due_deliveries]
    await with_locked_endpoint(
        store, endpoint, lambda webhooks: webhooks.release_endpoints([endpoint.id], now)
    )
    return ids


async def finish(store, *deliveries, status=DeliveryStatus.SUCCEEDED):
    """Finish deliveries, and release those that waited for them."""
    done = [evolve(succeeded(each), status=status) for each in deliveries]

    async def unit(tx):
        await tx.webhooks.save_deliveries(done)
        await tx.webhooks.release_waiting_deliveries([each.id for each in done])

    await store.run_transaction(unit)


async def statuses(store, *deliveries):
    return [each.status for each in await find_deliveries(store, *deliveries)]


class OrderedEndpointsContract(StoreContract):
    """Deliveries of ordered endpoints wait for earlier ones of a booking."""

    async def test_the_first_of_each_booking_is_claimed(self, store):
        """Of an ordered endpoint, the earliest unfinished delivery of each booking is claimed; the
        others wait."""
        endpoint = await add_endpoint(store, ordered=True)
        one, other = await add_line(store, endpoint), await add_line(store, endpoint, 2)
        assert await claim(store, endpoint) == [one[0].id, other[0].id]
        assert await statuses(store, *one, *other) == [PENDING, WAITING, WAITING, PENDING, WAITING]

    async def test_an_unordered_endpoint_has_no_line(self, store):
        """Of an endpoint that is not ordered, all due deliveries are claimed."""
        endpoint = await add_endpoint(store)
        line = await add_line(store, endpoint)
        assert await claim(store, endpoint) == [each.id for each in line]

    @pytest.mark.parametrize(
        "status", [DeliveryStatus.SUCCEEDED, DeliveryStatus.FAILED, DeliveryStatus.CANCELLED]
    )
    async def test_the_end_of_one_releases_the_next(self, store, status):
        """A finished delivery releases the next one of its booking, and no later one."""
        endpoint = await add_endpoint(store, ordered=True)
        first, second, third = await add_line(store, endpoint)
        await claim(store, endpoint)
        await finish(store, first, status=status)
        assert await statuses(store, second, third) == [PENDING, WAITING]
        assert await claim(store, endpoint) == [second.id]

    async def test_a_retry_keeps_the_others_waiting(self, store):
        """A delivery that waits for its retry delays the others of its booking, which make no
        endpoint due before."""
        endpoint = await add_endpoint(store, ordered=True)
        first, *others = await add_line(store, endpoint)
        await claim(store, endpoint)
        await save_deliveries(store, evolve(first, tries=1, attempts=1, next_at=LATER))
        assert await claim(store, endpoint) == []
        due_at = await read_store(
            store, lambda view: view.webhooks.next_batch_due_at(NOW, degraded=False)
        )
        assert due_at == LATER
        assert await claim(store, endpoint, LATER) == [first.id]
        assert await statuses(store, *others) == [WAITING, WAITING]

    async def test_a_redelivery_is_outside_the_order(self, store):
        """A redelivery neither waits nor is waited for."""
        endpoint = await add_endpoint(store, ordered=True)
        first, second, third = await add_line(store, endpoint)
        await finish(store, first, second)
        again = [evolve(each, counts=False) for each in (first, second)]
        await save_deliveries(store, *again)
        assert await claim(store, endpoint) == [first.id, second.id, third.id]

    async def test_held_deliveries_keep_their_order(self, store):
        """Resumed deliveries are claimed in their order, and one that is pending waits for those
        that are still held."""
        endpoint = await add_endpoint(store, ordered=True)
        first, second, third = await add_line(store, endpoint)
        await claim(store, endpoint)
        assert await hold_endpoint(store, endpoint) == 3
        assert await statuses(store, first, second, third) == [HELD] * 3
        await save_deliveries(store, third)
        await with_locked_endpoint(
            store, endpoint, lambda webhooks: webhooks.schedule_endpoint(endpoint.id, NOW)
        )
        assert await claim(store, endpoint) == []
        assert await statuses(store, third) == [WAITING]
        assert await resume_endpoint(store, endpoint) == 3
        assert await claim(store, endpoint) == [first.id]
        assert await statuses(store, second, third) == [WAITING, WAITING]

    async def test_the_cancellation_of_a_held_one_releases_the_next(self, store):
        """A delivery that is cancelled since it was held for too long releases the next one of its
        booking, with which the endpoint is due, and no later one."""
        endpoint = await add_endpoint(store, ordered=True)
        first, second, third = await add_line(store, endpoint)
        await save_deliveries(store, evolve(first, status=HELD, held_at=NOW - DAY))
        assert await claim(store, endpoint) == []
        assert await statuses(store, second, third) == [WAITING, WAITING]
        cancelled = await store.run_transaction(
            lambda tx: tx.webhooks.cancel_held_deliveries(NOW - DAY, LATER, 10)
        )
        assert (cancelled, await next_batch_time(store, LATER)) == (1, LATER)
        assert await statuses(store, second, third) == [PENDING, WAITING]
        assert await claim(store, endpoint, LATER) == [second.id]

    async def test_waiting_deliveries_are_cancelled_with_their_endpoint(self, store):
        """Cancelling an endpoint's deliveries cancels those that wait too, and they are counted as
        pending until then."""
        endpoint = await add_endpoint(store, ordered=True)
        line = await add_line(store, endpoint)
        await claim(store, endpoint)
        assert (await read_store(store, lambda view: view.webhooks.stats(NOW))).pending == 3
        cancelled = await with_locked_endpoint(
            store, endpoint, lambda webhooks: webhooks.cancel_deliveries(endpoint.id, NOW)
        )
        assert (cancelled, await statuses(store, *line)) == (3, [DeliveryStatus.CANCELLED] * 3)
