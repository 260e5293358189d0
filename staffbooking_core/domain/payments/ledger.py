"""The double-entry ledger: accounts and postings.

The legs of a posting sum to zero: a positive leg is a debit, a negative one a credit. Liabilities
are posted in the transaction of the decision; cash legs only when the processor confirms. A
posting's key is unique, so a repeated posting is ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from attrs import field, frozen

__all__ = ["Account", "Leg", "MovementKind", "Posting"]


class MovementKind(StrEnum):
    PAYMENT = "payment"
    REFUND = "refund"
    REFUND_FAILED = "refund_failed"
    PAYOUT = "payout"
    REVERSAL = "reversal"
    CHARGEBACK = "chargeback"
    REINSTATEMENT = "reinstatement"
    FEE = "fee"
    OTHER = "other"
    """Without a booking: withdrawals, deposits and adjustments of the platform."""


class Account(StrEnum):
    PROCESSOR_BALANCE = "processor_balance"
    DISPUTE_RECEIVABLE = "dispute_receivable"
    STAFF_RECEIVABLE = "staff_receivable"
    STAFF_NETTING = "staff_netting"
    """Debts settled between payouts of a staff member: zero over all bookings."""
    ESCROW = "escrow"
    REFUND_PAYABLE = "refund_payable"
    STAFF_PAYABLE = "staff_payable"
    SUSPENSE = "suspense"
    PLATFORM_FEES = "platform_fees"
    INSURANCE_PREMIUMS = "insurance_premiums"
    PROCESSOR_FEES = "processor_fees"
    CHARGEBACK_LOSSES = "chargeback_losses"


LIABILITY_ACCOUNTS = (Account.ESCROW, Account.REFUND_PAYABLE, Account.STAFF_PAYABLE)
"""Liabilities of one booking: never negative, and zero when all is settled."""


def _check_balanced(_: Posting, __: object, legs: tuple[Leg, ...]) -> None:
    if sum(leg.amount for leg in legs) or len(legs) < 2 or not all(leg.amount for leg in legs):
        raise ValueError(f"a posting has at least two legs, none zero, that sum to zero: {legs}")


@frozen
class Leg:
    account: Account
    amount: int
    """Minor units: a debit is positive, a credit negative."""


@frozen
class Posting:
    key: str
    booking_id: int
    at: datetime
    legs: tuple[Leg, ...] = field(validator=_check_balanced)


@frozen
class Split:
    """The division of a booking's escrow when it ends: the parts add up to the escrow."""

    refund: int
    fee: int
    premium: int
    payout: int
    charged_back: int = 0
    """Taken back by the customer's bank."""

    @property
    def total(self) -> int:
        return self.refund + self.fee + self.premium + self.payout + self.charged_back


def _make_posting(key: str, booking_id: int, at: datetime, legs: Mapping[Account, int]) -> Posting:
    return Posting(key, booking_id, at, tuple(Leg(a, n) for a, n in legs.items() if n))


def payment_posting(booking_id: int, payment_ref: str, amount: int, at: datetime) -> Posting:
    """The customer's payment is held in escrow."""
    legs = {Account.PROCESSOR_BALANCE: amount, Account.ESCROW: -amount}
    return _make_posting(f"pay:{payment_ref}", booking_id, at, legs)


def settlement_posting(
    booking_id: int, settlement_number: int, split: Split, at: datetime
) -> Posting:
    """The booking's escrow is divided; `settlement_number` counts its divisions, from 1."""
    return _make_posting(
        f"settle:{booking_id}:{settlement_number}", booking_id, at, _settlement_legs(split)
    )


def settlement_reversal_posting(
    booking_id: int, settlement_number: int, split: Split, at: datetime
) -> Posting:
    """A division of the escrow is undone: the escrow holds the money again."""
    legs = {account: -amount for account, amount in _settlement_legs(split).items()}
    return _make_posting(f"reopen:{booking_id}:{settlement_number}", booking_id, at, legs)


def _settlement_legs(split: Split) -> dict[Account, int]:
    return {
        Account.ESCROW: split.total,
        Account.REFUND_PAYABLE: -split.refund,
        Account.PLATFORM_FEES: -split.fee,
        Account.INSURANCE_PREMIUMS: -split.premium,
        Account.STAFF_PAYABLE: -split.payout,
        Account.DISPUTE_RECEIVABLE: -split.charged_back,
    }


def late_refund_posting(booking_id: int, payment_ref: str, amount: int, at: datetime) -> Posting:
    """A late payment is owed back in full."""
    legs = {Account.ESCROW: amount, Account.REFUND_PAYABLE: -amount}
    return _make_posting(f"late:{payment_ref}", booking_id, at, legs)


def refund_settled_posting(booking_id: int, op_id: int, amount: int, at: datetime) -> Posting:
    """A refund settled."""
    legs = {Account.REFUND_PAYABLE: amount, Account.PROCESSOR_BALANCE: -amount}
    return _make_posting(f"refund:{op_id}:ok", booking_id, at, legs)


def refund_failed_posting(booking_id: int, op_id: int, amount: int, at: datetime) -> Posting:
    """A settled refund was returned: it is owed again."""
    legs = {Account.PROCESSOR_BALANCE: amount, Account.REFUND_PAYABLE: -amount}
    return _make_posting(f"refund:{op_id}:failed", booking_id, at, legs)


def bank_refund_key(op_id: int) -> str:
    """The key of a refund that reached the customer by a lost chargeback."""
    return f"refund:{op_id}:bank"


def bank_refund_posting(booking_id: int, op_id: int, amount: int, at: datetime) -> Posting:
    """A lost chargeback gave the customer the money of an outstanding refund."""
    legs = {Account.REFUND_PAYABLE: amount, Account.CHARGEBACK_LOSSES: -amount}
    return _make_posting(bank_refund_key(op_id), booking_id, at, legs)


def payout_posting(booking_id: int, op_id: int, amount: int, at: datetime) -> Posting:
    """A payout reached the staff member's account."""
    legs = {Account.STAFF_PAYABLE: amount, Account.PROCESSOR_BALANCE: -amount}
    return _make_posting(f"payout:{op_id}", booking_id, at, legs)


def clawback_posting(booking_id: int, revision: int, amount: int, at: datetime) -> Posting:
    """A sent payout is claimed back from the staff member, by this revision of the booking."""
    legs = {Account.STAFF_RECEIVABLE: amount, Account.STAFF_PAYABLE: -amount}
    return _make_posting(f"claim:{booking_id}:{revision}", booking_id, at, legs)


def debt_netting_posting(
    booking_id: int, settlement_number: int, amount: int, at: datetime
) -> Posting:
    """The staff member's debt and payout of the same booking are netted."""
    legs = {Account.STAFF_PAYABLE: amount, Account.STAFF_RECEIVABLE: -amount}
    return _make_posting(f"net:{booking_id}:{settlement_number}", booking_id, at, legs)


def payout_reversal_posting(
    booking_id: int, op_id: int, amount: int, claimed: int, at: datetime
) -> Posting:
    """A payout was reversed; an amount above the claim is owed to the staff member again."""
    legs = {
        Account.PROCESSOR_BALANCE: amount,
        Account.STAFF_RECEIVABLE: -claimed,
        Account.STAFF_PAYABLE: claimed - amount,
    }
    return _make_posting(f"reversal:{op_id}", booking_id, at, legs)


def debt_withholding_posting(booking_id: int, revision: int, amount: int, at: datetime) -> Posting:
    """A part of a payout is withheld for the staff member's debt of another booking."""
    legs = {Account.STAFF_PAYABLE: amount, Account.STAFF_NETTING: -amount}
    return _make_posting(f"kept:{booking_id}:{revision}", booking_id, at, legs)


def debt_repayment_posting(booking_id: int, revision: int, amount: int, at: datetime) -> Posting:
    """The amount withheld from another booking's payout repays this booking's debt."""
    legs = {Account.STAFF_NETTING: amount, Account.STAFF_RECEIVABLE: -amount}
    return _make_posting(f"made_good:{booking_id}:{revision}", booking_id, at, legs)


def processor_fee_posting(booking_id: int, ref: str, amount: int, at: datetime) -> Posting:
    """A fee of the processor."""
    legs = {Account.PROCESSOR_FEES: amount, Account.PROCESSOR_BALANCE: -amount}
    return _make_posting(processor_fee_key(ref), booking_id, at, legs)


def processor_fee_key(ref: str) -> str:
    return f"fee:{ref}"


def manual_movement_posting(
    booking_id: int, kind: MovementKind, ref: str, amount: int, at: datetime
) -> Posting:
    """A movement by hand at the processor waits in suspense for an operator.

    `amount` is the change of the platform's balance there.
    """
    legs = {Account.PROCESSOR_BALANCE: amount, Account.SUSPENSE: -amount}
    return _make_posting(manual_movement_key(kind, ref), booking_id, at, legs)


def manual_movement_key(kind: MovementKind, ref: str) -> str:
    """The key of a movement by hand at the processor."""
    return f"manual:{kind}:{ref}"


def has_manual_movement(kind: MovementKind, postings: Iterable[Posting]) -> bool:
    """Whether a movement of this kind was made by hand."""
    prefix = manual_movement_key(kind, "")
    return any(posting.key.startswith(prefix) for posting in postings)


def suspense_posting(booking_id: int, payment_ref: str, amount: int, at: datetime) -> Posting:
    """A payment of a wrong amount or currency waits in suspense for an operator."""
    legs = {Account.PROCESSOR_BALANCE: amount, Account.SUSPENSE: -amount}
    return _make_posting(f"pay:{payment_ref}", booking_id, at, legs)


def chargeback_key(ref: str, end: str) -> str:
    """The key of a chargeback's posting; `end` is `out` (withdrawn), `in` (reinstated), `lost`
    (written off), or a revision of the booking (a changed verdict)."""
    return f"cb:{ref}:{end}"


def chargeback_balance_change(ref: str, postings: Iterable[Posting]) -> int:
    """What the postings of a chargeback change the platform's balance at the processor by."""
    prefix = chargeback_key(ref, "")
    own = (posting for posting in postings if posting.key.startswith(prefix))
    return account_balances(own)[Account.PROCESSOR_BALANCE]


def chargeback_withdrawn_posting(booking_id: int, ref: str, amount: int, at: datetime) -> Posting:
    """The processor withdrew a charged-back payment from the platform."""
    legs = {Account.DISPUTE_RECEIVABLE: amount, Account.PROCESSOR_BALANCE: -amount}
    return _make_posting(chargeback_key(ref, "out"), booking_id, at, legs)


def chargeback_reinstated_posting(booking_id: int, ref: str, amount: int, at: datetime) -> Posting:
    """The processor reinstated a charged-back payment to the platform."""
    legs = {Account.PROCESSOR_BALANCE: amount, Account.DISPUTE_RECEIVABLE: -amount}
    return _make_posting(chargeback_key(ref, "in"), booking_id, at, legs)


def chargeback_verdict_changed_posting(
    booking_id: int, ref: str, revision: int, balance_change: int, at: datetime
) -> Posting:
    """A verdict changed, and the money moved again: it waits in suspense."""
    legs = {Account.PROCESSOR_BALANCE: balance_change, Account.SUSPENSE: -balance_change}
    return _make_posting(chargeback_key(ref, str(revision)), booking_id, at, legs)


def chargeback_lost_posting(booking_id: int, ref: str, amount: int, at: datetime) -> Posting:
    """The part of a lost chargeback that the escrow did not cover is a loss."""
    legs = {Account.CHARGEBACK_LOSSES: amount, Account.DISPUTE_RECEIVABLE: -amount}
    return _make_posting(chargeback_key(ref, "lost"), booking_id, at, legs)


def account_balances(postings: Iterable[Posting]) -> Counter[Account]:
    """The balance of each account; debits are positive."""
    sums: Counter[Account] = Counter()
    for posting in postings:
        for leg in posting.legs:
            sums[leg.account] += leg.amount
    return sums
