"""One booking on its way through the domain, with all that a store would keep of it.

A `Journey` pulls triggers and looks at snapshots, as the use-cases do, without a store.
A `Book` is the processor's side: what it has made of the journey's operations.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve

from staffbooking_core.domain.audit import faults_of
from staffbooking_core.domain.bookings import Booking, Intent, Occurrence, Step
from staffbooking_core.domain.ledger import Posting, balances
from staffbooking_core.domain.lifecycle import EventName, Party, Status, Trigger
from staffbooking_core.domain.moves import advance
from staffbooking_core.domain.payments import (
    Chargeback,
    ChargebackStatus,
    Checkout,
    CheckoutStatus,
    OpenCheckout,
    Operation,
    OpStatus,
    Payment,
    PayOut,
    PayoutState,
    Refund,
    RefundState,
    RefundStatus,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconcile import Found, reconcile
from staffbooking_core.policy import Policy
from tests.support.builders import DAY, HOUR, POLICY, make_booking, make_operation

PAID_WITH = "pay_1"
LATE_CANCEL_BEFORE = HOUR


class Journey:
    """A booking, its postings, operations, events and alerts, as they come about."""

    def __init__(self, booking: Booking | None = None, policy: Policy = POLICY) -> None:
        self.booking = booking or make_booking()
        self.policy = policy
        self.postings: dict[str, Posting] = {}
        self.operations: dict[int, Operation] = {}
        self.events: list[EventName] = []
        self.alerts: list[str] = []
        self.credits = 0

    @property
    def starts_at(self) -> datetime:
        return self.booking.starts_at

    @property
    def ends_at(self) -> datetime:
        return self.booking.ends_at

    @property
    def intent(self) -> Intent:
        """The payment intent, which there is from the acceptance on."""
        assert self.booking.intent is not None
        return self.booking.intent

    def pull(self, trigger: Trigger, by: Party, now: datetime | None = None, **facts: Any) -> Step:
        """Move the booking, at its creation unless a time is given."""
        what = Occurrence(trigger, by, now or self.booking.created_at, **facts)
        return self.keep(advance(self.booking, what, self.policy))

    def see(self, snapshot: Snapshot, now: datetime) -> list[Found]:
        """Take note of what a snapshot has that is new."""
        operations = tuple(self.operations.values())
        found = list(reconcile(self.booking, operations, snapshot, now, self.policy))
        for one in found:
            self.keep(one.step)
            if one.operation is not None:
                self.operations[one.operation.id] = one.operation
        return found

    def keep(self, step: Step) -> Step:
        """Save a step as a store would: the next version, and no posting twice."""
        assert step.booking.version == self.booking.version + 1
        for posting in step.postings:
            assert posting.key not in self.postings, f"{posting.key} is posted twice"
            self.postings[posting.key] = posting
        for order in step.orders:
            operation = make_operation(order, id=100 + order.n, booking_id=self.booking.id)
            assert operation.id not in self.operations, f"order {order.n} is given twice"
            self.operations[operation.id] = operation
        self.events += [step.event] if step.event else []
        self.alerts += step.alerts
        self.credits += step.grants_credit
        self.booking = step.booking
        return step

    @property
    def faults(self) -> list[str]:
        """What the audit finds wrong."""
        operations = tuple(self.operations.values())
        return list(faults_of(self.booking, tuple(self.postings.values()), operations))

    def balance(self, account: str) -> int:
        """Debits less credits of one account."""
        return balances(self.postings.values())[account]  # type: ignore[index]

    def payment(self, ref: str = PAID_WITH, **given: Any) -> Payment:
        """The payment that the booking waits for."""
        fields = {
            "ref": ref,
            "amount": self.booking.total_amount,
            "currency": self.booking.currency,
            "paid_at": self.booking.created_at,
        }
        return Payment(**{**fields, **given})

    def chargeback(
        self, status: ChargebackStatus = ChargebackStatus.OPEN, **given: Any
    ) -> Chargeback:
        """A chargeback of all that was paid."""
        fields = {"ref": "cb_1", "amount": self.booking.total_amount, "status": status}
        return Chargeback(**{**fields, **given})


class Book:
    """The processor's own book of one journey: executes operations, shows snapshots."""

    def __init__(self, journey: Journey) -> None:
        self.journey = journey
        self.checkouts: dict[int, Checkout] = {}
        self.payments: list[Payment] = []
        self.refunds: dict[int, RefundState] = {}
        self.payouts: dict[int, PayoutState] = {}
        self.reversals: dict[int, ReversalState] = {}
        self.chargebacks: dict[str, Chargeback] = {}

    def execute(self, operation: Operation) -> None:
        """Do what an operation orders, once."""
        number, command = operation.id, operation.command
        match command:
            case OpenCheckout():
                page = Checkout(
                    f"co_{number}", "/pay", CheckoutStatus.OPEN, command.expires_at, number
                )
                self.checkouts.setdefault(number, page)
            case Refund():
                refund = RefundState(f"re_{number}", RefundStatus.SETTLED, command.amount, number)
                self.refunds.setdefault(number, refund)
            case PayOut():
                payout = PayoutState(f"tr_{number}", command.amount, 0, number)
                self.payouts.setdefault(number, payout)
            case ReversePayout():
                self._reverse(operation, command)

    def _reverse(self, operation: Operation, command: ReversePayout) -> None:
        """Take a payout back; more than is left of it is refused for good."""
        number = operation.id
        payout = next(op for op in self.journey.operations.values() if op.n == command.payout_n)
        taken = sum(
            state.amount
            for state in self.reversals.values()
            if state.payout_ref == f"tr_{payout.id}"
        )
        if number in self.reversals or payout.id not in self.payouts:
            return
        if taken + command.amount > self.payouts[payout.id].amount:
            self.journey.operations[number] = evolve(operation, status=OpStatus.REFUSED)
            return
        self.reversals[number] = ReversalState(
            f"rv_{number}", f"tr_{payout.id}", command.amount, number
        )

    def execute_all(self) -> None:
        for operation in self.journey.operations.values():
            if not operation.is_finished:
                self.execute(operation)

    def pay(self, ref: str = PAID_WITH, **given: Any) -> None:
        self.payments.append(self.journey.payment(ref, **given))

    def charge_back(self, ref: str = "cb_1", **given: Any) -> None:
        """Open a chargeback, or change the one of that reference."""
        known = self.chargebacks.get(ref, self.journey.chargeback(ref=ref))
        self.chargebacks[ref] = evolve(known, **given)

    def settle(self, number: int, status: RefundStatus) -> None:
        """Change what became of a refund."""
        self.refunds[number] = evolve(self.refunds[number], status=status)

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.journey.booking.id,
            tuple(self.checkouts.values()),
            tuple(self.payments),
            tuple(self.refunds.values()),
            tuple(self.payouts.values()),
            tuple(self.reversals.values()),
            tuple(self.chargebacks.values()),
        )

    @property
    def cash(self) -> int:
        """What the processor holds for the platform of this booking's money."""
        refunded = sum(
            state.amount for state in self.refunds.values() if state.status is RefundStatus.SETTLED
        )
        withdrawn = sum(
            state.amount
            for state in self.chargebacks.values()
            if state.status is not ChargebackStatus.WON
        )
        return (
            sum(payment.amount for payment in self.payments)
            - refunded
            - sum(state.amount for state in self.payouts.values())
            + sum(state.amount for state in self.reversals.values())
            - withdrawn
        )


# Journeys up to a status ------------------------------------------------------------------


def accepted(policy: Policy = POLICY, **given: Any) -> Journey:
    journey = Journey(make_booking(**given), policy)
    journey.pull(Trigger.ACCEPT, Party.STAFF, customer_email="ada@example.com")
    return journey


def paid(policy: Policy = POLICY, **given: Any) -> Journey:
    journey = accepted(policy, **given)
    journey.pull(Trigger.PAYMENT, Party.PROCESSOR, payment=journey.payment())
    return journey


def completed(policy: Policy = POLICY, **given: Any) -> Journey:
    """Confirmed by the customer at the very end of the event."""
    journey = paid(policy, **given)
    journey.pull(Trigger.CONFIRM, Party.CUSTOMER, journey.ends_at)
    return journey


def disputed(policy: Policy = POLICY, **given: Any) -> Journey:
    """Paid, and disputed by the customer at the start."""
    journey = paid(policy, **given)
    journey.pull(Trigger.DISPUTE, Party.CUSTOMER, journey.starts_at, reason="nobody came")
    return journey


def cancelled(policy: Policy = POLICY, **given: Any) -> Journey:
    """Paid, and cancelled by the customer an hour before the start: nothing is refunded."""
    journey = paid(policy, **given)
    journey.pull(Trigger.CANCEL, Party.CUSTOMER, journey.starts_at - LATE_CANCEL_BEFORE)
    return journey


def paid_out(policy: Policy = POLICY, **given: Any) -> tuple[Journey, Book]:
    """Completed a day ago, and the payout has arrived."""
    journey = completed(policy, **given)
    book = Book(journey)
    book.pay()
    now = journey.ends_at + DAY
    journey.pull(Trigger.RELEASE_PAYOUT, Party.SYSTEM, now)
    book.execute_all()
    journey.see(book.snapshot, now)
    return journey, book


JOURNEY_TO: dict[Status, Callable[..., Journey]] = {
    Status.PENDING: Journey,
    Status.ACCEPTED: accepted,
    Status.PAID: paid,
    Status.COMPLETED: completed,
    Status.DISPUTED: disputed,
    Status.CANCELLED: cancelled,
}


# With the processor's book ----------------------------------------------------------------


def with_book(journey: Journey) -> tuple[Journey, Book]:
    """The journey, and the processor's book that knows its payment."""
    book = Book(journey)
    if journey.booking.paid_at is not None:
        book.pay()
    return journey, book


def look(journey: Journey, book: Book, after: timedelta = DAY) -> list[Found]:
    """See all that the book has, so long after the end of the event."""
    return journey.see(book.snapshot, journey.ends_at + after)


def last_operation(journey: Journey) -> Operation:
    return list(journey.operations.values())[-1]


def reversing() -> tuple[Journey, Book]:
    """Paid out, charged back, and the reversal has succeeded at the processor."""
    journey, book = paid_out()
    book.charge_back()
    look(journey, book, 2 * DAY)
    book.execute_all()
    return journey, book
