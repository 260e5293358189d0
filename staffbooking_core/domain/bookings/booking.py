"""The booking with its price, payment intent and timers, and the values of a transition.

Statuses change only in `transitions.apply_transition`, `payment_lifecycle.move_payment` and
`payout_lifecycle.move_payout`.
"""

from __future__ import annotations

from datetime import date, datetime
from enum import StrEnum

from attrs import evolve, frozen

from staffbooking_core.domain.bookings.alerts import Alert
from staffbooking_core.domain.bookings.cancellation import CancellationRefund
from staffbooking_core.domain.bookings.lifecycle import (
    CANCELLABLE_STATUSES,
    SLOT_HOLDING_STATUSES,
    BookingNotification,
    BookingStatus,
    EventName,
    Party,
    TimerKind,
    Trigger,
)
from staffbooking_core.domain.bookings.refunds import Refund, RefundReason
from staffbooking_core.domain.payments.ledger import Posting
from staffbooking_core.domain.payments.operations import OperationOrder, SettlementStatus
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    OperationCommand,
    Payment,
    RefundPayment,
)
from staffbooking_core.domain.shared.money import apply_rate, split_fee
from staffbooking_core.policy import Policy

__all__ = ["Booking", "DueTimer", "PaymentIntent", "PaymentStatus", "PayoutStatus", "TimelineEntry"]

BOOKING_CODE_LENGTH = 14
"""Characters of a booking code."""


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
    """Not to be sent: an operator or a disabled account holds it, the booking is disputed, or a won
    chargeback was lost on appeal. It may have been paid before the dispute."""
    REVERSED = "reversed"


UNSETTLED_PAYMENT_STATUSES = frozenset(
    {PaymentStatus.REQUIRES_PAYMENT, PaymentStatus.PROCESSING, PaymentStatus.REFUND_PENDING}
)
"""Statuses in which a payment or a refund is awaited from the processor."""

UNPAID_PAYOUT_STATUSES = frozenset({PayoutStatus.SCHEDULED, PayoutStatus.FAILED})
"""Statuses in which a payout must be made and is not on hold."""

OPEN_PAYOUT_STATUSES = UNPAID_PAYOUT_STATUSES | {PayoutStatus.FROZEN}
"""Statuses in which a payout is not made yet, but may be: unpaid or on hold."""


@frozen
class DueTimer:
    """The timer of a booking: what the service does by itself, and when (business time)."""

    kind: TimerKind
    at: datetime


@frozen
class TimelineEntry:
    """One change of status. `was` is None in the first entry."""

    at: datetime
    was: BookingStatus | None
    to: BookingStatus
    trigger: Trigger
    actor: Party
    reason: str | None = None
    actor_id: int | None = None
    """Id of the user; None for the service, the processor and the command line."""


@frozen
class PaymentIntent:
    """The payment intent of an accepted booking (SPECIFICATION 3).

    Each booking has at most one; it is written in the transaction of the acceptance, and its id is
    the booking's id.
    """

    checkout_n: int
    """Number of the order that opens the current hosted checkout."""
    checkout_expires_at: datetime
    """Expiry of that checkout, also before it is opened."""
    checkout_ref: str | None = None
    checkout_url: str | None = None
    payment_ref: str | None = None
    extra_payments: tuple[str, ...] = ()
    """References of late, duplicate or wrong payments, which are refunded or in suspense."""


@frozen
class Booking:
    """A booking with its money, in minor units (SPECIFICATION 2.3, CONTRACT 4).

    `platform_fee` and `payout_amount` are expected values until the booking ends, and final ones
    after that. `escrow` is the amount held now.
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
    """The published version: it rises with each change that a reader of the record sees, and is
    assigned where a transition is saved."""
    revision: int = 1
    """Number of the row's last change, which concurrent writers are compared by."""
    events: int = 1
    """Number of published events, the sequence of the last one; assigned where a transition is
    saved."""
    timeline: tuple[TimelineEntry, ...] = ()
    checked_in_at: datetime | None = None
    accepted_at: datetime | None = None
    paid_at: datetime | None = None
    completed_at: datetime | None = None
    completed_by: Party | None = None
    cancelled_at: datetime | None = None
    cancelled_by: Party | None = None
    cancel_reason: str | None = None
    cancel_rule: str | None = None
    """Name of the cancellation rule that was applied."""
    disputed_at: datetime | None = None
    dispute_reason: str | None = None
    disputed_by: Party | None = None
    dispute_respond_by: datetime | None = None
    """When the newest dispute becomes overdue, while it is open."""
    dispute_alarmed_at: datetime | None = None
    """When the operators were alerted that the newest dispute is overdue."""
    dispute_note: str | None = None
    """What the operator noted at the resolution of the newest dispute."""
    dispute_refund: int = 0
    """The amount that the resolution of the newest dispute refunded."""
    reminded_at: datetime | None = None
    """The due time of the last reminder that the parties got of the event."""
    payment_status: PaymentStatus = PaymentStatus.NONE
    payout_status: PayoutStatus = PayoutStatus.NONE
    payout_due_at: datetime | None = None
    payout_released_at: datetime | None = None
    """When the payout was ordered from the processor, or withheld in full for other debts. None
    before that, and once it is scheduled anew: after a hold, a dispute, or a returned payout."""
    payout_held: bool = False
    """Whether an operator put the payout on hold; a withdrawn dispute leaves it so."""
    payout_hold_lifted: bool = False
    """Whether an operator released the payout from a hold: a disabled account holds it no more."""
    payout_alarmed_at: datetime | None = None
    """When the operators were alerted that the payout is about to be late."""
    escrow: int = 0
    refunded_amount: int = 0
    paid_out: int = 0
    """The amount paid to the staff member, less reversals."""
    owed_by_staff: int = 0
    """The part of it that is claimed back."""
    netted: int = 0
    """The amount settled against other bookings of the staff member: positive if withheld from this
    payout for another booking's debt, negative if another payout repaid this booking's debt."""
    payout_n: int | None = None
    """Number of the order that sent the last payout."""
    orders: int = 0
    """Number of orders to the processor; the number of the last one."""
    settlements: int = 0
    """Number of divisions of the escrow, used in the keys of ledger postings."""
    chargeback_ref: str | None = None
    chargeback_status: ChargebackStatus | None = None
    chargeback_amount: int = 0
    intent: PaymentIntent | None = None
    refunds: tuple[Refund, ...] = ()
    """The refunds in the order in which they were decided."""

    @property
    def total_amount(self) -> int:
        return self.price + self.insurance_premium

    @property
    def received_by_staff(self) -> int:
        """The amount the staff member has received for it, paid or netted with other bookings."""
        return self.paid_out + self.netted

    @property
    def payout_left(self) -> int:
        """The amount of the payout that is not sent yet."""
        return self.payout_amount - (self.received_by_staff - self.owed_by_staff)

    @property
    def dispute_number(self) -> int:
        """How often it was disputed; the number of its newest dispute."""
        return sum(entry.to is BookingStatus.DISPUTED for entry in self.timeline)

    @property
    def was_no_show(self) -> bool:
        """Whether the customer ever reported the staff member's absence."""
        return any(entry.trigger is Trigger.NO_SHOW for entry in self.timeline)

    @property
    def is_no_show(self) -> bool:
        """Whether it is in dispute over the staff member's absence, which the customer
        reported."""
        newest = self.timeline[-1:]
        return any(entry.trigger is Trigger.NO_SHOW for entry in newest)

    @property
    def holds_slot(self) -> bool:
        """Whether no other booking of the companion may overlap. The time of a booking that was
        completed is free, also where it is disputed later: a decision or a verdict may complete it
        before its end, and another booking may have the time by then."""
        return self.status in SLOT_HOLDING_STATUSES and self.completed_at is None

    @property
    def is_unsettled(self) -> bool:
        """Whether the processor or the card issuer still decides something: the payment, a refund,
        or a chargeback."""
        return (
            self.payment_status in UNSETTLED_PAYMENT_STATUSES
            or self.chargeback_status is ChargebackStatus.OPEN
        )

    @property
    def awaits_payout_release(self) -> bool:
        """Whether the payout will be released at its due time, unless it is held before."""
        is_scheduled = self.payout_status is PayoutStatus.SCHEDULED
        return is_scheduled and self.payout_released_at is None

    @property
    def awaits_payout_attempt(self) -> bool:
        """Whether the payout was released, and waits for its next attempt at the processor."""
        is_scheduled = self.payout_status is PayoutStatus.SCHEDULED
        return is_scheduled and self.payout_released_at is not None

    @property
    def is_urgent(self) -> bool:
        """Whether it is an unanswered priority request, which lists show first."""
        return self.priority and self.status is BookingStatus.PENDING

    @property
    def has_staff_debt(self) -> bool:
        """Whether the staff member owes money for this booking."""
        return self.owed_by_staff > 0

    def payout_due_since(self, now: datetime) -> datetime | None:
        """When the unpaid payout became due, or else was released (business time); None for
        neither."""
        if self.payout_status not in UNPAID_PAYOUT_STATUSES:
            return None
        due_at = self.payout_due_at
        return due_at if due_at is not None and due_at <= now else self.payout_released_at

    def is_open_for(self, user_id: int) -> bool:
        """Whether the user, as its customer or companion, has it ahead or expects its payout."""
        is_ahead = self.status in CANCELLABLE_STATUSES
        has_open_payout = self.payout_status in OPEN_PAYOUT_STATUSES
        return (is_ahead and user_id == self.customer_id) or (
            (is_ahead or has_open_payout) and user_id == self.companion_id
        )

    def party_of(self, user_id: int) -> Party | None:
        """The user's side of this booking; None for a stranger."""
        if user_id == self.customer_id:
            return Party.CUSTOMER
        if user_id == self.companion_id:
            return Party.STAFF
        return Party.API if user_id == self.booked_by else None


@frozen
class CompanionRates:
    """A companion's rates in minor units, copied into the booking at its request."""

    hourly_rate: int
    daily_rate: int | None


@frozen
class PriceBreakdown:
    """The price of a booking, in minor units."""

    price: int
    insurance_premium: int
    platform_fee: int
    payout_amount: int


def quote_price(
    rates: CompanionRates, hours: int, is_insured: bool, policy: Policy
) -> PriceBreakdown:
    """The price of a number of hours (CONTRACT 4): at most the daily rate if they are at least
    `day_rate_from_hours`."""
    price = rates.hourly_rate * hours
    if rates.daily_rate is not None and hours >= policy.day_rate_from_hours:
        price = min(price, rates.daily_rate)
    premium = insurance_premium(price, policy) if is_insured else 0
    fee, payout = split_fee(price, policy.platform_fee_ppm)
    return PriceBreakdown(price, premium, fee, payout)


def insurance_premium(price: int, policy: Policy) -> int:
    """The price of the cancellation insurance of a booking, in minor units."""
    return apply_rate(price, policy.insurance_rate_ppm)


@frozen
class TransitionInput:
    """A trigger on a booking, with its data.

    `now` is business time. The effects of the trigger determine which data it needs.
    """

    trigger: Trigger
    party: Party
    now: datetime
    reason: str | None = None
    quoted_refund: CancellationRefund | None = None
    refund_amount: int = 0
    """Of a split: the amount refunded to the customer."""
    payment: Payment | None = None
    chargeback: Chargeback | None = None
    is_credit_used: bool = False
    """Of a withdrawal: whether the dispute granted a priority rebooking that was used since."""
    disabled_party: Party | None = None
    """Of a disabled party's booking: the side whose account was disabled."""
    untold: frozenset[BookingNotification] = frozenset()
    """Of a timer that fires late: the notifications that are not sent any more."""
    actor_id: int | None = None
    """Id of the user who causes it, if a user does."""
    allowed_versions: frozenset[int] | None = None
    """The published versions that the caller accepts (If-Match); None for any."""
    customer_email: str = ""
    """Of an acceptance or a checkout: the customer's email address for the checkout page."""


@frozen
class TransitionResult:
    """The result of a transition: the booking after it, and all that must be saved with it."""

    booking: Booking
    event: EventName | None = None
    settled_refund: Refund | None = None
    """Of `payment.refunded`: the refund that succeeded."""
    postings: tuple[Posting, ...] = ()
    orders: tuple[OperationOrder, ...] = ()
    alerts: tuple[Alert, ...] = ()
    grants_credit: bool = False
    notifications: tuple[BookingNotification, ...] = ()

    def with_postings(self, *postings: Posting) -> TransitionResult:
        return evolve(self, postings=(*self.postings, *postings))

    def with_alert(self, text: str, alarmed_at: datetime | None = None) -> TransitionResult:
        return evolve(self, alerts=(*self.alerts, Alert(text, alarmed_at)))

    def with_order(self, command: OperationCommand) -> TransitionResult:
        """Add an order to the processor; orders are numbered within a booking."""
        n = self.booking.orders + 1
        return evolve(
            self.with_changes(orders=n), orders=(*self.orders, OperationOrder(n, command))
        )

    def with_refund(
        self, command: RefundPayment, reason: RefundReason, now: datetime
    ) -> TransitionResult:
        """Add a refund and its order."""
        result = self.with_order(command)
        refund = Refund(result.booking.orders, command.amount, reason, now)
        return result.with_changes(refunds=(*result.booking.refunds, refund))

    def with_refund_change(self, order_n: int, **fields: object) -> TransitionResult:
        """Change the refund that the order with this number sent last, if there is one."""
        return self.with_changes(
            refunds=tuple(
                evolve(refund, **fields) if refund.n == order_n else refund  # type: ignore[arg-type]
                for refund in self.booking.refunds
            )
        )

    def with_refund_settlement(
        self, order_n: int, status: SettlementStatus, now: datetime
    ) -> TransitionResult:
        """Change the refund of this order, and publish it where it succeeded."""
        is_settled = status is SettlementStatus.SETTLED
        result = self.with_refund_change(
            order_n, status=status, settled_at=now if is_settled else None
        )
        for refund in result.booking.refunds:
            if is_settled and refund.n == order_n:
                return evolve(result, event=EventName.PAYMENT_REFUNDED, settled_refund=refund)
        return result

    def with_changes(self, **fields: object) -> TransitionResult:
        return evolve(self, booking=evolve(self.booking, **fields))  # type: ignore[arg-type]
