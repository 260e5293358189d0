"""Refunds that the customer has not received: outstanding orders, and ordering them again."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    make_operation,
    make_payout_order,
    make_refund_order,
)
from staffbooking_core.domain.bookings.booking import PaymentStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.operations import (
    OperationOrder,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    RefundPayment,
    RefundStatus,
    RefusalCode,
)
from staffbooking_core.domain.reconciliation.refunds import (
    failed_refunds,
    outstanding_refunds,
    reorder_refunds,
)
from tests.support.booking_journey import (
    apply_snapshot,
    last_operation,
    paid_journey,
    refuse_operation,
    with_processor_book,
)

T, P = Trigger, Party
TOTAL = 40_000
WON, LOST = ChargebackStatus.WON, ChargebackStatus.LOST


def refund(**given):
    return make_operation(make_refund_order(given.pop("n", 1)), **given)


def failed(journey):
    """The journey's refunds that are not retried automatically."""
    return failed_refunds(list(journey.operations.values()))


# Outstanding orders ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "status, settlement, is_owed, has_failed",
    [
        (OperationStatus.PENDING, None, True, False),
        (OperationStatus.UNKNOWN, None, True, False),
        (OperationStatus.DONE, SettlementStatus.PENDING, True, False),
        (OperationStatus.DONE, SettlementStatus.SETTLED, False, False),
        (OperationStatus.DONE, SettlementStatus.FAILED, True, True),
        (OperationStatus.REFUSED, None, True, True),
        (OperationStatus.DEAD, None, True, True),
        (OperationStatus.VOID, None, False, False),
    ],
)
def test_what_is_owed_is_on_its_way_or_has_failed(status, settlement, is_owed, has_failed):
    """Refunds are outstanding unless settled or void, and failed only if not retried."""
    one = refund(status=status, settlement=settlement)
    assert outstanding_refunds([one]) == [one] * is_owed
    assert failed_refunds([one]) == [one] * has_failed


def test_a_payout_is_no_refund():
    """A payout is never an outstanding refund."""
    payout = make_operation(make_payout_order(), status=OperationStatus.REFUSED)
    assert outstanding_refunds([payout]) == []


def test_an_order_that_was_replaced_does_not_count():
    """A replaced order is ignored, whatever the status of the two is."""
    old = refund(n=1, status=OperationStatus.REFUSED)
    again = make_operation(
        OperationOrder(2, RefundPayment("pay_1", 20_000, "usd", replaces=1)), id=2
    )
    assert outstanding_refunds([old, again]) == [again]
    assert failed_refunds([old, again]) == []
    settled = evolve(again, status=OperationStatus.DONE, settlement=SettlementStatus.SETTLED)
    assert outstanding_refunds([old, settled]) == []


# Ordering again -------------------------------------------------------------------------


def cancelled(reason=RefusalCode.INVALID):
    """A booking cancelled by the staff member, whose full refund was finally refused."""
    journey, book = with_processor_book(paid_journey())
    journey.apply(T.CANCEL, P.STAFF)
    refuse_operation(journey, last_operation(journey), reason)
    return journey, book


def test_a_failed_refund_is_ordered_anew_as_it_was():
    """The new order has the same payment and amount, and names the order that it replaces."""
    journey, _ = cancelled()
    old = last_operation(journey)
    step = journey.save(reorder_refunds(journey.booking, failed(journey)))
    (order,) = step.orders
    assert order.command == RefundPayment("pay_1", TOTAL, "usd", replaces=old.n)
    assert (step.postings, step.booking.status) == ((), BookingStatus.CANCELLED)
    assert failed(journey) == []
    assert journey.faults == []


def test_several_failed_refunds_are_ordered_each():
    """The refunds of the booking's own payment and of a second one are each ordered again."""
    journey, book = cancelled()
    book.pay("pay_2")
    apply_snapshot(journey, book)
    refuse_operation(journey, last_operation(journey), RefusalCode.INVALID)
    step = journey.save(reorder_refunds(journey.booking, failed(journey)))
    assert [order.command.payment_ref for order in step.orders] == ["pay_1", "pay_2"]
    assert failed(journey) == []
    assert journey.faults == []


def test_a_refund_ordered_anew_settles_the_booking():
    """The second refund settles the amount owed, and the payment is `refunded`."""
    journey, book = cancelled()
    journey.save(reorder_refunds(journey.booking, failed(journey)))
    book.execute(last_operation(journey))
    apply_snapshot(journey, book)
    assert journey.booking.payment_status is PaymentStatus.REFUNDED
    assert journey.balance(Account.REFUND_PAYABLE) == 0
    assert journey.faults == []


def test_a_refund_that_settled_and_failed_is_ordered_anew():
    """A refund that was returned is owed again, and the second refund settles it."""
    journey, book = with_processor_book(paid_journey())
    journey.apply(T.CANCEL, P.STAFF)
    number = last_operation(journey).id
    book.execute_all()
    apply_snapshot(journey, book)
    book.settle(number, RefundStatus.FAILED)
    apply_snapshot(journey, book)
    assert [one.id for one in failed(journey)] == [number]
    journey.save(reorder_refunds(journey.booking, failed(journey)))
    book.execute_all()
    apply_snapshot(journey, book)
    assert journey.booking.payment_status is PaymentStatus.REFUNDED
    assert (book.cash, journey.balance(Account.REFUND_PAYABLE)) == (0, 0)
    assert journey.faults == []


def test_a_replaced_refund_that_fails_again_is_owed_once():
    """Only the last order of a refund counts."""
    journey, _ = cancelled()
    journey.save(reorder_refunds(journey.booking, failed(journey)))
    refuse_operation(journey, last_operation(journey), RefusalCode.INVALID)
    journey.save(reorder_refunds(journey.booking, failed(journey)))
    assert len(outstanding_refunds(list(journey.operations.values()))) == 1
    assert journey.faults == []


# While the card issuer decides ----------------------------------------------------------


def refused_as_disputed():
    """A cancelled booking whose refund is refused because of a chargeback."""
    journey, book = cancelled(RefusalCode.DISPUTED)
    book.charge_back()
    apply_snapshot(journey, book)
    return journey, book


def test_a_refund_refused_as_disputed_is_ordered_anew_when_we_win():
    """After a won chargeback the refused refund is ordered again."""
    journey, book = refused_as_disputed()
    old = last_operation(journey)
    book.charge_back(status=WON)
    apply_snapshot(journey, book, 2 * DAY)
    assert last_operation(journey).command == RefundPayment("pay_1", TOTAL, "usd", replaces=old.n)
    book.execute_all()
    apply_snapshot(journey, book, 3 * DAY)
    assert journey.booking.payment_status is PaymentStatus.REFUNDED
    assert journey.faults == []


@pytest.mark.parametrize("status", [ChargebackStatus.OPEN, LOST])
def test_it_is_not_ordered_anew_while_we_may_lose_or_have_lost(status):
    """The refund is not ordered again while the chargeback is open or lost."""
    journey, book = refused_as_disputed()
    book.charge_back(status=status)
    before = len(journey.operations)
    apply_snapshot(journey, book, 2 * DAY)
    assert len(journey.operations) == before
    assert journey.faults == []


def test_a_second_look_at_the_verdict_orders_nothing_more():
    """A second reconciliation of the verdict orders nothing."""
    journey, book = refused_as_disputed()
    book.charge_back(status=WON)
    apply_snapshot(journey, book, 2 * DAY)
    assert apply_snapshot(journey, book, 3 * DAY) == []


def test_two_chargebacks_won_at_once_order_one_refund():
    """Two won chargebacks in one snapshot order the refund once."""
    journey, book = cancelled(RefusalCode.DISPUTED)
    book.charge_back("cb_1", amount=10_000)
    book.charge_back("cb_2", amount=5_000)
    apply_snapshot(journey, book)
    before = len(journey.operations)
    book.charge_back("cb_1", status=WON)
    book.charge_back("cb_2", status=WON)
    apply_snapshot(journey, book, 2 * DAY)
    assert len(journey.operations) == before + 1
    assert journey.faults == []


def test_a_verdict_on_one_payment_says_nothing_of_another():
    """A won chargeback does not reorder the refused refund of another payment."""
    journey, book = with_processor_book(paid_journey())
    book.pay("pay_2")
    apply_snapshot(journey, book, -DAY)
    refuse_operation(journey, last_operation(journey), RefusalCode.INVALID)
    book.charge_back(status=WON)
    apply_snapshot(journey, book, HOUR)
    assert [one.n for one in failed(journey)] == [last_operation(journey).n]
    assert journey.faults == []


def test_a_refund_that_waits_for_its_next_try_is_not_ordered_twice():
    """A pending refund is not ordered again, whatever the verdict is."""
    journey, book = cancelled(RefusalCode.INSUFFICIENT_FUNDS)
    before = len(journey.operations)
    book.charge_back(status=WON)
    apply_snapshot(journey, book, 2 * DAY)
    assert len(journey.operations) == before
