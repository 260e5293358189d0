"""One booking through its transitions in the domain, with everything that a store would save.

A `BookingJourney` applies triggers and snapshots as the use-cases do, without a store.
A `ProcessorBook` is the processor's side: it executes the journey's operations.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, POLICY, make_booking, make_operation
from staffbooking_core.domain.bookings.alerts import Alert
from staffbooking_core.domain.bookings.booking import (
    Booking,
    PaymentIntent,
    TransitionInput,
    TransitionResult,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, EventName, Party, Trigger
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.domain.payments.ledger import (
    Account,
    MovementKind,
    Posting,
    account_balances,
)
from staffbooking_core.domain.payments.operations import (
    Operation,
    OperationStatus,
    apply_operation_failure,
)
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    Checkout,
    CheckoutStatus,
    OpenCheckout,
    Payment,
    PayOut,
    PayoutState,
    ProcessorFee,
    ProcessorRefused,
    RefundPayment,
    RefundState,
    RefundStatus,
    RefusalCode,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.debts import Debt, net_debts
from staffbooking_core.domain.reconciliation.invariants import find_invariant_violations
from staffbooking_core.domain.reconciliation.snapshots import reconcile
from staffbooking_core.domain.reconciliation.state import ReconciledFact
from staffbooking_core.domain.reconciliation.statement import CashPostings, Movement
from staffbooking_core.policy import Policy

PAYMENT_REF = "pay_1"
LATE_CANCELLATION_NOTICE = HOUR


class BookingJourney:
    """A booking with the postings, operations, events and alerts of its transitions."""

    def __init__(self, booking: Booking | None = None, policy: Policy = POLICY) -> None:
        self.booking = booking or make_booking()
        self.policy = policy
        self.postings: dict[str, Posting] = {}
        self.operations: dict[int, Operation] = {}
        self.events: list[EventName] = []
        self.alerts: list[Alert] = []
        self.credits = 0

    @property
    def starts_at(self) -> datetime:
        return self.booking.starts_at

    @property
    def ends_at(self) -> datetime:
        return self.booking.ends_at

    @property
    def intent(self) -> PaymentIntent:
        """The payment intent, which exists from the acceptance on."""
        assert self.booking.intent is not None
        return self.booking.intent

    def apply(
        self, trigger: Trigger, party: Party, now: datetime | None = None, **facts: Any
    ) -> TransitionResult:
        """Apply a trigger to the booking, at its creation time unless a time is given."""
        transition_input = TransitionInput(trigger, party, now or self.booking.created_at, **facts)
        return self.save(apply_transition(self.booking, transition_input, self.policy))

    def apply_snapshot(self, snapshot: Snapshot, now: datetime) -> list[ReconciledFact]:
        """Apply what is new in a snapshot."""
        operations = tuple(self.operations.values())
        found = list(
            reconcile(
                self.booking, operations, tuple(self.postings.values()), snapshot, now, self.policy
            )
        )
        for one in found:
            self.save(one.result)
            if one.operation is not None:
                self.operations[one.operation.id] = one.operation
        return found

    def save(self, step: TransitionResult) -> TransitionResult:
        """Save a transition as a store would; asserts its revision, and that no posting repeats."""
        assert step.booking.revision == self.booking.revision + 1
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
        """The faults that the audit finds."""
        operations = tuple(self.operations.values())
        return list(
            find_invariant_violations(self.booking, tuple(self.postings.values()), operations)
        )

    def balance(self, account: str) -> int:
        """Debits less credits of one account."""
        return account_balances(self.postings.values())[account]  # type: ignore[index]

    @property
    def cash_postings(self) -> CashPostings:
        """The cash of the booking according to the ledger, with nothing in flight."""
        postings = tuple(
            (posting.key, leg.amount)
            for posting in self.postings.values()
            for leg in posting.legs
            if leg.account is Account.PROCESSOR_BALANCE
        )
        refs = {one.id: one.result_ref for one in self.operations.values() if one.result_ref}
        return CashPostings(self.booking.id, self.booking.code, postings, refs, has_in_flight=False)

    def payment(self, ref: str = PAYMENT_REF, **given: Any) -> Payment:
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
        fields = {
            "ref": "cb_1",
            "amount": self.booking.total_amount,
            "status": status,
            "payment_ref": PAYMENT_REF,
        }
        return Chargeback(**{**fields, **given})


class ProcessorBook:
    """The processor's records of one journey: executes operations and returns snapshots."""

    def __init__(self, journey: BookingJourney) -> None:
        self.journey = journey
        self.checkouts: dict[int, Checkout] = {}
        self.payments: list[Payment] = []
        self.refunds: dict[int, RefundState] = {}
        self.payouts: dict[int, PayoutState] = {}
        self.reversals: dict[int, ReversalState] = {}
        self.chargebacks: dict[str, Chargeback] = {}
        self.fees: list[ProcessorFee] = []
        self.returned_refunds: set[int] = set()
        """Refunds that had settled before they failed."""

    def execute(self, operation: Operation) -> None:
        """Execute an operation; a repetition has no effect."""
        number, command = operation.id, operation.command
        match command:
            case OpenCheckout():
                page = Checkout(
                    f"co_{number}", "/pay", CheckoutStatus.OPEN, command.expires_at, number
                )
                self.checkouts.setdefault(number, page)
            case RefundPayment():
                refund = RefundState(f"re_{number}", RefundStatus.SETTLED, command.amount, number)
                self.refunds.setdefault(number, refund)
            case PayOut():
                payout = PayoutState(f"tr_{number}", command.amount, 0, number)
                self.payouts.setdefault(number, payout)
            case ReversePayout():
                self._reverse(operation, command)

    def _reverse(self, operation: Operation, command: ReversePayout) -> None:
        """Reverse a payout; an amount above the unreversed rest is refused permanently."""
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
            self.journey.operations[number] = evolve(operation, status=OperationStatus.REFUSED)
            return
        self.reversals[number] = ReversalState(
            f"rv_{number}", f"tr_{payout.id}", command.amount, number
        )

    def execute_all(self) -> None:
        for operation in self.journey.operations.values():
            if not operation.is_finished:
                self.execute(operation)

    def has_made(self, operation: Operation) -> bool:
        """Whether the processor has executed a refund, payout or reversal."""
        return any(operation.id in made for made in (self.refunds, self.payouts, self.reversals))

    def pay(self, ref: str = PAYMENT_REF, **given: Any) -> None:
        self.payments.append(self.journey.payment(ref, **given))

    def charge_back(self, ref: str = "cb_1", **given: Any) -> None:
        """Open a chargeback, or change the one with this reference."""
        known = self.chargebacks.get(ref, self.journey.chargeback(ref=ref))
        self.chargebacks[ref] = evolve(known, **given)

    def settle(self, number: int, status: RefundStatus) -> None:
        """Change the status of a refund."""
        known = self.refunds[number]
        if known.status is RefundStatus.SETTLED and status is RefundStatus.FAILED:
            self.returned_refunds.add(number)
        self.refunds[number] = evolve(known, status=status)

    # Made by hand at the processor: negative numbers, since there are no operations ----------

    def refund_by_hand(self, amount: int = 100) -> int:
        number = -1 - len(self.refunds)
        made = RefundState(f"re_hand{-number}", RefundStatus.SETTLED, amount, None)
        self.refunds[number] = made
        return number

    def pay_out_by_hand(self, amount: int = 100) -> None:
        number = -1 - len(self.payouts)
        self.payouts[number] = PayoutState(f"tr_hand{-number}", amount, 0, None)

    def reverse_by_hand(self, amount: int = 100) -> None:
        """Reverse the last payout."""
        number = -1 - len(self.reversals)
        payout = list(self.payouts.values())[-1]
        made = ReversalState(f"rv_hand{-number}", payout.ref, amount, None)
        self.reversals[number] = made

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
            tuple(self.fees),
        )

    @property
    def statement(self) -> list[Movement]:
        """The movements of the platform's balance."""
        booking, kinds = self.journey.booking, MovementKind
        moved = [(kinds.PAYMENT, made.ref, made.amount) for made in self.payments]
        moved += [(kinds.FEE, fee.ref, -fee.amount) for fee in self.fees]
        moved += [(kinds.PAYOUT, made.ref, -made.amount) for made in self.payouts.values()]
        moved += [(kinds.REVERSAL, made.ref, made.amount) for made in self.reversals.values()]
        for number, refund in self.refunds.items():
            if refund.status is RefundStatus.SETTLED or number in self.returned_refunds:
                moved.append((kinds.REFUND, refund.ref, -refund.amount))
            if number in self.returned_refunds:
                moved.append((kinds.REFUND_FAILED, refund.ref, refund.amount))
        for charged in self.chargebacks.values():
            moved.append((kinds.CHARGEBACK, charged.ref, -charged.amount))
            if charged.status is ChargebackStatus.WON:
                moved.append((kinds.REINSTATEMENT, charged.ref, charged.amount))
        return [
            Movement(booking.id, kind, ref, amount, booking.created_at)
            for kind, ref, amount in moved
            if amount
        ]

    @property
    def cash(self) -> int:
        """The booking's money that the processor holds for the platform."""
        return sum(movement.amount for movement in self.statement)


# Journeys up to a status ------------------------------------------------------------------


def accepted_journey(policy: Policy = POLICY, **given: Any) -> BookingJourney:
    journey = BookingJourney(make_booking(**given), policy)
    journey.apply(Trigger.ACCEPT, Party.STAFF, customer_email="ada@example.com")
    return journey


def paid_journey(policy: Policy = POLICY, **given: Any) -> BookingJourney:
    journey = accepted_journey(policy, **given)
    journey.apply(Trigger.PAYMENT, Party.PROCESSOR, payment=journey.payment())
    return journey


def completed_journey(policy: Policy = POLICY, **given: Any) -> BookingJourney:
    """Confirmed by the customer at the end of the event."""
    journey = paid_journey(policy, **given)
    journey.apply(Trigger.CONFIRM, Party.CUSTOMER, journey.ends_at)
    return journey


def disputed_journey(policy: Policy = POLICY, **given: Any) -> BookingJourney:
    """Paid, and disputed by the customer at the start."""
    journey = paid_journey(policy, **given)
    journey.apply(Trigger.DISPUTE, Party.CUSTOMER, journey.starts_at, reason="nobody came")
    return journey


def cancelled_journey(policy: Policy = POLICY, **given: Any) -> BookingJourney:
    """Paid, and cancelled by the customer an hour before the start: nothing is refunded."""
    journey = paid_journey(policy, **given)
    journey.apply(Trigger.CANCEL, Party.CUSTOMER, journey.starts_at - LATE_CANCELLATION_NOTICE)
    return journey


def paid_out_journey(policy: Policy = POLICY, **given: Any) -> tuple[BookingJourney, ProcessorBook]:
    """Completed a day ago, and the payout has arrived."""
    journey = completed_journey(policy, **given)
    book = ProcessorBook(journey)
    book.pay()
    now = journey.ends_at + DAY
    journey.apply(Trigger.SEND_PAYOUT, Party.SYSTEM, now)
    book.execute_all()
    journey.apply_snapshot(book.snapshot, now)
    return journey, book


JOURNEY_BY_STATUS: dict[BookingStatus, Callable[..., BookingJourney]] = {
    BookingStatus.PENDING: BookingJourney,
    BookingStatus.ACCEPTED: accepted_journey,
    BookingStatus.PAID: paid_journey,
    BookingStatus.COMPLETED: completed_journey,
    BookingStatus.DISPUTED: disputed_journey,
    BookingStatus.CANCELLED: cancelled_journey,
}


# With the processor's records -------------------------------------------------------------


def with_processor_book(journey: BookingJourney) -> tuple[BookingJourney, ProcessorBook]:
    """The journey, and the processor's records with its payment if it is paid."""
    book = ProcessorBook(journey)
    if journey.booking.paid_at is not None:
        book.pay()
    return journey, book


def apply_snapshot(
    journey: BookingJourney, book: ProcessorBook, after: timedelta = DAY
) -> list[ReconciledFact]:
    """Apply the processor's snapshot, at the given time after the end of the event."""
    return journey.apply_snapshot(book.snapshot, journey.ends_at + after)


def last_operation(journey: BookingJourney) -> Operation:
    return list(journey.operations.values())[-1]


def journey_with_unseen_reversal() -> tuple[BookingJourney, ProcessorBook]:
    """Paid out, charged back, and the reversal has succeeded at the processor."""
    journey, book = paid_out_journey()
    book.charge_back()
    apply_snapshot(journey, book, 2 * DAY)
    book.execute_all()
    return journey, book


# Debts ------------------------------------------------------------------------------------


def refuse_operation(
    journey: BookingJourney,
    operation: Operation,
    reason: RefusalCode = RefusalCode.INSUFFICIENT_FUNDS,
) -> Operation:
    """Refuse an operation; it waits for its next attempt if the reason may be temporary."""
    refused = apply_operation_failure(
        evolve(operation, attempts=1), ProcessorRefused(reason), operation.created_at
    )
    journey.operations[operation.id] = refused
    return refused


def journey_with_debt(**given: Any) -> tuple[BookingJourney, ProcessorBook]:
    """Paid out, with a lost chargeback and a reversal that was refused once and waits."""
    journey, book = paid_out_journey(**given)
    book.charge_back()
    apply_snapshot(journey, book, 2 * DAY)
    refuse_operation(journey, last_operation(journey))
    book.charge_back(status=ChargebackStatus.LOST)
    apply_snapshot(journey, book, 3 * DAY)
    return journey, book


def debt_of(journey: BookingJourney) -> Debt:
    return Debt(journey.booking, tuple(journey.operations.values()))


def settle_debts(payer: BookingJourney, *debtors: BookingJourney) -> list[TransitionResult]:
    """Deduct the debtors' debts from the payer's payout."""
    journey_by_booking_id = {journey.booking.id: journey for journey in (payer, *debtors)}
    steps = net_debts(payer.booking, [debt_of(debtor) for debtor in debtors], payer.ends_at + DAY)
    return [journey_by_booking_id[step.booking.id].save(step) for step in steps]
