"""Every status x trigger of payment and payout, compared with tables written by hand."""

from __future__ import annotations

from itertools import product

import pytest

from staffbooking_adapters.testing.builders import make_booking
from staffbooking_core.domain.bookings.booking import PaymentStatus, PayoutStatus, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import BookingNotification, MissingTransition
from staffbooking_core.domain.bookings.payment_lifecycle import (
    PAYMENT_TRANSITIONS,
    PaymentTrigger,
    move_payment,
)
from staffbooking_core.domain.bookings.payout_lifecycle import (
    PAYOUT_EVENTS,
    PAYOUT_TRANSITIONS,
    PayoutTrigger,
    move_payout,
)
from staffbooking_core.errors import StaffbookingError

PAYMENT_CASES = {
    "intent_created": {"none": "requires_payment"},
    "intent_voided": {"requires_payment": "void"},
    "payment_succeeded": {"requires_payment": "succeeded"},
    "late_payment": dict.fromkeys(("void", "refund_pending", "refunded"), "refund_pending"),
    "refund_ordered": dict.fromkeys(
        ("succeeded", "refund_pending", "partially_refunded"), "refund_pending"
    ),
    "refund_outstanding": {
        **dict.fromkeys(("refund_pending", "partially_refunded", "refunded"), "refund_pending"),
        "succeeded": "succeeded",
        "charged_back": "charged_back",
    },
    "refunded_in_part": {
        **dict.fromkeys(("refund_pending", "partially_refunded", "refunded"), "partially_refunded"),
        "succeeded": "succeeded",
        "charged_back": "charged_back",
    },
    "refunded_in_full": {
        **dict.fromkeys(("refund_pending", "partially_refunded", "refunded"), "refunded"),
        "succeeded": "succeeded",
        "charged_back": "charged_back",
    },
    "chargeback_lost": dict.fromkeys(
        ("succeeded", "refund_pending", "partially_refunded", "refunded", "charged_back"),
        "charged_back",
    ),
}
"""Trigger -> status -> next status."""

PAYOUT_CASES = {
    "scheduled": dict.fromkeys(("none", "frozen", "reversed"), "scheduled"),
    "nothing_earned": {"none": "none", "frozen": "none", "reversed": "reversed"},
    "taken_back": dict.fromkeys(("none", "frozen", "reversed"), "reversed"),
    "sent": dict.fromkeys(("scheduled", "failed"), "scheduled"),
    "netted": dict.fromkeys(("scheduled", "failed"), "paid"),
    "stands": dict.fromkeys(("none", "frozen", "reversed"), "paid"),
    "confirmed": {
        **dict.fromkeys(("scheduled", "paid", "failed", "frozen"), "paid"),
        **dict.fromkeys(("none", "reversed"), "reversed"),
    },
    "refused": {"scheduled": "failed"},
    "held": dict.fromkeys(("scheduled", "failed"), "frozen"),
    "resumed": {"frozen": "scheduled"},
    "disputed": {
        **dict.fromkeys(("scheduled", "paid", "failed", "frozen"), "frozen"),
        "none": "none",
        "reversed": "reversed",
    },
    "appeal_lost": {
        **dict.fromkeys(("scheduled", "failed", "frozen"), "frozen"),
        "none": "none",
        "paid": "paid",
        "reversed": "reversed",
    },
    "owed_again": {
        **dict.fromkeys([str(status) for status in PayoutStatus], "scheduled"),
        "frozen": "frozen",
    },
}


def test_every_trigger_has_its_cases():
    """The tables of this test have exactly the triggers of the code."""
    assert set(PAYMENT_CASES) == set(PaymentTrigger)
    assert set(PAYOUT_CASES) == set(PayoutTrigger)
    assert set(PAYMENT_TRANSITIONS) == set(PaymentStatus)
    assert set(PAYOUT_TRANSITIONS) == set(PayoutStatus)


@pytest.mark.parametrize("status, trigger", list(product(PaymentStatus, PaymentTrigger)))
def test_a_payment_moves_by_its_table_or_not_at_all(status, trigger):
    """A transition changes the payment status only; a missing one raises an error."""
    booking = make_booking(payment_status=status)
    to_status = PAYMENT_CASES[trigger].get(status)
    if to_status is None:
        with pytest.raises(MissingTransition, match=f"{trigger} of a payment that is {status}"):
            move_payment(TransitionResult(booking), trigger)
    else:
        expected = make_booking(code=booking.code, payment_status=PaymentStatus(to_status))
        assert move_payment(TransitionResult(booking), trigger) == TransitionResult(expected)


@pytest.mark.parametrize("status, trigger", list(product(PayoutStatus, PayoutTrigger)))
def test_a_payout_moves_by_its_table_or_not_at_all(status, trigger):
    """A transition changes the payout status; becoming paid notifies the staff member, becoming
    paid or failed is published, unless an earlier payout stands."""
    booking = make_booking(payout_status=status)
    to_status = PAYOUT_CASES[trigger].get(status)
    if to_status is None:
        with pytest.raises(MissingTransition, match=f"{trigger} of a payout that is {status}"):
            move_payout(TransitionResult(booking), trigger)
    else:
        expected = make_booking(code=booking.code, payout_status=PayoutStatus(to_status))
        is_news = to_status != status and trigger is not PayoutTrigger.STANDS
        is_paid = is_news and to_status == PayoutStatus.PAID
        told = (BookingNotification.PAYOUT_TO_STAFF,) if is_paid else ()
        moved = move_payout(TransitionResult(booking), trigger)
        event = PAYOUT_EVENTS.get(PayoutStatus(to_status)) if is_news else None
        assert moved == TransitionResult(expected, event, notifications=told)


def test_a_missing_row_is_no_refusal():
    """MissingTransition is not an error that callers report to clients."""
    assert not issubclass(MissingTransition, StaffbookingError)
