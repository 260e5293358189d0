"""From what the processor knows to what we know: the only way in for facts about money.

`reconcile` compares a snapshot with the booking and its operations, and returns the
steps that are missing. It is idempotent: a fact that was applied before gives no step.
So a webhook, a duplicate, an event out of order, a poll, the return page and the
recovery after a crash are all the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from staffbooking_core.domain import ledger
from staffbooking_core.domain.bookings import (
    Booking,
    Intent,
    Occurrence,
    PaymentStatus,
    PayoutStatus,
    Step,
)
from staffbooking_core.domain.effects import claim_back
from staffbooking_core.domain.lifecycle import Party, Status, Trigger
from staffbooking_core.domain.moves import advance
from staffbooking_core.domain.payments import (
    Chargeback,
    ChargebackStatus,
    Checkout,
    CheckoutStatus,
    Operation,
    OpKind,
    OpStatus,
    Payment,
    PayoutState,
    Refund,
    RefundState,
    RefundStatus,
    ReversalState,
    Settlement,
    Snapshot,
)
from staffbooking_core.policy import Policy


@frozen
class Found:
    """One fact that was new: the step it makes, and the operation it finishes, if any."""

    step: Step
    operation: Operation | None = None


@frozen
class _Known:
    """What a fact is compared with."""

    operations: dict[int, Operation]
    now: datetime
    policy: Policy

    def operation(self, op_id: int | None, kind: OpKind) -> Operation | None:
        found = None if op_id is None else self.operations.get(op_id)
        return found if found is not None and found.kind is kind else None

    def finish(self, operation: Operation, ref: str, settlement: Settlement) -> Operation:
        """The operation as it is now that the processor has done it."""
        done = evolve(
            operation,
            status=OpStatus.DONE,
            result_ref=ref,
            settlement=settlement,
            last_error=None,
        )
        self.operations[done.id] = done
        return done


def reconcile(
    booking: Booking,
    operations: Sequence[Operation],
    snapshot: Snapshot,
    now: datetime,
    policy: Policy,
) -> Iterator[Found]:
    """Every fact of the snapshot that is not yet known, in an order that holds together.

    Each step starts from the booking of the step before it.
    """
    known = _Known({operation.id: operation for operation in operations}, now, policy)
    readers: tuple[tuple[_Reader, Sequence[Any]], ...] = (
        (_checkout, snapshot.checkouts),
        (_payment, snapshot.payments),
        (_refund, snapshot.refunds),
        (_payout, snapshot.payouts),
        (_reversal, snapshot.reversals),
        (_chargeback, _undecided(booking, snapshot.chargebacks)),
    )
    for read, states in readers:
        for state in states:
            for found in read(booking, state, known):
                booking = found.step.booking
                yield found


_Reader = Callable[[Booking, Any, _Known], Iterator[Found]]


def _noted(booking: Booking, **fields: object) -> Step:
    """A fact that changes no status: the next version of the booking with these fields."""
    return Step(booking).changing(version=booking.version + 1, **fields)


def _checkout(booking: Booking, checkout: Checkout, known: _Known) -> Iterator[Found]:
    operation = known.operation(checkout.op_id, OpKind.OPEN_CHECKOUT)
    intent = booking.intent
    if operation is None or intent is None:
        return
    expired = checkout.status is CheckoutStatus.EXPIRED
    lapses = min(checkout.expires_at, known.now) if expired else checkout.expires_at
    if operation.result_ref != checkout.ref:
        step = _noted(booking)
        if intent.checkout_n == operation.n:
            opened = evolve(
                intent,
                checkout_ref=checkout.ref,
                checkout_url=checkout.url,
                checkout_expires_at=lapses,
            )
            step = step.changing(intent=opened)
        yield Found(step, known.finish(operation, checkout.ref, Settlement.SETTLED))
    elif expired and _is_current(booking, intent, checkout, lapses):
        yield Found(_noted(booking, intent=evolve(intent, checkout_expires_at=lapses)))


def _is_current(booking: Booking, intent: Intent, checkout: Checkout, lapses: datetime) -> bool:
    """Whether the client would still be sent to this page, which is closed already."""
    awaited = booking.status is Status.ACCEPTED and intent.checkout_ref == checkout.ref
    known_until = intent.checkout_expires_at
    return awaited and known_until is not None and known_until > lapses


def _payment(booking: Booking, payment: Payment, known: _Known) -> Iterator[Found]:
    intent = booking.intent
    if intent is None or payment.ref in (intent.payment_ref, *intent.extra_payments):
        return
    if (payment.amount, payment.currency) != (booking.total_amount, booking.currency):
        yield Found(_quarantined(booking, intent, payment, known.now))
        return
    occurrence = Occurrence(Trigger.PAYMENT, Party.PROCESSOR, known.now, payment=payment)
    yield Found(advance(booking, occurrence, known.policy))


def _quarantined(booking: Booking, intent: Intent, payment: Payment, now: datetime) -> Step:
    """Money of a wrong amount or currency is never "paid": it is put aside for an operator."""
    extra = (*intent.extra_payments, payment.ref)
    step = _noted(booking, intent=evolve(intent, extra_payments=extra))
    if payment.currency == booking.currency:
        step = step.posting(ledger.put_aside(booking.id, payment.ref, payment.amount, now))
    text = (
        f"payment {payment.ref} of booking {booking.code} is {payment.amount} "
        f"{payment.currency}, not {booking.total_amount} {booking.currency}"
    )
    return evolve(step, alerts=(text,))


_SETTLEMENT = {
    RefundStatus.PENDING: Settlement.PENDING,
    RefundStatus.SETTLED: Settlement.SETTLED,
    RefundStatus.FAILED: Settlement.FAILED,
}

_COURSE = (None, Settlement.PENDING, Settlement.SETTLED, Settlement.FAILED)
"""A refund only goes on along this line: what lies behind was seen by an older look."""


def _refund(booking: Booking, refund: RefundState, known: _Known) -> Iterator[Found]:
    operation = known.operation(refund.op_id, OpKind.REFUND)
    settlement = _SETTLEMENT[refund.status]
    if operation is None or _COURSE.index(settlement) <= _COURSE.index(operation.settlement):
        return
    step, now = _noted(booking), known.now
    if settlement is Settlement.SETTLED:
        step = step.posting(ledger.refund_moved(booking.id, operation.id, refund.amount, now))
    elif settlement is Settlement.FAILED:
        if operation.settlement is Settlement.SETTLED:
            failed = ledger.refund_failed(booking.id, operation.id, refund.amount, now)
            step = step.posting(failed)
        text = f"refund {refund.ref} of booking {booking.code} failed: still owed"
        step = evolve(step, alerts=(text,))
    done = known.finish(operation, refund.ref, settlement)
    yield Found(step.changing(payment_status=_after_refunds(booking, known)), done)


_REFUNDING = (
    PaymentStatus.REFUND_PENDING,
    PaymentStatus.PARTIALLY_REFUNDED,
    PaymentStatus.REFUNDED,
)


def _after_refunds(booking: Booking, known: _Known) -> PaymentStatus:
    """What the refunds of the booking's own payment make of it; an extra payment's say nothing."""
    if booking.payment_status not in _REFUNDING or booking.intent is None:
        return booking.payment_status
    own = booking.intent.payment_ref
    unsettled = any(
        operation.settlement is not Settlement.SETTLED
        for operation in known.operations.values()
        if isinstance(operation.command, Refund) and own in (None, operation.command.payment_ref)
    )
    if unsettled:
        return PaymentStatus.REFUND_PENDING
    full = booking.refunded_amount >= booking.total_amount
    return PaymentStatus.REFUNDED if full else PaymentStatus.PARTIALLY_REFUNDED


def _payout(booking: Booking, payout: PayoutState, known: _Known) -> Iterator[Found]:
    operation, now = known.operation(payout.op_id, OpKind.PAY_OUT), known.now
    if operation is None or operation.settlement is Settlement.SETTLED:
        return
    sent = booking.payout_status in (PayoutStatus.SCHEDULED, PayoutStatus.FAILED)
    step = _noted(booking, paid_out=booking.paid_out + payout.amount, payout_n=operation.n)
    step = step.posting(ledger.payout_moved(booking.id, operation.id, payout.amount, now))
    if sent:
        step = step.changing(payout_status=PayoutStatus.PAID)
    # A chargeback may have come between the order and its execution.
    step = claim_back(step, now)
    yield Found(step, known.finish(operation, payout.ref, Settlement.SETTLED))


def _reversal(booking: Booking, reversal: ReversalState, known: _Known) -> Iterator[Found]:
    operation, now = known.operation(reversal.op_id, OpKind.REVERSE_PAYOUT), known.now
    if operation is None or operation.settlement is Settlement.SETTLED:
        return
    claimed = min(reversal.amount, booking.owed_by_staff)
    step = _noted(
        booking,
        paid_out=booking.paid_out - reversal.amount,
        owed_by_staff=booking.owed_by_staff - claimed,
    ).posting(ledger.reversal_moved(booking.id, operation.id, reversal.amount, claimed, now))
    ended = booking.status in (Status.COMPLETED, Status.CANCELLED)
    if ended and step.booking.payout_left > 0:
        # The claim was settled otherwise in the meantime: what came back is owed again.
        step = step.changing(
            payout_status=PayoutStatus.SCHEDULED,
            payout_due_at=now + known.policy.payout_delay,
            payout_released_at=None,
        )
    elif not ended:
        step = step.changing(payout_status=PayoutStatus.REVERSED)
    yield Found(step, known.finish(operation, reversal.ref, Settlement.SETTLED))


_VERDICTS = {
    ChargebackStatus.WON: Trigger.CHARGEBACK_WON,
    ChargebackStatus.LOST: Trigger.CHARGEBACK_LOST,
}


def _undecided(booking: Booking, chargebacks: Sequence[Chargeback]) -> Sequence[Chargeback]:
    """The chargeback that the booking knows of, and later ones: those before it are decided.
    A snapshot that lacks it is older than what is known."""
    if booking.chargeback_ref is None:
        return chargebacks
    refs = [chargeback.ref for chargeback in chargebacks]
    known = booking.chargeback_ref in refs
    return chargebacks[refs.index(booking.chargeback_ref) :] if known else ()


def _chargeback(booking: Booking, chargeback: Chargeback, known: _Known) -> Iterator[Found]:
    """A verdict that is seen before its opening is preceded by it: money moved twice. Of two
    that are open at once, the later waits for the verdict of the earlier."""

    def move(trigger: Trigger, status: ChargebackStatus) -> Step:
        seen = evolve(chargeback, status=status)
        occurrence = Occurrence(trigger, Party.PROCESSOR, known.now, chargeback=seen)
        return advance(booking, occurrence, known.policy)

    if booking.chargeback_ref != chargeback.ref:
        if booking.chargeback_status is ChargebackStatus.OPEN:
            return
        step = move(Trigger.CHARGEBACK, ChargebackStatus.OPEN)
        booking = step.booking
        yield Found(step)
    if booking.chargeback_status is ChargebackStatus.OPEN and chargeback.status in _VERDICTS:
        yield Found(move(_VERDICTS[chargeback.status], chargeback.status))
