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
    Fee,
    Payment,
    PayoutState,
    RefundState,
    RefundStatus,
    RefusalCode,
    Refused,
    ReversalState,
)
from staffbooking_core.domain.reconciliation.statement import Cash
from staffbooking_core.errors import RuleBroken

LATER: Final = timedelta(minutes=1)
"""Business time until what is to happen later by itself: a refund's end, the chargeback of
a card that pays first."""


@frozen
class Pending:
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
    pending: tuple[Pending, ...] = ()
    payouts: tuple[PayoutState, ...] = ()
    reversals: tuple[ReversalState, ...] = ()
    chargeback: Chargeback | None = None
    chargeback_at: datetime | None = None

    @property
    def remaining(self) -> int:
        """What a refund or a chargeback can still take; a failed refund gave its part back."""
        return self.payment.amount - sum(
            refund.amount for refund in self.refunds if refund.status is not RefundStatus.FAILED
        )

    @property
    def unpaid(self) -> int:
        """What payouts have not taken, or gave back."""
        return self.payment.amount - sum(made.amount - made.reversed for made in self.payouts)

    @property
    def fees(self) -> tuple[Fee, ...]:
        if not self.fee:
            return ()
        of_payment = Fee(f"ffee_{_number(self)}", self.fee)
        if self.chargeback is None:
            return (of_payment,)
        return of_payment, Fee(f"fcbfee_{_number(self)}", self.fee)

    @property
    def moved(self) -> Cash:
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
    def next_change(self) -> datetime | None:
        """When it changes by itself."""
        moments = [pending.at for pending in self.pending]
        if self.chargeback_at is not None:
            moments.append(self.chargeback_at)
        return min(moments, default=None)


def _number(charge: Charge) -> str:
    return charge.payment.ref.removeprefix("fpay_")


def at(charge: Charge, now: datetime) -> Charge:
    """The charge at a later moment: refunds end, and the client's bank claims it back."""
    for pending in charge.pending:
        if pending.at <= now:
            charge = _ended(charge, pending)
    if charge.chargeback_at is not None and charge.chargeback_at <= now:
        charge = evolve(charge, chargeback_at=None)
        if charge.chargeback is None and charge.remaining:
            charge = open_chargeback(charge)
    return charge


def _ended(charge: Charge, pending: Pending) -> Charge:
    refunds = tuple(
        evolve(refund, status=pending.ends) if refund.ref == pending.ref else refund
        for refund in charge.refunds
    )
    waiting = tuple(each for each in charge.pending if each != pending)
    return evolve(charge, refunds=refunds, pending=waiting)


def refund(charge: Charge, made: RefundState, pending: Pending | None) -> Charge:
    """Give money back to the client; with `pending` that is not the last word."""
    if charge.chargeback is not None and charge.chargeback.status is not ChargebackStatus.WON:
        raise Refused(RefusalCode.DISPUTED)
    _within(made.amount, charge.remaining)
    waiting = charge.pending if pending is None else (*charge.pending, pending)
    return evolve(charge, refunds=(*charge.refunds, made), pending=waiting)


def pay_out(charge: Charge, made: PayoutState) -> Charge:
    """Hand money of this very payment to a payee."""
    _within(made.amount, charge.unpaid)
    return evolve(charge, payouts=(*charge.payouts, made))


def reverse(charge: Charge, made: ReversalState) -> Charge:
    """Take a payout back, in whole or in part."""
    payout = next(each for each in charge.payouts if each.ref == made.payout_ref)
    _within(made.amount, payout.amount - payout.reversed)
    shrunk = evolve(payout, reversed=payout.reversed + made.amount)
    return evolve(
        charge,
        payouts=tuple(shrunk if each is payout else each for each in charge.payouts),
        reversals=(*charge.reversals, made),
    )


def _within(amount: int, left: int) -> None:
    if amount <= 0:
        raise Refused(RefusalCode.INVALID, "the amount must be positive")
    if left <= 0:
        raise Refused(RefusalCode.NOTHING_LEFT)
    if amount > left:
        raise Refused(RefusalCode.EXCEEDS_REMAINING)


def open_chargeback(charge: Charge) -> Charge:
    """The client's bank takes back what was not refunded yet."""
    if charge.chargeback is not None:
        raise RuleBroken("already_charged_back", "This payment was charged back already")
    if not charge.remaining:
        raise RuleBroken("nothing_left", "All of this payment was refunded")
    ref, amount = f"fcb_{_number(charge)}", charge.remaining
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
