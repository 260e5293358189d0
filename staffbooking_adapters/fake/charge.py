"""One payment at the fake processor, with all that happened to it since.

Refunds are limited by what is left of the payment, payouts too (what was taken back may
be paid out again), a reversal by its payout. A payment is charged back at most once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from attrs import evolve, frozen

from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import (
    Chargeback,
    ChargebackStatus,
    Payment,
    PayoutState,
    ProcessorFee,
    ProcessorRefused,
    RefundState,
    RefundStatus,
    RefusalCode,
    ReversalState,
)
from staffbooking_core.domain.reconciliation.statement import CashTotals
from staffbooking_core.errors import RuleBroken

DELAYED_EFFECT_PERIOD: Final = timedelta(minutes=1)
"""Business time until what is to happen later by itself: a refund's end, the chargeback of
a card that pays first."""


@frozen
class PendingRefund:
    """A refund whose last word is not spoken: when it ends, and how."""

    ref: str
    at: datetime
    ends: RefundStatus


@frozen
class Charge:
    payment: Payment
    fee: int = 0
    """What the processor keeps of the payment, and once more if it is charged back."""
    refunds: tuple[RefundState, ...] = ()
    pending: tuple[PendingRefund, ...] = ()
    payouts: tuple[PayoutState, ...] = ()
    reversals: tuple[ReversalState, ...] = ()
    chargeback: Chargeback | None = None
    chargeback_at: datetime | None = None

    @property
    def refundable_amount(self) -> int:
        """What a refund or a chargeback can still take; a failed refund gave its part back."""
        return self.payment.amount - sum(
            refund.amount for refund in self.refunds if refund.status is not RefundStatus.FAILED
        )

    @property
    def payable_amount(self) -> int:
        """What payouts have not taken, or gave back."""
        return self.payment.amount - sum(made.amount - made.reversed for made in self.payouts)

    @property
    def fees(self) -> tuple[ProcessorFee, ...]:
        if not self.fee:
            return ()
        of_payment = ProcessorFee(f"ffee_{_ref_suffix(self)}", self.fee)
        if self.chargeback is None:
            return (of_payment,)
        return of_payment, ProcessorFee(f"fcbfee_{_ref_suffix(self)}", self.fee)

    @property
    def balance_movements(self) -> CashTotals:
        """What it did to the platform's balance, as far as it still stands: a settled refund
        that failed afterwards is as if it had never been."""
        found = {(MovementKind.PAYMENT, self.payment.ref): self.payment.amount}
        for fee in self.fees:
            found[MovementKind.FEE, fee.ref] = -fee.amount
        for refund in self.refunds:
            if refund.status is RefundStatus.SETTLED:
                found[MovementKind.REFUND, refund.ref] = -refund.amount
        for payout in self.payouts:
            found[MovementKind.PAYOUT, payout.ref] = -payout.amount
        for reversal in self.reversals:
            found[MovementKind.REVERSAL, reversal.ref] = reversal.amount
        if self.chargeback is not None:
            found[MovementKind.CHARGEBACK, self.chargeback.ref] = -self.chargeback.amount
            if self.chargeback.status is ChargebackStatus.WON:
                found[MovementKind.REINSTATEMENT, self.chargeback.ref] = self.chargeback.amount
        return found

    @property
    def next_change_at(self) -> datetime | None:
        """When it changes by itself."""
        moments = [pending.at for pending in self.pending]
        if self.chargeback_at is not None:
            moments.append(self.chargeback_at)
        return min(moments, default=None)


def _ref_suffix(charge: Charge) -> str:
    return charge.payment.ref.removeprefix("fpay_")


def advance_to(charge: Charge, now: datetime) -> Charge:
    """The charge at a later moment: refunds end, and the client's bank claims it back."""
    for pending in charge.pending:
        if pending.at <= now:
            charge = _finish_refund(charge, pending)
    if charge.chargeback_at is not None and charge.chargeback_at <= now:
        charge = evolve(charge, chargeback_at=None)
        if charge.chargeback is None and charge.refundable_amount:
            charge = open_chargeback(charge)
    return charge


def _finish_refund(charge: Charge, pending: PendingRefund) -> Charge:
    refunds = tuple(
        evolve(refund, status=pending.ends) if refund.ref == pending.ref else refund
        for refund in charge.refunds
    )
    still_pending = tuple(each for each in charge.pending if each != pending)
    return evolve(charge, refunds=refunds, pending=still_pending)


def refund(charge: Charge, new_refund: RefundState, pending: PendingRefund | None) -> Charge:
    """Give money back to the client; with `pending` that is not the last word."""
    if charge.chargeback is not None and charge.chargeback.status is not ChargebackStatus.WON:
        raise ProcessorRefused(RefusalCode.DISPUTED)
    _require_available(new_refund.amount, charge.refundable_amount)
    waiting = charge.pending if pending is None else (*charge.pending, pending)
    return evolve(charge, refunds=(*charge.refunds, new_refund), pending=waiting)


def pay_out(charge: Charge, new_payout: PayoutState) -> Charge:
    """Hand money of this very payment to a payee."""
    _require_available(new_payout.amount, charge.payable_amount)
    return evolve(charge, payouts=(*charge.payouts, new_payout))


def reverse(charge: Charge, new_reversal: ReversalState) -> Charge:
    """Take a payout back, in whole or in part."""
    payout = next(each for each in charge.payouts if each.ref == new_reversal.payout_ref)
    _require_available(new_reversal.amount, payout.amount - payout.reversed)
    shrunk = evolve(payout, reversed=payout.reversed + new_reversal.amount)
    return evolve(
        charge,
        payouts=tuple(shrunk if each is payout else each for each in charge.payouts),
        reversals=(*charge.reversals, new_reversal),
    )


def _require_available(amount: int, available: int) -> None:
    if amount <= 0:
        raise ProcessorRefused(RefusalCode.INVALID, "the amount must be positive")
    if available <= 0:
        raise ProcessorRefused(RefusalCode.NOTHING_LEFT)
    if amount > available:
        raise ProcessorRefused(RefusalCode.EXCEEDS_REMAINING)


def open_chargeback(charge: Charge) -> Charge:
    """The client's bank takes back what was not refunded yet."""
    if charge.chargeback is not None:
        raise RuleBroken("already_charged_back", "This payment was charged back already")
    if not charge.refundable_amount:
        raise RuleBroken("nothing_left", "All of this payment was refunded")
    ref, amount = f"fcb_{_ref_suffix(charge)}", charge.refundable_amount
    opened = Chargeback(ref, amount, ChargebackStatus.OPEN, charge.payment.ref)
    return evolve(charge, chargeback=opened)


def decide_chargeback(charge: Charge, verdict: ChargebackStatus) -> Charge:
    """Won: the money comes back to the platform; lost: it stays gone. Opened first if need be."""
    if charge.chargeback is None:
        charge = open_chargeback(charge)
    chargeback = charge.chargeback
    assert chargeback is not None
    if chargeback.status is not ChargebackStatus.OPEN:
        raise RuleBroken("chargeback_decided", "This chargeback was decided already")
    return evolve(charge, chargeback=evolve(chargeback, status=verdict))
