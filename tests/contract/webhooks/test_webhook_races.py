"""Races for webhooks, in two processes on each database: no event and no due time is lost, and an
endpoint is claimed by one worker at a time.

The tests on PostgreSQL alone hold one transaction open while a second one starts; SQLite runs its
writing transactions one after the other. `RACE_ROUNDS` and `RACE_CALLERS` set the size of the
others (`make soak`).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text

from staffbooking_adapters import codec
from staffbooking_adapters.memory.doubles import SeededIds, VirtualClock
from staffbooking_adapters.memory.webhooks.receivers import MemorySender
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.testing.builders import (
    NOW,
    POLICY,
    add_booking,
    add_subscriber,
    add_user,
    make_lease,
)
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    add_event,
    claim_endpoint_batches,
    make_new_delivery,
    place_events,
)
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_adapters.testing.store.webhooks.delivery_helpers import (
    STATUS_HELD,
    STATUS_PENDING,
    deliveries_of,
    find_delivery,
    next_batch_time,
    succeeded,
)
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.inputs import ChangeWebhook, CreateWebhook
from staffbooking_core.usecases.webhooks import deliveries, endpoints as webhooks_endpoints
from staffbooking_core.usecases.webhooks.feed import read_feed
from tests.contract.stores import STORES, open_sql_store, store_url
from tests.contract.test_races import ROUNDS, alternate, at_once, processes, successes
from tests.support.memory_deployment import memory_ports

pytestmark = pytest.mark.anyio

__all__ = ["processes"]

LEASE = POLICY.lease_duration


@pytest.fixture
async def ports(processes):
    """The ports of each process, with shared receivers."""
    sender = MemorySender()
    return [
        memory_ports(
            store=store,
            admission=store.admission,
            clock=VirtualClock(NOW, store=store),
            ids=SeededIds(number),
            webhook_sender=sender,
        )
        for number, store in enumerate(processes)
    ]


@pytest.fixture
async def postgres(request):
    """Two stores on one PostgreSQL database."""
    name = "postgresql"
    async with STORES[name](request) as one, open_sql_store(store_url(request, name)) as other:
        yield one, other


WAITING = Statement(
    text(
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
)


async def run_concurrently(stores, unit, call):
    """The results of `unit` and `call`. `call` starts when `unit`, in the first store, has done
    everything but commit; asserts that `call` waits for the commit."""
    one, other = stores
    entered, leave = asyncio.Event(), asyncio.Event()

    async def open_ended(tx):
        result = await unit(tx)
        entered.set()
        await leave.wait()
        return result

    async with asyncio.TaskGroup() as group:
        first = group.create_task(one.run_transaction(open_ended))
        await entered.wait()
        second = group.create_task(call())
        while not second.done() and not await other.database.fetch_value(WAITING):
            pass
        has_waited = not second.done()
        leave.set()
    assert has_waited
    return first.result(), second.result()


async def feed(store):
    """The ids of the events, in the order of their positions."""
    bodies = await read_store(
        store, lambda view: view.webhooks.feed_events_after(None, 0, [*EventName], 10_000)
    )
    return [codec.decode(body)["id"] for body in bodies]


async def add_receiving_endpoint(ports, **given):
    """An endpoint that accepts every request; its owner is an admin, who gets all events."""
    admin = await add_user(ports[0].store, role=Role.ADMIN)
    endpoint = await add_endpoint(ports[0].store, admin, vault=ports[0].vault, **given)
    ports[0].webhook_sender.receivers[endpoint.url] = lambda headers, body: 204
    return endpoint


def received(ports, endpoint):
    """The sorted ids of the events sent to an endpoint, repetitions included."""
    sent = [each for each in ports[0].webhook_sender.sent if each.url == endpoint.url]
    return sorted(codec.decode(each.body)["id"] for each in sent)


# The feed ---------------------------------------------------------------------------------


async def test_a_later_event_gets_a_later_position(postgres):
    """Sequencing waits for uncommitted positions, so that a later event gets a later one."""
    one, other = postgres
    first = await add_event(one)

    async def place_first(tx):
        last = await tx.webhooks.lock_feed()
        (told,) = await tx.webhooks.unsequenced_events(10)
        await tx.webhooks.save_feed_positions([(told, last + 1)])

    async def place_second():
        event = await add_event(other)
        assert [each.id for each in await place_events(other)] == [event.id]
        return event

    _, second = await run_concurrently(postgres, place_first, place_second)
    assert await feed(one) == [first.id, second.id]


async def test_events_are_published_once(ports):
    """Concurrent publishing gives each event one position, without gaps, and one delivery."""
    store = ports[0].store
    endpoint, expected = await add_receiving_endpoint(ports), []
    bookings = [await add_booking(store) for _ in range(3)]
    for _ in range(ROUNDS):
        expected += [(await add_event(store, booking)).id for booking in bookings for _ in "ab"]
        await at_once([partial(deliveries.publish_events, each, 2) for each in alternate(ports, 8)])
        while await deliveries.publish_events(ports[0]):
            pass
        assert await store.run_transaction(lambda unit: unit.webhooks.lock_feed()) == len(expected)
        found = await feed(store)
        assert sorted(found) == sorted(expected)
        assert [each.event_id for each in await deliveries_of(store, endpoint)][::-1] == found


async def follow(ports, user, over):
    """The ids of the feed, read repeatedly from the last known event until `over` is set."""
    found, after = [], None
    while True:
        is_last = over.is_set()
        bodies, _ = await read_feed(ports, user, after, 3)
        found += [codec.decode(body)["id"] for body in bodies]
        after = found[-1] if found else None
        if is_last and not bodies:
            return found


async def test_a_reader_misses_no_event(ports):
    """Readers see every event once in feed order during concurrent writes and publishing."""
    store = ports[0].store
    customer, admin = await add_user(store), await add_user(store, role=Role.ADMIN)
    bookings = [await add_booking(store, None, customer) for _ in range(4)]

    async def write(one, booking):
        for _ in range(ROUNDS):
            await add_event(one.store, booking)
            await deliveries.publish_events(one, 2)

    over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        readers = [group.create_task(follow(ports[1], user, over)) for user in (customer, admin)]
        writers = zip(alternate(ports, 4), bookings, strict=True)
        await asyncio.gather(*(write(*each) for each in writers))
        while await deliveries.publish_events(ports[0]):
            pass
        over.set()
    expected = await feed(store)
    assert len(expected) == 4 * ROUNDS
    assert [reader.result() for reader in readers] == [expected, expected]


# Batches ----------------------------------------------------------------------------------


def adding_delivery(endpoint, event):
    async def unit(tx):
        await tx.webhooks.lock_endpoints_of([endpoint.owner_id])
        await tx.webhooks.add_deliveries([make_new_delivery(endpoint.id, event)])

    return unit


def settling(batch):
    """A transaction that saves all deliveries of a batch as succeeded and releases it; returns
    whether the claim was still held."""

    async def unit(tx):
        held = await tx.webhooks.lock_claims([batch.claim])
        if held:
            await tx.webhooks.save_deliveries(
                [succeeded(each.delivery) for each in batch.due_deliveries]
            )
            await tx.webhooks.release_endpoints([batch.endpoint.id], NOW)
        return bool(held)

    return unit


async def test_releasing_sees_a_delivery_that_is_being_added(postgres):
    """Releasing an endpoint waits for an uncommitted new delivery, which makes it due."""
    one, other = postgres
    endpoint = await add_endpoint(one)
    await add_delivery(one, endpoint)
    (batch,) = await claim_endpoint_batches(one)
    event = await add_event(one)
    _, settled = await run_concurrently(
        postgres, adding_delivery(endpoint, event), lambda: other.run_transaction(settling(batch))
    )
    assert settled
    assert await next_batch_time(one) == NOW


async def test_adding_a_delivery_sees_the_release(postgres):
    """Adding a delivery waits for an uncommitted release and makes the endpoint due."""
    one, other = postgres
    endpoint = await add_endpoint(one)
    await add_delivery(one, endpoint)
    (batch,) = await claim_endpoint_batches(one)
    event = await add_event(one)
    await run_concurrently(
        postgres, settling(batch), lambda: other.run_transaction(adding_delivery(endpoint, event))
    )
    assert await next_batch_time(one) == NOW


@pytest.mark.parametrize("change", ["hold_deliveries", "resume_deliveries"])
async def test_holding_and_resuming_see_a_delivery_that_is_being_added(postgres, change):
    """Holding and resuming wait for an uncommitted new delivery: it is held, or due."""
    one, other = postgres
    endpoint, event = await add_endpoint(one), await add_event(one)

    async def unit(tx):
        await tx.webhooks.lock_endpoint(endpoint.id)
        return await getattr(tx.webhooks, change)(endpoint.id, NOW)

    await run_concurrently(
        postgres, adding_delivery(endpoint, event), lambda: other.run_transaction(unit)
    )
    (delivery,) = await deliveries_of(one, endpoint)
    expected = (STATUS_HELD, None) if change == "hold_deliveries" else (STATUS_PENDING, NOW)
    assert (delivery.status, await next_batch_time(one)) == expected


async def test_a_cancellation_sees_a_delivery_that_begins_to_wait(postgres):
    """The cancellation of a delivery that was held for too long waits for the claim of its
    endpoint, and releases what that claim made to wait."""
    one, other = postgres
    endpoint, booking = await add_endpoint(one, ordered=True), await add_booking(one)
    await add_delivery(
        one, endpoint, await add_event(one, booking), status=STATUS_HELD, held_at=NOW - LEASE
    )
    later = await add_delivery(one, endpoint, await add_event(one, booking))

    async def claim(tx):
        (batch,) = await tx.webhooks.claim_batches(NOW, make_lease(NOW), 1, 16, degraded=False)
        await tx.webhooks.release_endpoints([endpoint.id], NOW)
        return batch.due_deliveries

    async def cancel():
        return await other.run_transaction(
            lambda tx: tx.webhooks.cancel_held_deliveries(NOW - LEASE, NOW, 10)
        )

    assert await run_concurrently(postgres, claim, cancel) == ((), 1)
    assert (await find_delivery(one, later)).status is STATUS_PENDING
    assert await next_batch_time(one) == NOW


async def test_each_event_is_sent_once_to_each_endpoint(ports):
    """Each endpoint gets each event once while two processes add, publish and deliver events."""
    store = ports[0].store
    endpoints = [await add_receiving_endpoint(ports) for _ in range(2)]
    bookings = [await add_booking(store) for _ in range(2)]
    for _ in range(ROUNDS):
        writers_with_bookings = zip(alternate(ports, 4), alternate(bookings, 4), strict=True)
        calls: list[Any] = [
            partial(add_event, each.store, booking) for each, booking in writers_with_bookings
        ]
        calls += [partial(deliveries.publish_events, each) for each in alternate(ports, 4)]
        calls += [partial(deliveries.deliver_all_due, each) for each in alternate(ports, 4)]
        await at_once(calls)
    while await deliveries.publish_events(ports[0]):
        pass
    await deliveries.deliver_all_due(ports[1])
    figures = await read_store(store, lambda view: view.webhooks.stats(NOW))
    assert (figures.pending, figures.unplaced) == (0, 0)
    expected = sorted(await feed(store))
    assert len(expected) == 4 * ROUNDS
    assert [received(ports, each) for each in endpoints] == [expected, expected]


async def test_each_endpoint_is_claimed_once(processes):
    """Concurrent claims give each due endpoint to exactly one caller, also after leases end."""
    endpoints = [await add_endpoint(processes[0]) for _ in range(10)]
    for endpoint in endpoints:
        await add_delivery(processes[0], endpoint)
    for n in range(ROUNDS):
        now = NOW + n * LEASE
        stores = enumerate(alternate(processes))
        calls = [
            partial(claim_endpoint_batches, store, now, limit=1 + n % 3) for n, store in stores
        ]
        results = [*await at_once(calls), await claim_endpoint_batches(processes[0], now)]
        claimed = [batch.endpoint.id for batches in results for batch in batches]
        assert sorted(claimed) == [endpoint.id for endpoint in endpoints]


async def test_an_expired_claim_is_settled_or_claimed_again(processes):
    """After the lease ends, either the holder settles the batch or exactly one other call
    claims its delivery."""
    one, other = processes
    endpoint = await add_endpoint(one)
    booking = await add_booking(one)
    for n in range(ROUNDS):
        await add_delivery(one, endpoint, await add_event(one, booking))
        at = NOW + 2 * n * LEASE
        (batch,) = await claim_endpoint_batches(one, at)
        claims = [
            partial(claim_endpoint_batches, store, at + LEASE) for store in alternate(processes, 3)
        ]
        settle = partial(other.run_transaction, settling(batch))
        settled, *results = await at_once([settle, *claims])
        claimed = [batch for batches in results for batch in batches if batch.due_deliveries]
        assert settled + len(claimed) == 1
        for each in claimed:
            assert await other.run_transaction(settling(each))


async def test_deliveries_of_a_paused_endpoint_are_held(ports):
    """Deliveries published during a pause or a resumption of their endpoint are all held or all
    due afterwards."""
    store = ports[0].store
    endpoint = await add_receiving_endpoint(ports)
    owner = await read_store(store, lambda view: view.accounts.user(endpoint.owner_id))
    booking = await add_booking(store)
    for active, status in ((False, STATUS_HELD), (True, STATUS_PENDING)) * ROUNDS:
        await add_event(store, booking)
        wanted = ChangeWebhook(active=active)
        change = partial(webhooks_endpoints.update_endpoint, ports[1], owner, endpoint.id, wanted)
        await at_once(
            [change, *(partial(deliveries.publish_events, each) for each in alternate(ports, 3))]
        )
        assert {each.status for each in await deliveries_of(store, endpoint)} == {status}
        assert await next_batch_time(store) == (NOW if active else None)


async def test_an_eleventh_endpoint_is_refused(ports):
    """Of concurrent registrations of one user exactly `max_webhooks` succeed."""
    for _ in range(ROUNDS):
        user = await add_subscriber(ports[0].store)
        wanted = CreateWebhook(url="https://crm.example.com/hooks")
        calls = [
            partial(webhooks_endpoints.register_endpoint, each, user, wanted)
            for each in alternate(ports)
        ]
        assert len(successes(await at_once(calls))) == POLICY.max_webhooks
        assert len(await webhooks_endpoints.list_endpoints(ports[1], user)) == POLICY.max_webhooks
