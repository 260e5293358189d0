"""Reconciliation of chargebacks: the customer's bank takes a payment back.

For a chargeback of the booking's own payment:

1. A chargeback that is new opens a dispute (trigger `chargeback`), also if its verdict is known
   already. While another one is open, a new one waits for that verdict.
2. The verdict ends the dispute (`chargeback_won` or `chargeback_lost`). If it is won, the refunds
   that the processor refused meanwhile are ordered again.
3. If it is lost, refunds that failed are covered by the bank and become void.
4. A verdict that changes later (an appeal) moves the money to suspense, and alerts the operators.
   An earlier chargeback's may change too, while a later one is the present one.

A chargeback of an extra payment (late, duplicate or of a wrong amount) changes postings only, and
orders its refused refunds again if it is won; its changed verdicts are booked as in step 4.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from staffbooking_core.domain.bookings.booking import (
    Booking,
    PaymentStatus,
    PayoutStatus,
    TransitionInput,
    TransitionResult,
)
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.bookings.payment_lifecycle import PaymentTrigger, move_payment
from staffbooking_core.domain.bookings.payout_lifecycle import PayoutTrigger, move_payout
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.operations import (
    Operation,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.processor import Chargeback, ChargebackStatus, RefundPayment
from staffbooking_core.domain.reconciliation.refunds import (
    failed_refunds,
    refund_trigger,
    reorder_refunds,
)
from staffbooking_core.domain.reconciliation.state import (
    ReconciledFact,
    ReconciliationState,
    record_fact,
)

_VERDICT_TRIGGERS = {
    ChargebackStatus.WON: Trigger.CHARGEBACK_WON,
    ChargebackStatus.LOST: Trigger.CHARGEBACK_LOST,
}


def reconcile_chargeback(
    booking: Booking, chargeback: Chargeback, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    """Yield the new facts of one chargeback; nothing for one without amount or intent."""
    intent = booking.intent
    if intent is None or not chargeback.amount:
        return
    if chargeback.payment_ref == intent.payment_ref:
        yield from _reconcile_own_chargeback(booking, chargeback, reconciliation)
    else:
        yield from _reconcile_extra_payment_chargeback(booking, chargeback, reconciliation)


def _reconcile_own_chargeback(
    booking: Booking, chargeback: Chargeback, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    """Steps 1 to 3. A verdict seen before its opening is preceded by it: the money moved twice."""

    def apply_trigger(trigger: Trigger, status: ChargebackStatus) -> TransitionResult:
        seen = evolve(chargeback, status=status)
        occurrence = TransitionInput(trigger, Party.PROCESSOR, reconciliation.now, chargeback=seen)
        return apply_transition(booking, occurrence, reconciliation.policy)

    if booking.chargeback_ref != chargeback.ref:
        withdrawal_key = ledger.chargeback_key(chargeback.ref, "out")
        if withdrawal_key in reconciliation.posting_keys:
            yield from _reconcile_changed_verdict(booking, chargeback, reconciliation)
            return
        if booking.chargeback_status is ChargebackStatus.OPEN:
            return
        reconciliation.claim_keys(withdrawal_key)
        result = apply_trigger(Trigger.CHARGEBACK, ChargebackStatus.OPEN)
        booking = result.booking
        yield ReconciledFact(result)
    elif booking.chargeback_status in _VERDICT_TRIGGERS:
        if chargeback.status is booking.chargeback_status:
            yield from _settle_refunds_by_bank(booking, chargeback, reconciliation)
        else:
            yield from _reconcile_changed_verdict(booking, chargeback, reconciliation)
        return
    if (
        booking.chargeback_status is ChargebackStatus.OPEN
        and chargeback.status in _VERDICT_TRIGGERS
    ):
        result = apply_trigger(_VERDICT_TRIGGERS[chargeback.status], chargeback.status)
        booking = result.booking
        _count_losses(result, reconciliation)
        yield ReconciledFact(result)
        if chargeback.status is ChargebackStatus.WON:
            yield from _reorder_refused_refunds(booking, chargeback.payment_ref, reconciliation)
        yield from _settle_refunds_by_bank(booking, chargeback, reconciliation)


def _reconcile_changed_verdict(
    booking: Booking, chargeback: Chargeback, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    """Step 4; nothing if the booked verdict stands. A payout that is not made yet is put on hold if
    the appeal was lost."""
    change = _verdict_change(chargeback, reconciliation)
    if chargeback.status is ChargebackStatus.OPEN or not change:
        return
    is_present = chargeback.ref == booking.chargeback_ref
    fields = {"chargeback_status": chargeback.status} if is_present else {}
    result = record_fact(booking, **fields)
    if chargeback.status is ChargebackStatus.LOST:
        result = move_payout(result, PayoutTrigger.APPEAL_LOST)
        if result.booking.payout_status is PayoutStatus.FROZEN:
            result = result.with_changes(payout_held=True, payout_hold_lifted=False)
    yield _book_changed_verdict(result, chargeback, change, reconciliation)


def _verdict_change(chargeback: Chargeback, reconciliation: ReconciliationState) -> int:
    """What the verdict changes the platform's balance by, beyond what is booked of it."""
    balance = 0 if chargeback.status is ChargebackStatus.WON else -chargeback.amount
    return balance - reconciliation.balance_by_chargeback_ref[chargeback.ref]


def _book_changed_verdict(
    result: TransitionResult,
    chargeback: Chargeback,
    balance_change: int,
    reconciliation: ReconciliationState,
) -> ReconciledFact:
    booking, ref = result.booking, chargeback.ref
    posting = ledger.chargeback_verdict_changed_posting(
        booking.id, ref, booking.revision, balance_change, reconciliation.now
    )
    text = f"chargeback {ref} of booking {booking.code} has another verdict: {chargeback.status}"
    return ReconciledFact(result.with_postings(posting).with_alert(text))


def _reorder_refused_refunds(
    booking: Booking, payment_ref: str, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    """Order the payment's refunds again that were refused while the chargeback was open."""
    refused = [
        operation
        for operation in failed_refunds(list(reconciliation.operations.values()))
        if isinstance(operation.command, RefundPayment)
        and operation.status is OperationStatus.REFUSED
        and operation.command.payment_ref == payment_ref
        # Each is ordered again once, also if one snapshot has two verdicts.
        and reconciliation.claim_keys(_new_order_key(operation))
    ]
    if refused:
        yield ReconciledFact(reorder_refunds(booking, refused))


def _new_order_key(operation: Operation) -> str:
    """The key of a refund's new order, which is saved as an operation after this snapshot."""
    return f"again:{operation.id}"


def _reconcile_extra_payment_chargeback(
    booking: Booking, chargeback: Chargeback, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    """A chargeback of an extra payment does not change the booking's status. The keys of its
    postings make it idempotent; a changed verdict is seen by the balance that they give."""
    ref, amount, now = chargeback.ref, chargeback.amount, reconciliation.now
    if reconciliation.claim_keys(ledger.chargeback_key(ref, "out")):
        text = f"payment {chargeback.payment_ref} of booking {booking.code} was charged back"
        result = record_fact(booking).with_postings(
            ledger.chargeback_withdrawn_posting(booking.id, ref, amount, now)
        )
        booking = result.booking
        yield ReconciledFact(result.with_alert(text))
    if chargeback.status is ChargebackStatus.OPEN:
        return
    won = chargeback.status is ChargebackStatus.WON
    verdict_keys = (ledger.chargeback_key(ref, end) for end in ("in", "lost"))
    if reconciliation.claim_keys(*verdict_keys):
        book = ledger.chargeback_reinstated_posting if won else ledger.chargeback_lost_posting
        result = record_fact(booking).with_postings(book(booking.id, ref, amount, now))
        booking = result.booking
        _count_losses(result, reconciliation)
        yield ReconciledFact(result)
        if won:
            yield from _reorder_refused_refunds(booking, chargeback.payment_ref, reconciliation)
    elif change := _verdict_change(chargeback, reconciliation):
        fact = _book_changed_verdict(record_fact(booking), chargeback, change, reconciliation)
        booking = fact.result.booking
        yield fact
    yield from _settle_refunds_by_bank(booking, chargeback, reconciliation)


def _settle_refunds_by_bank(
    booking: Booking, chargeback: Chargeback, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    """Step 3. A refused refund reached the customer by the lost chargeback: its amount is removed
    from the losses and is not owed any more."""
    if chargeback.status is not ChargebackStatus.LOST:
        return
    for operation in failed_refunds(list(reconciliation.operations.values())):
        command = operation.command
        if not isinstance(command, RefundPayment) or command.payment_ref != chargeback.payment_ref:
            continue
        if command.amount > reconciliation.losses_by_payment_ref[command.payment_ref]:
            continue
        if _new_order_key(operation) in reconciliation.posting_keys:
            continue  # Ordered again just now: the bank covers the new order if it is refused too.
        given = ledger.bank_refund_posting(
            booking.id, operation.id, command.amount, reconciliation.now
        )
        result = record_fact(booking).with_postings(given)
        result = result.with_refund_settlement(
            operation.n, SettlementStatus.SETTLED, reconciliation.now
        )
        result = move_payment(result, refund_trigger(result.booking))
        _count_losses(result, reconciliation)
        booking = result.booking
        void = evolve(operation, status=OperationStatus.VOID)
        reconciliation.operations[operation.id] = void
        yield ReconciledFact(result, void)
    # Earlier versions settled refunds without a move of the payment.
    trigger = refund_trigger(booking)
    is_behind = booking.payment_status is PaymentStatus.REFUND_PENDING
    if is_behind and trigger is not PaymentTrigger.REFUND_OUTSTANDING:
        yield ReconciledFact(move_payment(record_fact(booking), trigger))


def _count_losses(result: TransitionResult, reconciliation: ReconciliationState) -> None:
    for posting in result.postings:
        reconciliation.count_loss(posting)
