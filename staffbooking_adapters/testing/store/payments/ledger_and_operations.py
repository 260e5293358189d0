"""Contract of the stores: ledger, payouts and alerts, and the queries on them."""

from __future__ import annotations

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
    make_checkout_command,
    make_lease,
    make_payout_order,
    make_posting,
    make_processor_event,
    make_refund_order,
    next_revision,
    save_booking,
)
from staffbooking_adapters.testing.store.base import StoreContract, count_due_work, read_store
from staffbooking_core.domain.bookings.alerts import Alert, StoredAlert
from staffbooking_core.domain.bookings.booking import DueTimer, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, TimerKind
from staffbooking_core.domain.payments.ledger import Account, Leg
from staffbooking_core.domain.payments.operations import (
    Operation,
    OperationOrder,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.processor import CloseCheckout, OperationKind, ReversePayout
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import OPERATION_NUMBER_TAKEN, POSTING_KEY_TAKEN, AuditedBooking

FINE = NOW + timedelta(microseconds=123_456)
ORDERS = (
    OperationOrder(1, make_checkout_command(description="Gala \N{GRINNING FACE}", expires_at=FINE)),
    OperationOrder(2, CloseCheckout(1)),
    make_refund_order(3),
    make_payout_order(4),
    OperationOrder(5, ReversePayout(4, 34_000, "usd")),
)


async def operations_of(store, booking):
    return list(await read_store(store, lambda view: view.operations.operations_of(booking.id)))


async def postings_of(store, booking):
    return list(await read_store(store, lambda view: view.ledger.postings_of(booking.id)))


# Alerts -----------------------------------------------------------------------------------


async def claim_alert(store, now):
    """Claim an alert under a new lease."""
    return await store.run_transaction(lambda tx: tx.alerts.claim_alert(now, make_lease(now)))


class LedgerAndOperationsContract(StoreContract):
    """Ledger, payouts and alerts, and the queries on them."""

    # Operations -------------------------------------------------------------------------------
    async def test_an_order_becomes_an_operation(self, store):
        """An order is saved with its transition as a pending operation that is due at once."""
        booking = await add_booking(store, change={"orders": ORDERS, "operations_due_at": FINE})
        operations = await operations_of(store, booking)
        assert operations == [
            Operation(
                id=operation.id,
                booking_id=booking.id,
                kind=order.kind,
                n=order.n,
                command=order.command,
                created_at=FINE,
                next_at=FINE,
            )
            for operation, order in zip(operations, ORDERS, strict=True)
        ]
        assert [operation.kind for operation in operations] == [
            OperationKind.OPEN_CHECKOUT,
            OperationKind.CLOSE_CHECKOUT,
            OperationKind.REFUND,
            OperationKind.PAY_OUT,
            OperationKind.REVERSE_PAYOUT,
        ]

    async def test_operations_are_listed_by_number(self, store):
        """A booking's operations are listed by number; operation ids are unique over all
        bookings."""
        first, second = await add_booking(store), await add_booking(store)
        await save_booking(store, next_revision(first), orders=ORDERS[2:3])
        await save_booking(store, next_revision(second), orders=ORDERS[:1])
        await save_booking(store, next_revision(first, revision=3), orders=ORDERS[:2])
        operations = await operations_of(store, first)
        assert [operation.n for operation in operations] == [1, 2, 3]
        ids = {operation.id for operation in [*operations, *await operations_of(store, second)]}
        assert len(ids) == 4

    async def test_an_operation_number_is_used_once(self, store):
        """A repeated operation number of a booking is refused with its whole transition."""
        booking = await add_booking(store, change={"orders": ORDERS[:1]})
        with pytest.raises(ConstraintViolated) as caught:
            await save_booking(store, next_revision(booking), orders=(make_refund_order(1),))
        assert caught.value.constraint == OPERATION_NUMBER_TAKEN
        assert await read_store(store, lambda view: view.bookings.booking(booking.id)) == booking
        assert len(await operations_of(store, booking)) == 1

    async def test_the_progress_of_an_operation_is_stored(self, store):
        """Saving stores the command, progress and result of one operation and changes no other."""
        booking = await add_booking(store, change={"orders": ORDERS})
        *others, operation, last = await operations_of(store, booking)
        changed = evolve(
            operation,
            command=evolve(operation.command, payee_ref="acct_1"),
            generation=2,
            status=OperationStatus.DONE,
            attempts=3,
            next_at=FINE,
            first_sent_at=FINE + SECOND,
            last_sent_at=FINE + MINUTE,
            result_ref="cs_1",
            settlement=SettlementStatus.PENDING,
            last_error="card refused \N{GRINNING FACE}",
        )
        await store.run_transaction(lambda unit: unit.operations.save_operation(changed))
        assert await operations_of(store, booking) == [*others, changed, last]

    # Postings ---------------------------------------------------------------------------------
    async def test_a_posting_comes_back_as_it_was_made(self, store):
        """A posting is stored with all its legs, in order."""
        legs = (
            Leg(Account.ESCROW, 99_999_999_999),
            Leg(Account.PLATFORM_FEES, -6_000),
            Leg(Account.STAFF_PAYABLE, 6_000 - 99_999_999_999),
        )
        booking = await add_booking(store)
        posting = make_posting(booking.id, key="settle:1:1", at=FINE, legs=legs)
        await save_booking(store, next_revision(booking), postings=(posting,))
        assert await postings_of(store, booking) == [posting]

    async def test_postings_are_listed_in_insertion_order(self, store):
        """Postings are listed in insertion order, whatever their times and keys."""
        booking, other = await add_booking(store), await add_booking(store)
        made = [
            make_posting(booking.id, key=key, at=NOW + minutes * MINUTE)
            for key, minutes in (("pay:z", 5), ("pay:a", 1), ("pay:m", 3))
        ]
        await save_booking(store, next_revision(booking), postings=tuple(made[:2]))
        await save_booking(store, next_revision(other), postings=(make_posting(other.id),))
        await save_booking(store, next_revision(booking, revision=3), postings=tuple(made[2:]))
        assert await postings_of(store, booking) == made

    async def test_a_posting_key_is_used_once(self, store):
        """A posting key that is already used, for any booking, is refused with its transition."""
        booking, other = await add_booking(store), await add_booking(store)
        posting = make_posting(booking.id)
        await save_booking(store, next_revision(booking), postings=(posting,))
        again = make_posting(other.id, key=posting.key)
        with pytest.raises(ConstraintViolated) as caught:
            await save_booking(
                store, next_revision(other), postings=(make_posting(other.id), again)
            )
        assert caught.value.constraint == POSTING_KEY_TAKEN
        assert await postings_of(store, other) == []
        assert await read_store(store, lambda view: view.bookings.booking(other.id)) == other

    async def test_the_books_balance(self, store):
        """The legs of all postings sum to zero, also when there are none."""
        before = await read_store(store, lambda view: view.ledger.imbalance())
        for amount in (1, 40_000, 99_999_999_999):
            booking = await add_booking(store)
            await save_booking(
                store, next_revision(booking), postings=(make_posting(booking.id, amount),)
            )
        assert (before, await read_store(store, lambda view: view.ledger.imbalance())) == (
            0,
            0,
        )

    async def test_an_audit_sees_everything_of_a_booking(self, store):
        """An audit returns each booking with its postings and operations in order."""
        booking = await add_booking(store, change={"orders": ORDERS})
        postings = tuple(make_posting(booking.id, key=f"pay:{n}") for n in "zay")
        booking = await save_booking(store, next_revision(booking), postings=postings)
        bare = await add_booking(store)
        operations = tuple(await operations_of(store, booking))
        assert list(await read_store(store, lambda view: view.ledger.audited_bookings(0, 10))) == [
            AuditedBooking(booking, postings, operations),
            AuditedBooking(bare, (), ()),
        ]

    async def test_an_audit_goes_through_all_bookings(self, store):
        """An audit reads bookings in batches by id, above the given id."""
        bookings = [await add_booking(store, change={"orders": ORDERS[:2]}) for _ in range(5)]
        seen, after = [], 0
        async with store.read_view() as view:
            while batch := await view.ledger.audited_bookings(after, 2):
                assert len(batch) <= 2
                seen += [audited.booking for audited in batch]
                after = seen[-1].id
        assert seen == bookings

    # Payouts ----------------------------------------------------------------------------------
    async def test_open_payouts_are_listed_by_due_time(self, store):
        """Scheduled, failed and frozen payouts are listed by due time, undated ones last."""
        companion, customer = await add_companion(store), await add_user(store)

        async def add(status, due_at):
            fields = {
                "status": BookingStatus.COMPLETED,
                "payout_status": status,
                "payout_due_at": due_at,
            }
            return await add_booking(store, companion, customer, **fields)

        undated = await add(PayoutStatus.FROZEN, None)
        late = await add(PayoutStatus.FAILED, NOW + 2 * DAY)
        soon = await add(PayoutStatus.SCHEDULED, NOW + DAY)
        twin = await add(PayoutStatus.FROZEN, NOW + DAY)
        for status in (PayoutStatus.NONE, PayoutStatus.PAID, PayoutStatus.REVERSED):
            await add(status, NOW)
        async with store.read_view() as view:
            assert list(await view.bookings.open_payouts(10)) == [soon, twin, late, undated]
            assert list(await view.bookings.open_payouts(2)) == [soon, twin]
            for status, found in (
                (PayoutStatus.FAILED, [late]),
                (PayoutStatus.FROZEN, [twin, undated]),
                (PayoutStatus.PAID, []),
            ):
                assert list(await view.bookings.open_payouts(9, 0, status)) == found
            assert list(await view.bookings.open_payouts(1, 1, PayoutStatus.FROZEN)) == [undated]

    async def test_the_newest_alerts_come_first(self, store):
        """Alerts are listed newest first; of one moment the later one first."""
        first, second = await add_booking(store), await add_booking(store)
        await save_booking(
            store,
            next_revision(first),
            alerts=(Alert("one"), Alert("two \N{GRINNING FACE}", FINE + SECOND)),
            operations_due_at=FINE,
        )
        await save_booking(
            store, next_revision(second), alerts=(Alert("three"),), operations_due_at=FINE + HOUR
        )
        async with store.read_view() as view:
            assert list(await view.alerts.alerts(10)) == [
                StoredAlert(FINE + HOUR, second.id, "three"),
                StoredAlert(FINE, first.id, "two \N{GRINNING FACE}", FINE + SECOND),
                StoredAlert(FINE, first.id, "one"),
            ]
            assert len(await view.alerts.alerts(2)) == 2

    async def test_a_claimed_alert_is_not_claimed_again_under_its_lease(self, store):
        """Alerts are claimed oldest first, each by one lease, and stay in the list of newest
        alerts."""
        booking = await add_booking(store)
        await save_booking(
            store, next_revision(booking), alerts=(Alert("one"), Alert("two"), Alert("three"))
        )
        claimed = [await claim_alert(store, NOW) for _ in range(4)]
        assert [alert and (alert.booking_id, alert.text) for alert in claimed] == [
            (booking.id, "one"),
            (booking.id, "two"),
            (booking.id, "three"),
            None,
        ]
        assert len(await read_store(store, lambda view: view.alerts.alerts(10))) == 3

    async def test_an_alert_that_was_not_sent_is_claimed_again_after_its_lease(self, store):
        """An alert whose holder died before it was sent is claimed once its lease has expired."""
        booking = await add_booking(store)
        await save_booking(store, next_revision(booking), alerts=(Alert("one"),))
        first = await claim_alert(store, NOW)
        assert await claim_alert(store, NOW + POLICY.lease_duration - SECOND) is None
        assert await claim_alert(store, NOW + POLICY.lease_duration) == first

    async def test_a_sent_alert_is_not_claimed_again(self, store):
        """An alert that is marked as sent is not claimed after its lease has expired."""
        booking = await add_booking(store)
        await save_booking(store, next_revision(booking), alerts=(Alert("one"),))
        alert = await claim_alert(store, NOW)
        await store.run_transaction(lambda tx: tx.alerts.mark_alert_sent(alert.id))
        assert await claim_alert(store, NOW + DAY) is None

    # Pending work -----------------------------------------------------------------------------
    async def test_nothing_is_due_at_first(self, store):
        """An empty store has nothing due."""
        assert await count_due_work(store, NOW) == 0

    async def test_due_operations_are_counted(self, store):
        """The due count has the unfinished operations whose time has come."""
        booking = await add_booking(store, change={"orders": ORDERS[:3], "due": None})
        operations = await operations_of(store, booking)
        waits = evolve(operations[1], next_at=NOW + HOUR)
        done = evolve(operations[2], status=OperationStatus.VOID)
        for operation in (waits, done):
            await store.run_transaction(
                lambda unit, each=operation: unit.operations.save_operation(each)
            )
        assert [await count_due_work(store, NOW + wait) for wait in (-SECOND, 0 * DAY, HOUR)] == [
            0,
            1,
            2,
        ]

    async def test_due_timers_are_counted_by_business_time(self, store):
        """The due count has the timers due by business time, without deferred ones."""
        booking = await add_booking(store, change={"due": DueTimer(TimerKind.EXPIRE, NOW + DAY)})
        before = await count_due_work(store, NOW)
        await store.run_transaction(lambda unit: unit.sandbox.set_clock_offset(DAY))
        due, lease = await count_due_work(store, NOW), make_lease()

        async def put_off(tx):
            await tx.timers.claim_timers(NOW + DAY, NOW, lease, 1)
            await tx.timers.defer_timer(booking.id, lease, NOW + HOUR)

        await store.run_transaction(put_off)
        assert (
            before,
            due,
            await count_due_work(store, NOW),
            await count_due_work(store, NOW + HOUR),
        ) == (0, 1, 0, 1)

    async def test_inbox_events_are_counted_until_they_are_done(self, store):
        """The due count has the inbox events that wait and are not deferred."""
        event, lease = make_processor_event(), make_lease()
        await store.run_transaction(lambda unit: unit.inbox.add_event("fake", event, NOW))
        counts = [await count_due_work(store, NOW)]

        async def finish(tx, retry_at):
            await tx.inbox.claim_events(NOW + HOUR, lease, 1)
            await tx.inbox.finish_event("fake", event.event_id, lease, retry_at)

        for retry_at in (NOW + HOUR, None):
            await store.run_transaction(lambda unit, at=retry_at: finish(unit, at))
            counts += [await count_due_work(store, NOW), await count_due_work(store, NOW + HOUR)]
        assert counts == [1, 0, 1, 0, 0]
