"""Contract of the stores: claims of webhook endpoints with their due deliveries."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    SECOND,
    add_booking,
    add_subscriber,
    make_lease,
)
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    add_event,
    claim_endpoint_batches,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_adapters.testing.store.webhooks.delivery_helpers import (
    STATUS_HELD,
    save_deliveries,
    succeeded,
    with_locked_endpoint,
)
from staffbooking_core.domain.webhooks.deliveries import DeliveryStatus, EndpointSubscription
from staffbooking_core.ports import DueDelivery, EndpointBatch, Lease

LEASE = POLICY.lease_duration
MOMENT = timedelta.resolution


async def claimed(store, now=NOW, **given):
    """The ids of the claimed endpoints."""
    return [batch.endpoint.id for batch in await claim_endpoint_batches(store, now, **given)]


async def next_due_at(store, now=NOW, degraded=False):
    return await read_store(
        store, lambda view: view.webhooks.next_batch_due_at(now, degraded=degraded)
    )


async def lock(store, *claims):
    return await store.run_transaction(lambda unit: unit.webhooks.lock_claims(claims))


async def locked(store, *batches):
    """The ids of the endpoints whose claims are still held."""
    held = await lock(store, *(batch.claim for batch in batches))
    assert [number for number, _ in held] == [each.endpoint.id for each in held.values()]
    return [each.endpoint.id for each in held.values()]


async def release(store, *batches, now=NOW):
    claims = [batch.claim for batch in batches]

    async def unit(tx):
        held = await tx.webhooks.lock_claims(claims)
        await tx.webhooks.release_endpoints([number for number, _ in held], now)

    await store.run_transaction(unit)


async def renew(store, until, *batches):
    tokens = [batch.lease.token for batch in batches]
    await store.run_transaction(lambda unit: unit.webhooks.renew_claims(tokens, until))


async def next_deliveries(store, *batches, now=NOW, limit=3):
    return await store.run_transaction(
        lambda unit: unit.webhooks.next_deliveries(batches, now, limit)
    )


async def schedule(store, endpoint, at):
    await with_locked_endpoint(
        store, endpoint, lambda webhooks: webhooks.schedule_endpoint(endpoint.id, at)
    )


async def add_waiting(store, *minutes, **given):
    """Adds endpoints with one delivery each, due the given minutes from NOW."""
    endpoints = []
    for each in minutes:
        endpoints.append(await add_endpoint(store, **given))
        await add_delivery(store, endpoints[-1], next_at=NOW + each * MINUTE)
    return endpoints


def ids(*endpoints):
    return [endpoint.id for endpoint in endpoints]


class EndpointBatchesContract(StoreContract):
    """Claims of webhook endpoints with their due deliveries."""

    # Due times --------------------------------------------------------------------------------
    async def test_an_endpoint_without_deliveries_is_not_due(self, store):
        """An endpoint without deliveries has no due time and is not claimed."""
        await add_endpoint(store)
        assert await next_due_at(store) is None
        assert await claim_endpoint_batches(store, NOW + DAY) == []

    async def test_an_endpoint_is_due_with_its_delivery(self, store):
        """An endpoint is due exactly when its delivery is, to the microsecond."""
        at = NOW + timedelta(microseconds=123_456)
        endpoint = await add_endpoint(store)
        await add_delivery(store, endpoint, next_at=at)
        assert await next_due_at(store) == at
        assert await claimed(store, at - timedelta(microseconds=1)) == []
        assert await claimed(store, at) == ids(endpoint)

    async def test_an_endpoint_is_due_with_its_earliest_delivery(self, store):
        """An endpoint is due with its earliest delivery, in any order of insertion."""
        endpoint = await add_endpoint(store)
        for minutes in (3, 1, 2):
            await add_delivery(store, endpoint, next_at=NOW + minutes * MINUTE)
        assert await next_due_at(store) == NOW + MINUTE

    @pytest.mark.parametrize("status", sorted(set(DeliveryStatus) - {DeliveryStatus.PENDING}))
    async def test_only_pending_deliveries_make_an_endpoint_due(self, store, status):
        """Held and finished deliveries do not make an endpoint due."""
        await add_delivery(store, await add_endpoint(store), status=status)
        assert await next_due_at(store) is None

    async def test_the_next_due_time_may_be_in_the_past(self, store):
        """The next due time is the earliest of all, also when it is in the past."""
        await add_waiting(store, 3, -60, 1)
        assert await next_due_at(store) == NOW - HOUR

    async def test_the_next_due_time_leaves_out_claimed_endpoints(self, store):
        """A claimed endpoint is left out of the next due time until its lease ends."""
        await add_waiting(store, 0, 5)
        assert len(await claimed(store)) == 1
        assert await next_due_at(store) == NOW + 5 * MINUTE
        assert await next_due_at(store, NOW + LEASE - SECOND) == NOW + 5 * MINUTE
        assert await next_due_at(store, NOW + LEASE) == NOW

    async def test_scheduling_keeps_an_earlier_due_time(self, store):
        """Scheduling sets the due time of an endpoint unless it has an earlier one."""
        endpoint = await add_endpoint(store)
        found = []
        for minutes in (5, 9, 3):
            await schedule(store, endpoint, NOW + minutes * MINUTE)
            found.append(await next_due_at(store))
        assert found == [NOW + minutes * MINUTE for minutes in (5, 5, 3)]

    # Claims -----------------------------------------------------------------------------------
    async def test_a_batch_has_all_that_sending_takes(self, store):
        """A claimed batch has the endpoint, owner, lease and deliveries with their event's
        bytes."""
        owner = await add_subscriber(store)
        endpoint, event = await add_endpoint(store, owner), await add_event(store)
        delivery = await add_delivery(store, endpoint, event)
        body = dict(await read_store(store, lambda view: view.bookings.events_of(event.booking_id)))
        lease = make_lease()
        due_delivery = DueDelivery(delivery, body[event.sequence])
        expected = EndpointBatch(endpoint, owner, lease, (due_delivery,))
        assert await claim_endpoint_batches(store, lease=lease) == [expected]

    async def test_a_claim_excludes_others_until_the_lease_ends(self, store):
        """A claim excludes others until its lease ends, also when new deliveries arrive."""
        (endpoint,) = await add_waiting(store, 0)
        assert await claimed(store) == ids(endpoint)
        await add_delivery(store, endpoint)
        await schedule(store, endpoint, NOW)
        assert await claimed(store, NOW + LEASE - SECOND) == []
        assert await claimed(store, NOW + LEASE) == ids(endpoint)

    async def test_the_longest_overdue_are_claimed_first(self, store):
        """Endpoints are claimed by due time, then id, up to the limit, with one lease."""
        endpoints = await add_waiting(store, -1, -3, -2, -2, 9)
        lease = make_lease()
        batches = await claim_endpoint_batches(store, lease=lease, limit=2)
        assert [batch.endpoint for batch in batches] == [endpoints[1], endpoints[2]]
        assert {batch.lease for batch in batches} == {lease}
        assert await claimed(store) == ids(endpoints[3], endpoints[0])

    async def test_endpoints_are_claimed_in_rotation(self, store):
        """An endpoint with more to send is claimed again after those that are due already."""
        endpoints = await add_waiting(store, -3, -2, -1)
        for minutes in (1, 2):
            await add_delivery(store, endpoints[0], next_at=NOW - minutes * MINUTE)
        order = []
        for seconds in range(4):
            now = NOW + seconds * SECOND
            (batch,) = await claim_endpoint_batches(store, now, limit=1, batch=1)
            order.append(batch.endpoint.id)
            await save_deliveries(
                store, *(succeeded(each.delivery) for each in batch.due_deliveries)
            )
            await release(store, batch, now=now)
        assert order == ids(*endpoints, endpoints[0])

    async def test_degraded_endpoints_are_claimed_separately(self, store):
        """Degraded endpoints have their own due time and are claimed only as degraded."""
        healthy = await add_waiting(store, -1)
        degraded = await add_waiting(store, -2, degraded=True)
        assert await next_due_at(store) == NOW - MINUTE
        assert await next_due_at(store, degraded=True) == NOW - 2 * MINUTE
        assert await claimed(store) == ids(*healthy)
        assert await claimed(store, degraded=True) == ids(*degraded)
        assert [await next_due_at(store), await next_due_at(store, degraded=True)] == [None, None]

    async def test_retries_come_before_first_tries(self, store):
        """A batch has due retries first, then first tries, each by time, then id."""
        endpoint, booking = await add_endpoint(store), await add_booking(store)
        kinds = [(-1, 0), (-2, 0), (-1, 1), (-3, 3), (-2, 0), (1, 1), (2, 0), (-9, 2)]
        deliveries = [
            await add_delivery(
                store,
                endpoint,
                await add_event(store, booking),
                next_at=NOW + minutes * MINUTE,
                tries=tries,
                attempts=tries,
                status=STATUS_HELD if minutes == -9 else DeliveryStatus.PENDING,
            )
            for minutes, tries in kinds
        ]
        (batch,) = await claim_endpoint_batches(store, batch=4)
        expected = [deliveries[n] for n in (3, 2, 1, 4)]
        assert [due_delivery.delivery for due_delivery in batch.due_deliveries] == expected
        await release(store, batch)
        (batch,) = await claim_endpoint_batches(store, batch=10)
        assert [due_delivery.delivery for due_delivery in batch.due_deliveries] == [
            *expected,
            deliveries[0],
        ]

    async def test_a_batch_may_be_empty(self, store):
        """A due endpoint without due deliveries is claimed with an empty batch."""
        endpoint = await add_endpoint(store)
        await schedule(store, endpoint, NOW)
        await add_delivery(store, endpoint, next_at=NOW + MINUTE)
        (batch,) = await claim_endpoint_batches(store)
        assert (batch.endpoint, batch.due_deliveries) == (endpoint, ())
        await release(store, batch)
        assert await next_due_at(store) == NOW + MINUTE

    async def test_a_batch_has_its_endpoints_deliveries(self, store):
        """Each claimed endpoint has its own deliveries, up to the batch size."""
        endpoints = [await add_endpoint(store) for _ in range(3)]
        for n in range(9):
            await add_delivery(store, endpoints[n % 3])
        batches = await claim_endpoint_batches(store, batch=2)
        assert [len(batch.due_deliveries) for batch in batches] == [2, 2, 2]
        for batch in batches:
            assert {each.delivery.endpoint_id for each in batch.due_deliveries} == {
                batch.endpoint.id
            }

    async def test_a_batch_goes_on_after_its_last_delivery(self, store):
        """What comes next to claimed endpoints is what is due after their last deliveries, to the
        microsecond and by id, with the bytes to send."""
        endpoints = [await add_endpoint(store) for _ in range(2)]
        moments = [NOW - MINUTE, NOW - MOMENT, NOW - MOMENT, NOW - MOMENT, NOW, NOW + MOMENT]
        first = [await add_delivery(store, endpoints[0], next_at=at) for at in moments]
        second = [await add_delivery(store, endpoints[1], next_at=at) for at in moments]
        batches = await claim_endpoint_batches(store)
        dues = {batch.endpoint.id: batch.due_deliveries for batch in batches}
        found = await next_deliveries(store, (endpoints[0], first[1]), (endpoints[1], second[0]))
        assert found == {
            endpoints[0].id: list(dues[endpoints[0].id][2:5]),
            endpoints[1].id: list(dues[endpoints[1].id][1:4]),
        }
        found = await next_deliveries(store, (endpoints[1], second[4]))
        assert found == {endpoints[1].id: []}

    async def test_retries_come_next(self, store):
        """A retry that is due comes next, wherever the last delivery of the batch was."""
        endpoint = await add_endpoint(store)
        retry = await add_delivery(store, endpoint, next_at=NOW - HOUR, tries=1, attempts=1)
        last, following = [await add_delivery(store, endpoint) for _ in range(2)]
        await claim_endpoint_batches(store)
        found = await next_deliveries(store, (endpoint, last))
        assert [due.delivery for due in found[endpoint.id]] == [retry, following]

    async def test_many_workers_share_the_endpoints(self, store):
        """Concurrent claims give each endpoint to one worker."""
        endpoints = await add_waiting(store, *range(-12, 0))
        batches = await asyncio.gather(*(claimed(store, limit=2) for _ in range(9)))
        numbers = [number for batch in batches for number in batch]
        numbers += await claimed(store, limit=50)
        assert sorted(numbers) == ids(*endpoints)

    # Locking and renewing claims --------------------------------------------------------------
    async def test_held_claims_are_locked_by_id(self, store):
        """Locking held claims returns their endpoints with the owners, by endpoint id."""
        owners = [await add_subscriber(store) for _ in range(3)]
        endpoints = [await add_endpoint(store, owner) for owner in owners]
        for minutes, endpoint in enumerate(endpoints):
            await add_delivery(store, endpoint, next_at=NOW - minutes * MINUTE)
        batches = await claim_endpoint_batches(store)
        assert [batch.endpoint.id for batch in batches] == ids(*endpoints[::-1])
        held = await lock(store, *(batch.claim for batch in batches))
        subscribers = [EndpointSubscription(*each) for each in zip(endpoints, owners, strict=True)]
        assert list(held.values()) == subscribers
        assert await locked(store, batches[1]) == ids(endpoints[1])

    async def test_a_lost_claim_is_not_locked(self, store):
        """An endpoint that another worker claimed is not locked; the others of the call are."""
        endpoints = await add_waiting(store, -1, 0)
        batches = await claim_endpoint_batches(store)
        (again,) = await claim_endpoint_batches(store, NOW + LEASE, limit=1)
        assert await locked(store, *batches) == ids(endpoints[1])
        assert await locked(store, again) == ids(endpoints[0])

    async def test_unclaimed_endpoints_are_not_locked(self, store):
        """Endpoints that are unknown, released or claimed with another token are not locked."""
        endpoints = await add_waiting(store, -1, 1)
        (batch,) = await claim_endpoint_batches(store)
        token = batch.lease.token
        assert (
            await lock(store, (endpoints[1].id, token), (404, token), (batch.endpoint.id, "x"))
            == {}
        )
        await release(store, batch)
        assert await locked(store, batch) == []
        assert await lock(store) == {}

    async def test_a_claimed_endpoint_can_be_locked_after_its_deletion(self, store):
        """The holder of a claim can lock its endpoint after the endpoint's deletion."""
        (endpoint,) = await add_waiting(store, 0)
        (batch,) = await claim_endpoint_batches(store)
        deleted = evolve(endpoint, active=False, deleted_at=NOW)
        await store.run_transaction(lambda unit: unit.webhooks.save_endpoints([deleted]))
        held = await lock(store, batch.claim)
        assert held[batch.claim].endpoint == deleted

    async def test_a_claim_may_be_renewed(self, store):
        """Renewing prolongs the claims on all endpoints with the token, and no others."""
        endpoints = await add_waiting(store, -2, -1, 0)
        mine = await claim_endpoint_batches(store, limit=2)
        (other,) = await claim_endpoint_batches(store)
        await renew(store, NOW + HOUR, mine[0])
        assert await claimed(store, NOW + LEASE) == ids(endpoints[2])
        assert await claimed(store, NOW + HOUR - SECOND) == ids(endpoints[2])
        assert await locked(store, *mine, other) == ids(*endpoints[:2])
        assert await claimed(store, NOW + HOUR) == ids(*endpoints[:2])

    async def test_a_lost_claim_is_not_renewed(self, store):
        """A lost or released claim is not renewed."""
        endpoints = await add_waiting(store, -1, 0)
        batches = await claim_endpoint_batches(store)
        await release(store, batches[1])
        (again,) = await claim_endpoint_batches(store, NOW + LEASE, limit=1)
        await renew(store, NOW + DAY, *batches)
        assert again.endpoint == endpoints[0]
        assert await claimed(store, NOW + 2 * LEASE) == ids(*endpoints)

    async def test_renewing_an_unknown_token_is_no_error(self, store):
        """Renewing unknown tokens, or none, is no error."""
        await add_waiting(store, 0)
        lease = Lease("nobody's", NOW)
        await store.run_transaction(
            lambda unit: unit.webhooks.renew_claims([lease.token], NOW + DAY)
        )
        await store.run_transaction(lambda unit: unit.webhooks.renew_claims([], NOW + DAY))
        assert len(await claimed(store)) == 1

    # Releasing endpoints ----------------------------------------------------------------------
    @pytest.mark.parametrize(
        ("minutes", "expected"), [((5, 3), 3), ((-5, 3), 0), ((0,), 0), ((), None)]
    )
    async def test_a_released_endpoint_is_due_with_its_pending_deliveries(
        self, store, minutes, expected
    ):
        """A released endpoint is due with its first pending delivery, now if that is overdue, and
        never without one."""
        endpoint = await add_endpoint(store)
        await add_delivery(store, endpoint, status=STATUS_HELD, next_at=NOW - HOUR)
        sent = await add_delivery(store, endpoint, next_at=NOW - MINUTE)
        (batch,) = await claim_endpoint_batches(store)
        for each in minutes:
            await add_delivery(store, endpoint, next_at=NOW + each * MINUTE)
        await save_deliveries(store, succeeded(sent))
        await release(store, batch)
        at = None if expected is None else NOW + expected * MINUTE
        assert await next_due_at(store) == at

    async def test_a_released_endpoint_can_be_claimed(self, store):
        """A released endpoint with a due delivery can be claimed at once."""
        (endpoint,) = await add_waiting(store, 0)
        (batch,) = await claim_endpoint_batches(store)
        await release(store, batch)
        assert await claimed(store) == ids(endpoint)

    async def test_releasing_some_endpoints_keeps_the_other_claims(self, store):
        """Releasing some endpoints of a claim keeps the claim on the others."""
        endpoints = await add_waiting(store, -2, -1, 0)
        batches = await claim_endpoint_batches(store)
        await release(store, batches[0], batches[2])
        assert await locked(store, *batches) == ids(endpoints[1])
        assert await claimed(store) == ids(endpoints[0], endpoints[2])

    async def test_a_retry_waits_for_its_time(self, store):
        """An endpoint is due at the time of the retry that it was released with."""
        endpoint = await add_endpoint(store)
        delivery = await add_delivery(store, endpoint)
        (batch,) = await claim_endpoint_batches(store)
        retry = evolve(delivery, attempts=1, tries=1, next_at=NOW + 4 * SECOND)
        await save_deliveries(store, retry)
        await release(store, batch)
        assert await claimed(store, NOW + 3 * SECOND) == []
        (again,) = await claim_endpoint_batches(store, NOW + 4 * SECOND)
        assert [due_delivery.delivery for due_delivery in again.due_deliveries] == [retry]
