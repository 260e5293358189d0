"""What a move brings about: one function for each `Effect` of the lifecycle table.

Each takes the step so far and returns it with more: fields of the booking, postings of
the ledger, orders to the processor. Money is shared out in one place, `_share_out`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attrs import evolve

from staffbooking_core.domain.bookings import cancellation
from staffbooking_core.domain.bookings.booking import (
    Booking,
    Intent,
    Occurrence,
    PaymentStatus,
    PayoutStatus,
    Step,
    payment_ends,
    payout_deadline,
)
from staffbooking_core.domain.bookings.lifecycle import Effect, Party, Status
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.ledger import Split
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    CloseCheckout,
    OpenCheckout,
    Payment,
    PayOut,
    Refund,
    ReversePayout,
)
from staffbooking_core.domain.shared.money import split_fee
from staffbooking_core.errors import RuleBroken
from staffbooking_core.policy import Policy


def _open_intent(step: Step, what: Occurrence, policy: Policy) -> Step:
    step = step.changing(payment_status=PaymentStatus.REQUIRES_PAYMENT)
    return _order_checkout(step, what, policy)


def _renew_checkout(step: Step, what: Occurrence, policy: Policy) -> Step:
    """The page is kept while it lives long enough; else it is closed and a next one opened,
    in this order, so that never two are open."""
    intent = _intent(step.booking)
    lapses = intent.checkout_expires_at
    # One that was ordered but not opened yet needs the least time that processors ask for.
    needs = policy.checkout_renew_before
    if intent.checkout_url is None:
        needs = policy.checkout_minimum - policy.checkout_renew_before
    if lapses - what.now > needs:
        return step
    step = step.ordering(CloseCheckout(intent.checkout_n))
    return _order_checkout(step, what, policy, intent.extra_payments)


def _order_checkout(
    step: Step, what: Occurrence, policy: Policy, extra_payments: tuple[str, ...] = ()
) -> Step:
    command = _checkout(step.booking, what, policy)
    step = step.ordering(command)
    ordered = Intent(step.booking.orders, command.expires_at, extra_payments=extra_payments)
    return step.changing(intent=ordered)


def _checkout(booking: Booking, what: Occurrence, policy: Policy) -> OpenCheckout:
    latest = min(what.now + policy.checkout_lifetime, payment_ends(booking, policy))
    page = f"{policy.base_url}/bookings/{booking.id}/return"
    return OpenCheckout(
        amount=booking.total_amount,
        currency=booking.currency,
        booking_code=booking.code,
        customer_email=what.customer_email,
        description=f"{booking.service_type} by {booking.companion_name}, {booking.event_date}",
        success_url=f"{page}?done",
        cancel_url=f"{page}?cancelled",
        expires_at=max(latest, what.now + policy.checkout_minimum),
    )


def _void_intent(step: Step, _: Occurrence, __: Policy) -> Step:
    step = step.changing(payment_status=PaymentStatus.VOID)
    return step.ordering(CloseCheckout(_intent(step.booking).checkout_n))


def _hold_escrow(step: Step, what: Occurrence, _: Policy) -> Step:
    booking, payment = step.booking, _payment(what)
    step = step.changing(
        escrow=payment.amount,
        payment_status=PaymentStatus.SUCCEEDED,
        intent=evolve(_intent(booking), payment_ref=payment.ref),
    )
    return step.posting(ledger.paid(booking.id, payment.ref, payment.amount, what.now))


def _refund_late(step: Step, what: Occurrence, _: Policy) -> Step:
    """Money that nobody waits for any more goes straight back, whatever the status."""
    booking, payment, intent = step.booking, _payment(what), _intent(step.booking)
    if booking.status is Status.CANCELLED and intent.payment_ref is None:
        step = step.changing(
            payment_status=PaymentStatus.REFUND_PENDING, refunded_amount=payment.amount
        )
    extra = (*intent.extra_payments, payment.ref)
    refund = Refund(payment.ref, payment.amount, payment.currency)
    return (
        step.changing(intent=evolve(intent, extra_payments=extra))
        .posting(
            ledger.paid(booking.id, payment.ref, payment.amount, what.now),
            ledger.refund_late(booking.id, payment.ref, payment.amount, what.now),
        )
        .ordering(refund)
    )


def _note_check_in(step: Step, what: Occurrence, _: Policy) -> Step:
    first = step.booking.checked_in_at
    return step.changing(checked_in_at=first or what.now)


def _earn(step: Step, what: Occurrence, policy: Policy) -> Step:
    return _settle(step, what, policy, refund=0, full=False)


def _refund_by_rule(step: Step, what: Occurrence, policy: Policy) -> Step:
    refund = what.quoted or cancellation_refund(step.booking, what.by, what.now, policy)
    return _settle(step, what, policy, refund=refund.amount, full=refund.is_full)


def cancellation_refund(
    booking: Booking, by: Party, now: datetime, policy: Policy
) -> cancellation.Refund:
    """What cancelling this booking at `now` gives back."""
    if booking.escrow == 0:
        return cancellation.NOTHING_PAID
    return cancellation.refund_for(
        by=by,
        price=booking.price,
        premium=booking.insurance_premium,
        starts_at=booking.starts_at,
        now=now,
        policy=policy,
    )


def _refund_full(step: Step, what: Occurrence, policy: Policy) -> Step:
    return _settle(step, what, policy, refund=step.booking.escrow, full=True)


def _refund_part(step: Step, what: Occurrence, policy: Policy) -> Step:
    """Between the price and the total there is no split: the premium is whole or not at all."""
    held, premium = step.booking.escrow, step.booking.insurance_premium
    full = what.amount == held
    if what.amount <= 0 or (not full and what.amount > held - premium):
        raise RuleBroken("split_out_of_range", "A split is up to the price held, or all of it")
    return _settle(step, what, policy, refund=what.amount, full=full)


def _settle(step: Step, what: Occurrence, policy: Policy, *, refund: int, full: bool) -> Step:
    """Share the escrow out: refund, premium, and of the rest the fee and the payout."""
    booking = step.booking
    premium = 0 if full else min(booking.insurance_premium, booking.escrow - refund)
    fee, payout = _split_kept(booking, booking.escrow - refund - premium, policy)
    return _share_out(step, Split(refund, fee, premium, payout), what, policy)


def _split_kept(booking: Booking, kept: int, policy: Policy) -> tuple[int, int]:
    if booking.status is Status.CANCELLED and not policy.late_cancel_payout:
        return kept, 0
    return split_fee(kept, booking.fee_ppm)


def _share_out(step: Step, split: Split, what: Occurrence, policy: Policy) -> Step:
    booking = step.booking
    k = booking.settlements + 1
    was_sent = booking.paid_out or booking.payout_status is PayoutStatus.REVERSED
    if split.total:
        step = step.posting(ledger.settled(booking.id, k, split, what.now))
    step = step.changing(
        escrow=0,
        settlements=k,
        platform_fee=split.fee,
        payout_amount=split.payout,
        refunded_amount=booking.refunded_amount + split.refund,
        payout_status=PayoutStatus.REVERSED if was_sent else PayoutStatus.NONE,
        payout_due_at=None,
        payout_released_at=None,
        payout_alarmed_at=None,
    )
    if split.refund:
        command = Refund(_payment_ref(booking), split.refund, booking.currency)
        step = step.changing(payment_status=PaymentStatus.REFUND_PENDING)
        step = step.ordering(command)
    return _schedule_payout(step, what, policy)


def _schedule_payout(step: Step, what: Occurrence, policy: Policy) -> Step:
    """What the staff member still owes of an earlier payout is netted first."""
    booking = step.booking
    net = min(booking.payout_amount, booking.owed_by_staff)
    if net:
        owed = booking.owed_by_staff - net
        step = step.changing(owed_by_staff=owed).posting(
            ledger.netted(booking.id, booking.settlements, net, what.now)
        )
        # The reversal on its way asks for too much. What is back already is not asked for again.
        if 0 < owed < booking.paid_out and booking.payout_n is not None:
            step = step.ordering(ReversePayout(booking.payout_n, owed, booking.currency))
    if not booking.payout_amount:
        return step
    if not step.booking.payout_left:
        return step.changing(payout_status=PayoutStatus.PAID)
    began = booking.completed_at or what.now
    due_at = max(what.now, began + policy.payout_delay)
    return step.changing(payout_status=PayoutStatus.SCHEDULED, payout_due_at=due_at)


def _send_payout(step: Step, what: Occurrence, _: Policy) -> Step:
    booking = step.booking
    step = step.changing(payout_released_at=what.now)
    if not booking.payout_left:  # All of it was kept for debts of other bookings.
        return step.changing(payout_status=PayoutStatus.PAID)
    command = PayOut(
        payment_ref=_payment_ref(booking),
        companion_id=booking.companion_id,
        amount=booking.payout_left,
        currency=booking.currency,
    )
    step = step.ordering(command)
    return step.changing(payout_n=step.booking.orders, payout_status=PayoutStatus.SCHEDULED)


def _hold_payout(step: Step, what: Occurrence, _: Policy) -> Step:
    text = f"the payout of booking {step.booking.code} is on hold: {what.reason or 'no reason'}"
    step = step.changing(payout_status=PayoutStatus.FROZEN)
    return evolve(step, alerts=(*step.alerts, text))


def _resume_payout(step: Step, what: Occurrence, _: Policy) -> Step:
    due_at = max(what.now, step.booking.payout_due_at or what.now)
    return step.changing(
        payout_status=PayoutStatus.SCHEDULED,
        payout_due_at=due_at,
        payout_released_at=None,
        payout_alarmed_at=None,
    )


def _note_alarm(step: Step, what: Occurrence, policy: Policy) -> Step:
    booking = step.booking
    deadline = payout_deadline(booking.payout_due_at or what.now, policy)
    text = f"the payout of booking {booking.code} is not made yet: it is promised by {deadline}"
    step = step.changing(payout_alarmed_at=what.now)
    return evolve(step, alerts=(*step.alerts, text))


def _freeze(step: Step, what: Occurrence, _: Policy) -> Step:
    """Take the sharing out back, so that the escrow holds all that was not refunded."""
    booking = step.booking
    if booking.escrow:
        return step
    earned = booking.platform_fee + booking.payout_amount
    premium = booking.total_amount - booking.refunded_amount - earned
    split = Split(0, booking.platform_fee, premium, booking.payout_amount)
    if split.total:
        step = step.posting(ledger.reopened(booking.id, booking.settlements, split, what.now))
    if booking.payout_status is PayoutStatus.FROZEN:
        text = f"booking {booking.code} is disputed: the hold on its payout ends with the dispute"
        step = evolve(step, alerts=(*step.alerts, text))
    status = PayoutStatus.FROZEN if booking.payout_amount else PayoutStatus.NONE
    return claim_back(step.changing(escrow=split.total, payout_status=status), what.now)


def claim_back(step: Step, now: datetime) -> Step:
    """Claim what was paid out and is not theirs to keep: by a reversal at the processor,
    and as a debt of the staff member until that has succeeded."""
    booking = step.booking
    theirs = 0 if booking.status is Status.DISPUTED else booking.payout_amount
    claim = booking.received_by_staff - booking.owed_by_staff - theirs
    if claim <= 0:
        return step
    step = step.changing(owed_by_staff=booking.owed_by_staff + claim)
    # What was kept for a debt of another booking can't be reversed: later payouts make it good.
    reversible = min(claim, booking.paid_out - booking.owed_by_staff)
    if reversible > 0 and booking.payout_n is not None:
        step = step.ordering(ReversePayout(booking.payout_n, reversible, booking.currency))
    return step.posting(ledger.clawed_back(booking.id, step.booking.version, claim, now))


def _note_chargeback(step: Step, what: Occurrence, _: Policy) -> Step:
    booking, chargeback = step.booking, what.chargeback
    assert chargeback is not None
    step = step.changing(
        chargeback_ref=chargeback.ref,
        chargeback_status=chargeback.status,
        chargeback_amount=chargeback.amount,
    )
    match chargeback.status:
        case ChargebackStatus.OPEN:
            move = ledger.chargeback_withdrawn
        case ChargebackStatus.WON:
            move = ledger.chargeback_reinstated
        case ChargebackStatus.LOST:
            return step
    return step.posting(move(booking.id, chargeback.ref, chargeback.amount, what.now))


def _lose_chargeback(step: Step, what: Occurrence, policy: Policy) -> Step:
    booking = step.booking
    taken = min(booking.chargeback_amount, booking.escrow)
    premium = min(booking.insurance_premium, booking.escrow - taken)
    fee, payout = _split_kept(booking, booking.escrow - taken - premium, policy)
    step = _share_out(step, Split(0, fee, premium, payout, taken), what, policy)
    step = step.changing(payment_status=PaymentStatus.CHARGED_BACK)
    return _lose(step, booking.chargeback_amount - taken, what)


def _write_off(step: Step, what: Occurrence, _: Policy) -> Step:
    step = step.changing(payment_status=PaymentStatus.CHARGED_BACK)
    return _lose(step, step.booking.chargeback_amount, what)


def _lose(step: Step, amount: int, what: Occurrence) -> Step:
    if not amount:
        return step
    ref = step.booking.chargeback_ref or ""
    return step.posting(ledger.chargeback_lost(step.booking.id, ref, amount, what.now))


def _grant_credit(step: Step, what: Occurrence, _: Policy) -> Step:
    return evolve(step, grants_credit=what.by is Party.STAFF)


def _alert(step: Step, what: Occurrence, _: Policy) -> Step:
    text = f"{what.trigger} of booking {step.booking.code} while {step.booking.status}"
    return evolve(step, alerts=(*step.alerts, text))


def _intent(booking: Booking) -> Intent:
    assert booking.intent is not None, "an accepted booking has an intent"
    return booking.intent


def _payment(what: Occurrence) -> Payment:
    assert what.payment is not None, "a payment comes with its facts"
    return what.payment


def _payment_ref(booking: Booking) -> str:
    ref = _intent(booking).payment_ref
    assert ref is not None, "a booking that holds money was paid"
    return ref


EFFECTS: dict[Effect, Callable[[Step, Occurrence, Policy], Step]] = {
    Effect.OPEN_INTENT: _open_intent,
    Effect.RENEW_CHECKOUT: _renew_checkout,
    Effect.VOID_INTENT: _void_intent,
    Effect.HOLD_ESCROW: _hold_escrow,
    Effect.REFUND_LATE: _refund_late,
    Effect.NOTE_CHECK_IN: _note_check_in,
    Effect.EARN: _earn,
    Effect.REFUND_BY_RULE: _refund_by_rule,
    Effect.REFUND_FULL: _refund_full,
    Effect.REFUND_PART: _refund_part,
    Effect.FREEZE: _freeze,
    Effect.NOTE_CHARGEBACK: _note_chargeback,
    Effect.LOSE_CHARGEBACK: _lose_chargeback,
    Effect.WRITE_OFF: _write_off,
    Effect.SEND_PAYOUT: _send_payout,
    Effect.HOLD_PAYOUT: _hold_payout,
    Effect.RESUME_PAYOUT: _resume_payout,
    Effect.NOTE_ALARM: _note_alarm,
    Effect.GRANT_CREDIT: _grant_credit,
    Effect.ALERT: _alert,
}
