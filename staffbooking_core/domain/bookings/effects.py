"""The effects of transitions: one function for each `Effect` of the lifecycle table.

Each takes the result so far and returns it with changes of the booking, ledger postings and orders
to the processor. The escrow is divided in one place, `_distribute_escrow`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attrs import evolve

from staffbooking_core.domain.bookings import cancellation
from staffbooking_core.domain.bookings.booking import (
    Booking,
    PaymentIntent,
    PayoutStatus,
    TransitionInput,
    TransitionResult,
)
from staffbooking_core.domain.bookings.disputes import check_split
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Effect, Party, Trigger
from staffbooking_core.domain.bookings.notes import (
    alert,
    note_alarm,
    note_check_in,
    note_overdue,
    note_reminder,
)
from staffbooking_core.domain.bookings.payment_lifecycle import PaymentTrigger, move_payment
from staffbooking_core.domain.bookings.payout_lifecycle import PayoutTrigger, move_payout
from staffbooking_core.domain.bookings.refunds import RefundReason
from staffbooking_core.domain.bookings.timers import expiry_time
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.ledger import Split
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    CloseCheckout,
    OpenCheckout,
    Payment,
    PayOut,
    RefundPayment,
    ReversePayout,
)
from staffbooking_core.domain.shared.money import split_fee
from staffbooking_core.policy import Policy


def _open_intent(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    result = move_payment(result, PaymentTrigger.INTENT_CREATED)
    return _order_checkout(result, inputs, policy)


def _renew_checkout(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    """Keep the page while it is valid long enough; otherwise close it and open the next one, in
    this order, so that two are never open."""
    intent = _require_intent(result.booking)
    checkout_expires_at = intent.checkout_expires_at
    # A page that is ordered but not opened yet needs the processor's minimum lifetime only.
    minimum_remaining = policy.checkout_renew_before
    if intent.checkout_url is None:
        minimum_remaining = policy.checkout_minimum - policy.checkout_renew_before
    if checkout_expires_at - inputs.now > minimum_remaining:
        return result
    result = result.with_order(CloseCheckout(intent.checkout_n))
    return _order_checkout(result, inputs, policy, intent.extra_payments)


def _order_checkout(
    result: TransitionResult,
    inputs: TransitionInput,
    policy: Policy,
    extra_payments: tuple[str, ...] = (),
) -> TransitionResult:
    command = _build_open_checkout(result.booking, inputs, policy)
    result = result.with_order(command)
    ordered = PaymentIntent(
        result.booking.orders, command.expires_at, extra_payments=extra_payments
    )
    return result.with_changes(intent=ordered)


def _build_open_checkout(booking: Booking, inputs: TransitionInput, policy: Policy) -> OpenCheckout:
    latest = min(inputs.now + policy.checkout_lifetime, expiry_time(booking, policy))
    page = f"{policy.base_url}/bookings/{booking.id}/return"
    return OpenCheckout(
        amount=booking.total_amount,
        currency=booking.currency,
        booking_code=booking.code,
        customer_email=inputs.customer_email,
        description=f"{booking.service_type} by {booking.companion_name}, {booking.event_date}",
        success_url=f"{page}?done",
        cancel_url=f"{page}?cancelled",
        expires_at=max(latest, inputs.now + policy.checkout_minimum),
    )


def _void_intent(result: TransitionResult, _: TransitionInput, __: Policy) -> TransitionResult:
    result = move_payment(result, PaymentTrigger.INTENT_VOIDED)
    return result.with_order(CloseCheckout(_require_intent(result.booking).checkout_n))


def _hold_escrow(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    booking, payment = result.booking, _require_payment(inputs)
    result = move_payment(result, PaymentTrigger.PAYMENT_SUCCEEDED).with_changes(
        escrow=payment.amount,
        intent=evolve(_require_intent(booking), payment_ref=payment.ref),
    )
    return result.with_postings(
        ledger.payment_posting(booking.id, payment.ref, payment.amount, inputs.now)
    )


def _refund_late(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    """Refund a payment that is not awaited any more, whatever the status."""
    booking, payment, intent = (
        result.booking,
        _require_payment(inputs),
        _require_intent(result.booking),
    )
    if booking.status is BookingStatus.CANCELLED and intent.payment_ref is None:
        result = move_payment(result, PaymentTrigger.LATE_PAYMENT)
        result = result.with_changes(refunded_amount=payment.amount)
    extra = (*intent.extra_payments, payment.ref)
    refund = RefundPayment(payment.ref, payment.amount, payment.currency)
    return (
        result.with_changes(intent=evolve(intent, extra_payments=extra))
        .with_postings(
            ledger.payment_posting(booking.id, payment.ref, payment.amount, inputs.now),
            ledger.late_refund_posting(booking.id, payment.ref, payment.amount, inputs.now),
        )
        .with_refund(refund, RefundReason.LATE_PAYMENT, inputs.now)
    )


def _earn(result: TransitionResult, inputs: TransitionInput, policy: Policy) -> TransitionResult:
    return _settle_escrow(result, inputs, policy, refund=0, is_full=False)


def _earn_again(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    """Back from a dispute. An escrow that was never divided stays; a hold on the payout too, or its
    release."""
    before = result.booking
    if before.status is not BookingStatus.COMPLETED:
        return result
    result = _earn(result, inputs, policy)
    result = result.with_changes(payout_hold_lifted=before.payout_hold_lifted)
    if not before.payout_held or result.booking.payout_status is not PayoutStatus.SCHEDULED:
        return result
    return move_payout(result, PayoutTrigger.HELD).with_changes(payout_held=True)


def _refund_by_rule(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    refund = inputs.quoted_refund or cancellation_refund(
        result.booking, inputs.party, inputs.now, policy
    )
    result = result.with_changes(cancel_rule=refund.rule)
    if not result.booking.escrow:
        return result
    return _settle_escrow(result, inputs, policy, refund=refund.amount, is_full=refund.is_full)


def cancellation_refund(
    booking: Booking, party: Party, now: datetime, policy: Policy
) -> cancellation.CancellationRefund:
    """The refund if the party cancels this booking at `now`."""
    if booking.escrow == 0:
        return cancellation.NO_REFUND_UNPAID
    return cancellation.calculate_refund(
        party=party,
        price=booking.price,
        premium=booking.insurance_premium,
        is_insured=booking.cancellation_insurance,
        starts_at=booking.starts_at,
        now=now,
        policy=policy,
    )


def _refund_full(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    return _settle_escrow(result, inputs, policy, refund=result.booking.escrow, is_full=True)


def _refund_part(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    check_split(result.booking, inputs.refund_amount)
    full = inputs.refund_amount == result.booking.escrow
    return _settle_escrow(result, inputs, policy, refund=inputs.refund_amount, is_full=full)


def _settle_escrow(
    result: TransitionResult, inputs: TransitionInput, policy: Policy, *, refund: int, is_full: bool
) -> TransitionResult:
    """Divide the escrow: refund, premium, and of the rest the fee and the payout."""
    booking = result.booking
    premium = 0 if is_full else min(booking.insurance_premium, booking.escrow - refund)
    fee, payout = _split_earned(booking, booking.escrow - refund - premium, policy)
    return _distribute_escrow(result, Split(refund, fee, premium, payout), inputs, policy)


def _split_earned(booking: Booking, earned: int, policy: Policy) -> tuple[int, int]:
    if booking.status is BookingStatus.CANCELLED and not policy.late_cancel_payout:
        return earned, 0
    return split_fee(earned, booking.fee_ppm)


def _distribute_escrow(
    result: TransitionResult, split: Split, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    booking = result.booking
    settlement_number = booking.settlements + 1
    if split.total:
        result = result.with_postings(
            ledger.settlement_posting(booking.id, settlement_number, split, inputs.now)
        )
    result = result.with_changes(
        escrow=0,
        settlements=settlement_number,
        platform_fee=split.fee,
        payout_amount=split.payout,
        refunded_amount=booking.refunded_amount + split.refund,
        payout_due_at=None,
        payout_released_at=None,
        payout_held=False,
        payout_hold_lifted=False,
        payout_alarmed_at=None,
    )
    if split.refund:
        command = RefundPayment(_require_payment_ref(booking), split.refund, booking.currency)
        result = move_payment(result, PaymentTrigger.REFUND_ORDERED).with_refund(
            command, _refund_reason(inputs), inputs.now
        )
    return _schedule_payout(result, inputs, policy)


def _refund_reason(inputs: TransitionInput) -> RefundReason:
    is_resolution = inputs.trigger in (Trigger.RESOLVE_REFUND, Trigger.RESOLVE_SPLIT)
    return RefundReason.DISPUTE if is_resolution else RefundReason.CANCELLATION


def _schedule_payout(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    """Schedule the payout, after netting the debt of an earlier payout of this booking."""
    booking = result.booking
    if not booking.payout_amount:
        was_received = booking.received_by_staff > 0
        trigger = PayoutTrigger.TAKEN_BACK if was_received else PayoutTrigger.NOTHING_EARNED
        return move_payout(result, trigger)
    netted_amount = min(booking.payout_amount, booking.owed_by_staff)
    if netted_amount:
        owed = booking.owed_by_staff - netted_amount
        result = result.with_changes(owed_by_staff=owed).with_postings(
            ledger.debt_netting_posting(booking.id, booking.settlements, netted_amount, inputs.now)
        )
        # The reversal in flight asks for too much. Amounts that are back already are not claimed
        # again.
        if 0 < owed < booking.paid_out and booking.payout_n is not None:
            result = result.with_order(ReversePayout(booking.payout_n, owed, booking.currency))
    if not result.booking.payout_left:
        return move_payout(result, PayoutTrigger.STANDS)
    began = booking.completed_at or inputs.now
    due_at = max(inputs.now, began + policy.payout_delay)
    return move_payout(result, PayoutTrigger.SCHEDULED).with_changes(payout_due_at=due_at)


def _send_payout(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    booking = result.booking
    result = result.with_changes(payout_released_at=inputs.now)
    if not booking.payout_left:  # All of it was withheld for other debts.
        return move_payout(result, PayoutTrigger.NETTED)
    command = PayOut(
        payment_ref=_require_payment_ref(booking),
        companion_id=booking.companion_id,
        amount=booking.payout_left,
        currency=booking.currency,
    )
    result = result.with_order(command)
    result = result.with_changes(payout_n=result.booking.orders)
    return move_payout(result, PayoutTrigger.SENT)


def _hold_payout(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    text = f"the payout of booking {result.booking.code} is on hold: {inputs.reason or 'no reason'}"
    result = move_payout(result, PayoutTrigger.HELD)
    return result.with_changes(payout_held=True, payout_hold_lifted=False).with_alert(text)


def _resume_payout(
    result: TransitionResult, inputs: TransitionInput, _: Policy
) -> TransitionResult:
    due_at = max(inputs.now, result.booking.payout_due_at or inputs.now)
    return move_payout(result, PayoutTrigger.RESUMED).with_changes(
        payout_due_at=due_at,
        payout_released_at=None,
        payout_held=False,
        payout_hold_lifted=True,
        payout_alarmed_at=None,
    )


def _freeze(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    """Undo the division of the escrow, so that it holds all that was not refunded."""
    booking = result.booking
    if booking.escrow:
        return result
    earned = booking.platform_fee + booking.payout_amount
    premium = booking.total_amount - booking.refunded_amount - earned
    split = Split(0, booking.platform_fee, premium, booking.payout_amount)
    if split.total:
        result = result.with_postings(
            ledger.settlement_reversal_posting(booking.id, booking.settlements, split, inputs.now)
        )
    if booking.payout_status is PayoutStatus.FROZEN:
        text = (
            f"booking {booking.code} is disputed: the hold on its payout ends when it is resolved"
        )
        result = result.with_alert(text)
    result = move_payout(result, PayoutTrigger.DISPUTED).with_changes(escrow=split.total)
    return claim_back_payout(result, inputs.now)


def claim_back_payout(result: TransitionResult, now: datetime) -> TransitionResult:
    """Claim back what was paid out and may not be kept: by a reversal at the processor, and as a
    debt of the staff member until it succeeds."""
    booking = result.booking
    rightful_amount = 0 if booking.status is BookingStatus.DISPUTED else booking.payout_amount
    claim = booking.received_by_staff - booking.owed_by_staff - rightful_amount
    if claim <= 0:
        return result
    result = result.with_changes(owed_by_staff=booking.owed_by_staff + claim)
    # An amount withheld for a debt of another booking cannot be reversed: later payouts settle it.
    reversible = min(claim, booking.paid_out - booking.owed_by_staff)
    if reversible > 0 and booking.payout_n is not None:
        result = result.with_order(ReversePayout(booking.payout_n, reversible, booking.currency))
    return result.with_postings(
        ledger.clawback_posting(booking.id, result.booking.revision, claim, now)
    )


def _note_chargeback(
    result: TransitionResult, inputs: TransitionInput, _: Policy
) -> TransitionResult:
    booking, chargeback = result.booking, inputs.chargeback
    assert chargeback is not None
    result = result.with_changes(
        chargeback_ref=chargeback.ref,
        chargeback_status=chargeback.status,
        chargeback_amount=chargeback.amount,
    )
    match chargeback.status:
        case ChargebackStatus.OPEN:
            make_posting = ledger.chargeback_withdrawn_posting
        case ChargebackStatus.WON:
            make_posting = ledger.chargeback_reinstated_posting
        case ChargebackStatus.LOST:
            return result
    return result.with_postings(
        make_posting(booking.id, chargeback.ref, chargeback.amount, inputs.now)
    )


def _lose_chargeback(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    booking = result.booking
    taken = min(booking.chargeback_amount, booking.escrow)
    premium = min(booking.insurance_premium, booking.escrow - taken)
    # The rest was earned: the setting for late cancellations is not about it.
    fee, payout = split_fee(booking.escrow - taken - premium, booking.fee_ppm)
    result = _distribute_escrow(result, Split(0, fee, premium, payout, taken), inputs, policy)
    result = move_payment(result, PaymentTrigger.CHARGEBACK_LOST)
    return _post_chargeback_loss(result, booking.chargeback_amount - taken, inputs)


def _write_off(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    result = move_payment(result, PaymentTrigger.CHARGEBACK_LOST)
    return _post_chargeback_loss(result, result.booking.chargeback_amount, inputs)


def _post_chargeback_loss(
    result: TransitionResult, amount: int, inputs: TransitionInput
) -> TransitionResult:
    if not amount:
        return result
    ref = result.booking.chargeback_ref or ""
    return result.with_postings(
        ledger.chargeback_lost_posting(result.booking.id, ref, amount, inputs.now)
    )


def _grant_credit(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    is_let_down = Party.STAFF in (inputs.party, inputs.disabled_party)
    return evolve(result, grants_credit=is_let_down or inputs.trigger is Trigger.NO_SHOW)


def _require_intent(booking: Booking) -> PaymentIntent:
    assert booking.intent is not None, "an accepted booking has an intent"
    return booking.intent


def _require_payment(inputs: TransitionInput) -> Payment:
    assert inputs.payment is not None, "a payment comes with its facts"
    return inputs.payment


def _require_payment_ref(booking: Booking) -> str:
    ref = _require_intent(booking).payment_ref
    assert ref is not None, "a booking that holds money was paid"
    return ref


EFFECTS: dict[Effect, Callable[[TransitionResult, TransitionInput, Policy], TransitionResult]] = {
    Effect.OPEN_INTENT: _open_intent,
    Effect.RENEW_CHECKOUT: _renew_checkout,
    Effect.VOID_INTENT: _void_intent,
    Effect.HOLD_ESCROW: _hold_escrow,
    Effect.REFUND_LATE: _refund_late,
    Effect.NOTE_CHECK_IN: note_check_in,
    Effect.NOTE_REMINDER: note_reminder,
    Effect.NOTE_OVERDUE: note_overdue,
    Effect.EARN_AGAIN: _earn_again,
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
    Effect.NOTE_ALARM: note_alarm,
    Effect.GRANT_CREDIT: _grant_credit,
    Effect.ALERT: alert,
}
