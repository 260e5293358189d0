"""Records of bookings, as each viewer may read them (CONTRACT 4)."""

from typing import Annotated, NotRequired, TypedDict, cast

from staffbooking_core.domain.bookings.booking import (
    Booking,
    PaymentStatus,
    PayoutStatus,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.representations.companions import CompanionSummaryRecord
from staffbooking_core.representations.json_types import (
    BookingCode,
    ClockTime,
    Date,
    Id,
    JsonSchema,
    Money,
    PositiveCount,
    Timestamp,
    format_instant,
)

_TimelineEntryRecord = TypedDict(
    "_TimelineEntryRecord",
    {
        "at": Timestamp,
        "from": BookingStatus | None,
        "to": BookingStatus,
        "trigger": Trigger,
        "actor": Party,
    },
)
"""One change of a booking's status. (A class body cannot have a field named `from`.)"""


class BookingGlimpseRecord(TypedDict):
    """A booking, as the API key of a user who is not a party of it may read it."""

    booking_code: BookingCode
    status: BookingStatus
    event_date: Date


class EventBookingRecord(BookingGlimpseRecord):
    """A booking inside an event: the same for every recipient."""

    id: Id
    companion_id: Id
    companion_name: str
    customer_id: Id
    customer_name: str
    booked_by: Id | None
    service_type: str
    location: str
    start_time: ClockTime
    duration_hours: Annotated[int, JsonSchema(minimum=1, maximum=24)]
    timezone: str
    starts_at: Timestamp
    ends_at: Timestamp
    currency: str
    price: Money
    insurance_premium: Money
    total_amount: Money
    refunded_amount: Money
    cancellation_insurance: bool
    event_ref: str | None
    priority: bool
    checked_in_at: Timestamp | None
    accepted_at: Timestamp | None
    paid_at: Timestamp | None
    completed_at: Timestamp | None
    completed_by: (
        Annotated[Party, JsonSchema(enum=[Party.CUSTOMER, Party.SYSTEM, Party.ADMIN])] | None
    )
    cancelled_at: Timestamp | None
    cancelled_by: (
        Annotated[Party, JsonSchema(enum=[Party.CUSTOMER, Party.STAFF, Party.SYSTEM, Party.ADMIN])]
        | None
    )
    cancel_reason: str | None
    disputed_at: Timestamp | None
    payment_status: PaymentStatus
    created_at: Timestamp
    version: PositiveCount


class BookingRecord(EventBookingRecord):
    """A booking, as its parties read it; fee and payout are for the staff member and admins
    only."""

    timeline: list[_TimelineEntryRecord]
    platform_fee: NotRequired[Money]
    payout_amount: NotRequired[Money]
    payout_status: NotRequired[PayoutStatus]


def event_booking_record(booking: Booking) -> EventBookingRecord:
    """The record of a booking inside an event."""
    money = Currency(booking.currency).to_decimal
    return {
        "id": booking.id,
        "booking_code": booking.code,
        "status": booking.status,
        "companion_id": booking.companion_id,
        "companion_name": booking.companion_name,
        "customer_id": booking.customer_id,
        "customer_name": booking.customer_name,
        "booked_by": booking.booked_by,
        "service_type": booking.service_type,
        "location": booking.location,
        "event_date": booking.event_date.isoformat(),
        "start_time": booking.start_time,
        "duration_hours": booking.duration_hours,
        "timezone": booking.timezone,
        "starts_at": format_instant(booking.starts_at),
        "ends_at": format_instant(booking.ends_at),
        "currency": booking.currency,
        "price": money(booking.price),
        "insurance_premium": money(booking.insurance_premium),
        "total_amount": money(booking.total_amount),
        "refunded_amount": money(booking.refunded_amount),
        "cancellation_insurance": booking.cancellation_insurance,
        "event_ref": booking.event_ref,
        "priority": booking.priority,
        "checked_in_at": format_instant(booking.checked_in_at),
        "accepted_at": format_instant(booking.accepted_at),
        "paid_at": format_instant(booking.paid_at),
        "completed_at": format_instant(booking.completed_at),
        "completed_by": booking.completed_by,
        "cancelled_at": format_instant(booking.cancelled_at),
        "cancelled_by": booking.cancelled_by,
        "cancel_reason": booking.cancel_reason,
        "disputed_at": format_instant(booking.disputed_at),
        "payment_status": booking.payment_status,
        "created_at": format_instant(booking.created_at),
        "version": booking.version,
    }


def booking_record(booking: Booking, viewer: Party) -> BookingRecord:
    """The record of a booking for a reader on the given side."""
    record = cast(BookingRecord, event_booking_record(booking))
    if viewer in (Party.STAFF, Party.ADMIN):
        money = Currency(booking.currency).to_decimal
        record["platform_fee"] = money(booking.platform_fee)
        record["payout_amount"] = money(booking.payout_amount)
        record["payout_status"] = booking.payout_status
    record["timeline"] = [
        {
            "at": format_instant(entry.at),
            "from": entry.was,
            "to": entry.to,
            "trigger": entry.trigger,
            "actor": entry.actor,
        }
        for entry in booking.timeline
    ]
    return record


def booking_glimpse_record(booking: Booking) -> BookingGlimpseRecord:
    """The record of a booking for an API key of a user who is not a party of it."""
    return {
        "booking_code": booking.code,
        "status": booking.status,
        "event_date": booking.event_date.isoformat(),
    }


class CancellationQuoteRecord(TypedDict):
    """The refund of a cancellation at this time, signed."""

    refund_percent: int
    refund_amount: Money
    rule: str
    quote: str
    expires_at: Timestamp


class RebookingRecord(TypedDict):
    """A priority rebooking that a customer can use, with the suggested companions."""

    expires_at: Timestamp
    companions: list[CompanionSummaryRecord]
