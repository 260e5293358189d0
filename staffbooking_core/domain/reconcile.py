"""From what the processor knows to what we know: the only way in for facts about money.

`reconcile` compares a snapshot with the booking and its operations, and returns the
steps that are missing. It is idempotent: a fact that was applied before gives no step.
So a webhook, a duplicate, an event out of order, a poll, the return page and the
recovery after a crash are all the same call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from staffbooking_core.domain import ledger
from staffbooking_core.domain.bookings import (
    UNPAID,
    Booking,
    Intent,
    Occurrence,
    PaymentStatus,
    PayoutStatus,
    Step,
)
from staffbooking_core.domain.effects import claim_back
from staffbooking_core.domain.ledger import Account, Posting
from staffbooking_core.domain.lifecycle import Party, Status, Trigger
from staffbooking_core.domain.moves import advance
from staffbooking_core.domain.owed import failed_refunds, order_anew, refunds_owed
from staffbooking_core.domain.payments import (
    Chargeback,
    ChargebackStatus,
    Checkout,
    CheckoutStatus,
    Fee,
    IntentRefs,
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
from staffbooking_core.domain.statement import MovementKind
from staffbooking_core.policy import Policy


@frozen
class Found:
    """One fact that was new: the step it makes, and the operation it finishes, if any."""

    step: Step
    operation: Operation | None = None


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


@frozen
class _Known:
    """What a fact is compared with."""

    operations: dict[int, Operation]
    posted: set[str]
    """The keys of the booking's postings: how facts are known that belong to no operation."""
    sums: Counter[Account]
    """The balances of the booking's accounts, as far as verdicts change them."""
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

    def is_new(self, *keys: str) -> bool:
        """Whether none of these postings was made; from now on they all were."""
        known = not self.posted.isdisjoint(keys)
        self.posted.update(keys)
        return not known


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
    by_id = {operation.id: operation for operation in operations}
    posted = {posting.key for posting in postings}
    known = _Known(by_id, posted, ledger.balances(postings), now, policy)
    readers: tuple[tuple[_Reader, Sequence[Any]], ...] = (
        (_checkout, snapshot.checkouts),
        (_payment, snapshot.payments),
        (_refund, snapshot.refunds),
        (_payout, snapshot.payouts),
        (_reversal, snapshot.reversals),
        (_chargeback, snapshot.chargebacks),
        (_fee, snapshot.fees),
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
    if operation is None:
        yield from _refund_by_hand(booking, refund, known)
        return
    if _COURSE.index(settlement) <= _COURSE.index(operation.settlement):
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
    unsettled = (
        operation.command
        for operation in refunds_owed(list(known.operations.values()))
        if isinstance(operation.command, Refund)
    )
    if any(own in (None, command.payment_ref) for command in unsettled):
        return PaymentStatus.REFUND_PENDING
    full = booking.refunded_amount >= booking.total_amount
    return PaymentStatus.REFUNDED if full else PaymentStatus.PARTIALLY_REFUNDED


def _payout(booking: Booking, payout: PayoutState, known: _Known) -> Iterator[Found]:
    operation, now = known.operation(payout.op_id, OpKind.PAY_OUT), known.now
    if operation is None:
        yield from _by_hand(booking, MovementKind.PAYOUT, payout.ref, -payout.amount, known)
        return
    if operation.settlement is Settlement.SETTLED:
        return
    # One that was put on hold too late to be stopped is made all the same.
    was_open = booking.payout_status in (*UNPAID, PayoutStatus.FROZEN)
    sent = booking.status is not Status.DISPUTED and was_open
    step = _noted(booking, paid_out=booking.paid_out + payout.amount, payout_n=operation.n)
    step = step.posting(ledger.payout_moved(booking.id, operation.id, payout.amount, now))
    if sent:
        step = step.changing(payout_status=PayoutStatus.PAID)
    # A chargeback may have come between the order and its execution.
    step = claim_back(step, now)
    yield Found(step, known.finish(operation, payout.ref, Settlement.SETTLED))


def _reversal(booking: Booking, reversal: ReversalState, known: _Known) -> Iterator[Found]:
    operation, now = known.operation(reversal.op_id, OpKind.REVERSE_PAYOUT), known.now
    if operation is None:
        yield from _by_hand(booking, MovementKind.REVERSAL, reversal.ref, reversal.amount, known)
        return
    if operation.settlement is Settlement.SETTLED:
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
            payout_alarmed_at=None,
        )
    elif not ended:
        step = step.changing(payout_status=PayoutStatus.REVERSED)
    yield Found(step, known.finish(operation, reversal.ref, Settlement.SETTLED))


def _by_hand(
    booking: Booking, kind: MovementKind, ref: str, gained: int, known: _Known
) -> Iterator[Found]:
    """Money that somebody moved at the processor without us is booked, and told."""
    if known.is_new(ledger.by_hand(kind, ref)):
        text = f"{kind} {ref} of booking {booking.code} was made by hand, of {abs(gained)}"
        posting = ledger.done_by_hand(booking.id, kind, ref, gained, known.now)
        yield Found(evolve(_noted(booking).posting(posting), alerts=(text,)))


def _refund_by_hand(booking: Booking, refund: RefundState, known: _Known) -> Iterator[Found]:
    moved = ledger.by_hand(MovementKind.REFUND, refund.ref)
    if refund.status is RefundStatus.SETTLED:
        yield from _by_hand(booking, MovementKind.REFUND, refund.ref, -refund.amount, known)
    elif refund.status is RefundStatus.FAILED and moved in known.posted:
        failed = MovementKind.REFUND_FAILED
        yield from _by_hand(booking, failed, refund.ref, refund.amount, known)


def _fee(booking: Booking, fee: Fee, known: _Known) -> Iterator[Found]:
    if fee.amount and known.is_new(ledger.fee_key(fee.ref)):
        kept = ledger.fee_kept(booking.id, fee.ref, fee.amount, known.now)
        yield Found(_noted(booking).posting(kept))


# Chargebacks ----------------------------------------------------------------------------

_VERDICTS = {
    ChargebackStatus.WON: Trigger.CHARGEBACK_WON,
    ChargebackStatus.LOST: Trigger.CHARGEBACK_LOST,
}


def _chargeback(booking: Booking, chargeback: Chargeback, known: _Known) -> Iterator[Found]:
    intent = booking.intent
    if intent is None or not chargeback.amount:
        return
    if chargeback.payment_ref == intent.payment_ref:
        yield from _own_chargeback(booking, chargeback, known)
    else:
        yield from _extra_chargeback(booking, chargeback, known)


def _own_chargeback(booking: Booking, chargeback: Chargeback, known: _Known) -> Iterator[Found]:
    """A verdict that is seen before its opening is preceded by it: money moved twice. Of two
    that are open at once, the later waits for the verdict of the earlier."""

    def move(trigger: Trigger, status: ChargebackStatus) -> Step:
        seen = evolve(chargeback, status=status)
        occurrence = Occurrence(trigger, Party.PROCESSOR, known.now, chargeback=seen)
        return advance(booking, occurrence, known.policy)

    if booking.chargeback_ref != chargeback.ref:
        opened = ledger.chargeback_key(chargeback.ref, "out")
        if booking.chargeback_status is ChargebackStatus.OPEN or not known.is_new(opened):
            return
        step = move(Trigger.CHARGEBACK, ChargebackStatus.OPEN)
        booking = step.booking
        yield Found(step)
    elif booking.chargeback_status in _VERDICTS:
        if chargeback.status is booking.chargeback_status:
            yield from _given_by_bank(booking, chargeback, known)
        else:
            yield from _judged_anew(booking, chargeback, known)
        return
    if booking.chargeback_status is ChargebackStatus.OPEN and chargeback.status in _VERDICTS:
        step = move(_VERDICTS[chargeback.status], chargeback.status)
        booking = step.booking
        known.sums.update(ledger.balances(step.postings))
        yield Found(step)
        if chargeback.status is ChargebackStatus.WON:
            yield from _refund_after_all(booking, known)
        yield from _given_by_bank(booking, chargeback, known)


def _judged_anew(booking: Booking, chargeback: Chargeback, known: _Known) -> Iterator[Found]:
    """A verdict that was changed (an appeal): the money moved once more, and an operator has to
    see what becomes of it; a payout that is still to come waits for that."""
    if chargeback.status is ChargebackStatus.OPEN:
        return
    won = chargeback.status is ChargebackStatus.WON
    gained = booking.chargeback_amount if won else -booking.chargeback_amount
    step = _noted(booking, chargeback_status=chargeback.status)
    version, ref, now = step.booking.version, chargeback.ref, known.now
    step = step.posting(ledger.judged_anew(booking.id, ref, version, gained, now))
    if booking.payout_status in UNPAID and not won:
        step = step.changing(payout_status=PayoutStatus.FROZEN)
    text = f"chargeback {ref} of booking {booking.code} was judged anew: {chargeback.status}"
    yield Found(evolve(step, alerts=(text,)))


def _refund_after_all(booking: Booking, known: _Known) -> Iterator[Found]:
    """Refunds that were refused while the card issuer decided can be made now."""
    own = booking.intent and booking.intent.payment_ref
    refused = [
        operation
        for operation in failed_refunds(list(known.operations.values()))
        if isinstance(operation.command, Refund)
        and operation.status is OpStatus.REFUSED
        and operation.command.payment_ref == own
        # Each is ordered anew once, also where two verdicts are read in one look.
        and known.is_new(f"again:{operation.id}")
    ]
    if refused:
        yield Found(order_anew(booking, refused))


def _extra_chargeback(booking: Booking, chargeback: Chargeback, known: _Known) -> Iterator[Found]:
    """Of a payment that came late, twice or wrong: it says nothing about the booking, whose
    own money is another. Each of its two facts is known by its posting."""
    ref, amount, now = chargeback.ref, chargeback.amount, known.now
    if known.is_new(ledger.chargeback_key(ref, "out")):
        text = f"payment {chargeback.payment_ref} of booking {booking.code} was charged back"
        step = _noted(booking).posting(ledger.chargeback_withdrawn(booking.id, ref, amount, now))
        booking = step.booking
        yield Found(evolve(step, alerts=(text,)))
    ends = {ChargebackStatus.WON: "in", ChargebackStatus.LOST: "lost"}
    if (end := ends.get(chargeback.status)) and known.is_new(ledger.chargeback_key(ref, end)):
        won = chargeback.status is ChargebackStatus.WON
        book = ledger.chargeback_reinstated if won else ledger.chargeback_lost
        step = _noted(booking).posting(book(booking.id, ref, amount, now))
        booking = step.booking
        known.sums.update(ledger.balances(step.postings))
        yield Found(step)
    yield from _given_by_bank(booking, chargeback, known)


def _given_by_bank(booking: Booking, chargeback: Chargeback, known: _Known) -> Iterator[Found]:
    """A refund that was refused, before the verdict or after, has reached the client all the
    same where the verdict is lost: what was written off for it is no loss, and owed no more."""
    if chargeback.status is not ChargebackStatus.LOST:
        return
    for operation in failed_refunds(list(known.operations.values())):
        command = operation.command
        if not isinstance(command, Refund) or command.payment_ref != chargeback.payment_ref:
            continue
        if command.amount > known.sums[Account.CHARGEBACK_LOSSES]:
            continue
        known.sums[Account.CHARGEBACK_LOSSES] -= command.amount
        given = ledger.refund_given_by_bank(booking.id, operation.id, command.amount, known.now)
        step = _noted(booking).posting(given)
        booking = step.booking
        void = evolve(operation, status=OpStatus.VOID)
        known.operations[operation.id] = void
        yield Found(step, void)
