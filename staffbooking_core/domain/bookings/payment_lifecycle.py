"""The lifecycle of a booking's payment: its table, and the only function that moves it.

The table maps status -> trigger -> next status. A trigger is an effect of a booking's transition,
or a fact from the processor. A trigger that leads to its own status changes nothing.
"""

from __future__ import annotations

from enum import StrEnum

from staffbooking_core.domain.bookings.booking import PaymentStatus, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import MissingTransition


class PaymentTrigger(StrEnum):
    """Causes of a change of the payment status."""

    INTENT_CREATED = "intent_created"
    INTENT_VOIDED = "intent_voided"
    PAYMENT_SUCCEEDED = "payment_succeeded"
    LATE_PAYMENT = "late_payment"
    """The booking was cancelled before it was paid: the payment is refunded."""
    REFUND_ORDERED = "refund_ordered"
    REFUND_OUTSTANDING = "refund_outstanding"
    """The processor reported on a refund, and not all of the refunds are settled."""
    REFUNDED_IN_PART = "refunded_in_part"
    REFUNDED_IN_FULL = "refunded_in_full"
    CHARGEBACK_LOST = "chargeback_lost"


S, T = PaymentStatus, PaymentTrigger

_REFUND_REPORTS = {
    T.REFUND_OUTSTANDING: S.REFUND_PENDING,
    T.REFUNDED_IN_PART: S.PARTIALLY_REFUNDED,
    T.REFUNDED_IN_FULL: S.REFUNDED,
}

PAYMENT_TRANSITIONS: dict[PaymentStatus, dict[PaymentTrigger, PaymentStatus]] = {
    S.NONE: {T.INTENT_CREATED: S.REQUIRES_PAYMENT},
    S.REQUIRES_PAYMENT: {T.PAYMENT_SUCCEEDED: S.SUCCEEDED, T.INTENT_VOIDED: S.VOID},
    S.PROCESSING: {},
    S.SUCCEEDED: {
        # Refunds of extra payments don't concern the booking's own payment.
        **dict.fromkeys(_REFUND_REPORTS, S.SUCCEEDED),
        T.REFUND_ORDERED: S.REFUND_PENDING,
        T.CHARGEBACK_LOST: S.CHARGED_BACK,
    },
    S.REFUND_PENDING: {
        **_REFUND_REPORTS,
        T.REFUND_ORDERED: S.REFUND_PENDING,
        T.LATE_PAYMENT: S.REFUND_PENDING,
        T.CHARGEBACK_LOST: S.CHARGED_BACK,
    },
    S.PARTIALLY_REFUNDED: {
        **_REFUND_REPORTS,
        T.REFUND_ORDERED: S.REFUND_PENDING,
        T.CHARGEBACK_LOST: S.CHARGED_BACK,
    },
    S.REFUNDED: {
        **_REFUND_REPORTS,
        T.LATE_PAYMENT: S.REFUND_PENDING,
        T.CHARGEBACK_LOST: S.CHARGED_BACK,
    },
    S.VOID: {T.LATE_PAYMENT: S.REFUND_PENDING},
    S.CHARGED_BACK: {
        **dict.fromkeys(_REFUND_REPORTS, S.CHARGED_BACK),
        T.CHARGEBACK_LOST: S.CHARGED_BACK,
    },
}
"""`processing` is a published value without a trigger that leads to it: only cards are accepted."""


def move_payment(result: TransitionResult, trigger: PaymentTrigger) -> TransitionResult:
    """Move the payment status by a trigger. Raises MissingTransition."""
    status = result.booking.payment_status
    if trigger not in PAYMENT_TRANSITIONS[status]:
        raise MissingTransition(f"{trigger} of a payment that is {status}")
    return result.with_changes(payment_status=PAYMENT_TRANSITIONS[status][trigger])
