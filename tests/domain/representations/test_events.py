"""Events of a booking: their content and parties."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import NOW, POLICY, make_booking
from staffbooking_adapters.testing.builders_reviews import make_review
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.bookings.refunds import Refund, RefundReason
from staffbooking_core.domain.payments.operations import SettlementStatus
from staffbooking_core.domain.webhooks.deliveries import DEFAULT_WEBHOOK_EVENTS
from staffbooking_core.representations.bookings import event_booking_record
from staffbooking_core.representations.companions import review_record
from staffbooking_core.representations.events import DomainEvent, booking_event, review_event
from staffbooking_core.representations.payments import payment_record
from tests.support.booking_journey import paid_journey

CREATED, MET = EventName.BOOKING_CREATED, EventName.PAYMENT_COMPLETED


def make_reported(booking: Booking, name: EventName, **given: Any) -> DomainEvent:
    """The event of a transition at NOW that led to this booking."""
    return booking_event("evt_1", booking, TransitionResult(booking, name, **given), NOW, POLICY)


def test_the_names_are_the_published_ones():
    """The default events are those of SPECIFICATION 6.1, the others those of CONTRACT 10."""
    assert {
        "booking.created",
        "booking.completed",
        "booking.cancelled",
        "payment.completed",
        "review.created",
    } == DEFAULT_WEBHOOK_EVENTS
    assert set(EventName) - DEFAULT_WEBHOOK_EVENTS == {
        "booking.accepted",
        "booking.disputed",
        "booking.updated",
        "payment.refunded",
        "payout.paid",
        "payout.failed",
    }


def test_an_envelope_has_the_contracts_fields():
    """The envelope has the fields of CONTRACT 7, with the booking's increasing sequence."""
    event = make_reported(make_booking(events=7), CREATED)
    assert event.envelope == {
        "id": "evt_1",
        "event": "booking.created",
        "created_at": "2027-03-01T12:00:00Z",
        "api_version": "v1",
        "sequence": 7,
        "data": event.data,
    }


def test_a_bookings_event_carries_its_record():
    """The booking's record is the same for every recipient."""
    booking = make_booking()
    assert make_reported(booking, CREATED).data == {
        "booking": event_booking_record(booking, POLICY)
    }


def test_a_payments_event_carries_the_payment_too():
    """The event of a payment has the records of booking and payment."""
    booking = paid_journey().booking
    data = make_reported(booking, MET).data
    assert data == {
        "booking": event_booking_record(booking, POLICY),
        "payment": payment_record(booking),
    }


@pytest.mark.parametrize("booked_by, parties", [(None, (1, 2)), (9, (1, 2, 9)), (1, (1, 2))])
def test_the_parties_get_it(booked_by, parties):
    """The parties are customer, companion and the booking API user, each once."""
    event = make_reported(make_booking(booked_by=booked_by), CREATED)
    assert event.parties == parties


def test_a_reviews_event_carries_the_review_and_the_code():
    """The event of a review has the review and the booking's code (CONTRACT 7)."""
    booking, review = make_booking(booked_by=9, events=4), make_review()
    event = review_event("evt_1", review, booking, NOW)
    assert event.data == {"review": review_record(review), "booking_code": booking.code}
    told = make_reported(booking, EventName.REVIEW_CREATED)
    assert event == evolve(told, data=event.data)


def test_a_refunds_event_carries_the_refund_as_the_record_lists_it():
    """`payment.refunded` has the booking's record and the refund that succeeded."""
    refund = Refund(3, 5_000, RefundReason.CANCELLATION, NOW, SettlementStatus.SETTLED, NOW)
    booking = make_booking(refunds=(refund,))
    event = make_reported(booking, EventName.PAYMENT_REFUNDED, settled_refund=refund)
    (record,) = event_booking_record(booking, POLICY)["refunds"]
    assert event.data == {"booking": event_booking_record(booking, POLICY), "refund": record}


@pytest.mark.parametrize(
    "name, status, amount",
    [
        (EventName.PAYOUT_PAID, PayoutStatus.PAID, 20),
        (EventName.PAYOUT_FAILED, PayoutStatus.FAILED, 100),
    ],
)
def test_a_payouts_event_carries_what_was_sent_or_is_owed(name, status, amount):
    """The payout's amount is what was sent; of a failed one, what is still owed."""
    before = make_booking(payout_amount=12_000)
    after = evolve(before, payout_status=status, paid_out=2_000)
    result = TransitionResult(after, name)
    event = booking_event("evt_1", before, result, NOW, POLICY)
    assert event.data == {
        "booking": event_booking_record(after, POLICY),
        "payout": {
            "amount": amount,
            "currency": "usd",
            "status": status,
            "at": "2027-03-01T12:00:00Z",
        },
    }


def test_the_event_of_a_payout_during_a_dispute_says_that_it_is_paid():
    """`payout.paid` has the payout as paid, also if the booking's payout is frozen meanwhile."""
    before = make_booking(payout_amount=12_000, payout_status=PayoutStatus.FROZEN)
    result = TransitionResult(evolve(before, paid_out=12_000), EventName.PAYOUT_PAID)
    data: Any = booking_event("evt_1", before, result, NOW, POLICY).data
    assert (data["payout"]["status"], data["payout"]["amount"]) == (PayoutStatus.PAID, 120)


@pytest.mark.parametrize("name", [EventName.PAYOUT_PAID, EventName.PAYOUT_FAILED])
def test_a_payouts_event_is_for_the_staff_member(name):
    """An event about a payout has the companion as its only party."""
    booking = make_booking(booked_by=9)
    assert make_reported(booking, name).parties == (booking.companion_id,)
