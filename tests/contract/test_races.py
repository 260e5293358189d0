"""Many at the same moment, in two processes, on each database: the rules hold all the same.

A second store on the same database stands for the second process. Callers wait for each
other at a barrier, and take turns in the store that they use.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import cycle

import pytest

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_core.domain.accounts import Subscription
from staffbooking_core.domain.lifecycle import Status, Trigger
from staffbooking_core.domain.limits import Rule
from staffbooking_core.errors import ConstraintViolated, NotFound, RuleBroken
from staffbooking_core.inputs import CreateKey
from staffbooking_core.ports import ANSWER_KEPT
from staffbooking_core.usecases import keys
from tests.contract.stores import STORES, address, opened
from tests.support.builders import (
    DAY,
    HOUR,
    NOW,
    POLICY,
    add_booking,
    add_companion,
    add_user,
    make_answer,
    make_change,
    make_lease,
    make_refund_order,
    moved,
)
from tests.support.ports import Scene, make_scene, memory_ports

pytestmark = pytest.mark.anyio

CALLERS = 16


@pytest.fixture(params=["sqlite", "postgresql"])
async def processes(request):
    """Two stores on one database."""
    name = request.param
    async with STORES[name](request) as one, opened(await address(request, name)) as other:
        yield one, other


@pytest.fixture(params=range(10), ids=lambda number: f"round{number}")
def round_(request):
    """Races show themselves in one round or another."""
    return request.param


@pytest.fixture
async def scenes(processes):
    """The same people, seen from either process."""
    one, other = [
        memory_ports(store=store, admission=store.admission, clock=VirtualClock(NOW, store=store))
        for store in processes
    ]
    scene = await make_scene(ports=one)
    return scene, Scene(other, scene.customer, scene.staff, scene.admin)


async def at_once(*calls):
    """What each of the calls comes to, an error or an answer, all begun together."""
    barrier = asyncio.Barrier(len(calls))

    async def run(call):
        await barrier.wait()
        try:
            return await call()
        except (RuleBroken, NotFound, ConstraintViolated) as error:
            return error

    return await asyncio.gather(*(run(call) for call in calls))


def won(results):
    return [result for result in results if not isinstance(result, Exception)]


async def statuses(scene, bookings):
    return Counter([(await scene.booking(booking)).status for booking in bookings])


async def test_of_rival_requests_one_is_accepted(scenes, round_):
    """Each is accepted by several at once; one gets the slot, the others lose it."""
    scene, _ = scenes
    rivals = [await scene.request(start_time=f"{10 + n}:00") for n in range(4)]
    turns = zip(cycle(scenes), rivals * (CALLERS // len(rivals)), strict=False)
    calls = [lambda s=each, b=booking: s.accept(b) for each, booking in turns]
    results = await at_once(*calls)
    assert len(won(results)) == 1
    assert await statuses(scene, rivals) == {Status.ACCEPTED: 1, Status.CANCELLED: 3}
    assert await scene.faults() == []


async def test_a_request_is_decided_once(scenes, round_):
    """Accepted, declined and cancelled at the same moment it becomes one of them."""
    scene, _ = scenes
    booking = await scene.request()
    ways = [
        lambda each: each.accept(booking),
        lambda each: each.move(booking, Trigger.DECLINE, each.staff),
    ]
    calls = [
        lambda each=each, way=ways[n % 2]: way(each)
        for n, each in zip(range(CALLERS), cycle(scenes), strict=False)
    ]
    results = await at_once(*calls)
    assert len(won(results)) == 1
    found = await scene.booking(booking)
    assert (found.version, found.status) == (2, won(results)[0].status)
    assert await scene.events(booking) == list(range(1, found.events + 1))


async def test_a_sixth_key_is_refused(scenes, round_):
    """However many are asked for at once, the account has five."""
    scene, other = scenes
    user = await add_user(scene.ports.store, subscription=Subscription.ENTERPRISE)
    wanted = CreateKey(name="Till", permissions=("read",))
    calls = [
        lambda ports=each.ports: keys.create(ports, user, wanted)
        for _, each in zip(range(CALLERS), cycle(scenes), strict=False)
    ]
    results = await at_once(*calls)
    assert len(won(results)) == POLICY.max_active_keys
    assert len(await keys.listing(other.ports, user)) == POLICY.max_active_keys


async def test_equal_calls_make_one_booking(processes, round_):
    """Of those with the same idempotency key one is kept, the others are told so."""
    companion, customer = await add_companion(processes[0]), await add_user(processes[0])
    answer = make_answer()
    calls = [
        lambda store=store: add_booking(store, companion, customer, change={"answer": answer})
        for _, store in zip(range(CALLERS), cycle(processes), strict=False)
    ]
    results = await at_once(*calls)
    assert len(won(results)) == 1
    assert {each.constraint for each in results if isinstance(each, Exception)} == {ANSWER_KEPT}


async def test_each_operation_is_claimed_once(processes, round_):
    """Many claimers get different ones, and of a booking with several only the first."""
    store, _ = processes
    companion, customer = await add_companion(store), await add_user(store)
    orders = {"orders": (make_refund_order(1), make_refund_order(2))}
    bookings = [await add_booking(store, companion, customer, change=orders) for _ in range(10)]

    def claim(store, limit):
        now = NOW
        return store.write(lambda unit: unit.money.claim_operations(now, make_lease(), limit))

    calls = [
        lambda store=store, n=n: claim(store, 1 + n % 3)
        for n, store in zip(range(CALLERS), cycle(processes), strict=False)
    ]
    claimed = [operation for batch in await at_once(*calls) for operation in batch]
    assert max(Counter(operation.id for operation in claimed).values()) == 1
    assert {operation.n for operation in claimed} == {1}
    left = await claim(store, 50)
    assert sorted(each.booking_id for each in [*claimed, *left]) == [each.id for each in bookings]


async def test_a_timer_is_claimed_once(processes, round_):
    """By one of many, and all of those that are due by somebody."""
    store, _ = processes
    companion, customer = await add_companion(store), await add_user(store)
    bookings = [await add_booking(store, companion, customer) for _ in range(12)]
    due = bookings[0].starts_at + DAY

    def claim(store):
        lease = make_lease()
        return store.write(lambda unit: unit.money.claim_timers(due, NOW, lease, 2))

    calls = [
        lambda store=store: claim(store)
        for _, store in zip(range(CALLERS), cycle(processes), strict=False)
    ]
    claimed = [timer.booking_id for batch in await at_once(*calls) for timer in batch]
    claimed += [timer.booking_id for _ in range(12) for timer in await claim(store)]
    assert sorted(claimed) == [booking.id for booking in bookings]


async def test_hits_are_exact_over_processes(processes, round_):
    """As many pass as the limit says, whichever process counts them."""
    rule = Rule("general", 25, HOUR)
    hits = [
        lambda store=store: store.admission.hit("general:user:1", rule, NOW)
        for _, store in zip(range(60), cycle(processes), strict=False)
    ]
    verdicts = await at_once(*hits)
    assert sum(verdict.allowed for verdict in verdicts) == 25
    assert sorted(verdict.remaining for verdict in verdicts) == [0] * 35 + list(range(25))


async def test_no_step_of_a_booking_is_lost(processes, round_):
    """Units of work that read, decide and save come one after the other."""
    booking = await add_booking(processes[0])

    def step(store):
        async def unit(tx):
            before = await tx.bookings.lock_booking(booking.id)
            await tx.bookings.save(make_change(moved(before, escrow=before.escrow + 1)))

        return store.write(unit)

    calls = [
        lambda store=store: step(store)
        for _, store in zip(range(CALLERS), cycle(processes), strict=False)
    ]
    await at_once(*calls)
    async with processes[1].reading() as view:
        found = await view.bookings.booking(booking.id)
    assert (found.version, found.escrow) == (1 + CALLERS, CALLERS)
