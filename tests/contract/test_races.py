"""Concurrent callers in two processes on each database keep the rules of the domain.

A second store on the same database represents the second process. Callers start together at a
barrier, and use the two stores alternately.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from datetime import UTC, datetime, time
from functools import partial
from itertools import cycle, islice
from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.memory.doubles import SeededIds, VirtualClock
from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    POLICY,
    add_booking,
    add_companion,
    add_user,
    make_booking_write,
    make_calendar,
    make_lease,
    make_refund_order,
    make_stored_response,
    next_revision,
)
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_adapters.testing.store.companions.booked_days import (
    add_accepted_booking,
    change_companion,
)
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.accounts.users import Subscription
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Trigger
from staffbooking_core.domain.companions.availability import has_free_hour
from staffbooking_core.domain.companions.companion import Approval, CompanionQuery
from staffbooking_core.domain.privacy import ERASED_NAME
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import (
    ConstraintViolated,
    NotFound,
    RuleBroken,
    Unauthenticated,
)
from staffbooking_core.inputs import CreateApiKey, SubmitReview
from staffbooking_core.ports import IDEMPOTENCY_KEY_TAKEN
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.accounts import api_keys
from staffbooking_core.usecases.bookings import disabling
from staffbooking_core.usecases.companions import approvals, reviews
from tests.contract.stores import STORES, open_sql_store, store_url
from tests.support.memory_deployment import make_booking_scenario, memory_ports

pytestmark = pytest.mark.anyio

CALLERS = int(os.environ.get("RACE_CALLERS", "16"))
ROUNDS = int(os.environ.get("RACE_ROUNDS", "5"))
"""Rounds of each test, since not every round has a race; `make soak` runs many more."""


@pytest.fixture(params=["sqlite", "postgresql"])
async def processes(request):
    """Two stores on one database."""
    name = request.param
    async with STORES[name](request) as one, open_sql_store(store_url(request, name)) as other:
        yield one, other


@pytest.fixture
async def ports(processes):
    """The ports of the two processes."""
    return [
        memory_ports(
            store=store,
            admission=store.admission,
            clock=VirtualClock(NOW, store=store),
            ids=SeededIds(number),
        )
        for number, store in enumerate(processes)
    ]


async def new_scenarios(ports):
    """A scenario of new users, in both processes."""
    scene = await make_booking_scenario(ports=ports[0])
    return scene, evolve(scene, ports=ports[1])


def alternate(each_of, many=CALLERS):
    """The first `many` items of the sequence repeated."""
    return list(islice(cycle(each_of), many))


async def at_once(calls):
    """The result or the error of each call, all started together."""
    barrier = asyncio.Barrier(len(calls))

    async def run(call):
        await barrier.wait()
        try:
            return await call()
        except (RuleBroken, NotFound, ConstraintViolated, Unauthenticated) as error:
            return error

    return await asyncio.gather(*map(run, calls))


def successes(results):
    return [result for result in results if not isinstance(result, Exception)]


async def statuses(scene, bookings):
    return Counter([(await scene.booking(booking)).status for booking in bookings])


async def test_one_of_overlapping_requests_is_accepted(ports):
    """Concurrent accepts of overlapping requests accept one and cancel the others."""
    for _ in range(ROUNDS):
        scenes = await new_scenarios(ports)
        scene = scenes[0]
        rivals = [await scene.request(start_time=f"{10 + n}:00") for n in range(4)]
        calls = [
            partial(each.accept, booking)
            for each, booking in zip(alternate(scenes), alternate(rivals), strict=True)
        ]
        assert len(successes(await at_once(calls))) == 1
        assert await statuses(scene, rivals) == {
            BookingStatus.ACCEPTED: 1,
            BookingStatus.CANCELLED: 3,
        }
    assert await scene.faults() == []


async def test_no_request_stays_pending_on_a_slot_that_is_accepted_meanwhile(ports):
    """Of requests that race with an acceptance of the same time, those stored before it lose the
    slot, and the others are refused: none stays pending."""
    for _ in range(ROUNDS):
        scenes = await new_scenarios(ports)
        scene, first = scenes[0], await scenes[0].request()
        made: list[Booking] = []

        async def request_until_refused(each, made=made):
            while True:
                made.append(await each.request())

        calls = [partial(request_until_refused, each) for each in alternate(scenes, 6)]
        refusals = await at_once([*calls, partial(scene.accept, first)])
        assert {error.reason for error in refusals[:-1]} == {"booked"}
        assert set(await statuses(scene, made)) <= {BookingStatus.CANCELLED}
    assert await scene.faults() == []


async def test_a_request_is_decided_once(ports):
    """Of concurrent accepts and declines of one request exactly one succeeds."""
    for _ in range(ROUNDS):
        scenes = await new_scenarios(ports)
        scene = scenes[0]
        booking = await scene.request()
        calls = []
        for n, each in enumerate(alternate(scenes)):
            decline = partial(each.apply_trigger, booking, Trigger.DECLINE, each.staff)
            calls.append(decline if n % 3 else partial(each.accept, booking))
        (winner,) = successes(await at_once(calls))
        found = await scene.booking(booking)
        assert (found.version, found.status) == (2, winner.status)
        assert len(await scene.events(booking)) == found.events


async def test_concurrent_keys_stay_within_the_limit(ports):
    """Concurrent creation of API keys stops at `max_active_keys`."""
    wanted = CreateApiKey(name="Till", permissions=(Permission.READ,))
    for _ in range(ROUNDS):
        user = await add_user(ports[0].store, subscription=Subscription.ENTERPRISE)
        calls = [partial(api_keys.create, each, user, wanted) for each in alternate(ports)]
        assert len(successes(await at_once(calls))) == POLICY.max_active_keys
        assert len(await api_keys.list_keys(ports[1], user)) == POLICY.max_active_keys


async def test_equal_calls_make_one_booking(processes):
    """Of concurrent bookings with one idempotency key one is stored."""
    customer = await add_user(processes[0])
    for _ in range(ROUNDS):
        companion, change = await add_companion(processes[0]), {"response": make_stored_response()}
        add = partial(add_booking, companion=companion, customer=customer, change=change)
        results = await at_once([partial(add, store) for store in alternate(processes)])
        assert len(successes(results)) == 1
        refused = {each.constraint for each in results if isinstance(each, ConstraintViolated)}
        assert refused == {IDEMPOTENCY_KEY_TAKEN}


async def test_each_operation_is_claimed_once(processes):
    """Concurrent claims return the first operation of each booking, once."""
    companion, customer = await add_companion(processes[0]), await add_user(processes[0])
    orders = {"orders": (make_refund_order(1), make_refund_order(2))}
    add = partial(add_booking, processes[0], companion, customer, change=orders)

    def claim(store, limit):
        lease = make_lease()
        return store.run_transaction(
            lambda unit: unit.operations.claim_operations(NOW, lease, limit)
        )

    for _ in range(ROUNDS):
        bookings = [await add() for _ in range(10)]
        stores = enumerate(alternate(processes))
        batches = await at_once([partial(claim, store, 1 + n % 3) for n, store in stores])
        claimed = [
            operation for batch in [*batches, await claim(processes[0], 50)] for operation in batch
        ]
        assert {operation.n for operation in claimed} == {1}
        found = sorted(operation.booking_id for operation in claimed)
        assert found == [booking.id for booking in bookings]


async def test_each_timer_is_claimed_once(processes):
    """Concurrent claims return each due timer once."""
    companion, customer = await add_companion(processes[0]), await add_user(processes[0])
    add = partial(add_booking, processes[0], companion, customer)
    due = NOW + 9 * DAY

    def claim(store, limit=2):
        lease = make_lease()
        return store.run_transaction(lambda unit: unit.timers.claim_timers(due, NOW, lease, limit))

    for _ in range(ROUNDS):
        bookings = [await add() for _ in range(20)]
        batches = await at_once([partial(claim, store) for store in alternate(processes)])
        claimed = [timer for batch in [*batches, await claim(processes[1], 50)] for timer in batch]
        found = sorted(timer.booking_id for timer in claimed)
        assert found == [booking.id for booking in bookings]


async def test_hits_are_exact_over_processes(processes):
    """Concurrent hits in two processes are counted exactly."""
    rule = RateLimit("general", 25, HOUR)
    for number in range(ROUNDS):
        scope = f"general:user:{number}"
        stores = alternate(processes, 60)
        hits = [partial(store.admission.count_hit, scope, rule, NOW) for store in stores]
        verdicts = await at_once(hits)
        assert sum(verdict.allowed for verdict in verdicts) == 25
        assert sorted(verdict.remaining for verdict in verdicts) == [0] * 35 + list(range(25))


@pytest.mark.parametrize("party", ["customer", "staff"])
async def test_an_erased_party_has_no_open_bookings(ports, party):
    """Of concurrent requests and an erasure of a party, either requests or the erasure succeed."""
    for _ in range(ROUNDS):
        scenes = await new_scenarios(ports)
        number = getattr(scenes[0], party).user_id
        calls = [partial(privacy.erase_person, ports[1], number)]
        results = await at_once([*calls, *(each.request for each in alternate(scenes, 4))])
        async with ports[0].store.read_view() as view:
            user = await view.accounts.user(number)
            stored = await view.personal_data.bookings_of(number, 0, 500)
        assert (user.erased_at is None) == bool(stored)
        assert len(successes(results)) == (len(stored) or 1)


@pytest.mark.parametrize("party", ["customer", "staff"])
async def test_an_erased_author_leaves_no_review_text(ports, party):
    """A review submitted during its author's erasure is stored without its text or not at all."""
    wanted = SubmitReview(rating=4, comment="Splendid")
    for _ in range(ROUNDS):
        scene, elsewhere = await new_scenarios(ports)
        booking = await scene.paid_out(event_date=(await scene.now()).date() + 2 * DAY)
        actor = getattr(scene, party)
        erasing = partial(privacy.erase_person, scene.ports, actor.user_id)
        review = partial(reviews.submit_review, elsewhere.ports, actor, booking.id, wanted)
        await at_once([erasing, review])
        async with ports[0].store.read_view() as view:
            stored = await view.reviews.reviews(0, 100)
        assert {each.comment for each in stored if each.reviewer_id == actor.user_id} <= {
            ERASED_NAME
        }


async def test_no_write_of_a_booking_is_lost(processes):
    """Concurrent transactions that read and save one booking all take effect."""
    booking = await add_booking(processes[0])

    async def unit(tx):
        before = await tx.bookings.lock_booking(booking.id)
        await tx.bookings.save_booking(
            make_booking_write(next_revision(before, escrow=before.escrow + 1))
        )

    for _ in range(ROUNDS):
        await at_once([partial(store.run_transaction, unit) for store in alternate(processes)])
    found = await read_store(processes[1], lambda view: view.bookings.booking(booking.id))
    assert (found.revision, found.escrow) == (1 + ROUNDS * CALLERS, ROUNDS * CALLERS)


async def test_no_change_of_a_companion_is_lost(ports):
    """A companion that is disabled and suspended concurrently is both."""
    for _ in range(ROUNDS):
        companion = await add_companion(ports[0].store)
        async with ports[0].store.read_view() as view:
            user = await view.accounts.user(companion.id)
        calls: list[Any] = [
            partial(disabling.disable_user, each, user.email) for each in alternate(ports, 5)
        ]
        calls += [
            partial(approvals.set_approval, each, companion.id, Approval.SUSPENDED)
            for each in alternate(ports, 5)
        ]
        assert len(successes(await at_once(calls))) == 10
        async with ports[1].store.read_view() as view:
            found = await view.companions.companion(companion.id)
        assert found == evolve(companion, active=False, approval=Approval.SUSPENDED)


async def test_searches_by_date_are_exact_after_a_race(processes):
    """After concurrent bookings and changes of hours, a search finds the days with a free hour."""
    customer = await add_user(processes[0])
    days = [(NOW + n * DAY).date() for n in range(1, 9)]
    for number in range(ROUNDS):
        city = f"City {number:06}"  # A page of a search has fifty companions, and there are more.
        companion = await add_companion(processes[0], location_city=city)
        hours = [make_calendar(days=range(n)) for n in (7, 6, 5, 4)]
        calls: list[Any] = [
            partial(change_companion, store, companion, calendar=each)
            for store, each in zip(alternate(processes, 4), hours, strict=True)
        ]
        starts = [datetime.combine(day, time(9), UTC) for day in days]
        calls += [
            partial(
                add_accepted_booking,
                store,
                companion,
                customer.id,
                starts_at=at,
                duration_hours=7 + n % 2,
            )
            for n, (store, at) in enumerate(zip(alternate(processes, 8), starts, strict=True))
        ]
        assert len(successes(await at_once(calls))) == 12
        async with processes[1].read_view() as view:
            agenda = await view.companions.availability(companion.id, NOW, NOW + 10 * DAY)
            found = [day for day in days if await in_city(view, city, day)]
        assert len(agenda.busy) == len(days)
        assert found == [day for day in days if has_free_hour(agenda.calendar, agenda.busy, day)]


async def in_city(view, city, day):
    return (await view.companions.search(CompanionQuery(location=city, date=day))).summaries
