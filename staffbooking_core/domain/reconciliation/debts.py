"""Debts of staff: what they owe for one booking is kept from the payout of another.

A debt is what was paid out and is not theirs to keep (`owed_by_staff`). It is claimed by a
reversal first; where that is refused, later payouts make it good.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking, Step
from staffbooking_core.domain.bookings.lifecycle import Status
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.processor import (
    UNFINISHED,
    Operation,
    OpKind,
    OpStatus,
    ReversePayout,
)


@frozen
class Debt:
    """A booking for which its staff member owes money, with its operations."""

    booking: Booking
    operations: tuple[Operation, ...]

    @property
    def can_be_netted(self) -> bool:
        """Whether the debt is final and no reversal may still bring the money: the booking has
        ended, no reversal is on its way, and one that waits was refused before."""
        reversals = [one for one in self.operations if one.kind is OpKind.REVERSE_PAYOUT]
        waiting = [one for one in reversals if one.status in UNFINISHED]
        ended = self.booking.status in (Status.COMPLETED, Status.CANCELLED)
        return ended and all(
            one.status is OpStatus.PENDING and one.generation > 1 for one in waiting
        )

    @property
    def waits_for_reversal(self) -> bool:
        kind = OpKind.REVERSE_PAYOUT
        return any(one.kind is kind and not one.is_finished for one in self.operations)


def net(payer: Booking, debts: Sequence[Debt], now: datetime) -> list[Step]:
    """Steps that keep of the payer's payout what is owed for other bookings, the first debt
    first: two steps for each debt, the payer's and the debtor's."""
    steps: list[Step] = []
    for debt in debts:
        amount = min(payer.payout_left, debt.booking.owed_by_staff)
        if amount > 0 and debt.can_be_netted:
            kept = _keep(payer, amount, now)
            payer = kept.booking
            steps += [kept, _make_good(debt, amount, now)]
    return steps


def _keep(payer: Booking, amount: int, now: datetime) -> Step:
    step = Step(payer).changing(version=payer.version + 1, netted=payer.netted + amount)
    return step.posting(ledger.kept_for_debt(payer.id, payer.version + 1, amount, now))


def _make_good(debt: Debt, amount: int, now: datetime) -> Step:
    """What is left of the debt is claimed anew: the waiting reversal asks for too much."""
    booking = debt.booking
    left = booking.owed_by_staff - amount
    step = Step(booking).changing(
        version=booking.version + 1, owed_by_staff=left, netted=booking.netted - amount
    )
    step = step.posting(ledger.made_good(booking.id, booking.version + 1, amount, now))
    if left and booking.payout_n is not None and debt.waits_for_reversal:
        step = step.ordering(ReversePayout(booking.payout_n, left, booking.currency))
    return step
