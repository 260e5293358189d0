"""Contract of the stores: deliveries that are held, resumed and cancelled."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    add_booking,
    add_subscriber,
)
from staffbooking_adapters.testing.builders_webhooks import (
    FINAL_STATUSES,
    add_delivery,
    add_endpoint,
    add_event,
    claim_endpoint_batches,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_adapters.testing.store.webhooks.delivery_helpers import (
    STATUS_HELD,
    STATUS_PENDING,
    find_deliveries,
    find_delivery,
    hold_endpoint,
    next_batch_time,
    resume_endpoint,
    with_locked_endpoint,
)
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus, EndpointSubscription

FINE = NOW + timedelta(microseconds=123_456)


async def add_kinds(store, endpoint):
    """Adds a delivery of each status, each with its own due time."""
    booking = await add_booking(store)
    return {
        status: await add_delivery(
            store,
            endpoint,
            await add_event(store, booking),
            status=status,
            next_at=None if status in FINAL_STATUSES else NOW + n * MINUTE,
            held_at=NOW - DAY if status is STATUS_HELD else None,
            attempts=n,
            tries=n,
        )
        for n, status in enumerate(DeliveryStatus, start=1)
    }


def cancelled(delivery):
    """The delivery after its cancellation."""
    return evolve(delivery, status=DeliveryStatus.CANCELLED, next_at=None, held_at=None)


class HeldDeliveriesContract(StoreContract):
    """Deliveries that are held, resumed and cancelled."""

    async def test_holding_changes_only_pending_deliveries(self, store):
        """Holding keeps the due times and tries, and changes only the endpoint's pending and
        waiting deliveries."""
        endpoint, other = await add_endpoint(store), await add_endpoint(store)
        kinds, elsewhere = await add_kinds(store, endpoint), await add_delivery(store, other)
        assert [
            await hold_endpoint(store, endpoint, FINE),
            await hold_endpoint(store, endpoint),
        ] == [
            2,
            0,
        ]
        expected = {
            **kinds,
            **{
                status: evolve(kinds[status], status=STATUS_HELD, held_at=FINE)
                for status in (STATUS_PENDING, DeliveryStatus.WAITING)
            },
        }
        assert await find_deliveries(store, *kinds.values()) == list(expected.values())
        assert await find_delivery(store, elsewhere) == elsewhere

    async def test_a_held_endpoint_is_not_due(self, store):
        """A held endpoint is not due; other endpoints stay due."""
        endpoint, other = await add_endpoint(store), await add_endpoint(store)
        await add_delivery(store, endpoint)
        await add_delivery(store, other, next_at=NOW + MINUTE)
        await hold_endpoint(store, endpoint)
        assert await next_batch_time(store) == NOW + MINUTE

    async def test_holding_keeps_the_claim(self, store):
        """Holding keeps the claim on an endpoint, and releasing it sets no due time."""
        endpoint = await add_endpoint(store)
        await add_delivery(store, endpoint)
        (batch,) = await claim_endpoint_batches(store)
        await hold_endpoint(store, endpoint)

        async def settle(tx):
            held = await tx.webhooks.lock_claims([batch.claim])
            await tx.webhooks.release_endpoints([endpoint.id], NOW)
            return [each.endpoint.id for each in held.values()]

        assert await store.run_transaction(settle) == [endpoint.id]
        assert await next_batch_time(store, NOW + DAY) is None

    async def test_resumed_deliveries_are_pending(self, store):
        """Resumed deliveries, and those that waited, have the due times and tries that they had."""
        endpoint, other = await add_endpoint(store), await add_endpoint(store)
        kinds = await add_kinds(store, endpoint)
        elsewhere = await add_delivery(store, other, status=STATUS_HELD)
        assert [await resume_endpoint(store, endpoint), await resume_endpoint(store, endpoint)] == [
            2,
            0,
        ]
        expected = {
            **kinds,
            **{
                status: evolve(kinds[status], status=STATUS_PENDING, held_at=None)
                for status in (STATUS_HELD, DeliveryStatus.WAITING)
            },
        }
        assert await find_deliveries(store, *kinds.values()) == list(expected.values())
        assert await find_delivery(store, elsewhere) == elsewhere

    async def test_holding_and_resuming_changes_nothing(self, store):
        """Holding and resuming neither advances nor drops a retry."""
        endpoint = await add_endpoint(store)
        delivery = await add_delivery(store, endpoint, next_at=NOW + MINUTE, attempts=2, tries=2)
        await hold_endpoint(store, endpoint)
        await resume_endpoint(store, endpoint)
        assert await find_delivery(store, delivery) == delivery
        assert await claim_endpoint_batches(store, NOW + MINUTE - SECOND) == []
        assert len(await claim_endpoint_batches(store, NOW + MINUTE)) == 1

    @pytest.mark.parametrize(("minutes", "expected"), [((5, 3), 3), ((-5, 3), 0)])
    async def test_a_resumed_endpoint_is_due_with_its_first_delivery(
        self, store, minutes, expected
    ):
        """A resumed endpoint is due with its first delivery, or now where that is overdue."""
        endpoint = await add_endpoint(store)
        for each in minutes:
            await add_delivery(store, endpoint, status=STATUS_HELD, next_at=NOW + each * MINUTE)
        await resume_endpoint(store, endpoint)
        assert await next_batch_time(store, NOW + DAY) == NOW + expected * MINUTE

    async def test_resuming_keeps_an_earlier_due_time(self, store):
        """Resuming keeps an earlier due time of the endpoint."""
        endpoint = await add_endpoint(store)
        await add_delivery(store, endpoint, next_at=NOW + MINUTE)
        await add_delivery(store, endpoint, status=STATUS_HELD, next_at=NOW + HOUR)
        await resume_endpoint(store, endpoint)
        assert await next_batch_time(store) == NOW + MINUTE

    async def test_pending_and_held_deliveries_are_cancelled(self, store):
        """Cancelling ends an endpoint's pending, waiting and held deliveries, and no finished
        ones."""
        endpoint, other = await add_endpoint(store), await add_endpoint(store)
        kinds, elsewhere = await add_kinds(store, endpoint), await add_delivery(store, other)
        cancel = [
            await with_locked_endpoint(
                store, endpoint, lambda webhooks: webhooks.cancel_deliveries(endpoint.id, NOW)
            )
            for _ in range(2)
        ]
        assert cancel == [3, 0]
        expected = [each if each.is_finished else cancelled(each) for each in kinds.values()]
        assert await find_deliveries(store, *kinds.values()) == expected
        assert await find_delivery(store, elsewhere) == elsewhere
        (batch,) = await claim_endpoint_batches(store, NOW + DAY)
        assert batch.endpoint == other

    async def test_deliveries_held_for_too_long_are_cancelled(self, store):
        """Deliveries held for too long are cancelled, longest held first, up to the limit, for all
        endpoints."""
        endpoints = [await add_endpoint(store) for _ in range(2)]
        deliveries = [
            await add_delivery(
                store, endpoints[n % 2], status=STATUS_HELD, held_at=NOW - hours * HOUR
            )
            for n, hours in enumerate((2, 4, 3, 1))
        ]
        pending = await add_delivery(store, endpoints[0], next_at=NOW - DAY)

        async def cancel(limit):
            before = NOW - 2 * HOUR
            return await store.run_transaction(
                lambda unit: unit.webhooks.cancel_held_deliveries(before, NOW, limit)
            )

        async def statuses():
            return [
                each.status is STATUS_HELD for each in await find_deliveries(store, *deliveries)
            ]

        assert [await cancel(2), await statuses()] == [2, [True, False, False, True]]
        assert [await cancel(2), await statuses()] == [1, [False, False, False, True]]
        assert await find_delivery(store, deliveries[0]) == cancelled(deliveries[0])
        assert await find_delivery(store, pending) == pending

    async def test_active_endpoints_with_held_deliveries_are_listed(self, store):
        """Active endpoints with held deliveries are listed by id with their owners."""
        user = await add_subscriber(store)
        endpoints = [await add_endpoint(store, user) for _ in range(3)]
        paused = await add_endpoint(store, user, active=False)
        deleted = await add_endpoint(store, user, deleted_at=NOW)
        for endpoint in (*endpoints, paused, deleted, endpoints[0]):
            await add_delivery(store, endpoint, status=STATUS_HELD)
        busy = await add_endpoint(store, user)
        await add_delivery(store, busy)
        await resume_endpoint(store, endpoints[1])

        async def holding(after_id, limit):
            return list(
                await read_store(
                    store,
                    lambda view: view.webhooks.endpoints_with_held_deliveries(after_id, limit),
                )
            )

        expected = [EndpointSubscription(endpoints[n], user) for n in (0, 2)]
        assert await holding(0, 10) == expected
        assert await holding(0, 1) == expected[:1]
        assert await holding(endpoints[0].id, 10) == expected[1:]
