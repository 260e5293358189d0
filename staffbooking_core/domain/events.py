"""Domain events: facts to tell, written in the transaction of the change (CONTRACT 7)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from attrs import frozen

from staffbooking_core.domain.bookings import Booking
from staffbooking_core.domain.lifecycle import EventName
from staffbooking_core.domain.records import booking_record, instant, payment_record

API_VERSION = "v1"


@frozen
class Event:
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
            "created_at": instant(self.created_at),
            "api_version": API_VERSION,
            "sequence": self.sequence,
            "data": self.data,
        }


def booking_event(event_id: str, name: EventName, booking: Booking, at: datetime) -> Event:
    """The event that tells of what just became of a booking."""
    data = {"booking": booking_record(booking, None)}
    if name is EventName.PAYMENT_COMPLETED:
        data["payment"] = payment_record(booking)
    parties = {booking.customer_id, booking.companion_id, booking.booked_by} - {None}
    return Event(
        id=event_id,
        name=name,
        booking_id=booking.id,
        sequence=booking.events,
        created_at=at,
        parties=tuple(sorted(p for p in parties if p is not None)),
        data=data,
    )
