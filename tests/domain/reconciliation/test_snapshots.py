"""Facts of a snapshot are applied once, in any order and after any repetition."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW
from staffbooking_core.domain.bookings.booking import PaymentStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, EventName, Party, Trigger
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.operations import OperationStatus, SettlementStatus
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    CheckoutStatus,
    RefundStatus,
    Snapshot,
)
from tests.support.booking_journey import (
    BookingJourney,
    accepted_journey,
    apply_snapshot,
    journey_with_unseen_reversal,
    last_operation,
    paid_journey,
    with_processor_book,
)

T, P = Trigger, Party
WON, LOST = ChargebackStatus.WON, ChargebackStatus.LOST
TOTAL, PAYOUT = 40_000, 34_000


# Checkouts and payments -----------------------------------------------------------------


def test_an_opened_checkout_is_known():
    """The intent gets the page's URL and expiry, and the operation is done."""
    journey, book = with_processor_book(accepted_journey())
    book.execute_all()
    apply_snapshot(journey, book)
    assert journey.intent.checkout_url == "/pay"
    assert last_operation(journey).status is OperationStatus.DONE


def test_a_superseded_checkout_is_not_the_current_one():
    """The page of an older order finishes its operation only."""
    journey, book = with_processor_book(accepted_journey())
    book.execute_all()
    intent = evolve(journey.intent, checkout_n=9)
    journey.booking = evolve(journey.booking, intent=intent)
    apply_snapshot(journey, book)
    assert journey.intent.checkout_url is None
    assert last_operation(journey).status is OperationStatus.DONE


def test_a_checkout_that_expired_early_counts_as_lapsed():
    """The next checkout request orders another page."""
    journey, book = with_processor_book(accepted_journey())
    book.execute_all()
    now = journey.booking.created_at
    journey.apply_snapshot(book.snapshot, now)
    number, page = next(iter(book.checkouts.items()))
    book.checkouts[number] = evolve(page, status=CheckoutStatus.EXPIRED)
    journey.apply_snapshot(book.snapshot, now + HOUR)
    assert journey.intent.checkout_expires_at == now + HOUR
    assert journey.apply_snapshot(book.snapshot, now + 2 * HOUR) == []
    assert len(journey.apply(T.CHECKOUT, P.CUSTOMER, now + 2 * HOUR).orders) == 2


def test_a_payment_makes_it_paid():
    """A payment makes the booking paid, with its event, once."""
    journey, book = with_processor_book(accepted_journey())
    book.pay()
    apply_snapshot(journey, book)
    assert (journey.booking.status, journey.events) == (
        BookingStatus.PAID,
        [EventName.BOOKING_ACCEPTED, EventName.PAYMENT_COMPLETED],
    )


@pytest.mark.parametrize("wrong", [{"amount": 39_999}, {"amount": 40_001}, {"currency": "eur"}])
def test_a_wrong_payment_is_never_paid(wrong):
    """A payment of a wrong amount or currency goes to suspense and alerts the operators."""
    journey, book = with_processor_book(accepted_journey())
    book.pay(**wrong)
    apply_snapshot(journey, book)
    assert journey.booking.status == BookingStatus.ACCEPTED
    assert len(journey.alerts) == 1
    assert journey.balance(Account.SUSPENSE) == -(0 if "currency" in wrong else wrong["amount"])
    assert journey.faults == []


def test_the_right_payment_after_a_wrong_one_counts():
    """A correct payment is accepted after a wrong one."""
    journey, book = with_processor_book(accepted_journey())
    book.pay("pay_0", amount=1)
    book.pay("pay_1")
    apply_snapshot(journey, book)
    assert journey.booking.status == BookingStatus.PAID
    assert journey.faults == []


def test_a_payment_without_an_intent_is_none_of_ours():
    """A payment of a booking without an intent is ignored."""
    journey, book = with_processor_book(BookingJourney())
    book.pay()
    assert apply_snapshot(journey, book) == []


# Refunds --------------------------------------------------------------------------------


def refunding():
    """A booking cancelled by the staff member, with a refund in this state."""
    journey, book = with_processor_book(paid_journey())
    journey.apply(T.CANCEL, P.STAFF)
    book.execute(last_operation(journey))
    return journey, book, last_operation(journey).id


def test_a_settled_refund_moves_the_cash():
    """A settled refund is not owed any more, and the payment is `refunded`."""
    journey, book, _ = refunding()
    apply_snapshot(journey, book)
    assert journey.booking.payment_status == PaymentStatus.REFUNDED
    assert (
        journey.balance(Account.REFUND_PAYABLE) == journey.balance(Account.PROCESSOR_BALANCE) == 0
    )
    assert journey.faults == []


def test_a_part_given_back_is_partially_refunded():
    """After half a refund the payment is `partially_refunded`."""
    journey, book = with_processor_book(paid_journey())
    journey.apply(T.CANCEL, P.CUSTOMER, journey.starts_at - 30 * HOUR)
    book.execute(last_operation(journey))
    apply_snapshot(journey, book)
    assert journey.booking.payment_status == PaymentStatus.PARTIALLY_REFUNDED


def test_a_pending_refund_is_not_yet_given_back():
    """A pending refund finishes the operation and is still owed."""
    journey, book, number = refunding()
    book.settle(number, RefundStatus.PENDING)
    apply_snapshot(journey, book)
    assert journey.operations[number].status is OperationStatus.DONE
    assert journey.balance(Account.REFUND_PAYABLE) == -TOTAL
    assert journey.booking.payment_status == PaymentStatus.REFUND_PENDING


@pytest.mark.parametrize("settled_before", [True, False])
def test_a_failed_refund_is_owed_again(settled_before):
    """A failed refund is owed, settled before or not, and alerts the operators."""
    journey, book, number = refunding()
    if settled_before:
        apply_snapshot(journey, book)
    book.settle(number, RefundStatus.FAILED)
    apply_snapshot(journey, book)
    assert journey.balance(Account.REFUND_PAYABLE) == -TOTAL
    assert journey.balance(Account.PROCESSOR_BALANCE) == TOTAL
    assert journey.booking.payment_status == PaymentStatus.REFUND_PENDING
    assert len(journey.alerts) == 1
    assert journey.faults == []


@pytest.mark.parametrize(
    "known, stale",
    [
        (RefundStatus.SETTLED, RefundStatus.PENDING),
        (RefundStatus.FAILED, RefundStatus.SETTLED),
        (RefundStatus.FAILED, RefundStatus.PENDING),
    ],
)
def test_an_older_snapshot_of_a_refund_is_no_news(known, stale):
    """An outdated snapshot of a refund changes nothing."""
    journey, book, number = refunding()
    book.settle(number, known)
    apply_snapshot(journey, book)
    book.settle(number, stale)
    assert apply_snapshot(journey, book) == []


def test_an_extra_refund_says_nothing_of_the_bookings_payment():
    """The refund of an extra payment does not change the payment status."""
    journey, book, number = refunding()
    book.settle(number, RefundStatus.PENDING)
    book.pay("pay_2")
    apply_snapshot(journey, book)
    book.execute_all()
    apply_snapshot(journey, book)
    assert journey.booking.payment_status == PaymentStatus.REFUND_PENDING
    book.settle(number, RefundStatus.SETTLED)
    apply_snapshot(journey, book)
    assert journey.booking.payment_status == PaymentStatus.REFUNDED
    assert journey.faults == []


def test_an_extra_refund_that_fails_leaves_the_booking_paid():
    """A failed refund of an extra payment alerts the operators and leaves the booking paid."""
    journey, book = with_processor_book(paid_journey())
    book.pay("pay_2")
    apply_snapshot(journey, book)
    number = last_operation(journey).id
    book.execute_all()
    book.settle(number, RefundStatus.FAILED)
    apply_snapshot(journey, book)
    assert journey.booking.payment_status == PaymentStatus.SUCCEEDED
    assert len(journey.alerts) == 2
    assert journey.faults == []


# Combined facts -------------------------------------------------------------------------


def everything():
    """A journey with a fact of each kind."""
    journey, book = journey_with_unseen_reversal()
    book.pay("pay_2")
    apply_snapshot(journey, book, 3 * DAY)
    book.execute_all()
    return journey, book


def test_a_snapshot_seen_twice_has_nothing_new():
    """A second reconciliation of a snapshot yields nothing."""
    journey, book = everything()
    assert apply_snapshot(journey, book, 3 * DAY) != []
    assert apply_snapshot(journey, book, 3 * DAY) == []
    assert journey.faults == []


def test_facts_may_come_in_any_order():
    """Partial snapshots in reverse order end in the same balances."""
    journey, book = everything()
    whole = book.snapshot
    for part in ("chargebacks", "reversals", "payouts", "refunds", "payments", "checkouts"):
        journey.apply_snapshot(
            Snapshot(whole.intent_id, **{part: getattr(whole, part)}), NOW + 9 * DAY
        )
        assert journey.faults == []
    assert journey.apply_snapshot(whole, NOW + 9 * DAY) == []
    assert journey.balance(Account.PROCESSOR_BALANCE) == book.cash


def test_a_finished_operation_keeps_its_reference():
    """A finished operation stores the processor's reference."""
    journey, book, number = refunding()
    apply_snapshot(journey, book)
    operation = journey.operations[number]
    assert (operation.result_ref, operation.settlement) == (
        f"re_{number}",
        SettlementStatus.SETTLED,
    )
