"""Debts of staff: what they owe for one booking is kept from the payout of another.

A debt is what was paid out and is not theirs to keep (`owed_by_staff`). It is claimed by a
reversal first; where that is refused, later payouts make it good.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import ENDED_STATUSES
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.processor import (
    Operation,
    OperationKind,
    OperationStatus,
    ReversePayout,
)
from staffbooking_core.domain.reconciliation.state import record_fact


@frozen
class Debt:
    """A booking for which its staff member owes money, with its operations."""

    booking: Booking
    operations: tuple[Operation, ...]

    @property
    def can_be_netted(self) -> bool:
        """Whether the debt is final and no reversal may still bring the money: the booking has
        ended, no reversal is on its way, and one that waits was refused before."""
        reversals = [one for one in self.operations if one.kind is OperationKind.REVERSE_PAYOUT]
        waiting = [one for one in reversals if not one.is_finished]
        return self.booking.status in ENDED_STATUSES and all(
            one.status is OperationStatus.PENDING and one.generation > 1 for one in waiting
        )

    @property
    def waits_for_reversal(self) -> bool:
        kind = OperationKind.REVERSE_PAYOUT
        return any(one.kind is kind and not one.is_finished for one in self.operations)


def net_debts(payer: Booking, debts: Sequence[Debt], now: datetime) -> list[TransitionResult]:
    """Steps that keep of the payer's payout what is owed for other bookings, the first debt
    first: two steps for each debt, the payer's and the debtor's."""
    results: list[TransitionResult] = []
    for debt in debts:
        amount = min(payer.payout_left, debt.booking.owed_by_staff)
        if amount > 0 and debt.can_be_netted:
            withheld = _withhold_for_debt(payer, amount, now)
            payer = withheld.booking
            results += [withheld, _repay_debt(debt, amount, now)]
    return results


def _withhold_for_debt(payer: Booking, amount: int, now: datetime) -> TransitionResult:
    result = record_fact(payer, netted=payer.netted + amount)
    return result.with_postings(
        ledger.debt_withholding_posting(payer.id, payer.version + 1, amount, now)
    )


def _repay_debt(debt: Debt, amount: int, now: datetime) -> TransitionResult:
    """What is left of the debt is claimed anew: the waiting reversal asks for too much."""
    booking = debt.booking
    remaining_debt = booking.owed_by_staff - amount
    result = record_fact(booking, owed_by_staff=remaining_debt, netted=booking.netted - amount)
    result = result.with_postings(
        ledger.debt_repayment_posting(booking.id, booking.version + 1, amount, now)
    )
    if remaining_debt and booking.payout_n is not None and debt.waits_for_reversal:
        result = result.with_order(
            ReversePayout(booking.payout_n, remaining_debt, booking.currency)
        )
    return result
