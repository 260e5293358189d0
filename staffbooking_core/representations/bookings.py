"""Records of bookings, as each viewer may read them (CONTRACT 4)."""

from datetime import datetime
from typing import Annotated, NotRequired, TypedDict, cast

from staffbooking_core.domain.bookings.booking import (
    UNPAID_PAYOUT_STATUSES,
    Booking,
    PaymentStatus,
    PayoutStatus,
    TimelineEntry,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, TimerKind, Trigger
from staffbooking_core.domain.bookings.refunds import Refund, RefundReason
from staffbooking_core.domain.bookings.timers import timer_time
from staffbooking_core.domain.payments.operations import SettlementStatus
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.policy import Policy
from staffbooking_core.representations.companions import CompanionRecord
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

__all__ = ["BookingRecord", "CancellationQuoteRecord", "RefundRecord"]

_TimelineEntryRecord = TypedDict(
    "_TimelineEntryRecord",
    {
        "at": Timestamp,
        "from": BookingStatus | None,
        "to": BookingStatus,
        "trigger": Trigger,
        "actor": Party,
        "reason": str | None,
        "actor_id": NotRequired[Id | None],
    },
)
"""One change of a booking's status. `actor_id` is for admins only. (A class body cannot have a
field named `from`.)"""


class RefundRecord(TypedDict):
    """A refund of a booking; one that failed is still owed."""

    amount: Money
    reason: RefundReason
    status: Annotated[
        str, JsonSchema(title="RefundStatus", enum=["pending", "succeeded", "failed"])
    ]
    created_at: Timestamp
    settled_at: Timestamp | None


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
        Annotated[
            Party, JsonSchema(title="CompletedBy", enum=[Party.CUSTOMER, Party.SYSTEM, Party.ADMIN])
        ]
        | None
    )
    cancelled_at: Timestamp | None
    cancelled_by: (
        Annotated[
            Party,
            JsonSchema(
                title="CancelledBy", enum=[Party.CUSTOMER, Party.STAFF, Party.SYSTEM, Party.ADMIN]
            ),
        ]
        | None
    )
    cancel_reason: str | None
    cancel_rule: str | None
    payment_due_at: Timestamp | None
    confirms_at: Timestamp | None
    refunds: list[RefundRecord]
    disputed_at: Timestamp | None
    payment_status: PaymentStatus
    created_at: Timestamp
    version: PositiveCount


class BookingRecord(EventBookingRecord):
    """A booking, as its parties read it; fee and payout are for the staff member and admins
    only.

    `payment_due_at` is when an accepted booking lapses unpaid, `confirms_at` when a paid one
    completes by itself, `payout_due_at` when a payout to come is due; else they are null.
    """

    timeline: list[_TimelineEntryRecord]
    platform_fee: NotRequired[Money]
    payout_amount: NotRequired[Money]
    payout_status: NotRequired[PayoutStatus]
    payout_due_at: NotRequired[Timestamp | None]


_REFUND_STATUSES = {
    SettlementStatus.PENDING: "pending",
    SettlementStatus.SETTLED: "succeeded",
    SettlementStatus.FAILED: "failed",
}


def refund_record(refund: Refund, currency: Currency) -> RefundRecord:
    """The record of a refund."""
    return {
        "amount": currency.to_decimal(refund.amount),
        "reason": refund.reason,
        "status": _REFUND_STATUSES[refund.status],
        "created_at": format_instant(refund.created_at),
        "settled_at": format_instant(refund.settled_at),
    }


def _payment_due_at(booking: Booking, policy: Policy) -> datetime | None:
    """When an accepted booking lapses unpaid; a pending one has nothing to pay yet."""
    is_accepted = booking.status is BookingStatus.ACCEPTED
    return timer_time(booking, TimerKind.EXPIRE, policy) if is_accepted else None


def event_booking_record(booking: Booking, policy: Policy) -> EventBookingRecord:
    """The record of a booking inside an event."""
    currency = Currency(booking.currency)
    money = currency.to_decimal
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
        "cancel_rule": booking.cancel_rule,
        "payment_due_at": format_instant(_payment_due_at(booking, policy)),
        "confirms_at": format_instant(timer_time(booking, TimerKind.AUTO_COMPLETE, policy)),
        "refunds": [refund_record(refund, currency) for refund in booking.refunds],
        "disputed_at": format_instant(booking.disputed_at),
        "payment_status": booking.payment_status,
        "created_at": format_instant(booking.created_at),
        "version": booking.version,
    }


def booking_record(booking: Booking, viewer: Party, policy: Policy) -> BookingRecord:
    """The record of a booking for a reader on the given side; an admin's has every field."""
    record = cast(BookingRecord, event_booking_record(booking, policy))
    if viewer in (Party.STAFF, Party.ADMIN):
        money = Currency(booking.currency).to_decimal
        record["platform_fee"] = money(booking.platform_fee)
        record["payout_amount"] = money(booking.payout_amount)
        record["payout_status"] = booking.payout_status
        is_payout_to_come = booking.payout_status in UNPAID_PAYOUT_STATUSES
        payout_due_at = booking.payout_due_at if is_payout_to_come else None
        record["payout_due_at"] = format_instant(payout_due_at)
    record["timeline"] = [_timeline_entry_record(entry, viewer) for entry in booking.timeline]
    return record


def _timeline_entry_record(entry: TimelineEntry, viewer: Party) -> _TimelineEntryRecord:
    record: _TimelineEntryRecord = {
        "at": format_instant(entry.at),
        "from": entry.was,
        "to": entry.to,
        "trigger": entry.trigger,
        "actor": entry.actor,
        "reason": entry.reason,
    }
    if viewer is Party.ADMIN:
        record["actor_id"] = entry.actor_id
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
    companions: list[CompanionRecord]
