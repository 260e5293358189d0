"""From what the processor knows to what we know: the only way in for facts about money.

`reconcile` compares a snapshot with the booking and its operations, and returns the
steps that are missing. It is idempotent: a fact that was applied before gives no step.
So a webhook, a duplicate, an event out of order, a poll, the return page and the
recovery after a crash are all the same call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve

from staffbooking_core.domain.bookings.booking import (
    UNPAID,
    Booking,
    Intent,
    Occurrence,
    PaymentStatus,
    PayoutStatus,
    Step,
)
from staffbooking_core.domain.bookings.effects import claim_back
from staffbooking_core.domain.bookings.lifecycle import Party, Status, Trigger
from staffbooking_core.domain.bookings.transitions import advance
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.ledger import MovementKind, Posting
from staffbooking_core.domain.payments.processor import (
    Checkout,
    CheckoutStatus,
    Fee,
    IntentRefs,
    Operation,
    OpKind,
    Payment,
    PayoutState,
    Refund,
    RefundState,
    RefundStatus,
    ReversalState,
    Settlement,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.chargebacks import chargeback_facts
from staffbooking_core.domain.reconciliation.refunds import refunds_owed
from staffbooking_core.domain.reconciliation.state import Found, Known, noted
from staffbooking_core.policy import Policy


def refs_of(booking: Booking, operations: Sequence[Operation]) -> IntentRefs:
    """Where the processor is to look for a booking's intent."""
    intent = booking.intent
    if intent is None:
        return IntentRefs(booking.id)
    paid = () if intent.payment_ref is None else (intent.payment_ref,)
    opened = (
        (one.result_ref, one.id)
        for one in operations
        if one.kind is OpKind.OPEN_CHECKOUT and one.result_ref is not None
    )
    return IntentRefs(booking.id, tuple(opened), (*paid, *intent.extra_payments))


def reconcile(
    booking: Booking,
    operations: Sequence[Operation],
    postings: Collection[Posting],
    snapshot: Snapshot,
    now: datetime,
    policy: Policy,
) -> Iterator[Found]:
    """Every fact of the snapshot that is not yet known, in an order that holds together.

    Each step starts from the booking of the step before it.
    """
    known = Known.made(operations, postings, snapshot, now, policy)
    readers: tuple[tuple[_Reader, Sequence[Any]], ...] = (
        (_checkout, snapshot.checkouts),
        (_payment, snapshot.payments),
        (_refund, snapshot.refunds),
        (_payout, snapshot.payouts),
        (_reversal, snapshot.reversals),
        (chargeback_facts, snapshot.chargebacks),
        (_fee, snapshot.fees),
    )
    for read, states in readers:
        for state in states:
            for found in read(booking, state, known):
                booking = found.step.booking
                yield found


_Reader = Callable[[Booking, Any, Known], Iterator[Found]]


def _checkout(booking: Booking, checkout: Checkout, known: Known) -> Iterator[Found]:
    operation = known.operation(checkout.op_id, OpKind.OPEN_CHECKOUT)
    intent = booking.intent
    if operation is None or intent is None:
        return
    expired = checkout.status is CheckoutStatus.EXPIRED
    lapses = min(checkout.expires_at, known.now) if expired else checkout.expires_at
    if operation.result_ref != checkout.ref:
        step = noted(booking)
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
        yield Found(noted(booking, intent=evolve(intent, checkout_expires_at=lapses)))


def _is_current(booking: Booking, intent: Intent, checkout: Checkout, lapses: datetime) -> bool:
    """Whether the client would still be sent to this page, which is closed already."""
    awaited = booking.status is Status.ACCEPTED and intent.checkout_ref == checkout.ref
    known_until = intent.checkout_expires_at
    return awaited and known_until is not None and known_until > lapses


def _payment(booking: Booking, payment: Payment, known: Known) -> Iterator[Found]:
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
    step = noted(booking, intent=evolve(intent, extra_payments=extra))
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


def _refund(booking: Booking, refund: RefundState, known: Known) -> Iterator[Found]:
    operation = known.operation(refund.op_id, OpKind.REFUND)
    settlement = _SETTLEMENT[refund.status]
    if operation is None:
        yield from _refund_by_hand(booking, refund, known)
        return
    if _COURSE.index(settlement) <= _COURSE.index(operation.settlement):
        return
    step, now = noted(booking), known.now
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


def _after_refunds(booking: Booking, known: Known) -> PaymentStatus:
    """What the refunds of the booking's own payment make of it; an extra payment's say nothing."""
    if booking.payment_status not in _REFUNDING or booking.intent is None:
        return booking.payment_status
    own = booking.intent.payment_ref
    unsettled = (
        operation.command
        for operation in refunds_owed(list(known.operations.values()))
        if isinstance(operation.command, Refund)
    )
    if any(own in (None, command.payment_ref) for command in unsettled):
        return PaymentStatus.REFUND_PENDING
    full = booking.refunded_amount >= booking.total_amount
    return PaymentStatus.REFUNDED if full else PaymentStatus.PARTIALLY_REFUNDED


def _payout(booking: Booking, payout: PayoutState, known: Known) -> Iterator[Found]:
    operation, now = known.operation(payout.op_id, OpKind.PAY_OUT), known.now
    if operation is None:
        yield from _by_hand(booking, MovementKind.PAYOUT, payout.ref, -payout.amount, known)
        return
    if operation.settlement is Settlement.SETTLED:
        return
    # One that was put on hold too late to be stopped is made all the same.
    was_open = booking.payout_status in (*UNPAID, PayoutStatus.FROZEN)
    sent = booking.status is not Status.DISPUTED and was_open
    step = noted(booking, paid_out=booking.paid_out + payout.amount, payout_n=operation.n)
    step = step.posting(ledger.payout_moved(booking.id, operation.id, payout.amount, now))
    if sent:
        step = step.changing(payout_status=PayoutStatus.PAID)
    # A chargeback may have come between the order and its execution.
    step = claim_back(step, now)
    yield Found(step, known.finish(operation, payout.ref, Settlement.SETTLED))


def _reversal(booking: Booking, reversal: ReversalState, known: Known) -> Iterator[Found]:
    operation, now = known.operation(reversal.op_id, OpKind.REVERSE_PAYOUT), known.now
    if operation is None:
        yield from _by_hand(booking, MovementKind.REVERSAL, reversal.ref, reversal.amount, known)
        return
    if operation.settlement is Settlement.SETTLED:
        return
    claimed = min(reversal.amount, booking.owed_by_staff)
    step = noted(
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
            payout_alarmed_at=None,
        )
    elif not ended:
        step = step.changing(payout_status=PayoutStatus.REVERSED)
    yield Found(step, known.finish(operation, reversal.ref, Settlement.SETTLED))


def _by_hand(
    booking: Booking, kind: MovementKind, ref: str, gained: int, known: Known
) -> Iterator[Found]:
    """Money that somebody moved at the processor without us is booked, and told."""
    if known.is_new(ledger.by_hand(kind, ref)):
        text = f"{kind} {ref} of booking {booking.code} was made by hand, of {abs(gained)}"
        posting = ledger.done_by_hand(booking.id, kind, ref, gained, known.now)
        yield Found(evolve(noted(booking).posting(posting), alerts=(text,)))


def _refund_by_hand(booking: Booking, refund: RefundState, known: Known) -> Iterator[Found]:
    moved = ledger.by_hand(MovementKind.REFUND, refund.ref)
    if refund.status is RefundStatus.SETTLED:
        yield from _by_hand(booking, MovementKind.REFUND, refund.ref, -refund.amount, known)
    elif refund.status is RefundStatus.FAILED and moved in known.posted:
        failed = MovementKind.REFUND_FAILED
        yield from _by_hand(booking, failed, refund.ref, refund.amount, known)


def _fee(booking: Booking, fee: Fee, known: Known) -> Iterator[Found]:
    if fee.amount and known.is_new(ledger.fee_key(fee.ref)):
        kept = ledger.fee_kept(booking.id, fee.ref, fee.amount, known.now)
        yield Found(noted(booking).posting(kept))
