"""Reconciliation of a booking with a snapshot: the only way in for facts about money.

`reconcile` compares the processor's snapshot of an intent with the booking, its operations and its
postings, and yields what is missing. It is idempotent: a fact that was applied before yields
nothing. So a webhook, a duplicate, an event out of order, a poll, the return page and the recovery
after a crash all make the same call. The order is:

1. Checkouts: store reference and URL of an opened page, or its earlier expiry.
2. Payments: hold the expected amount in escrow, refund one that is late or a duplicate, put a wrong
   amount in suspense.
3. Refunds: post settled and failed ones, and move the payment status.
4. Payouts, then reversals: post them, and move the payout status.
5. Chargebacks (`chargebacks`).
6. Fees of the processor.

A refund, payout or reversal without an operation of ours was made by hand at the processor: it is
posted to suspense, and the operators are alerted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve

from staffbooking_core.domain.bookings.booking import (
    Booking,
    PaymentIntent,
    PayoutStatus,
    TransitionInput,
    TransitionResult,
)
from staffbooking_core.domain.bookings.effects import claim_back_payout
from staffbooking_core.domain.bookings.lifecycle import (
    ENDED_STATUSES,
    BookingStatus,
    EventName,
    Party,
    Trigger,
)
from staffbooking_core.domain.bookings.payment_lifecycle import move_payment
from staffbooking_core.domain.bookings.payout_lifecycle import (
    PayoutTrigger,
    move_payout,
    tell_payout,
)
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.ledger import MovementKind, Posting
from staffbooking_core.domain.payments.operations import Operation, SettlementStatus
from staffbooking_core.domain.payments.processor import (
    Checkout,
    CheckoutStatus,
    IntentRefs,
    OperationKind,
    Payment,
    PayoutState,
    ProcessorFee,
    RefundState,
    RefundStatus,
    ReversalState,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.chargebacks import reconcile_chargeback
from staffbooking_core.domain.reconciliation.refunds import refund_trigger
from staffbooking_core.domain.reconciliation.state import (
    ReconciledFact,
    ReconciliationState,
    record_fact,
)
from staffbooking_core.policy import Policy


def find_intent_refs(booking: Booking, operations: Sequence[Operation]) -> IntentRefs:
    """The references by which the processor finds a booking's intent."""
    intent = booking.intent
    if intent is None:
        return IntentRefs(booking.id)
    paid = () if intent.payment_ref is None else (intent.payment_ref,)
    opened = (
        (one.result_ref, one.id)
        for one in operations
        if one.kind is OperationKind.OPEN_CHECKOUT and one.result_ref is not None
    )
    return IntentRefs(booking.id, tuple(opened), (*paid, *intent.extra_payments))


def reconcile(
    booking: Booking,
    operations: Sequence[Operation],
    postings: Collection[Posting],
    snapshot: Snapshot,
    now: datetime,
    policy: Policy,
) -> Iterator[ReconciledFact]:
    """Yield every new fact of the snapshot, in the order of the module's steps.

    Each fact starts from the booking of the fact before it.
    """
    reconciliation = ReconciliationState.build(operations, postings, snapshot, now, policy)
    readers: tuple[tuple[_SnapshotReader, Sequence[Any]], ...] = (
        (_reconcile_checkout, snapshot.checkouts),
        (_reconcile_payment, snapshot.payments),
        (_reconcile_refund, snapshot.refunds),
        (_reconcile_payout, snapshot.payouts),
        (_reconcile_reversal, snapshot.reversals),
        (reconcile_chargeback, snapshot.chargebacks),
        (_reconcile_fee, snapshot.fees),
    )
    for read, states in readers:
        for state in states:
            for found in read(booking, state, reconciliation):
                booking = found.result.booking
                yield found


_SnapshotReader = Callable[[Booking, Any, ReconciliationState], Iterator[ReconciledFact]]


def _reconcile_checkout(
    booking: Booking, checkout: Checkout, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    operation = reconciliation.find_operation(checkout.op_id, OperationKind.OPEN_CHECKOUT)
    intent = booking.intent
    if operation is None or intent is None:
        return
    expired = checkout.status is CheckoutStatus.EXPIRED
    expires_at = min(checkout.expires_at, reconciliation.now) if expired else checkout.expires_at
    if operation.result_ref != checkout.ref:
        result = record_fact(booking)
        if intent.checkout_n == operation.n:
            opened = evolve(
                intent,
                checkout_ref=checkout.ref,
                checkout_url=checkout.url,
                checkout_expires_at=expires_at,
            )
            result = result.with_changes(intent=opened)
        yield ReconciledFact(
            result,
            reconciliation.finish_operation(operation, checkout.ref, SettlementStatus.SETTLED),
        )
    elif expired and _is_current_checkout(booking, intent, checkout, expires_at):
        yield ReconciledFact(
            record_fact(booking, intent=evolve(intent, checkout_expires_at=expires_at))
        )


def _is_current_checkout(
    booking: Booking, intent: PaymentIntent, checkout: Checkout, expires_at: datetime
) -> bool:
    """Whether the customer would still be sent to this page, which is closed already."""
    awaited = booking.status is BookingStatus.ACCEPTED and intent.checkout_ref == checkout.ref
    known_until = intent.checkout_expires_at
    return awaited and known_until is not None and known_until > expires_at


def _reconcile_payment(
    booking: Booking, payment: Payment, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    intent = booking.intent
    if intent is None or payment.ref in (intent.payment_ref, *intent.extra_payments):
        return
    if (payment.amount, payment.currency) != (booking.total_amount, booking.currency):
        yield ReconciledFact(_quarantine_payment(booking, intent, payment, reconciliation.now))
        return
    transition_input = TransitionInput(
        Trigger.PAYMENT, Party.PROCESSOR, reconciliation.now, payment=payment
    )
    yield ReconciledFact(apply_transition(booking, transition_input, reconciliation.policy))


def _quarantine_payment(
    booking: Booking, intent: PaymentIntent, payment: Payment, now: datetime
) -> TransitionResult:
    """A payment of a wrong amount or currency does not pay the booking: an operator decides."""
    extra = (*intent.extra_payments, payment.ref)
    result = record_fact(booking, intent=evolve(intent, extra_payments=extra))
    if payment.currency == booking.currency:
        result = result.with_postings(
            ledger.suspense_posting(booking.id, payment.ref, payment.amount, now)
        )
    text = (
        f"payment {payment.ref} of booking {booking.code} is {payment.amount} "
        f"{payment.currency}, not {booking.total_amount} {booking.currency}"
    )
    return result.with_alert(text)


_SETTLEMENT_BY_REFUND_STATUS = {
    RefundStatus.PENDING: SettlementStatus.PENDING,
    RefundStatus.SETTLED: SettlementStatus.SETTLED,
    RefundStatus.FAILED: SettlementStatus.FAILED,
}

_REFUND_PROGRESSION = (
    None,
    SettlementStatus.PENDING,
    SettlementStatus.SETTLED,
    SettlementStatus.FAILED,
)
"""The order of a refund's settlements: an earlier one comes from an outdated snapshot."""


def _reconcile_refund(
    booking: Booking, refund: RefundState, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    operation = reconciliation.find_operation(refund.op_id, OperationKind.REFUND)
    settlement = _SETTLEMENT_BY_REFUND_STATUS[refund.status]
    if operation is None:
        yield from _reconcile_manual_refund(booking, refund, reconciliation)
        return
    if _REFUND_PROGRESSION.index(settlement) <= _REFUND_PROGRESSION.index(operation.settlement):
        return
    result, now = record_fact(booking), reconciliation.now
    if settlement is SettlementStatus.SETTLED:
        result = result.with_postings(
            ledger.refund_settled_posting(booking.id, operation.id, refund.amount, now)
        )
    elif settlement is SettlementStatus.FAILED:
        if operation.settlement is SettlementStatus.SETTLED:
            failed = ledger.refund_failed_posting(booking.id, operation.id, refund.amount, now)
            result = result.with_postings(failed)
        text = f"refund {refund.ref} of booking {booking.code} failed: still owed"
        result = result.with_alert(text)
    result = result.with_refund_settlement(operation.n, settlement, now)
    done = reconciliation.finish_operation(operation, refund.ref, settlement)
    yield ReconciledFact(move_payment(result, refund_trigger(result.booking)), done)


def _reconcile_payout(
    booking: Booking, payout: PayoutState, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    operation, now = (
        reconciliation.find_operation(payout.op_id, OperationKind.PAY_OUT),
        reconciliation.now,
    )
    if operation is None:
        yield from _record_manual_movement(
            booking, MovementKind.PAYOUT, payout.ref, -payout.amount, reconciliation
        )
        return
    if operation.settlement is SettlementStatus.SETTLED:
        return
    result = record_fact(booking, paid_out=booking.paid_out + payout.amount, payout_n=operation.n)
    result = result.with_postings(
        ledger.payout_posting(booking.id, operation.id, payout.amount, now)
    )
    if booking.status is not BookingStatus.DISPUTED:  # The end of the dispute moves the status.
        result = move_payout(result, PayoutTrigger.CONFIRMED)
    if result.event is not EventName.PAYOUT_PAID:
        # Money was sent, whatever the status: nothing else tells it.
        result = tell_payout(result, PayoutStatus.PAID)
    # A chargeback may have arrived between the order and its execution.
    result = claim_back_payout(result, now)
    yield ReconciledFact(
        result, reconciliation.finish_operation(operation, payout.ref, SettlementStatus.SETTLED)
    )


def _reconcile_reversal(
    booking: Booking, reversal: ReversalState, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    operation, now = (
        reconciliation.find_operation(reversal.op_id, OperationKind.REVERSE_PAYOUT),
        reconciliation.now,
    )
    if operation is None:
        yield from _record_manual_movement(
            booking, MovementKind.REVERSAL, reversal.ref, reversal.amount, reconciliation
        )
        return
    if operation.settlement is SettlementStatus.SETTLED:
        return
    claimed = min(reversal.amount, booking.owed_by_staff)
    result = record_fact(
        booking,
        paid_out=booking.paid_out - reversal.amount,
        owed_by_staff=booking.owed_by_staff - claimed,
    ).with_postings(
        ledger.payout_reversal_posting(booking.id, operation.id, reversal.amount, claimed, now)
    )
    ended = booking.status in ENDED_STATUSES
    if ended and result.booking.payout_left > 0:
        # The claim was settled otherwise in the meantime: the returned amount is owed again.
        result = move_payout(result, PayoutTrigger.OWED_AGAIN).with_changes(
            payout_due_at=now + reconciliation.policy.payout_delay,
            payout_released_at=None,
            payout_alarmed_at=None,
        )
    elif not ended:
        result = move_payout(result, PayoutTrigger.TAKEN_BACK)
    yield ReconciledFact(
        result, reconciliation.finish_operation(operation, reversal.ref, SettlementStatus.SETTLED)
    )


def _record_manual_movement(
    booking: Booking,
    kind: MovementKind,
    ref: str,
    balance_change: int,
    reconciliation: ReconciliationState,
) -> Iterator[ReconciledFact]:
    """Post money that was moved at the processor without an operation, and alert the operators."""
    if reconciliation.claim_keys(ledger.manual_movement_key(kind, ref)):
        text = f"{kind} {ref} of booking {booking.code} was made by hand, of {abs(balance_change)}"
        posting = ledger.manual_movement_posting(
            booking.id, kind, ref, balance_change, reconciliation.now
        )
        yield ReconciledFact(record_fact(booking).with_postings(posting).with_alert(text))


def _reconcile_manual_refund(
    booking: Booking, refund: RefundState, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    moved = ledger.manual_movement_key(MovementKind.REFUND, refund.ref)
    if refund.status is RefundStatus.SETTLED:
        yield from _record_manual_movement(
            booking, MovementKind.REFUND, refund.ref, -refund.amount, reconciliation
        )
    elif refund.status is RefundStatus.FAILED and moved in reconciliation.posting_keys:
        failed = MovementKind.REFUND_FAILED
        yield from _record_manual_movement(
            booking, failed, refund.ref, refund.amount, reconciliation
        )


def _reconcile_fee(
    booking: Booking, fee: ProcessorFee, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    if fee.amount and reconciliation.claim_keys(ledger.processor_fee_key(fee.ref)):
        kept = ledger.processor_fee_posting(booking.id, fee.ref, fee.amount, reconciliation.now)
        yield ReconciledFact(record_fact(booking).with_postings(kept))
