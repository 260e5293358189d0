"""What the states of chargebacks tell of a booking: the bank's way to take a payment back."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from staffbooking_core.domain.bookings.booking import (
    Booking,
    TransitionInput,
    TransitionResult,
)
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.bookings.payout_lifecycle import PayoutTrigger, move_payout
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    OperationStatus,
    RefundPayment,
)
from staffbooking_core.domain.reconciliation.refunds import failed_refunds, reorder_refunds
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
    """A verdict that is seen before its opening is preceded by it: money moved twice. Of two
    that are open at once, the later waits for the verdict of the earlier."""

    def apply_trigger(trigger: Trigger, status: ChargebackStatus) -> TransitionResult:
        seen = evolve(chargeback, status=status)
        occurrence = TransitionInput(trigger, Party.PROCESSOR, reconciliation.now, chargeback=seen)
        return apply_transition(booking, occurrence, reconciliation.policy)

    if booking.chargeback_ref != chargeback.ref:
        withdrawal_key = ledger.chargeback_key(chargeback.ref, "out")
        if booking.chargeback_status is ChargebackStatus.OPEN or not reconciliation.claim_keys(
            withdrawal_key
        ):
            return
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
            yield from _reorder_refused_refunds(booking, reconciliation)
        yield from _settle_refunds_by_bank(booking, chargeback, reconciliation)


def _reconcile_changed_verdict(
    booking: Booking, chargeback: Chargeback, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    """A verdict that was changed (an appeal): the money moved once more, and an operator has to
    see what becomes of it; a payout that is still to come waits for that."""
    if chargeback.status is ChargebackStatus.OPEN:
        return
    won = chargeback.status is ChargebackStatus.WON
    balance_change = booking.chargeback_amount if won else -booking.chargeback_amount
    result = record_fact(booking, chargeback_status=chargeback.status)
    version, ref, now = result.booking.version, chargeback.ref, reconciliation.now
    result = result.with_postings(
        ledger.chargeback_verdict_changed_posting(booking.id, ref, version, balance_change, now)
    )
    if not won:
        result = move_payout(result, PayoutTrigger.APPEAL_LOST)
    text = f"chargeback {ref} of booking {booking.code} was judged anew: {chargeback.status}"
    yield ReconciledFact(evolve(result, alerts=(text,)))


def _reorder_refused_refunds(
    booking: Booking, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    """Refunds that were refused while the card issuer decided can be made now."""
    own = booking.intent and booking.intent.payment_ref
    refused = [
        operation
        for operation in failed_refunds(list(reconciliation.operations.values()))
        if isinstance(operation.command, RefundPayment)
        and operation.status is OperationStatus.REFUSED
        and operation.command.payment_ref == own
        # Each is ordered anew once, also where two verdicts are read in one look.
        and reconciliation.claim_keys(f"again:{operation.id}")
    ]
    if refused:
        yield ReconciledFact(reorder_refunds(booking, refused))


def _reconcile_extra_payment_chargeback(
    booking: Booking, chargeback: Chargeback, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    """Of a payment that came late, twice or wrong: it says nothing about the booking, whose
    own money is another. Each of its two facts is known by its posting."""
    ref, amount, now = chargeback.ref, chargeback.amount, reconciliation.now
    if reconciliation.claim_keys(ledger.chargeback_key(ref, "out")):
        text = f"payment {chargeback.payment_ref} of booking {booking.code} was charged back"
        result = record_fact(booking).with_postings(
            ledger.chargeback_withdrawn_posting(booking.id, ref, amount, now)
        )
        booking = result.booking
        yield ReconciledFact(evolve(result, alerts=(text,)))
    ends = {ChargebackStatus.WON: "in", ChargebackStatus.LOST: "lost"}
    if (end := ends.get(chargeback.status)) and reconciliation.claim_keys(
        ledger.chargeback_key(ref, end)
    ):
        won = chargeback.status is ChargebackStatus.WON
        book = ledger.chargeback_reinstated_posting if won else ledger.chargeback_lost_posting
        result = record_fact(booking).with_postings(book(booking.id, ref, amount, now))
        booking = result.booking
        _count_losses(result, reconciliation)
        yield ReconciledFact(result)
    yield from _settle_refunds_by_bank(booking, chargeback, reconciliation)


def _settle_refunds_by_bank(
    booking: Booking, chargeback: Chargeback, reconciliation: ReconciliationState
) -> Iterator[ReconciledFact]:
    """A refund that was refused, before the verdict or after, has reached the client all the
    same where the verdict is lost: what was written off for it is no loss, and owed no more."""
    if chargeback.status is not ChargebackStatus.LOST:
        return
    for operation in failed_refunds(list(reconciliation.operations.values())):
        command = operation.command
        if not isinstance(command, RefundPayment) or command.payment_ref != chargeback.payment_ref:
            continue
        if command.amount > reconciliation.losses_by_payment_ref[command.payment_ref]:
            continue
        given = ledger.bank_refund_posting(
            booking.id, operation.id, command.amount, reconciliation.now
        )
        result = record_fact(booking).with_postings(given)
        _count_losses(result, reconciliation)
        booking = result.booking
        void = evolve(operation, status=OperationStatus.VOID)
        reconciliation.operations[operation.id] = void
        yield ReconciledFact(result, void)


def _count_losses(result: TransitionResult, reconciliation: ReconciliationState) -> None:
    for posting in result.postings:
        reconciliation.count_loss(posting)
