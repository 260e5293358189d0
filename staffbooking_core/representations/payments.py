"""Records of payments and payout accounts (CONTRACT 3 and 7)."""

from datetime import datetime
from typing import Annotated, TypedDict

from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
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


class PayoutRecord(TypedDict):
    """The payout in `payout.paid` and `payout.failed`. The amount is what was sent, 0 if all of it
    was withheld for debts; of a failed payout, what is still owed."""

    amount: Money
    currency: str
    status: Annotated[
        PayoutStatus,
        JsonSchema(title="SettledPayoutStatus", enum=[PayoutStatus.PAID, PayoutStatus.FAILED]),
    ]
    at: Timestamp


def payout_record(
    before: Booking, after: Booking, status: PayoutStatus, at: datetime
) -> PayoutRecord:
    """The record of the payout of a booking, from the booking before and after it was made or
    failed. The booking may have another status: its payout is frozen during a dispute."""
    is_paid = status is PayoutStatus.PAID
    amount = max(after.paid_out - before.paid_out, 0) if is_paid else after.payout_left
    return {
        "amount": Currency(after.currency).to_decimal(amount),
        "currency": after.currency,
        "status": status,
        "at": format_instant(at),
    }


class PayoutAccountRecord(TypedDict):
    """The payout account of a staff member."""

    status: PayeeStatus
    provider: str
    country: str | None
    needs: list[str]
    message: Annotated[str, JsonSchema(description="why the processor refused the account")] | None
