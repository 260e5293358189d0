"""One payment at the fake processor with its refunds, payouts, reversals and chargeback.

Refunds are limited to the unrefunded rest of the payment, payouts to its rest that is not paid
out (a reversed amount may be paid out again), and reversals to their payout's unreversed rest. A
payment is charged back at most once. Amounts are minor units, times are business time.
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
"""Business time until a delayed effect: the final status of a pending refund, or the chargeback
of `succeed_then_chargeback`."""


@frozen
class PendingRefund:
    """A refund that changes to the status `ends` at a later time."""

    ref: str
    at: datetime
    ends: RefundStatus


@frozen
class Charge:
    """A payment and everything that followed it."""

    payment: Payment
    fee: int = 0
    """The processor's fee for the payment; a chargeback costs the same fee again."""
    refunds: tuple[RefundState, ...] = ()
    pending: tuple[PendingRefund, ...] = ()
    payouts: tuple[PayoutState, ...] = ()
    reversals: tuple[ReversalState, ...] = ()
    chargeback: Chargeback | None = None
    chargeback_at: datetime | None = None

    @property
    def refundable_amount(self) -> int:
        """The rest that can be refunded or charged back; failed refunds do not count."""
        return self.payment.amount - sum(
            refund.amount for refund in self.refunds if refund.status is not RefundStatus.FAILED
        )

    @property
    def payable_amount(self) -> int:
        """The rest of the payment that can be paid out; reversed amounts count again."""
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
        """Its effects on the platform's balance, by kind and reference. A refund that settled
        and then failed is left out."""
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
        """When time alone changes it next; None if never."""
        moments = [pending.at for pending in self.pending]
        if self.chargeback_at is not None:
            moments.append(self.chargeback_at)
        return min(moments, default=None)


def _ref_suffix(charge: Charge) -> str:
    return charge.payment.ref.removeprefix("fpay_")


def advance_to(charge: Charge, now: datetime) -> Charge:
    """The charge at a later time: due refunds end, and a due chargeback opens."""
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
    """Add a refund to the client; `pending` schedules a later status. Raises ProcessorRefused."""
    if charge.chargeback is not None and charge.chargeback.status is not ChargebackStatus.WON:
        raise ProcessorRefused(RefusalCode.DISPUTED)
    _require_available(new_refund.amount, charge.refundable_amount)
    waiting = charge.pending if pending is None else (*charge.pending, pending)
    return evolve(charge, refunds=(*charge.refunds, new_refund), pending=waiting)


def pay_out(charge: Charge, new_payout: PayoutState) -> Charge:
    """Add a payout from this payment. Raises ProcessorRefused if it exceeds `payable_amount`."""
    _require_available(new_payout.amount, charge.payable_amount)
    return evolve(charge, payouts=(*charge.payouts, new_payout))


def reverse(charge: Charge, new_reversal: ReversalState) -> Charge:
    """Reverse a payout in whole or in part. Raises ProcessorRefused if it exceeds the rest."""
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
    """Open a chargeback of the unrefunded amount.

    Raises RuleBroken: `already_charged_back`, `nothing_left`.
    """
    if charge.chargeback is not None:
        raise RuleBroken("already_charged_back", "This payment was charged back already")
    if not charge.refundable_amount:
        raise RuleBroken("nothing_left", "All of this payment was refunded")
    ref, amount = f"fcb_{_ref_suffix(charge)}", charge.refundable_amount
    opened = Chargeback(ref, amount, ChargebackStatus.OPEN, charge.payment.ref)
    return evolve(charge, chargeback=opened)


def decide_chargeback(charge: Charge, verdict: ChargebackStatus) -> Charge:
    """Close the chargeback as won (the platform gets the money back) or lost; open it first if
    there is none.

    Raises RuleBroken: `chargeback_decided`, `nothing_left`.
    """
    if charge.chargeback is None:
        charge = open_chargeback(charge)
    chargeback = charge.chargeback
    assert chargeback is not None
    if chargeback.status is not ChargebackStatus.OPEN:
        raise RuleBroken("chargeback_decided", "This chargeback was decided already")
    return evolve(charge, chargeback=evolve(chargeback, status=verdict))


def overturn_chargeback(charge: Charge) -> Charge:
    """The opposite verdict, as after an appeal; the same charge without a verdict."""
    chargeback = charge.chargeback
    if chargeback is None or chargeback.status is ChargebackStatus.OPEN:
        return charge
    is_won = chargeback.status is ChargebackStatus.WON
    verdict = ChargebackStatus.LOST if is_won else ChargebackStatus.WON
    return evolve(charge, chargeback=evolve(chargeback, status=verdict))
