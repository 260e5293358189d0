"""Contract of the stores: the sandbox's clock, and deletion of expired rows."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    MINUTE,
    NOW,
    POLICY,
    SECOND,
    add_api_key,
    add_booking,
    add_session,
    add_user,
    make_lease,
    make_processor_event,
    make_stored_response,
    next_revision,
    save_booking,
)
from staffbooking_adapters.testing.store.base import count_due_work, read_store
from staffbooking_core.domain.bookings.alerts import Alert
from staffbooking_core.domain.notifications.inquiries import NewInquiry
from staffbooking_core.domain.shared.rate_limits import RateLimit

pytestmark = pytest.mark.anyio


async def test_the_clock_starts_without_an_offset(store):
    """The clock's offset is zero in an empty store."""
    assert await read_store(store, lambda view: view.sandbox.clock_offset()) == timedelta()
    assert await store.run_transaction(lambda unit: unit.sandbox.lock_clock()) == timedelta()


async def test_the_offset_of_the_clock_is_stored(store):
    """The clock's offset is stored to the microsecond."""
    offset = timedelta(days=3_650, microseconds=7)
    await store.run_transaction(lambda unit: unit.sandbox.set_clock_offset(offset))
    assert await read_store(store, lambda view: view.sandbox.clock_offset()) == offset


async def test_no_move_of_the_clock_is_lost(store):
    """Concurrent moves that read the offset under the lock add up."""

    async def unit(tx):
        offset = await tx.sandbox.lock_clock()
        await asyncio.sleep(0)
        await tx.sandbox.set_clock_offset(offset + MINUTE)

    await asyncio.gather(*(store.run_transaction(unit) for _ in range(15)))
    assert await read_store(store, lambda view: view.sandbox.clock_offset()) == 15 * MINUTE


# Deletion ---------------------------------------------------------------------------------


async def test_expired_rows_are_deleted(store):
    """`delete_expired` deletes expired sessions, responses and windows, and returns the number."""
    user = await add_user(store)
    idle, lifetime = POLICY.session_idle, POLICY.session_lifetime
    sessions = [
        await add_session(store, user.id, created_at=created_at, seen_at=seen_at)
        for created_at, seen_at in (
            (NOW, NOW - idle),
            (NOW, NOW - idle + SECOND),
            (NOW - lifetime, NOW),
            (NOW - lifetime + SECOND, NOW),
        )
    ]
    answers = [make_stored_response(expires_at=NOW), make_stored_response(expires_at=NOW + SECOND)]
    for answer in answers:
        await store.run_transaction(
            lambda unit, answer=answer: unit.idempotency.save_response(answer)
        )
    rule = RateLimit("general", 5, MINUTE)
    for scope, started_at in (("old", NOW - MINUTE), ("new", NOW - MINUTE + SECOND)):
        await store.admission.count_hit(scope, rule, started_at)

    assert [await store.delete_expired(NOW, POLICY) for _ in range(2)] == [4, 0]

    async with store.read_view() as view:
        left = [await view.accounts.session(session.digest) is None for session in sessions]
        kept = [
            await view.idempotency.stored_response(each.scope, each.key, NOW) for each in answers
        ]
    assert (left, kept) == ([True, False, True, False], [None, answers[1]])
    assert (await store.admission.peek("new", rule, NOW)).remaining == 4


async def test_old_processor_events_are_deleted(store):
    """`delete_expired` deletes processor events a week after they are done, and no others."""
    old, recent, waiting = (make_processor_event() for _ in range(3))

    async def finish(tx, event, at):
        lease = make_lease(at)
        await tx.inbox.add_event("fake", event, at)
        await tx.inbox.claim_events(at, lease, 1)
        await tx.inbox.finish_event("fake", event.event_id, lease, None)

    await store.run_transaction(lambda unit: finish(unit, old, NOW))
    await store.run_transaction(lambda unit: finish(unit, recent, NOW + SECOND))
    await store.run_transaction(lambda unit: unit.inbox.add_event("fake", waiting, NOW))

    assert [await store.delete_expired(NOW + 7 * DAY, POLICY) for _ in range(2)] == [1, 0]

    async def add(tx):
        return [await tx.inbox.add_event("fake", each, NOW) for each in (old, recent, waiting)]

    assert await store.run_transaction(add) == [True, False, False]


async def test_told_alerts_are_deleted_after_a_year(store):
    """`delete_expired` deletes alerts a year old that operators were told of, and no others."""
    booking = await add_booking(store)
    for due_at, text in ((NOW, "told"), (NOW, "untold"), (NOW + SECOND, "told later")):
        booking = next_revision(booking)
        await save_booking(store, booking, alerts=(Alert(text),), operations_due_at=due_at)

    async def tell(tx):
        claimed = [await tx.alerts.claim_alert(NOW, make_lease(NOW)) for _ in range(3)]
        for alert in claimed:
            if alert.text != "untold":
                await tx.alerts.mark_alert_sent(alert.id)

    await store.run_transaction(tell)
    assert [await store.delete_expired(NOW + 365 * DAY, POLICY) for _ in range(2)] == [1, 0]
    left = await read_store(store, lambda view: view.alerts.alerts(9))
    assert [alert.text for alert in left] == ["told later", "untold"]


async def test_finished_runs_of_the_reconciliation_are_deleted_after_a_year(store):
    """`delete_expired` deletes runs that were finished a year ago; those that wait stay, and a new
    run gets an id of its own."""

    async def add(tx):
        for finished_at in (NOW, NOW + SECOND, None):
            await tx.reconciliations.add_reconciliation(NOW, None)
            if finished_at is not None:
                run = await tx.reconciliations.claim_reconciliation(NOW, make_lease(NOW))
                await tx.reconciliations.finish_reconciliation(evolve(run, finished_at=finished_at))

    await store.run_transaction(add)
    assert [await store.delete_expired(NOW + 365 * DAY, POLICY) for _ in range(2)] == [1, 0]
    await store.run_transaction(lambda tx: tx.reconciliations.add_reconciliation(NOW, None))
    left = await read_store(store, lambda view: view.reconciliations.reconciliation_runs(9))
    assert [run.finished_at for run in left] == [None, None, NOW + SECOND]


async def test_other_rows_are_not_deleted(store):
    """Bookings, pending work and API keys are not deleted, whatever their age."""
    booking = await add_booking(store)
    user = await add_user(store)
    await add_api_key(store, user.id, expires_at=NOW)
    event, lease = make_processor_event(), make_lease()
    await store.run_transaction(lambda unit: unit.inbox.add_event("fake", event, NOW))
    assert await store.delete_expired(NOW + 4_000 * DAY, POLICY) == 0
    async with store.read_view() as view:
        assert await view.bookings.booking(booking.id) == booking
        assert await view.accounts.api_keys_of(user.id)
    assert await count_due_work(store, NOW + 4_000 * DAY) == 2
    assert await store.run_transaction(lambda unit: unit.inbox.claim_events(NOW, lease, 1))


async def test_old_inquiries_are_erased(store):
    """`delete_expired` deletes inquiries after 180 days, and no others."""

    async def add(unit):
        for created_at in (NOW, NOW + SECOND):
            inquiry = NewInquiry("Sam", "sam@example.com", "", "How much?", created_at)
            await unit.notifications.add_inquiry(inquiry)

    await store.run_transaction(add)
    assert [await store.delete_expired(NOW + 180 * DAY, POLICY) for _ in range(2)] == [1, 0]
    [left] = await read_store(store, lambda view: view.notifications.inquiries(0, 9))
    assert left.created_at == NOW + SECOND
