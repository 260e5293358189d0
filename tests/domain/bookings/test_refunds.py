"""The refunds that a booking's record lists: one for each amount owed, however often it is sent."""

from __future__ import annotations

from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, NOW
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.bookings.refunds import RefundReason
from staffbooking_core.domain.payments.operations import OperationStatus, SettlementStatus
from staffbooking_core.domain.payments.processor import ChargebackStatus, RefundStatus
from staffbooking_core.domain.reconciliation.refunds import failed_refunds, reorder_refunds
from tests.support.booking_journey import (
    accepted_journey,
    disputed_journey,
    paid_journey,
    with_processor_book,
)


def refunded():
    """A booking that its staff member cancelled, with the processor's book and the refund's
    operation."""
    journey, book = with_processor_book(paid_journey())
    journey.apply(Trigger.CANCEL, Party.STAFF)
    operation = list(journey.operations.values())[-1]
    book.execute(operation)
    return journey, book, operation


def states(journey):
    return [(refund.status, refund.settled_at) for refund in journey.booking.refunds]


def test_a_cancellation_orders_a_refund():
    """The refund of a cancellation is pending from its decision on."""
    journey, _, operation = refunded()
    (refund,) = journey.booking.refunds
    assert (refund.n, refund.amount, refund.reason) == (
        operation.n,
        journey.booking.total_amount,
        RefundReason.CANCELLATION,
    )
    assert states(journey) == [(SettlementStatus.PENDING, None)]


def test_a_settled_refund_has_its_time():
    """A refund that the processor reports as settled has the time of that report."""
    journey, book, _ = refunded()
    journey.apply_snapshot(book.snapshot, NOW + HOUR)
    assert states(journey) == [(SettlementStatus.SETTLED, NOW + HOUR)]


def test_a_returned_refund_has_failed():
    """A settled refund that comes back has failed, and has no time of settlement."""
    journey, book, operation = refunded()
    journey.apply_snapshot(book.snapshot, NOW + HOUR)
    book.settle(operation.id, RefundStatus.FAILED)
    journey.apply_snapshot(book.snapshot, NOW + 2 * HOUR)
    assert states(journey) == [(SettlementStatus.FAILED, None)]


def test_a_refund_that_is_sent_again_is_one_refund():
    """A failed refund that is ordered again is pending again, under the number of its new order."""
    journey, book, operation = refunded()
    book.settle(operation.id, RefundStatus.FAILED)
    journey.apply_snapshot(book.snapshot, NOW + HOUR)
    failed = failed_refunds(list(journey.operations.values()))
    journey.save(reorder_refunds(journey.booking, failed))
    assert states(journey) == [(SettlementStatus.PENDING, None)]
    assert journey.booking.refunds[0].n == journey.booking.orders


def test_a_late_payment_is_refunded():
    """A payment after the cancellation is listed as a refund with that reason."""
    journey = accepted_journey()
    journey.apply(Trigger.CANCEL, Party.CUSTOMER)
    journey.apply(Trigger.PAYMENT, Party.PROCESSOR, payment=journey.payment())
    assert [refund.reason for refund in journey.booking.refunds] == [RefundReason.LATE_PAYMENT]


def test_a_split_refunds_for_the_dispute():
    """The refund of a resolved dispute has that reason, and the split's amount."""
    journey = disputed_journey()
    journey.apply(Trigger.RESOLVE_SPLIT, Party.ADMIN, journey.ends_at, refund_amount=1_000)
    (refund,) = journey.booking.refunds
    assert (refund.reason, refund.amount) == (RefundReason.DISPUTE, 1_000)


def test_a_release_refunds_nothing():
    """A booking whose whole price was earned has no refunds."""
    journey = disputed_journey()
    journey.apply(Trigger.RESOLVE_RELEASE, Party.ADMIN, journey.ends_at)
    assert journey.booking.refunds == ()


def test_a_lost_chargeback_settles_a_refused_refund():
    """A refund that was refused, and whose amount the bank gave the customer, is settled."""
    journey, book = with_processor_book(paid_journey())
    journey.apply(Trigger.CANCEL, Party.STAFF)
    operation = list(journey.operations.values())[-1]
    journey.operations[operation.id] = evolve(operation, status=OperationStatus.REFUSED)
    book.charge_back()
    journey.apply_snapshot(book.snapshot, NOW + HOUR)
    book.charge_back(status=ChargebackStatus.LOST)
    journey.apply_snapshot(book.snapshot, NOW + 2 * HOUR)
    assert states(journey) == [(SettlementStatus.SETTLED, NOW + 2 * HOUR)]
