"""Contract of the stores: work that workers claim (operations, timers and the inbox)."""

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
    add_companion,
    add_user,
    make_lease,
    make_payout_order,
    make_refund_order,
    next_revision,
    save_booking,
)
from staffbooking_adapters.testing.store.base import StoreContract
from staffbooking_core.domain.bookings.booking import DueTimer
from staffbooking_core.domain.bookings.lifecycle import TimerKind
from staffbooking_core.domain.payments.operations import OperationStatus
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Lease, Timer

LEASE = POLICY.lease_duration
TWO = (make_refund_order(1), make_payout_order(2))


async def operation_ids(store, booking):
    async with store.read_view() as view:
        return [operation.id for operation in await view.operations.operations_of(booking.id)]


async def claim(
    store, now=NOW, lease=None, limit=10, booking_id=None, kinds=frozenset(OperationKind)
):
    """Claims operations and returns them with the lease."""
    lease = lease or make_lease(now)
    found = await store.run_transaction(
        lambda unit: unit.operations.claim_operations(now, lease, limit, booking_id, kinds)
    )
    return list(found), lease


async def claimed_ids(store, now=NOW, **given):
    return [operation.id for operation in (await claim(store, now, **given))[0]]


async def save_operation(store, operation, lease=None):
    await store.run_transaction(lambda unit: unit.operations.save_operation(operation, lease))


async def lock(store, operation, lease):
    return await store.run_transaction(
        lambda unit: unit.operations.lock_operation(operation.id, lease)
    )


# Timers -----------------------------------------------------------------------------------


def due_in(length, kind=TimerKind.EXPIRE):
    return {"due": DueTimer(kind, NOW + length)}


async def claim_timers(store, business=NOW, now=NOW, lease=None, limit=10):
    lease = lease or make_lease(now)
    return list(
        await store.run_transaction(
            lambda unit: unit.timers.claim_timers(business, now, lease, limit)
        )
    )


async def defer(store, booking, lease, until):
    await store.run_transaction(lambda unit: unit.timers.defer_timer(booking.id, lease, until))


class ClaimsContract(StoreContract):
    """Work that workers claim (operations, timers and the inbox)."""

    # Operations -------------------------------------------------------------------------------
    async def test_a_due_operation_is_claimed_once(self, store):
        """A due operation is claimed as stored, and not again while the lease runs."""
        booking = await add_booking(store, change={"orders": TWO[:1]})
        (operation,), _ = await claim(store)
        async with store.read_view() as view:
            assert list(await view.operations.operations_of(booking.id)) == [operation]
        assert await claimed_ids(store) == []

    async def test_the_earliest_operation_is_claimed_first(self, store):
        """Due operations are claimed by their next time, up to the limit."""
        bookings = [
            await add_booking(
                store, change={"orders": TWO[:1], "operations_due_at": NOW + minutes * MINUTE}
            )
            for minutes in (3, 1, 2, 9)
        ]
        ids = [(await operation_ids(store, booking))[0] for booking in bookings]
        now = NOW + 5 * MINUTE
        assert await claimed_ids(store, NOW) == []
        assert await claimed_ids(store, now, limit=2) == [ids[1], ids[2]]
        assert await claimed_ids(store, now, limit=2) == [ids[0]]

    async def test_an_operation_is_due_at_its_very_time(self, store):
        """An operation is due exactly at its next time, and not a second before."""
        await add_booking(store, change={"orders": TWO[:1], "operations_due_at": NOW})
        assert await claimed_ids(store, NOW - SECOND) == []
        assert len(await claimed_ids(store, NOW)) == 1

    @pytest.mark.parametrize(
        "status",
        [OperationStatus.DONE, OperationStatus.REFUSED, OperationStatus.VOID, OperationStatus.DEAD],
    )
    async def test_a_bookings_operations_run_in_order(self, store, status):
        """Only the first unfinished operation of a booking can be claimed."""
        booking = await add_booking(store, change={"orders": TWO})
        ids = await operation_ids(store, booking)
        (first,), _ = await claim(store)
        await save_operation(store, evolve(first, status=OperationStatus.UNKNOWN))
        (again,), _ = await claim(store)
        await save_operation(store, evolve(again, status=status))
        assert [first.id, again.id, *await claimed_ids(store)] == [ids[0], ids[0], ids[1]]

    async def test_a_waiting_operation_blocks_the_next(self, store):
        """An operation whose time has not come blocks the booking's next one."""
        booking = await add_booking(store, change={"orders": TWO})
        (first,), _ = await claim(store)
        await save_operation(store, evolve(first, next_at=NOW + HOUR))
        assert await claimed_ids(store, NOW + MINUTE) == []
        assert await claimed_ids(store, NOW + HOUR) == (await operation_ids(store, booking))[:1]

    async def test_a_refund_overtakes_a_waiting_payout(self, store):
        """A payout that waits for the staff member does not block a later refund of the booking."""
        booking = await add_booking(
            store, change={"orders": (make_payout_order(1), make_refund_order(2))}
        )
        payout, refund = await operation_ids(store, booking)
        (first,), _ = await claim(store, limit=1)
        await save_operation(store, evolve(first, next_at=NOW + HOUR))
        assert [first.id, *await claimed_ids(store)] == [payout, refund]

    async def test_a_refund_waits_for_a_due_payout(self, store):
        """A payout that is due comes before a later refund of the booking."""
        booking = await add_booking(
            store, change={"orders": (make_payout_order(1), make_refund_order(2))}
        )
        assert await claimed_ids(store) == (await operation_ids(store, booking))[:1]

    async def test_a_refund_waits_for_a_payout_in_flight(self, store):
        """A payout whose outcome is unknown blocks a later refund of the booking."""
        await add_booking(store, change={"orders": (make_payout_order(1), make_refund_order(2))})
        (first,), _ = await claim(store, limit=1)
        waiting = evolve(first, status=OperationStatus.UNKNOWN, next_at=NOW + HOUR)
        await save_operation(store, waiting)
        assert await claimed_ids(store) == []

    async def test_one_operation_of_a_booking_runs_at_a_time(self, store):
        """A finished operation under a lease blocks the booking's next one."""
        booking = await add_booking(store, change={"orders": TWO})
        (first,), lease = await claim(store)
        done = evolve(first, status=OperationStatus.DONE)
        await save_operation(store, done, lease)
        assert await claimed_ids(store) == []
        await save_operation(store, done)
        assert await claimed_ids(store) == (await operation_ids(store, booking))[1:]

    async def test_an_operation_can_be_claimed_when_the_lease_ends(self, store):
        """Another worker can claim the operation when the lease ends."""
        await add_booking(store, change={"orders": TWO[:1]})
        (operation,), _ = await claim(store)
        assert await claimed_ids(store, NOW + LEASE - SECOND) == []
        assert await claimed_ids(store, NOW + LEASE) == [operation.id]

    async def test_a_claim_may_be_of_one_booking(self, store):
        """A claim for one booking ignores due times, and respects the leases of others."""
        booking = await add_booking(store, change={"orders": TWO, "operations_due_at": NOW + HOUR})
        await add_booking(store, change={"orders": TWO})
        ids = await operation_ids(store, booking)
        assert await claimed_ids(store, booking_id=booking.id) == ids[:1]
        assert await claimed_ids(store, booking_id=booking.id) == []
        assert await claimed_ids(store, NOW + LEASE, booking_id=booking.id) == ids[:1]
        assert await claimed_ids(store, booking_id=booking.id + 2) == []

    async def test_a_claim_may_be_of_some_kinds(self, store):
        """A claim for some kinds leaves other operations alone, even those due earlier."""
        for minutes in range(3):
            at = NOW - minutes * MINUTE
            await add_booking(
                store, change={"orders": (make_payout_order(1),), "operations_due_at": at}
            )
        booking = await add_booking(store, change={"orders": TWO[:1]})
        ids = await operation_ids(store, booking)
        assert await claimed_ids(store, kinds=frozenset({OperationKind.OPEN_CHECKOUT})) == []
        others = frozenset(OperationKind) - {OperationKind.PAY_OUT}
        assert await claimed_ids(store, limit=1, kinds=others) == ids
        assert len(await claimed_ids(store, kinds=frozenset({OperationKind.PAY_OUT}))) == 3

    async def test_another_kind_still_comes_first(self, store):
        """An operation behind an unfinished one of another kind cannot be claimed."""
        booking = await add_booking(store, change={"orders": TWO})
        payouts = frozenset({OperationKind.PAY_OUT})
        assert await claimed_ids(store, kinds=payouts) == []
        assert await claimed_ids(store, booking_id=booking.id, kinds=payouts) == []
        (first,), _ = await claim(store)
        await save_operation(store, evolve(first, status=OperationStatus.DONE))
        assert await claimed_ids(store, kinds=payouts) == (await operation_ids(store, booking))[1:]

    async def test_waiting_payouts_can_be_woken(self, store):
        """Waking makes the waiting payouts of one companion due at once."""
        companion, customer = await add_companion(store), await add_user(store)
        later, payout = NOW + HOUR, (make_payout_order(1),)
        mine = [
            await add_booking(
                store, companion, customer, change={"orders": payout, "operations_due_at": later}
            )
            for _ in range(2)
        ]
        await add_booking(
            store, companion, customer, change={"orders": TWO[:1], "operations_due_at": later}
        )
        await add_booking(store, change={"orders": payout, "operations_due_at": later})
        woken = [
            await store.run_transaction(
                lambda unit: unit.operations.wake_payouts(companion.id, NOW)
            )
            for _ in "ab"
        ]
        assert woken == [2, 0]
        assert await claimed_ids(store) == [(await operation_ids(store, each))[0] for each in mine]

    @pytest.mark.parametrize(
        "status", [OperationStatus.UNKNOWN, OperationStatus.DONE, OperationStatus.REFUSED]
    )
    async def test_finished_and_unknown_payouts_are_not_woken(self, store, status):
        """Waking skips finished payouts and those whose outcome is unknown."""
        booking = await add_booking(store, change={"orders": (make_payout_order(1),)})
        (operation,), _ = await claim(store)
        await save_operation(store, evolve(operation, status=status, next_at=NOW + HOUR))
        woken = await store.run_transaction(
            lambda unit: unit.operations.wake_payouts(booking.companion_id, NOW)
        )
        assert woken == 0

    async def test_many_workers_share_the_work(self, store):
        """Concurrent claims give each operation to one worker."""
        companion, customer = await add_companion(store), await add_user(store)
        for hours in range(12):
            starts_at = NOW + DAY + hours * HOUR
            await add_booking(
                store, companion, customer, starts_at=starts_at, change={"orders": TWO}
            )
        claims = await asyncio.gather(*(claim(store, limit=3) for _ in range(8)))
        ids = [operation.id for operations, _ in claims for operation in operations]
        assert len(ids) == len(set(ids))
        ids += await claimed_ids(store, limit=50)
        assert len(set(ids)) == len(ids) == 12

    async def test_the_holder_can_lock_its_operation(self, store):
        """The holder of the lease can lock its operation, before and after saving it."""
        await add_booking(store, change={"orders": TWO[:1]})
        (operation,), lease = await claim(store)
        assert await lock(store, operation, lease) == operation
        unknown = evolve(operation, status=OperationStatus.UNKNOWN, attempts=1)
        await save_operation(store, unknown, lease)
        assert await lock(store, operation, lease) == unknown

    async def test_a_lost_operation_cannot_be_locked(self, store):
        """Locking an operation that another worker has claimed is a conflict."""
        await add_booking(store, change={"orders": TWO[:1]})
        (operation,), lost = await claim(store)
        (_,), lease = await claim(store, NOW + LEASE)
        with pytest.raises(Conflict):
            await lock(store, operation, lost)
        assert await lock(store, operation, lease) == operation

    async def test_a_released_operation_cannot_be_locked(self, store):
        """An operation saved without a lease cannot be locked, and can be claimed at once."""
        await add_booking(store, change={"orders": TWO[:1]})
        (operation,), lease = await claim(store)
        await save_operation(store, operation)
        with pytest.raises(Conflict):
            await lock(store, operation, lease)
        assert await claimed_ids(store) == [operation.id]

    async def test_an_unclaimed_operation_cannot_be_locked(self, store):
        """An unclaimed or unknown operation cannot be locked."""
        booking = await add_booking(store, change={"orders": TWO[:1]})
        for number in [*await operation_ids(store, booking), 404]:
            with pytest.raises(Conflict):
                await store.run_transaction(
                    lambda unit, number=number: unit.operations.lock_operation(number, make_lease())
                )

    async def test_a_lost_lease_cannot_save(self, store):
        """Saving under a lost lease is a conflict and changes nothing."""
        await add_booking(store, change={"orders": TWO[:1]})
        (operation,), lost = await claim(store)
        (_,), lease = await claim(store, NOW + LEASE)
        with pytest.raises(Conflict):
            await save_operation(store, evolve(operation, status=OperationStatus.DONE), lost)
        assert await lock(store, operation, lease) == operation

    async def test_a_lease_may_be_renewed(self, store):
        """Saving with the same token and a later end prolongs the lease."""
        await add_booking(store, change={"orders": TWO[:1]})
        (operation,), lease = await claim(store)
        await save_operation(store, operation, Lease(lease.token, lease.until + HOUR))
        assert await claimed_ids(store, NOW + LEASE) == []
        assert await claimed_ids(store, NOW + LEASE + HOUR) == [operation.id]

    async def test_a_due_timer_is_claimed_once(self, store):
        """A due timer is claimed with its kind and due time as the first try, once per lease."""
        at = NOW - timedelta(microseconds=1)
        due = DueTimer(TimerKind.AUTO_COMPLETE, at)
        booking = await add_booking(store, change={"due": due})
        assert await claim_timers(store) == [Timer(booking.id, TimerKind.AUTO_COMPLETE, at, 1)]
        assert await claim_timers(store) == []

    async def test_a_timer_is_due_by_business_time(self, store):
        """A timer is due exactly at its business time, whatever the wall clock says."""
        await add_booking(store, change=due_in(DAY))
        assert await claim_timers(store, NOW + DAY - SECOND, NOW + 9 * DAY) == []
        assert len(await claim_timers(store, NOW + DAY, NOW)) == 1

    async def test_the_earliest_timer_is_claimed_first(self, store):
        """Timers are claimed by due time, then by booking, up to the limit."""
        ids = [(await add_booking(store, change=due_in(n * HOUR))).id for n in (3, 1, 2, 1)]
        claimed = [
            [timer.booking_id for timer in await claim_timers(store, NOW + DAY, limit=n)]
            for n in (3, 10)
        ]
        assert claimed == [[ids[1], ids[3], ids[2]], [ids[0]]]

    async def test_a_claimed_timer_comes_back(self, store):
        """A timer can be claimed again, as the next try, when the lease ends."""
        booking = await add_booking(store, change=due_in(-HOUR))
        tries = [await claim_timers(store, NOW, NOW + n * LEASE) for n in range(3)]
        assert [timer.attempts for (timer,) in tries] == [1, 2, 3]
        assert {timer.booking_id for (timer,) in tries} == {booking.id}
        assert await claim_timers(store, NOW, NOW + 3 * LEASE - SECOND) == []

    async def test_a_booking_without_a_due_time_has_no_timer(self, store):
        """A booking without a due time has no timer, when added or after a saved transition."""
        booking = await add_booking(store, change=due_in(-HOUR))
        await add_booking(store, change={"due": None})
        await save_booking(store, next_revision(booking), due=None)
        assert await claim_timers(store) == []

    async def test_a_transition_replaces_the_timer(self, store):
        """A saved transition replaces the timer and ends its claim; the new timer is a first
        try."""
        booking = await add_booking(store, change=due_in(-HOUR))
        await claim_timers(store)
        await save_booking(store, next_revision(booking), due=DueTimer(TimerKind.PAY_OUT, NOW))
        assert await claim_timers(store) == [Timer(booking.id, TimerKind.PAY_OUT, NOW, 1)]

    async def test_a_transition_may_set_a_later_due_time(self, store):
        """A saved later due time replaces the earlier one."""
        booking = await add_booking(store, change=due_in(-HOUR))
        await save_booking(store, next_revision(booking), **due_in(HOUR))
        assert await claim_timers(store) == []
        assert len(await claim_timers(store, NOW + HOUR)) == 1

    async def test_a_transition_ends_the_claim_on_its_timer(self, store):
        """A saved transition ends the timer's claim, also with the same due time."""
        booking = await add_booking(store, change=due_in(-HOUR))
        await claim_timers(store)
        await save_booking(store, next_revision(booking), **due_in(-HOUR))
        assert len(await claim_timers(store)) == 1

    async def test_a_timer_can_be_deferred(self, store):
        """A deferred timer is claimed from the given wall time on, as the next try."""
        booking, lease = await add_booking(store, change=due_in(-HOUR)), make_lease()
        await claim_timers(store, lease=lease)
        await defer(store, booking, lease, NOW + MINUTE)
        assert await claim_timers(store, NOW + DAY, NOW + MINUTE - SECOND) == []
        (timer,) = await claim_timers(store, NOW, NOW + MINUTE)
        assert timer.attempts == 2

    async def test_a_lost_timer_cannot_be_deferred(self, store):
        """Deferring changes neither a timer that another claimed nor one that was replaced."""
        booking, lost, lease = await add_booking(store, change=due_in(-HOUR)), make_lease(), None
        await claim_timers(store, lease=lost)
        lease = make_lease(NOW + LEASE)
        await claim_timers(store, now=NOW + LEASE, lease=lease)
        await defer(store, booking, lost, NOW + DAY)
        (timer,) = await claim_timers(store, NOW, NOW + 2 * LEASE)
        assert timer.attempts == 3
        await save_booking(store, next_revision(booking), **due_in(-HOUR))
        await defer(store, booking, lease, NOW + DAY)
        assert len(await claim_timers(store)) == 1

    async def test_deferring_a_missing_timer_is_no_error(self, store):
        """Deferring the timer of a booking without one is no error."""
        booking, lease = await add_booking(store, change={"due": None}), make_lease()
        await defer(store, booking, lease, NOW)
        assert await claim_timers(store) == []
