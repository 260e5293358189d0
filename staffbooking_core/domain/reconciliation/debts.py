"""Debts of staff members: what they owe for one booking is withheld from the payout of another.

A debt (`owed_by_staff`) is the part of a payout that the staff member may not keep:

1. A reversal claims the money at the processor.
2. Where the processor refuses the reversal, later payouts are reduced by the debt: the payer's
   booking withholds the amount, and the debtor's booking records it as repaid.
3. Where an operator has reversed the payout by hand, the money is back and in suspense: the debt is
   left to operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import ENDED_STATUSES
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.operations import Operation, OperationStatus
from staffbooking_core.domain.payments.processor import OperationKind, ReversePayout
from staffbooking_core.domain.reconciliation.state import record_fact


@frozen
class Debt:
    """A booking for which the staff member owes money, with its operations."""

    booking: Booking
    operations: tuple[Operation, ...]
    was_reversed_by_hand: bool = False

    @property
    def can_be_netted(self) -> bool:
        """Whether the debt is final and no reversal is expected to settle it: the booking has
        ended, no reversal was made by hand or is in flight, and a pending one was refused
        before."""
        reversals = [one for one in self.operations if one.kind is OperationKind.REVERSE_PAYOUT]
        waiting = [one for one in reversals if not one.is_finished]
        is_final = self.booking.status in ENDED_STATUSES and not self.was_reversed_by_hand
        return is_final and all(
            one.status is OperationStatus.PENDING and one.generation > 1 for one in waiting
        )

    @property
    def waits_for_reversal(self) -> bool:
        """Whether a reversal of the payout is not finished."""
        kind = OperationKind.REVERSE_PAYOUT
        return any(one.kind is kind and not one.is_finished for one in self.operations)


def net_debts(payer: Booking, debts: Sequence[Debt], now: datetime) -> list[TransitionResult]:
    """The transitions that withhold debts from the payer's payout, in the order of `debts`: for
    each debt one of the payer and one of the debtor."""
    results: list[TransitionResult] = []
    for debt in debts:
        amount = min(payer.payout_left, debt.booking.owed_by_staff)
        is_same_currency = debt.booking.currency == payer.currency
        if amount > 0 and is_same_currency and debt.can_be_netted:
            withheld = _withhold_for_debt(payer, amount, now)
            payer = withheld.booking
            results += [withheld, _repay_debt(debt, amount, now)]
    return results


def _withhold_for_debt(payer: Booking, amount: int, now: datetime) -> TransitionResult:
    result = record_fact(payer, netted=payer.netted + amount)
    return result.with_postings(
        ledger.debt_withholding_posting(payer.id, payer.revision + 1, amount, now)
    )


def _repay_debt(debt: Debt, amount: int, now: datetime) -> TransitionResult:
    """Reduce the debt. A waiting reversal asks for too much, so the rest is ordered again."""
    booking = debt.booking
    remaining_debt = booking.owed_by_staff - amount
    result = record_fact(booking, owed_by_staff=remaining_debt, netted=booking.netted - amount)
    result = result.with_postings(
        ledger.debt_repayment_posting(booking.id, booking.revision + 1, amount, now)
    )
    if remaining_debt and booking.payout_n is not None and debt.waits_for_reversal:
        result = result.with_order(
            ReversePayout(booking.payout_n, remaining_debt, booking.currency)
        )
    return result
