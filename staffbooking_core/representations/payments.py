"""Records of payments and payout accounts (CONTRACT 3 and 7)."""

from typing import Annotated, TypedDict

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.payees import PayeeStatus
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.representations.json_types import (
    Id,
    JsonSchema,
    Money,
    Timestamp,
    format_instant,
)


class PaymentRecord(TypedDict):
    """The payment in `payment.completed`."""

    id: Id
    booking_code: str
    amount: Money
    currency: str
    paid_at: Timestamp


def payment_record(booking: Booking) -> PaymentRecord:
    """The record of the payment of a paid booking."""
    assert booking.paid_at is not None, "the event is of a paid booking"
    return {
        "id": booking.id,
        "booking_code": booking.code,
        "amount": Currency(booking.currency).to_decimal(booking.total_amount),
        "currency": booking.currency,
        "paid_at": format_instant(booking.paid_at),
    }


class PayoutAccountRecord(TypedDict):
    """The payout account of a staff member."""

    status: PayeeStatus
    provider: str
    country: str | None
    needs: list[str]
    message: Annotated[str, JsonSchema(description="why the processor refused the account")] | None
