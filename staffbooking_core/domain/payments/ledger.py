"""The double-entry ledger: accounts, the postings of each step, the invariants.

A posting's legs sum to zero: a positive leg is a debit, a negative one a credit.
Liabilities are posted with the decision, in its transaction; cash legs only on the
processor's word. A posting's key is unique, so that a repeat is no posting. The table
of postings is PAYMENTS section 5; T = price P + premium I.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from attrs import field, frozen


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
    """Of no booking: the platform's own withdrawals, deposits, adjustments."""


class Account(StrEnum):
    PROCESSOR_BALANCE = "processor_balance"
    DISPUTE_RECEIVABLE = "dispute_receivable"
    STAFF_RECEIVABLE = "staff_receivable"
    STAFF_NETTING = "staff_netting"
    """What one booking's payout made good of another's debt: zero over all bookings."""
    ESCROW = "escrow"
    REFUND_PAYABLE = "refund_payable"
    STAFF_PAYABLE = "staff_payable"
    SUSPENSE = "suspense"
    PLATFORM_FEES = "platform_fees"
    INSURANCE_PREMIUMS = "insurance_premiums"
    PROCESSOR_FEES = "processor_fees"
    CHARGEBACK_LOSSES = "chargeback_losses"


LIABILITY_ACCOUNTS = (Account.ESCROW, Account.REFUND_PAYABLE, Account.STAFF_PAYABLE)
"""Liabilities of one booking: never negative, and zero once it is finished."""


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
    """How the money held for a booking is shared out when it ends: the parts add up to it."""

    refund: int
    fee: int
    premium: int
    payout: int
    charged_back: int = 0
    """Taken back by the processor itself."""

    @property
    def total(self) -> int:
        return self.refund + self.fee + self.premium + self.payout + self.charged_back


def _make_posting(key: str, booking_id: int, at: datetime, legs: Mapping[Account, int]) -> Posting:
    return Posting(key, booking_id, at, tuple(Leg(a, n) for a, n in legs.items() if n))


def payment_posting(booking_id: int, payment_ref: str, amount: int, at: datetime) -> Posting:
    """The client's money arrived and is held."""
    legs = {Account.PROCESSOR_BALANCE: amount, Account.ESCROW: -amount}
    return _make_posting(f"pay:{payment_ref}", booking_id, at, legs)


def settlement_posting(
    booking_id: int, settlement_number: int, split: Split, at: datetime
) -> Posting:
    """The k-th sharing out of the escrow of a booking."""
    return _make_posting(
        f"settle:{booking_id}:{settlement_number}", booking_id, at, _settlement_legs(split)
    )


def settlement_reversal_posting(
    booking_id: int, settlement_number: int, split: Split, at: datetime
) -> Posting:
    """The k-th sharing out taken back: the escrow holds everything again."""
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
    """A payment that came too late is owed back whole."""
    legs = {Account.ESCROW: amount, Account.REFUND_PAYABLE: -amount}
    return _make_posting(f"late:{payment_ref}", booking_id, at, legs)


def refund_settled_posting(booking_id: int, op_id: int, amount: int, at: datetime) -> Posting:
    """The processor says that a refund settled."""
    legs = {Account.REFUND_PAYABLE: amount, Account.PROCESSOR_BALANCE: -amount}
    return _make_posting(f"refund:{op_id}:ok", booking_id, at, legs)


def refund_failed_posting(booking_id: int, op_id: int, amount: int, at: datetime) -> Posting:
    """A refund that had settled came back: it is owed again."""
    legs = {Account.PROCESSOR_BALANCE: amount, Account.REFUND_PAYABLE: -amount}
    return _make_posting(f"refund:{op_id}:failed", booking_id, at, legs)


def bank_refund_key(op_id: int) -> str:
    """Of a refund that reached the client by a lost chargeback."""
    return f"refund:{op_id}:bank"


def bank_refund_posting(booking_id: int, op_id: int, amount: int, at: datetime) -> Posting:
    """A lost chargeback gave the client what a refund still owed."""
    legs = {Account.REFUND_PAYABLE: amount, Account.CHARGEBACK_LOSSES: -amount}
    return _make_posting(bank_refund_key(op_id), booking_id, at, legs)


def payout_posting(booking_id: int, op_id: int, amount: int, at: datetime) -> Posting:
    """The processor says that a payout reached the staff member's account."""
    legs = {Account.STAFF_PAYABLE: amount, Account.PROCESSOR_BALANCE: -amount}
    return _make_posting(f"payout:{op_id}", booking_id, at, legs)


def clawback_posting(booking_id: int, version: int, amount: int, at: datetime) -> Posting:
    """A payout already sent is claimed from the staff member, in this step of the booking."""
    legs = {Account.STAFF_RECEIVABLE: amount, Account.STAFF_PAYABLE: -amount}
    return _make_posting(f"claim:{booking_id}:{version}", booking_id, at, legs)


def debt_netting_posting(
    booking_id: int, settlement_number: int, amount: int, at: datetime
) -> Posting:
    """What the staff member owes and what is owed to them cancel out."""
    legs = {Account.STAFF_PAYABLE: amount, Account.STAFF_RECEIVABLE: -amount}
    return _make_posting(f"net:{booking_id}:{settlement_number}", booking_id, at, legs)


def payout_reversal_posting(
    booking_id: int, op_id: int, amount: int, claimed: int, at: datetime
) -> Posting:
    """The processor took a payout back; what was not claimed any more is owed again."""
    legs = {
        Account.PROCESSOR_BALANCE: amount,
        Account.STAFF_RECEIVABLE: -claimed,
        Account.STAFF_PAYABLE: claimed - amount,
    }
    return _make_posting(f"reversal:{op_id}", booking_id, at, legs)


def debt_withholding_posting(booking_id: int, version: int, amount: int, at: datetime) -> Posting:
    """A part of a payout is kept for what the staff member owes of another booking."""
    legs = {Account.STAFF_PAYABLE: amount, Account.STAFF_NETTING: -amount}
    return _make_posting(f"kept:{booking_id}:{version}", booking_id, at, legs)


def debt_repayment_posting(booking_id: int, version: int, amount: int, at: datetime) -> Posting:
    """What was kept from the payout of another booking settles this one's debt."""
    legs = {Account.STAFF_NETTING: amount, Account.STAFF_RECEIVABLE: -amount}
    return _make_posting(f"made_good:{booking_id}:{version}", booking_id, at, legs)


def processor_fee_posting(booking_id: int, ref: str, amount: int, at: datetime) -> Posting:
    """What the processor kept for itself."""
    legs = {Account.PROCESSOR_FEES: amount, Account.PROCESSOR_BALANCE: -amount}
    return _make_posting(processor_fee_key(ref), booking_id, at, legs)


def processor_fee_key(ref: str) -> str:
    return f"fee:{ref}"


def manual_movement_posting(
    booking_id: int, kind: MovementKind, ref: str, amount: int, at: datetime
) -> Posting:
    """Somebody moved money at the processor without us: `amount` is what its balance gained.
    It waits in suspense for an operator."""
    legs = {Account.PROCESSOR_BALANCE: amount, Account.SUSPENSE: -amount}
    return _make_posting(manual_movement_key(kind, ref), booking_id, at, legs)


def manual_movement_key(kind: MovementKind, ref: str) -> str:
    """The key of a movement that was made by hand."""
    return f"manual:{kind}:{ref}"


def suspense_posting(booking_id: int, payment_ref: str, amount: int, at: datetime) -> Posting:
    """Money that matches no booking's total waits in suspense for an operator."""
    legs = {Account.PROCESSOR_BALANCE: amount, Account.SUSPENSE: -amount}
    return _make_posting(f"pay:{payment_ref}", booking_id, at, legs)


def chargeback_key(ref: str, end: str) -> str:
    """Of a chargeback's money: taken (`out`), given back (`in`), or written off (`lost`)."""
    return f"cb:{ref}:{end}"


def chargeback_withdrawn_posting(booking_id: int, ref: str, amount: int, at: datetime) -> Posting:
    """The processor took a disputed charge back from the platform."""
    legs = {Account.DISPUTE_RECEIVABLE: amount, Account.PROCESSOR_BALANCE: -amount}
    return _make_posting(chargeback_key(ref, "out"), booking_id, at, legs)


def chargeback_reinstated_posting(booking_id: int, ref: str, amount: int, at: datetime) -> Posting:
    """The processor gave a disputed charge back to the platform."""
    legs = {Account.PROCESSOR_BALANCE: amount, Account.DISPUTE_RECEIVABLE: -amount}
    return _make_posting(chargeback_key(ref, "in"), booking_id, at, legs)


def chargeback_verdict_changed_posting(
    booking_id: int, ref: str, version: int, balance_change: int, at: datetime
) -> Posting:
    """A verdict was changed, and the money moved once more: it waits in suspense."""
    legs = {Account.PROCESSOR_BALANCE: balance_change, Account.SUSPENSE: -balance_change}
    return _make_posting(chargeback_key(ref, str(version)), booking_id, at, legs)


def chargeback_lost_posting(booking_id: int, ref: str, amount: int, at: datetime) -> Posting:
    """What a lost chargeback took beyond the money held for the booking is our loss."""
    legs = {Account.CHARGEBACK_LOSSES: amount, Account.DISPUTE_RECEIVABLE: -amount}
    return _make_posting(chargeback_key(ref, "lost"), booking_id, at, legs)


def account_balances(postings: Iterable[Posting]) -> Counter[Account]:
    """The sum of each account; debits positive."""
    sums: Counter[Account] = Counter()
    for posting in postings:
        for leg in posting.legs:
            sums[leg.account] += leg.amount
    return sums
