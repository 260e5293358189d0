"""One payment at the fake processor, with all that happened to it since.

Refunds are limited by what is left of the payment, payouts too (what was taken back may
be paid out again), a reversal by its payout. A payment is charged back at most once.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from attrs import evolve, frozen

from staffbooking_core.domain.payments import (
    Chargeback,
    ChargebackStatus,
    Payment,
    PayoutState,
    RefundState,
    RefundStatus,
    RefusalCode,
    Refused,
    ReversalState,
)
from staffbooking_core.errors import RuleBroken

LATER: Final = timedelta(minutes=1)
"""Business time until what is to happen later by itself: a pending refund's end, the
chargeback of a card that pays first."""


@frozen
class Pending:
    """A refund on its way: when it ends, and how."""

    ref: str
    at: datetime
    ends: RefundStatus


@frozen
class Charge:
    payment: Payment
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
    def balance(self) -> int:
        """What the platform holds of it: below zero where it paid out what was taken back."""
        refunded = sum(r.amount for r in self.refunds if r.status is RefundStatus.SETTLED)
        chargeback = self.chargeback
        lost = chargeback is not None and chargeback.status is not ChargebackStatus.WON
        taken = chargeback.amount if chargeback is not None and lost else 0
        return self.unpaid - refunded - taken

    @property
    def next_change(self) -> datetime | None:
        """When it changes by itself."""
        moments = [pending.at for pending in self.pending]
        if self.chargeback_at is not None:
            moments.append(self.chargeback_at)
        return min(moments, default=None)


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
    """Give money back to the client, at once or at the end of `pending`."""
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
    ref = f"fcb_{charge.payment.ref.removeprefix('fpay_')}"
    opened = Chargeback(ref, charge.remaining, ChargebackStatus.OPEN)
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
