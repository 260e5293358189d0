"""A booking, its price and its payment intent; what happens to it, and what follows.

The only ways to a new status are `transitions.apply_transition`, `payment_lifecycle.move_payment`
and `payout_lifecycle.move_payout`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from enum import StrEnum

from attrs import evolve, frozen

from staffbooking_core.domain.bookings.cancellation import CancellationRefund
from staffbooking_core.domain.bookings.lifecycle import (
    SLOT_HOLDING_STATUSES,
    TIMER_TRIGGERS,
    BookingNotification,
    BookingStatus,
    EventName,
    Party,
    TimerKind,
    Trigger,
)
from staffbooking_core.domain.payments.ledger import Posting
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    OperationCommand,
    OperationOrder,
    Payment,
)
from staffbooking_core.domain.shared.money import apply_rate, split_fee
from staffbooking_core.policy import Policy


class PaymentStatus(StrEnum):
    NONE = "none"
    REQUIRES_PAYMENT = "requires_payment"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    REFUND_PENDING = "refund_pending"
    PARTIALLY_REFUNDED = "partially_refunded"
    REFUNDED = "refunded"
    VOID = "void"
    CHARGED_BACK = "charged_back"


class PayoutStatus(StrEnum):
    NONE = "none"
    SCHEDULED = "scheduled"
    PAID = "paid"
    FAILED = "failed"
    FROZEN = "frozen"
    REVERSED = "reversed"


UNSETTLED_PAYMENT_STATUSES = frozenset(
    {PaymentStatus.REQUIRES_PAYMENT, PaymentStatus.PROCESSING, PaymentStatus.REFUND_PENDING}
)
"""A payment or a refund is awaited: the processor may have news of it."""

UNPAID_PAYOUT_STATUSES = frozenset({PayoutStatus.SCHEDULED, PayoutStatus.FAILED})
"""A payout is to be made, and nothing stands in its way."""

OPEN_PAYOUT_STATUSES = UNPAID_PAYOUT_STATUSES | {PayoutStatus.FROZEN}
"""A payout is not made yet, and may still be: unpaid, or on hold."""


@frozen
class DueTimer:
    """What the service has to do with a booking by itself, and when (business time)."""

    kind: TimerKind
    at: datetime


@frozen
class TimelineEntry:
    """One change of status. `was` is None for the first."""

    at: datetime
    was: BookingStatus | None
    to: BookingStatus
    trigger: Trigger
    actor: Party


@frozen
class PaymentIntent:
    """The payment intent of an accepted booking (SPECIFICATION 3): one a booking, written
    in the transaction of the acceptance. Its number is the booking's id."""

    checkout_n: int
    """The number of the order that opens the current hosted checkout."""
    checkout_expires_at: datetime
    """When that checkout lapses, also while it is only ordered."""
    checkout_ref: str | None = None
    checkout_url: str | None = None
    payment_ref: str | None = None
    extra_payments: tuple[str, ...] = ()
    """References of payments that came late, twice or wrong: refunded or put aside."""


@frozen
class Booking:
    """A booking with its money, in minor units (SPECIFICATION 2.3, CONTRACT 4).

    `platform_fee` and `payout_amount` say what they will be, until the booking ends,
    and what they became after that. `escrow` is what is held for it at present.
    """

    id: int
    code: str
    status: BookingStatus
    companion_id: int
    companion_name: str
    customer_id: int
    customer_name: str
    booked_by: int | None
    service_type: str
    location: str
    event_date: date
    start_time: str
    duration_hours: int
    timezone: str
    starts_at: datetime
    ends_at: datetime
    currency: str
    price: int
    insurance_premium: int
    fee_ppm: int
    platform_fee: int
    payout_amount: int
    created_at: datetime
    cancellation_insurance: bool = False
    event_ref: str | None = None
    priority: bool = False
    version: int = 1
    events: int = 1
    """How many events have told of it; the last one's sequence."""
    timeline: tuple[TimelineEntry, ...] = ()
    checked_in_at: datetime | None = None
    accepted_at: datetime | None = None
    paid_at: datetime | None = None
    completed_at: datetime | None = None
    completed_by: Party | None = None
    cancelled_at: datetime | None = None
    cancelled_by: Party | None = None
    cancel_reason: str | None = None
    disputed_at: datetime | None = None
    dispute_reason: str | None = None
    disputed_by: Party | None = None
    payment_status: PaymentStatus = PaymentStatus.NONE
    payout_status: PayoutStatus = PayoutStatus.NONE
    payout_due_at: datetime | None = None
    payout_released_at: datetime | None = None
    payout_alarmed_at: datetime | None = None
    """When the operators were told that the payout is about to be late."""
    escrow: int = 0
    refunded_amount: int = 0
    paid_out: int = 0
    """What the staff member has received, less what was taken back."""
    owed_by_staff: int = 0
    """What of that is claimed back."""
    netted: int = 0
    """What was settled against other bookings of the staff member: above zero kept from this
    payout for a debt of another, below zero a debt of this one made good by another."""
    payout_n: int | None = None
    """The number of the order that sent the last payout."""
    orders: int = 0
    """How many movements were ordered of the processor; the last one's number."""
    settlements: int = 0
    """How often its money was shared out: the k of the ledger's keys."""
    chargeback_ref: str | None = None
    chargeback_status: ChargebackStatus | None = None
    chargeback_amount: int = 0
    intent: PaymentIntent | None = None

    @property
    def total_amount(self) -> int:
        return self.price + self.insurance_premium

    @property
    def received_by_staff(self) -> int:
        """What the staff member has had of it: sent, or settled against other bookings."""
        return self.paid_out + self.netted

    @property
    def payout_left(self) -> int:
        """What of the payout is still to be sent."""
        return self.payout_amount - (self.received_by_staff - self.owed_by_staff)

    @property
    def holds_slot(self) -> bool:
        return self.status in SLOT_HOLDING_STATUSES

    @property
    def is_urgent(self) -> bool:
        """Whether it is a priority request without an answer: listed before all others."""
        return self.priority and self.status is BookingStatus.PENDING

    @property
    def has_staff_debt(self) -> bool:
        """Whether the staff member owes money for it."""
        return self.owed_by_staff > 0

    def payout_due_since(self, now: datetime) -> datetime | None:
        """Since when (business time) the unpaid payout is due, or else released; None where it
        is neither."""
        if self.payout_status not in UNPAID_PAYOUT_STATUSES:
            return None
        due_at = self.payout_due_at
        return due_at if due_at is not None and due_at <= now else self.payout_released_at

    def party_of(self, user_id: int) -> Party | None:
        """Which side of this booking a user is on; None for a stranger."""
        if user_id == self.customer_id:
            return Party.CUSTOMER
        if user_id == self.companion_id:
            return Party.STAFF
        return Party.API if user_id == self.booked_by else None


@frozen
class CompanionRates:
    """What a companion asks, frozen into the booking when it is requested."""

    hourly_rate: int
    daily_rate: int | None


@frozen
class PriceBreakdown:
    price: int
    insurance_premium: int
    platform_fee: int
    payout_amount: int


def quote_price(
    rates: CompanionRates, hours: int, is_insured: bool, policy: Policy
) -> PriceBreakdown:
    """The price of so many hours (CONTRACT 4): from 8 hours on never above the day rate."""
    price = rates.hourly_rate * hours
    if rates.daily_rate is not None and hours >= policy.day_rate_from_hours:
        price = min(price, rates.daily_rate)
    premium = apply_rate(price, policy.insurance_rate_ppm) if is_insured else 0
    fee, payout = split_fee(price, policy.platform_fee_ppm)
    return PriceBreakdown(price, premium, fee, payout)


@frozen
class TransitionInput:
    """Something that happened to a booking, with the facts that it brings.

    `now` is business time. Which of the facts a trigger needs is in its effects.
    """

    trigger: Trigger
    party: Party
    now: datetime
    reason: str | None = None
    quoted_refund: CancellationRefund | None = None
    refund_amount: int = 0
    """Of a split: what the client gets."""
    payment: Payment | None = None
    chargeback: Chargeback | None = None
    customer_email: str = ""
    """Of an accept or a checkout: whom the checkout page greets."""


@frozen
class TransitionResult:
    """A move as values: the booking after it, and all that must be saved with it."""

    booking: Booking
    event: EventName | None = None
    postings: tuple[Posting, ...] = ()
    orders: tuple[OperationOrder, ...] = ()
    alerts: tuple[str, ...] = ()
    grants_credit: bool = False
    notifications: tuple[BookingNotification, ...] = ()

    def with_postings(self, *postings: Posting) -> TransitionResult:
        return evolve(self, postings=(*self.postings, *postings))

    def with_order(self, command: OperationCommand) -> TransitionResult:
        """The step with one more movement ordered; orders are numbered within a booking."""
        n = self.booking.orders + 1
        return evolve(
            self.with_changes(orders=n), orders=(*self.orders, OperationOrder(n, command))
        )

    def with_changes(self, **fields: object) -> TransitionResult:
        return evolve(self, booking=evolve(self.booking, **fields))  # type: ignore[arg-type]


def next_timer(booking: Booking, policy: Policy) -> DueTimer | None:
    """The timer that comes due next, of those that the lifecycle table has for the status: a
    function of the booking, so it can't go stale."""
    for kind in TIMER_TRIGGERS[booking.status]:
        at = _TIMER_TIMES[kind](booking, policy)
        if at is not None:
            return DueTimer(kind, at)
    return None


def _completion_time(booking: Booking, policy: Policy) -> datetime:
    return booking.ends_at + policy.auto_complete_after


def _payout_release_time(booking: Booking, _: Policy) -> datetime | None:
    if booking.payout_status is PayoutStatus.SCHEDULED and booking.payout_released_at is None:
        return booking.payout_due_at
    return None


def _pending_alarm_time(booking: Booking, policy: Policy) -> datetime | None:
    if (
        booking.payout_status not in UNPAID_PAYOUT_STATUSES
        or booking.payout_due_at is None
        or booking.payout_alarmed_at is not None
    ):
        return None
    return payout_alarm_time(booking.payout_due_at, policy)


def payout_deadline(due_at: datetime, policy: Policy) -> datetime:
    """Until when a payout is promised to be made that is due at a time (CONTRACT 4)."""
    return due_at - policy.payout_delay + policy.payout_deadline


def payout_alarm_time(due_at: datetime, policy: Policy) -> datetime:
    """When the operators are told of a payout that was released and is still not made."""
    return max(due_at, payout_deadline(due_at, policy) - policy.payout_alarm)


def payment_deadline(booking: Booking, policy: Policy) -> datetime:
    """When a booking that nobody has accepted or paid lapses."""
    if policy.payment_window is None or booking.accepted_at is None:
        return booking.starts_at
    return min(booking.starts_at, booking.accepted_at + policy.payment_window)


_TIMER_TIMES: dict[TimerKind, Callable[[Booking, Policy], datetime | None]] = {
    TimerKind.EXPIRE: payment_deadline,
    TimerKind.AUTO_COMPLETE: _completion_time,
    TimerKind.PAY_OUT: _payout_release_time,
    TimerKind.PAYOUT_ALARM: _pending_alarm_time,
}
"""When each timer comes due; None where it is not set."""
