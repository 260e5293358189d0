"""What the states of chargebacks tell of a booking: the bank's way to take a payment back."""

from __future__ import annotations

from collections.abc import Iterator

from attrs import evolve

from staffbooking_core.domain.bookings.booking import (
    UNPAID,
    Booking,
    Occurrence,
    PayoutStatus,
    Step,
)
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.bookings.transitions import advance
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    OpStatus,
    Refund,
)
from staffbooking_core.domain.reconciliation.refunds import failed_refunds, order_anew
from staffbooking_core.domain.reconciliation.state import Found, Known, noted

_VERDICTS = {
    ChargebackStatus.WON: Trigger.CHARGEBACK_WON,
    ChargebackStatus.LOST: Trigger.CHARGEBACK_LOST,
}


def chargeback_facts(booking: Booking, chargeback: Chargeback, known: Known) -> Iterator[Found]:
    intent = booking.intent
    if intent is None or not chargeback.amount:
        return
    if chargeback.payment_ref == intent.payment_ref:
        yield from _own_chargeback(booking, chargeback, known)
    else:
        yield from _extra_chargeback(booking, chargeback, known)


def _own_chargeback(booking: Booking, chargeback: Chargeback, known: Known) -> Iterator[Found]:
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
        _write_off(step, known)
        yield Found(step)
        if chargeback.status is ChargebackStatus.WON:
            yield from _refund_after_all(booking, known)
        yield from _given_by_bank(booking, chargeback, known)


def _judged_anew(booking: Booking, chargeback: Chargeback, known: Known) -> Iterator[Found]:
    """A verdict that was changed (an appeal): the money moved once more, and an operator has to
    see what becomes of it; a payout that is still to come waits for that."""
    if chargeback.status is ChargebackStatus.OPEN:
        return
    won = chargeback.status is ChargebackStatus.WON
    gained = booking.chargeback_amount if won else -booking.chargeback_amount
    step = noted(booking, chargeback_status=chargeback.status)
    version, ref, now = step.booking.version, chargeback.ref, known.now
    step = step.posting(ledger.judged_anew(booking.id, ref, version, gained, now))
    if booking.payout_status in UNPAID and not won:
        step = step.changing(payout_status=PayoutStatus.FROZEN)
    text = f"chargeback {ref} of booking {booking.code} was judged anew: {chargeback.status}"
    yield Found(evolve(step, alerts=(text,)))


def _refund_after_all(booking: Booking, known: Known) -> Iterator[Found]:
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


def _extra_chargeback(booking: Booking, chargeback: Chargeback, known: Known) -> Iterator[Found]:
    """Of a payment that came late, twice or wrong: it says nothing about the booking, whose
    own money is another. Each of its two facts is known by its posting."""
    ref, amount, now = chargeback.ref, chargeback.amount, known.now
    if known.is_new(ledger.chargeback_key(ref, "out")):
        text = f"payment {chargeback.payment_ref} of booking {booking.code} was charged back"
        step = noted(booking).posting(ledger.chargeback_withdrawn(booking.id, ref, amount, now))
        booking = step.booking
        yield Found(evolve(step, alerts=(text,)))
    ends = {ChargebackStatus.WON: "in", ChargebackStatus.LOST: "lost"}
    if (end := ends.get(chargeback.status)) and known.is_new(ledger.chargeback_key(ref, end)):
        won = chargeback.status is ChargebackStatus.WON
        book = ledger.chargeback_reinstated if won else ledger.chargeback_lost
        step = noted(booking).posting(book(booking.id, ref, amount, now))
        booking = step.booking
        _write_off(step, known)
        yield Found(step)
    yield from _given_by_bank(booking, chargeback, known)


def _given_by_bank(booking: Booking, chargeback: Chargeback, known: Known) -> Iterator[Found]:
    """A refund that was refused, before the verdict or after, has reached the client all the
    same where the verdict is lost: what was written off for it is no loss, and owed no more."""
    if chargeback.status is not ChargebackStatus.LOST:
        return
    for operation in failed_refunds(list(known.operations.values())):
        command = operation.command
        if not isinstance(command, Refund) or command.payment_ref != chargeback.payment_ref:
            continue
        if command.amount > known.losses[command.payment_ref]:
            continue
        given = ledger.refund_given_by_bank(booking.id, operation.id, command.amount, known.now)
        step = noted(booking).posting(given)
        _write_off(step, known)
        booking = step.booking
        void = evolve(operation, status=OpStatus.VOID)
        known.operations[operation.id] = void
        yield Found(step, void)


def _write_off(step: Step, known: Known) -> None:
    for posting in step.postings:
        known.write_off(posting)
