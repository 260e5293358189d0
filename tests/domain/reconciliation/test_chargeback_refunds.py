"""A lost chargeback covers refunds that were refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR
from staffbooking_core.domain.bookings.booking import PaymentStatus
from staffbooking_core.domain.bookings.lifecycle import EventName, Party, Trigger
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.operations import OperationStatus
from staffbooking_core.domain.payments.processor import ChargebackStatus, OperationKind
from staffbooking_core.domain.reconciliation.refunds import outstanding_refunds
from tests.support.booking_journey import (
    BookingJourney,
    ProcessorBook,
    accepted_journey,
    apply_snapshot,
    last_operation,
    paid_journey,
    with_processor_book,
)

TOTAL = 40_000
LOST = ChargebackStatus.LOST


def refused() -> tuple[BookingJourney, ProcessorBook]:
    """A booking cancelled in time, whose full refund is refused because of a chargeback."""
    journey, book = with_processor_book(paid_journey())
    journey.apply(Trigger.CANCEL, Party.CUSTOMER, journey.starts_at - 60 * HOUR)
    (refund,) = (one for one in journey.operations.values() if one.kind is OperationKind.REFUND)
    journey.operations[refund.id] = evolve(refund, status=OperationStatus.REFUSED)
    return journey, book


def refused_late() -> tuple[BookingJourney, ProcessorBook]:
    """A booking cancelled before its payment, whose refund is refused because of a chargeback."""
    journey, book = with_processor_book(accepted_journey())
    journey.apply(Trigger.CANCEL, Party.CUSTOMER)
    book.pay()
    apply_snapshot(journey, book)
    refund = last_operation(journey)
    journey.operations[refund.id] = evolve(refund, status=OperationStatus.REFUSED)
    return journey, book


def ordered_again(
    make: Callable[[], tuple[BookingJourney, ProcessorBook]],
) -> tuple[BookingJourney, ProcessorBook]:
    """A booking whose refused refund is ordered again by a won chargeback, while another one of the
    same payment is lost in the same snapshot."""
    journey, book = make()
    book.charge_back("cb_1")
    apply_snapshot(journey, book)
    book.charge_back("cb_1", status=ChargebackStatus.WON)
    book.charge_back("cb_2", status=LOST)
    apply_snapshot(journey, book, 2 * DAY)
    return journey, book


def test_the_client_is_owed_nothing_more():
    """The lost chargeback voids the refund, and there is no loss beyond it."""
    journey, book = refused()
    book.charge_back()
    apply_snapshot(journey, book)
    book.charge_back(status=LOST)
    apply_snapshot(journey, book, 2 * DAY)
    assert outstanding_refunds(list(journey.operations.values())) == []
    assert journey.balance(Account.REFUND_PAYABLE) == 0
    assert journey.balance(Account.CHARGEBACK_LOSSES) == 0
    assert journey.balance(Account.PROCESSOR_BALANCE) == book.cash
    assert journey.faults == []


def test_it_is_known_once():
    """A second reconciliation finds nothing new."""
    journey, book = refused()
    book.charge_back()
    apply_snapshot(journey, book)
    book.charge_back(status=LOST)
    apply_snapshot(journey, book, 2 * DAY)
    assert apply_snapshot(journey, book, 3 * DAY) == []


def test_what_the_bank_took_beyond_the_refund_is_our_loss():
    """The part of a chargeback above the payment is a loss."""
    journey, book = refused()
    book.charge_back(amount=TOTAL + 15)
    apply_snapshot(journey, book, 2 * DAY)
    book.charge_back(status=LOST)
    apply_snapshot(journey, book, 3 * DAY)
    assert journey.balance(Account.CHARGEBACK_LOSSES) == 15


@pytest.mark.parametrize("amount", [1, TOTAL - 1])
def test_a_smaller_chargeback_leaves_the_refund_owed(amount):
    """A chargeback below the refund leaves it owed: an operator decides."""
    journey, book = with_processor_book(paid_journey())
    journey.apply(Trigger.CANCEL, Party.CUSTOMER, journey.starts_at - 60 * HOUR)
    (refund,) = (one for one in journey.operations.values() if one.kind is OperationKind.REFUND)
    journey.operations[refund.id] = evolve(refund, status=OperationStatus.REFUSED)
    book.charge_back(amount=amount)
    book.charge_back(status=LOST)
    apply_snapshot(journey, book)
    assert journey.balance(Account.REFUND_PAYABLE) == -TOTAL
    assert journey.balance(Account.CHARGEBACK_LOSSES) == amount
    assert journey.faults == []


def test_the_refund_of_another_payment_stays_owed():
    """A chargeback of one payment leaves the refund of another one owed."""
    journey, book = with_processor_book(paid_journey())
    book.pay("pay_2")
    apply_snapshot(journey, book)
    (extra,) = (one for one in journey.operations.values() if one.kind is OperationKind.REFUND)
    journey.operations[extra.id] = evolve(extra, status=OperationStatus.REFUSED)
    book.charge_back(amount=3 * TOTAL)
    book.charge_back(status=LOST)
    apply_snapshot(journey, book, 2 * DAY)
    assert outstanding_refunds(list(journey.operations.values())) == [journey.operations[extra.id]]
    assert journey.faults == []


def test_a_payment_that_came_twice_is_given_back_by_its_own_chargeback():
    """A lost chargeback of an extra payment voids its refused refund, without a loss."""
    journey, book = with_processor_book(paid_journey())
    book.pay("pay_2")
    apply_snapshot(journey, book)
    (extra,) = (one for one in journey.operations.values() if one.kind is OperationKind.REFUND)
    journey.operations[extra.id] = evolve(extra, status=OperationStatus.REFUSED)
    book.charge_back("cb_2", payment_ref="pay_2", status=LOST)
    apply_snapshot(journey, book, 2 * DAY)
    assert outstanding_refunds(list(journey.operations.values())) == []
    assert journey.balance(Account.CHARGEBACK_LOSSES) == 0
    assert journey.faults == []


@pytest.mark.parametrize("payment_ref", ["pay_1", "pay_2"])
def test_a_refund_that_is_refused_after_the_verdict_is_found_too(payment_ref):
    """A refund refused after the verdict becomes void at the next reconciliation."""
    journey, book = with_processor_book(paid_journey())
    if payment_ref == "pay_2":
        book.pay("pay_2")
        apply_snapshot(journey, book)
    else:
        journey.apply(Trigger.CANCEL, Party.CUSTOMER, journey.starts_at - 60 * HOUR)
    book.charge_back("cb_9", payment_ref=payment_ref, status=LOST)
    apply_snapshot(journey, book)
    assert journey.balance(Account.CHARGEBACK_LOSSES) == TOTAL
    (refund,) = (one for one in journey.operations.values() if one.kind is OperationKind.REFUND)
    journey.operations[refund.id] = evolve(refund, status=OperationStatus.REFUSED)
    apply_snapshot(journey, book, 2 * DAY)
    assert outstanding_refunds(list(journey.operations.values())) == []
    assert journey.balance(Account.CHARGEBACK_LOSSES) == 0
    assert apply_snapshot(journey, book, 3 * DAY) == []
    assert journey.faults == []


def test_what_was_lost_of_one_payment_gives_no_other_back():
    """The loss of one payment does not cover the refund of another, in any order of verdicts."""
    journey, book = with_processor_book(paid_journey())
    book.pay("pay_2")
    apply_snapshot(journey, book)
    (extra,) = (one for one in journey.operations.values() if one.kind is OperationKind.REFUND)
    journey.operations[extra.id] = evolve(extra, status=OperationStatus.REFUSED)
    book.charge_back("cb_2", amount=1, payment_ref="pay_2", status=LOST)
    book.charge_back(amount=2 * TOTAL)
    book.charge_back(status=LOST)
    apply_snapshot(journey, book, 2 * DAY)
    assert apply_snapshot(journey, book, 3 * DAY) == []
    assert outstanding_refunds(list(journey.operations.values())) == [journey.operations[extra.id]]
    assert journey.faults == []


@pytest.mark.parametrize("make", [refused, refused_late])
def test_a_refund_that_was_ordered_again_is_not_covered_by_the_bank_too(make):
    """A lost chargeback leaves a refund owed that a won one ordered again in the same snapshot."""
    journey, _ = ordered_again(make)
    again = last_operation(journey)
    assert outstanding_refunds(list(journey.operations.values())) == [again]
    assert journey.balance(Account.REFUND_PAYABLE) == -TOTAL
    assert journey.faults == []


@pytest.mark.parametrize("make", [refused, refused_late])
def test_a_refund_that_is_refused_again_is_covered_by_the_bank(make):
    """The new order of a refund becomes void by the lost chargeback once it is refused too."""
    journey, book = ordered_again(make)
    again = last_operation(journey)
    journey.operations[again.id] = evolve(again, status=OperationStatus.REFUSED)
    apply_snapshot(journey, book, 3 * DAY)
    assert outstanding_refunds(list(journey.operations.values())) == []
    assert journey.balance(Account.REFUND_PAYABLE) == 0
    assert journey.balance(Account.PROCESSOR_BALANCE) == book.cash
    assert apply_snapshot(journey, book, 4 * DAY) == []
    assert journey.faults == []


def test_a_late_payment_that_the_bank_took_back_is_refunded():
    """The lost chargeback of a late payment ends its refund, and the payment is `refunded`."""
    journey, book = refused_late()
    book.charge_back(status=LOST)
    apply_snapshot(journey, book, 2 * DAY)
    assert journey.events[-1] is EventName.PAYMENT_REFUNDED
    assert journey.booking.payment_status is PaymentStatus.REFUNDED
    assert not journey.booking.is_unsettled
    assert apply_snapshot(journey, book, 3 * DAY) == []


def test_a_late_payment_that_was_left_pending_becomes_refunded():
    """A payment that earlier versions left `refund_pending` becomes `refunded` at a snapshot."""
    journey, book = refused_late()
    book.charge_back(status=LOST)
    apply_snapshot(journey, book, 2 * DAY)
    journey.booking = evolve(journey.booking, payment_status=PaymentStatus.REFUND_PENDING)
    assert len(apply_snapshot(journey, book, 3 * DAY)) == 1
    assert journey.booking.payment_status is PaymentStatus.REFUNDED
    assert apply_snapshot(journey, book, 4 * DAY) == []


def test_a_late_payment_that_is_charged_back_at_once_waits_for_its_refund():
    """A late payment stays `refund_pending` if the snapshot that orders its refund has a lost
    chargeback of it."""
    journey, book = with_processor_book(accepted_journey())
    journey.apply(Trigger.CANCEL, Party.CUSTOMER)
    book.pay()
    book.charge_back(status=LOST)
    apply_snapshot(journey, book)
    assert journey.booking.payment_status is PaymentStatus.REFUND_PENDING
    assert apply_snapshot(journey, book, 2 * DAY) == []


def test_the_covered_refund_of_one_late_payment_leaves_another_pending():
    """The payment stays `refund_pending` if a further late payment comes with the lost chargeback
    of the first."""
    journey, book = refused_late()
    book.pay("pay_2")
    book.charge_back(status=LOST)
    apply_snapshot(journey, book, 2 * DAY)
    assert journey.booking.payment_status is PaymentStatus.REFUND_PENDING
    assert journey.faults == []
