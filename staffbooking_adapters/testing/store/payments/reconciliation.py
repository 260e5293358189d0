"""Contract of the stores: the queries of reconciliation and operators over all bookings."""

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
    add_companion,
    add_payee,
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
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.bookings.booking import (
    DueTimer,
    PaymentIntent,
    PaymentStatus,
    PayoutStatus,
)
from staffbooking_core.domain.bookings.lifecycle import TimerKind
from staffbooking_core.domain.payments.ledger import Account, Leg
from staffbooking_core.domain.payments.operations import (
    OperationOrder,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.processor import RefundPayment
from staffbooking_core.domain.reconciliation.statement import CashPostings
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Backlog

FINE = NOW + timedelta(microseconds=123_456)
INTENT = PaymentIntent(1, FINE)
SETTLE = (Leg(Account.ESCROW, 40_000), Leg(Account.STAFF_PAYABLE, -40_000))


async def add_accepted(store, *orders, **given):
    """Adds an accepted booking with an intent and operations."""
    booking = await add_booking(store, intent=INTENT, change={"orders": orders}, **given)
    return booking, await operations_of(store, booking)


async def operations_of(store, booking):
    return list(await read_store(store, lambda view: view.operations.operations_of(booking.id)))


async def change(store, operation, **fields):
    """Saves a changed operation."""
    changed = evolve(operation, **fields)
    await store.run_transaction(lambda unit: unit.operations.save_operation(changed))
    return changed


async def finish_event(store, event):
    lease = make_lease()

    async def unit(tx):
        await tx.inbox.claim_events(NOW, lease, 10)
        await tx.inbox.finish_event("fake", event.event_id, lease, None)

    await store.run_transaction(unit)


async def claim_run(store, now, lease):
    return await store.run_transaction(
        lambda tx: tx.reconciliations.claim_reconciliation(now, lease)
    )


async def renew_run(store, run, lease):
    await store.run_transaction(lambda tx: tx.reconciliations.renew_reconciliation(run.id, lease))


# Cash -------------------------------------------------------------------------------------


async def cash_books(store, after_id=0, limit=100):
    return list(await read_store(store, lambda view: view.ledger.cash_books(after_id, limit)))


# Money still owed -------------------------------------------------------------------------


async def failed_refunds(store, limit=10):
    return list(await read_store(store, lambda view: view.operations.failed_refunds(limit)))


FAILURES = (
    {"status": OperationStatus.REFUSED},
    {"status": OperationStatus.DEAD},
    {"status": OperationStatus.DONE, "settlement": SettlementStatus.FAILED},
)


UNSETTLED = {
    PaymentStatus.REQUIRES_PAYMENT,
    PaymentStatus.PROCESSING,
    PaymentStatus.REFUND_PENDING,
}


# The backlog ------------------------------------------------------------------------------


async def backlog(store, now=NOW):
    found = await read_store(store, lambda view: view.metrics.backlog(now))
    return sorted(found, key=lambda part: part.kind)


class ReconciliationContract(StoreContract):
    """The queries of reconciliation and operators over all bookings."""

    async def test_a_balance_is_the_sum_of_the_legs(self, store):
        """The balance of an account is the sum of its own legs, zero at first."""
        sums = [
            await read_store(
                store, lambda view: view.ledger.account_balance(Account.PROCESSOR_BALANCE)
            )
        ]
        for amount in (99_999_999_999, -40_000):
            booking, _ = await add_accepted(store)
            settled = make_posting(booking.id, key=f"settle:{booking.id}", legs=SETTLE)
            await save_booking(
                store, next_revision(booking), postings=(make_posting(booking.id, amount), settled)
            )
            sums.append(
                await read_store(
                    store, lambda view: view.ledger.account_balance(Account.PROCESSOR_BALANCE)
                )
            )
        assert sums == [0, 99_999_999_999, 99_999_959_999]

    async def test_a_cash_book_has_the_cash_postings(self, store):
        """A cash book lists the cash postings' keys and amounts in insertion order."""
        booking, _ = await add_accepted(store)
        cash = [make_posting(booking.id, amount, key=f"pay:{amount}") for amount in (3, -1, 2)]
        settled = make_posting(booking.id, key="settle:1:1", legs=SETTLE)
        await save_booking(store, next_revision(booking), postings=(*cash[:2], settled, cash[2]))
        posted = (("pay:3", 3), ("pay:-1", -1), ("pay:2", 2))
        assert await cash_books(store) == [
            CashPostings(booking.id, booking.code, posted, {}, False, changed_at=cash[0].at)
        ]

    async def test_cash_books_cover_all_accepted_bookings(self, store):
        """Cash books cover all bookings with an intent, in batches by id."""
        numbers = []
        for n in range(5):
            booking, _ = await add_accepted(store)
            await add_booking(store)
            if n % 2:
                await save_booking(
                    store, next_revision(booking), postings=(make_posting(booking.id, n),)
                )
            numbers.append((booking.id, n % 2 * n))
        seen, after = [], 0
        while batch := await cash_books(store, after, 2):
            assert len(batch) <= 2
            seen += [
                (book.booking_id, sum(amount for _, amount in book.postings)) for book in batch
            ]
            after = batch[-1].booking_id
        assert seen == numbers

    async def test_a_cash_book_has_the_references_of_done_operations(self, store):
        """A cash book has the processor's references of done operations by operation id."""
        orders = (
            OperationOrder(1, make_checkout_command()),
            *(make_refund_order(n) for n in range(2, 6)),
        )
        _, operations = await add_accepted(store, *orders)
        for operation, status, ref in zip(
            operations,
            (
                OperationStatus.DONE,
                OperationStatus.DONE,
                OperationStatus.DONE,
                OperationStatus.REFUSED,
                OperationStatus.PENDING,
            ),
            ("cs_1", "re_2", None, "re_4", "re_5"),
            strict=True,
        ):
            await change(store, operation, status=status, result_ref=ref)
        [book] = await cash_books(store)
        assert book.result_refs == {operations[0].id: "cs_1", operations[1].id: "re_2"}

    @pytest.mark.parametrize("status", OperationStatus)
    async def test_a_sent_operation_is_in_flight(self, store, status):
        """An operation is in flight from its first sending until it is finished."""
        _, (operation,) = await add_accepted(store, make_refund_order())
        before = (await cash_books(store))[0].has_in_flight
        sent = await change(store, operation, status=status, first_sent_at=NOW)
        [book] = await cash_books(store)
        assert (before, book.has_in_flight) == (False, not sent.is_finished)

    async def test_an_event_is_in_flight_until_it_is_finished(self, store):
        """An unfinished inbox event is in flight for the booking that it names only."""
        booking, _ = await add_accepted(store)
        await add_accepted(store)
        event = make_processor_event(intent_id=booking.id)
        await store.run_transaction(lambda unit: unit.inbox.add_event("fake", event, NOW))
        in_flight = [book.has_in_flight for book in await cash_books(store)]
        await finish_event(store, event)
        assert in_flight == [True, False]
        assert [book.has_in_flight for book in await cash_books(store)] == [False, False]

    async def test_failed_refunds_are_listed(self, store):
        """Refused, dead and failed refunds are listed with their bookings, oldest first."""
        failed = []
        for fields in FAILURES:
            booking, (operation,) = await add_accepted(store, make_refund_order())
            failed.append((booking, await change(store, operation, **fields)))
        assert await failed_refunds(store) == failed
        assert await failed_refunds(store, 2) == failed[:2]

    @pytest.mark.parametrize(
        "fields",
        [
            {"status": OperationStatus.PENDING},
            {"status": OperationStatus.UNKNOWN},
            {"status": OperationStatus.VOID},
            {"status": OperationStatus.VOID, "settlement": SettlementStatus.FAILED},
            {"status": OperationStatus.DONE},
            {"status": OperationStatus.DONE, "settlement": SettlementStatus.PENDING},
            {"status": OperationStatus.DONE, "settlement": SettlementStatus.SETTLED},
        ],
    )
    async def test_other_refunds_are_not_listed(self, store, fields):
        """Pending, unknown, void and successful refunds are not listed as failed."""
        _, (operation,) = await add_accepted(store, make_refund_order())
        await change(store, operation, **fields)
        assert await failed_refunds(store) == []

    async def test_failed_payouts_are_no_failed_refunds(self, store):
        """Failed payouts are not listed as failed refunds."""
        _, (operation,) = await add_accepted(store, make_payout_order())
        await change(store, operation, status=OperationStatus.REFUSED)
        assert await failed_refunds(store) == []

    async def test_a_replaced_refund_is_not_listed(self, store):
        """A refund replaced by an order of its booking is not listed; its failed replacement is."""
        again = OperationOrder(2, RefundPayment("pay_1", 20_000, "usd", replaces=1))
        first, operations = await add_accepted(store, make_refund_order(1), again)
        other, (failed,) = await add_accepted(store, make_refund_order(1))
        await change(store, operations[0], status=OperationStatus.REFUSED)
        listed = (other, await change(store, failed, status=OperationStatus.REFUSED))
        assert await failed_refunds(store) == [listed]
        replacing = await change(store, operations[1], status=OperationStatus.DEAD)
        assert await failed_refunds(store) == [(first, replacing), listed]

    async def test_debts_are_listed_by_companion(self, store):
        """The bookings for which a companion owes money are listed by id."""
        companion, customer = await add_companion(store), await add_user(store)
        owed = (1, 0, 99_999_999_999)
        debts = [
            await add_booking(store, companion, customer, owed_by_staff=amount) for amount in owed
        ]
        await add_booking(store, customer=customer, owed_by_staff=1)
        found = await read_store(
            store, lambda view: view.bookings.indebted_booking_ids(companion.id)
        )
        assert list(found) == [debts[0].id, debts[2].id]

    async def test_payments_with_an_inbox_event_are_not_listed(self, store):
        """A payment with an unfinished inbox event is left out until the event is finished."""
        companion, customer = await add_companion(store), await add_user(store)
        waits = PaymentStatus.REQUIRES_PAYMENT
        booking = await add_booking(store, companion, customer, payment_status=waits)
        event, lease = make_processor_event(intent_id=booking.id), make_lease()
        await store.run_transaction(lambda unit: unit.inbox.add_event("fake", event, NOW))
        assert (
            list(await read_store(store, lambda view: view.bookings.unsettled_bookings(0, 10)))
            == []
        )
        await store.run_transaction(lambda unit: unit.inbox.claim_events(NOW, lease, 1))
        await store.run_transaction(
            lambda unit: unit.inbox.finish_event("fake", event.event_id, lease, None)
        )
        (listed,) = await read_store(store, lambda view: view.bookings.unsettled_bookings(0, 10))
        assert listed.id == booking.id

    async def test_unsettled_payments_are_listed_in_batches(self, store):
        """Payments that the processor has not decided are listed in batches by id."""
        companion, customer = await add_companion(store), await add_user(store)
        bookings = [
            await add_booking(store, companion, customer, payment_status=status)
            for status in PaymentStatus
            for _ in "ab"
        ]
        seen, after = [], 0
        async with store.read_view() as view:
            while batch := await view.bookings.unsettled_bookings(after, 2):
                assert len(batch) <= 2
                seen += batch
                after = seen[-1].id
        assert seen == [booking for booking in bookings if booking.payment_status in UNSETTLED]

    # Cursors ----------------------------------------------------------------------------------
    async def test_a_cursor_is_stored_by_provider(self, store):
        """Each provider's cursor keeps its position and the time of its last move."""

        async def put(provider, cursor, at):
            await store.run_transaction(lambda unit: unit.cursors.save_cursor(provider, cursor, at))

        await put("stripe", "evt_1", NOW)
        await put("fake", "", NOW)
        await put("stripe", "evt_2 \N{GRINNING FACE}", FINE)
        async with store.read_view() as view:
            found = [await view.cursors.cursor(name) for name in ("stripe", "fake", "other")]
        assert found == [("evt_2 \N{GRINNING FACE}", FINE), ("", NOW), None]

    async def test_work_that_is_not_due_is_no_backlog(self, store):
        """The backlog leaves out kinds of which nothing is due."""
        await add_booking(store, change={"due": DueTimer(TimerKind.EXPIRE, NOW + DAY)})
        await add_payee(store, next_at=NOW + DAY)
        assert await backlog(store) == []

    async def test_due_operations_are_counted_by_kind(self, store):
        """The backlog counts due operations by kind, with the age of the oldest in seconds."""
        for seconds, orders in (
            (0, [make_refund_order(1)]),
            (90, [make_refund_order(1), make_payout_order(2)]),
            (-1, [make_payout_order(1)]),
        ):
            at = NOW - seconds * SECOND
            await add_booking(
                store, change={"orders": tuple(orders), "operations_due_at": at, "due": None}
            )
        booking, (operation,) = await add_accepted(store, make_refund_order())
        await change(store, operation, status=OperationStatus.DONE)
        await save_booking(store, next_revision(booking), due=None)
        assert await backlog(store) == [Backlog("pay_out", 1, 90.0), Backlog("refund", 2, 90.0)]

    async def test_due_timers_are_counted(self, store):
        """The backlog counts due timers, with the age of the oldest in seconds of business time."""
        for hours in (1, 2):
            await add_booking(store, change={"due": DueTimer(TimerKind.EXPIRE, NOW + hours * HOUR)})
        await store.run_transaction(lambda unit: unit.sandbox.set_clock_offset(3 * HOUR))
        assert await backlog(store) == [Backlog("timer", 2, 7200.0)]

    async def test_due_events_and_payees_are_counted(self, store):
        """The backlog counts unfinished events and due payees, with their ages by wall time."""
        event = make_processor_event()
        await store.run_transaction(lambda unit: unit.inbox.add_event("fake", event, NOW))
        await add_payee(store, next_at=NOW + MINUTE)
        later = NOW + 2 * MINUTE
        assert await backlog(store, later) == [
            Backlog("event", 1, 120.0),
            Backlog("payee", 1, 60.0),
        ]
        await finish_event(store, event)
        assert await backlog(store, later) == [Backlog("payee", 1, 60.0)]

    @pytest.mark.parametrize(
        ("status", "due_in", "released_in", "seconds"),
        [
            (PayoutStatus.SCHEDULED, -HOUR, None, 3600.0),
            (PayoutStatus.SCHEDULED, -HOUR, -MINUTE, 3600.0),
            (PayoutStatus.SCHEDULED, HOUR, -MINUTE, 60.0),
            (PayoutStatus.SCHEDULED, HOUR, None, None),
            (PayoutStatus.FAILED, -HOUR, None, 3600.0),
            (PayoutStatus.FROZEN, -HOUR, -MINUTE, None),
            (PayoutStatus.PAID, -HOUR, -MINUTE, None),
        ],
    )
    async def test_due_payouts_are_counted(self, store, status, due_in, released_in, seconds):
        """A scheduled or failed payout is in the backlog from its due time or earlier release."""
        business = NOW + DAY
        await store.run_transaction(lambda unit: unit.sandbox.set_clock_offset(DAY))
        await add_booking(
            store,
            payout_status=status,
            payout_due_at=business + due_in,
            payout_released_at=None if released_in is None else business + released_in,
            change={"due": None},
        )
        assert await backlog(store) == ([] if seconds is None else [Backlog("payout", 1, seconds)])

    # Runs ---------------------------------------------------------------------------------

    async def test_the_claim_of_a_run_can_be_prolonged(self, store):
        """A run whose claim was prolonged cannot be claimed at the former end of the claim."""
        await store.run_transaction(lambda tx: tx.reconciliations.add_reconciliation(NOW, None))
        lease = make_lease(NOW)
        run = await claim_run(store, NOW, lease)
        await renew_run(store, run, evolve(lease, until=lease.until + HOUR))
        assert await claim_run(store, lease.until, make_lease(lease.until)) is None
        assert await claim_run(store, lease.until + HOUR, make_lease(NOW + DAY)) == run

    async def test_a_lost_claim_of_a_run_cannot_be_prolonged(self, store):
        """Prolonging a claim that another worker has taken over, or of no run, is a conflict."""
        await store.run_transaction(lambda tx: tx.reconciliations.add_reconciliation(NOW, None))
        lost = make_lease(NOW)
        run = await claim_run(store, NOW, lost)
        await claim_run(store, lost.until, make_lease(lost.until))
        for claimed in (run, evolve(run, id=run.id + 1)):
            with pytest.raises(Conflict):
                await renew_run(store, claimed, lost)

    async def test_an_operators_address_is_deleted_from_runs(self, store):
        """All runs that an operator asked for lose the address, also one that is being made; those
        of others keep theirs."""
        for address in ("olga@example.com", "ana@example.com", None, "olga@example.com"):
            await store.run_transaction(
                lambda tx, by=address: tx.reconciliations.add_reconciliation(NOW, by)
            )
        run = await claim_run(store, NOW, make_lease(NOW))
        await store.run_transaction(
            lambda tx: tx.reconciliations.forget_operator("olga@example.com")
        )
        await store.run_transaction(
            lambda tx: tx.reconciliations.finish_reconciliation(evolve(run, finished_at=NOW))
        )
        runs = await read_store(store, lambda view: view.reconciliations.reconciliation_runs(9))
        assert [each.asked_by for each in runs] == [None, None, "ana@example.com", None]
