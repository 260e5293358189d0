"""Domain events, written in the transaction of the change (CONTRACT 7)."""

from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypedDict

from attrs import evolve, frozen

from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.policy import Policy
from staffbooking_core.representations.bookings import (
    EventBookingRecord,
    RefundRecord,
    event_booking_record,
    refund_record,
)
from staffbooking_core.representations.companions import ReviewRecord, review_record
from staffbooking_core.representations.json_types import (
    EventId,
    Id,
    JsonSchema,
    Timestamp,
    format_instant,
)
from staffbooking_core.representations.payments import (
    PaymentRecord,
    PayoutRecord,
    payment_record,
    payout_record,
)

__all__ = ["DomainEvent", "WebhookTestEvent"]

API_VERSION: Literal["v1"] = "v1"

TEST_EVENT_NAME: Literal["webhook.test"] = "webhook.test"

# Published bodies -------------------------------------------------------------------------


class _BookingData(TypedDict):
    """The data of an event about a booking."""

    booking: EventBookingRecord


class _PaymentData(_BookingData):
    """The data of an event about a payment."""

    payment: PaymentRecord


class _RefundData(_BookingData):
    """The data of an event about a refund."""

    refund: RefundRecord


class _PayoutData(_BookingData):
    """The data of an event about a payout."""

    payout: PayoutRecord


class _ReviewData(TypedDict):
    """The data of an event about a review."""

    review: ReviewRecord
    booking_code: str


class _WebhookTestData(TypedDict):
    """The data of a test event."""

    webhook_id: Id


class _EnvelopeFields(TypedDict):
    id: EventId
    created_at: Timestamp
    api_version: Literal["v1"]


class EventEnvelope(_EnvelopeFields):
    """What every event about a booking has."""

    sequence: Annotated[
        int, JsonSchema(minimum=1, description="increases with each event of a booking")
    ]


class BookingCreatedEvent(EventEnvelope):
    """A new booking request has been created"""

    event: Literal[EventName.BOOKING_CREATED]
    data: _BookingData


class BookingCompletedEvent(EventEnvelope):
    """A booking has been marked completed"""

    event: Literal[EventName.BOOKING_COMPLETED]
    data: _BookingData


class BookingCancelledEvent(EventEnvelope):
    """A booking has been cancelled by either party"""

    event: Literal[EventName.BOOKING_CANCELLED]
    data: _BookingData


class PaymentCompletedEvent(EventEnvelope):
    """A payment has been successfully processed"""

    event: Literal[EventName.PAYMENT_COMPLETED]
    data: _PaymentData


class ReviewCreatedEvent(EventEnvelope):
    """A new review has been submitted"""

    event: Literal[EventName.REVIEW_CREATED]
    data: _ReviewData


class BookingAcceptedEvent(EventEnvelope):
    """The staff member has accepted a booking request"""

    event: Literal[EventName.BOOKING_ACCEPTED]
    data: _BookingData


class BookingDisputedEvent(EventEnvelope):
    """A party has disputed a booking, or the card issuer a payment"""

    event: Literal[EventName.BOOKING_DISPUTED]
    data: _BookingData


class BookingUpdatedEvent(EventEnvelope):
    """A booking has a new version that no other event reports"""

    event: Literal[EventName.BOOKING_UPDATED]
    data: _BookingData


class PaymentRefundedEvent(EventEnvelope):
    """A refund has succeeded"""

    event: Literal[EventName.PAYMENT_REFUNDED]
    data: _RefundData


class PayoutPaidEvent(EventEnvelope):
    """A payout has been made; for the staff member and admins only"""

    event: Literal[EventName.PAYOUT_PAID]
    data: _PayoutData


class PayoutFailedEvent(EventEnvelope):
    """A payout was refused and is still owed; for the staff member and admins only"""

    event: Literal[EventName.PAYOUT_FAILED]
    data: _PayoutData


class WebhookTestEvent(_EnvelopeFields):
    """A test of an endpoint by its owner: it reports no change, and is in no feed"""

    event: Literal["webhook.test"]
    sequence: Literal[0]
    data: _WebhookTestData


EventRecord: TypeAlias = (
    BookingCreatedEvent
    | BookingCompletedEvent
    | BookingCancelledEvent
    | PaymentCompletedEvent
    | ReviewCreatedEvent
    | BookingAcceptedEvent
    | BookingDisputedEvent
    | BookingUpdatedEvent
    | PaymentRefundedEvent
    | PayoutPaidEvent
    | PayoutFailedEvent
)

EVENT_RECORDS: dict[str, type] = {
    EventName.BOOKING_CREATED: BookingCreatedEvent,
    EventName.BOOKING_COMPLETED: BookingCompletedEvent,
    EventName.BOOKING_CANCELLED: BookingCancelledEvent,
    EventName.PAYMENT_COMPLETED: PaymentCompletedEvent,
    EventName.REVIEW_CREATED: ReviewCreatedEvent,
    EventName.BOOKING_ACCEPTED: BookingAcceptedEvent,
    EventName.BOOKING_DISPUTED: BookingDisputedEvent,
    EventName.BOOKING_UPDATED: BookingUpdatedEvent,
    EventName.PAYMENT_REFUNDED: PaymentRefundedEvent,
    EventName.PAYOUT_PAID: PayoutPaidEvent,
    EventName.PAYOUT_FAILED: PayoutFailedEvent,
    TEST_EVENT_NAME: WebhookTestEvent,
}
"""The body of each webhook event; the docstring of its class is its description in the
documents."""

# Events in the core -----------------------------------------------------------------------

EventData: TypeAlias = _BookingData | _PaymentData | _RefundData | _PayoutData | _ReviewData

_PAYOUT_STATUSES = {
    EventName.PAYOUT_PAID: PayoutStatus.PAID,
    EventName.PAYOUT_FAILED: PayoutStatus.FAILED,
}


@frozen
class DomainEvent:
    """One event. `envelope` is the body that every recipient gets; it is encoded once."""

    id: str
    name: EventName
    booking_id: int
    sequence: int
    created_at: datetime
    parties: tuple[int, ...]
    """Ids of the users whose endpoints receive it, besides those of admins."""
    data: EventData

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


def booking_event(
    event_id: str, before: Booking | None, result: TransitionResult, at: datetime, policy: Policy
) -> DomainEvent:
    """The event of a transition, which has one; `before` is None for a new booking. Events about a
    payout have the staff member as their only party."""
    booking, name = result.booking, result.event
    assert name is not None, "the transition is published"
    data: _BookingData = {"booking": event_booking_record(booking, policy)}
    if name is EventName.PAYMENT_COMPLETED:
        paid: _PaymentData = {**data, "payment": payment_record(booking)}
        return _make_event(event_id, name, booking, at, paid)
    if result.settled_refund is not None:
        refund = refund_record(result.settled_refund, Currency(booking.currency))
        refunded: _RefundData = {**data, "refund": refund}
        return _make_event(event_id, name, booking, at, refunded)
    if name in _PAYOUT_STATUSES and before is not None:
        record = payout_record(before, booking, _PAYOUT_STATUSES[name], at)
        payout: _PayoutData = {**data, "payout": record}
        event = _make_event(event_id, name, booking, at, payout)
        return evolve(event, parties=(booking.companion_id,))
    return _make_event(event_id, name, booking, at, data)


def review_event(event_id: str, review: Review, booking: Booking, at: datetime) -> DomainEvent:
    """The event of a new review; the booking is as after this event."""
    data: _ReviewData = {"review": review_record(review), "booking_code": booking.code}
    return _make_event(event_id, EventName.REVIEW_CREATED, booking, at, data)


def _make_event(
    event_id: str, name: EventName, booking: Booking, at: datetime, data: EventData
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


def envelope_for_test_event(event_id: str, endpoint_id: int, at: datetime) -> WebhookTestEvent:
    """The body of a test event; it reports no change, and is in no feed."""
    return {
        "id": event_id,
        "event": TEST_EVENT_NAME,
        "created_at": format_instant(at),
        "api_version": API_VERSION,
        "sequence": 0,
        "data": {"webhook_id": endpoint_id},
    }
