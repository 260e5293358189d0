"""Domain events: facts to tell, written in the transaction of the change (CONTRACT 7)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.representations.records import (
    booking_record,
    format_instant,
    payment_record,
    review_record,
)

API_VERSION = "v1"

TEST_EVENT_NAME = "webhook.test"


@frozen
class DomainEvent:
    """One event. `envelope` is the body that every receiver gets; it is encoded once."""

    id: str
    name: EventName
    booking_id: int
    sequence: int
    created_at: datetime
    parties: tuple[int, ...]
    """The users whose endpoints get it, besides the admins'."""
    data: dict[str, Any]

    @property
    def envelope(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "event": self.name,
            "created_at": format_instant(self.created_at),
            "api_version": API_VERSION,
            "sequence": self.sequence,
            "data": self.data,
        }


def booking_event(event_id: str, name: EventName, booking: Booking, at: datetime) -> DomainEvent:
    """The event that tells of what just became of a booking."""
    data = {"booking": booking_record(booking, None)}
    if name is EventName.PAYMENT_COMPLETED:
        data["payment"] = payment_record(booking)
    return _make_event(event_id, name, booking, at, data)


def review_event(event_id: str, review: Review, booking: Booking, at: datetime) -> DomainEvent:
    """The event that tells of a new review; the booking is as this event leaves it."""
    data = {"review": review_record(review), "booking_code": booking.code}
    return _make_event(event_id, EventName.REVIEW_CREATED, booking, at, data)


def _make_event(
    event_id: str, name: EventName, booking: Booking, at: datetime, data: dict[str, Any]
) -> DomainEvent:
    parties = {booking.customer_id, booking.companion_id, booking.booked_by} - {None}
    return DomainEvent(
        id=event_id,
        name=name,
        booking_id=booking.id,
        sequence=booking.events,
        created_at=at,
        parties=tuple(sorted(p for p in parties if p is not None)),
        data=data,
    )


def envelope_for_test_event(event_id: str, endpoint_id: int, at: datetime) -> dict[str, Any]:
    """The body of a test event: it tells of nothing, and stands in no feed."""
    return {
        "id": event_id,
        "event": TEST_EVENT_NAME,
        "created_at": format_instant(at),
        "api_version": API_VERSION,
        "sequence": 0,
        "data": {"webhook_id": endpoint_id},
    }
