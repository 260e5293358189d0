"""Refunds that are still owed: their operations, how to order them again, and what they make of the
payment."""

from __future__ import annotations

from collections.abc import Sequence

from staffbooking_core.domain.bookings.booking import Booking, TransitionResult
from staffbooking_core.domain.bookings.payment_lifecycle import PaymentTrigger
from staffbooking_core.domain.bookings.refunds import RefundReason
from staffbooking_core.domain.payments.operations import (
    FAILED_OPERATION_STATUSES,
    Operation,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.processor import OperationKind, RefundPayment
from staffbooking_core.domain.reconciliation.state import record_fact


def is_failed_refund(operation: Operation) -> bool:
    """Whether the operation is a refund that was refused or returned, and is still owed."""
    return (
        operation.kind is OperationKind.REFUND
        and operation.status is not OperationStatus.VOID
        and (
            operation.status in FAILED_OPERATION_STATUSES
            or operation.settlement is SettlementStatus.FAILED
        )
    )


def outstanding_refunds(operations: Sequence[Operation]) -> list[Operation]:
    """The refunds that the customer has not received: in flight, refused or failed."""
    return [
        one
        for one in _latest_refunds(operations)
        if one.settlement is not SettlementStatus.SETTLED and one.status is not OperationStatus.VOID
    ]


def failed_refunds(operations: Sequence[Operation]) -> list[Operation]:
    """The outstanding refunds of one booking's operations that are not retried automatically."""
    return [one for one in _latest_refunds(operations) if is_failed_refund(one)]


def _latest_refunds(operations: Sequence[Operation]) -> list[Operation]:
    """The refunds that no later order replaces."""
    refunds = [one for one in operations if isinstance(one.command, RefundPayment)]
    replaced = {one.command.replaces for one in refunds if isinstance(one.command, RefundPayment)}
    return [one for one in refunds if one.n not in replaced]


def reorder_refunds(booking: Booking, failed: Sequence[Operation]) -> TransitionResult:
    """Order each of these refunds again; the new order replaces the old one."""
    step = record_fact(booking)
    for one in failed:
        command = one.command
        assert isinstance(command, RefundPayment)
        replacement = RefundPayment(command.payment_ref, command.amount, command.currency, one.n)
        step = step.with_order(replacement)
        step = step.with_refund_change(
            one.n, n=step.booking.orders, status=SettlementStatus.PENDING, settled_at=None
        )
    return step


def refund_trigger(booking: Booking) -> PaymentTrigger:
    """How far the refunds of the booking's own payment have come; of late payments' if it has none.

    The booking also has the refunds that are ordered just now, which are no operations yet.
    """
    has_own = booking.intent is not None and booking.intent.payment_ref is not None
    for refund in booking.refunds:
        is_extra = has_own and refund.reason is RefundReason.LATE_PAYMENT
        if refund.status is not SettlementStatus.SETTLED and not is_extra:
            return PaymentTrigger.REFUND_OUTSTANDING
    full = booking.refunded_amount >= booking.total_amount
    return PaymentTrigger.REFUNDED_IN_FULL if full else PaymentTrigger.REFUNDED_IN_PART
