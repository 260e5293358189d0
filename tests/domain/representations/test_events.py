"""Events of a booking: their content and parties."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.representations.bookings import event_booking_record
from staffbooking_core.representations.companions import review_record
from staffbooking_core.representations.events import booking_event, review_event
from staffbooking_core.representations.payments import payment_record
from tests.support.booking_journey import paid_journey
from tests.support.builders import NOW, POLICY, make_booking
from tests.support.reviews import make_review

CREATED, MET = EventName.BOOKING_CREATED, EventName.PAYMENT_COMPLETED


def test_the_names_are_the_published_ones():
    """The event names are those of SPECIFICATION 6.1."""
    assert {name.value for name in EventName} == {
        "booking.created",
        "booking.completed",
        "booking.cancelled",
        "payment.completed",
        "review.created",
    }


def test_an_envelope_has_the_contracts_fields():
    """The envelope has the fields of CONTRACT 7, with the booking's increasing sequence."""
    event = booking_event("evt_1", CREATED, make_booking(events=7), NOW, POLICY)
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
    assert booking_event("evt_1", CREATED, booking, NOW, POLICY).data == {
        "booking": event_booking_record(booking, POLICY)
    }


def test_a_payments_event_carries_the_payment_too():
    """The event of a payment has the records of booking and payment."""
    booking = paid_journey().booking
    data = booking_event("evt_1", MET, booking, NOW, POLICY).data
    assert data == {
        "booking": event_booking_record(booking, POLICY),
        "payment": payment_record(booking),
    }


@pytest.mark.parametrize("booked_by, parties", [(None, (1, 2)), (9, (1, 2, 9)), (1, (1, 2))])
def test_the_parties_get_it(booked_by, parties):
    """The parties are customer, companion and the booking API user, each once."""
    event = booking_event("evt_1", CREATED, make_booking(booked_by=booked_by), NOW, POLICY)
    assert event.parties == parties


def test_a_reviews_event_carries_the_review_and_the_code():
    """The event of a review has the review and the booking's code (CONTRACT 7)."""
    booking, review = make_booking(booked_by=9, events=4), make_review()
    event = review_event("evt_1", review, booking, NOW)
    assert event.data == {"review": review_record(review), "booking_code": booking.code}
    told = booking_event("evt_1", EventName.REVIEW_CREATED, booking, NOW, POLICY)
    assert event == evolve(told, data=event.data)
