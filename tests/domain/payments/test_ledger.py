"""Postings sum to zero, have unique keys, and use the right accounts."""

from __future__ import annotations

from inspect import isfunction, signature

import pytest
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import NOW, make_posting
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.ledger import (
    Account,
    Leg,
    MovementKind,
    Posting,
    Split,
    account_balances,
)

A = Account
AMOUNT = st.integers(0, 10**12)
SPLIT = Split(refund=10, fee=20, premium=30, payout=40, charged_back=50)
MADE = [
    ledger.payment_posting(1, "p", 5, NOW),
    ledger.settlement_posting(1, 1, SPLIT, NOW),
    ledger.settlement_reversal_posting(1, 1, SPLIT, NOW),
    ledger.late_refund_posting(1, "p", 5, NOW),
    ledger.refund_settled_posting(1, 7, 5, NOW),
    ledger.refund_failed_posting(1, 7, 5, NOW),
    ledger.bank_refund_posting(1, 7, 5, NOW),
    ledger.payout_posting(1, 7, 5, NOW),
    ledger.clawback_posting(1, 1, 5, NOW),
    ledger.debt_netting_posting(1, 1, 5, NOW),
    ledger.payout_reversal_posting(1, 7, 5, 3, NOW),
    ledger.debt_withholding_posting(1, 1, 5, NOW),
    ledger.debt_repayment_posting(1, 1, 5, NOW),
    ledger.processor_fee_posting(1, "f", 5, NOW),
    ledger.manual_movement_posting(1, MovementKind.REFUND, "r", -5, NOW),
    ledger.chargeback_withdrawn_posting(1, "c", 5, NOW),
    ledger.chargeback_reinstated_posting(1, "c", 5, NOW),
    ledger.chargeback_lost_posting(1, "c", 5, NOW),
    ledger.chargeback_verdict_changed_posting(1, "c", 7, 5, NOW),
]


@pytest.mark.parametrize(
    "legs",
    [
        (),
        (Leg(A.ESCROW, 0), Leg(A.SUSPENSE, 0)),
        (Leg(A.ESCROW, 1),),
        (Leg(A.ESCROW, 1), Leg(A.SUSPENSE, -2)),
        (Leg(A.ESCROW, 1), Leg(A.SUSPENSE, -1), Leg(A.PLATFORM_FEES, 0)),
    ],
)
def test_a_posting_that_does_not_balance_can_not_be_made(legs):
    """A posting needs at least two legs, none zero, with the sum zero."""
    with pytest.raises(ValueError, match="sum to zero"):
        Posting("key", 1, NOW, legs)


def test_every_kind_has_a_key_of_its_own():
    """Keys differ between kinds of postings, so that only a repeat is refused."""
    assert len({posting.key for posting in MADE}) == len(MADE)


def test_what_is_put_aside_is_a_payment_too():
    """A payment has the same key in escrow and in suspense, so it is posted once."""
    assert ledger.suspense_posting(1, "p", 5, NOW).key == ledger.payment_posting(1, "p", 5, NOW).key


def test_every_function_of_postings_is_tried_here():
    """The list above has every function that makes a posting."""
    makers = [
        function
        for name, function in vars(ledger).items()
        if not name.startswith("_")
        and isfunction(function)
        and signature(function).return_annotation == "Posting"
    ]
    assert len(makers) == len(MADE) + 1


def test_a_settlement_empties_the_escrow():
    """The escrow is divided into refund, fee, premium, payout and chargeback."""
    sums = account_balances([ledger.settlement_posting(1, 1, SPLIT, NOW)])
    assert sums == {
        A.ESCROW: 150,
        A.REFUND_PAYABLE: -10,
        A.PLATFORM_FEES: -20,
        A.INSURANCE_PREMIUMS: -30,
        A.STAFF_PAYABLE: -40,
        A.DISPUTE_RECEIVABLE: -50,
    }


@given(st.builds(Split, AMOUNT, AMOUNT, AMOUNT, AMOUNT, AMOUNT).filter(lambda split: split.total))
def test_a_reopening_is_the_settlement_backwards(split):
    """A settlement and its reversal sum to zero in each account."""
    both = [
        ledger.settlement_posting(1, 1, split, NOW),
        ledger.settlement_reversal_posting(1, 1, split, NOW),
    ]
    assert not any(account_balances(both).values())


def test_zero_parts_have_no_leg():
    """A split with a payout only has two legs."""
    assert len(ledger.settlement_posting(1, 1, Split(0, 0, 0, 9), NOW).legs) == 2


@given(st.integers(1, 10**12), st.data())
def test_a_reversal_ends_a_claim_or_is_owed_again(amount, data):
    """A reversal reduces the claim; an excess is owed to the staff member."""
    claimed = data.draw(st.integers(0, amount))
    sums = account_balances([ledger.payout_reversal_posting(1, 7, amount, claimed, NOW)])
    assert sums[A.PROCESSOR_BALANCE] == amount
    assert sums[A.STAFF_RECEIVABLE] == -claimed
    assert sums[A.STAFF_PAYABLE] == claimed - amount


def test_what_one_booking_keeps_makes_another_one_good():
    """Withholding and repayment sum to zero in the netting account."""
    sums = account_balances(
        [ledger.debt_withholding_posting(1, 3, 5, NOW), ledger.debt_repayment_posting(2, 7, 5, NOW)]
    )
    assert (sums[A.STAFF_PAYABLE], sums[A.STAFF_RECEIVABLE], sums[A.STAFF_NETTING]) == (5, -5, 0)


def test_a_booking_may_keep_and_make_good_in_turn():
    """The keys of netting postings differ by version and kind."""
    keys = {
        made(1, version, 5, NOW).key
        for made in (
            ledger.debt_withholding_posting,
            ledger.debt_repayment_posting,
            ledger.clawback_posting,
        )
        for version in (1, 2)
    }
    assert len(keys) == 6


@pytest.mark.parametrize("gained", [-5, 5])
def test_what_was_done_by_hand_waits_in_suspense(gained):
    """A manual movement is posted to suspense, whether the balance decreased or increased."""
    sums = account_balances(
        [ledger.manual_movement_posting(1, MovementKind.REVERSAL, "r", gained, NOW)]
    )
    assert (sums[A.PROCESSOR_BALANCE], sums[A.SUSPENSE]) == (gained, -gained)


def test_by_hand_each_kind_has_a_key_of_its_own():
    """A manual refund and its failure have different keys."""
    kinds = list(MovementKind)
    assert len({ledger.manual_movement_key(kind, "r") for kind in kinds}) == len(kinds)


def test_balances_add_up_over_postings():
    """Debits are positive; unused accounts are zero."""
    sums = account_balances([make_posting(amount=3), make_posting(amount=4)])
    assert (sums[A.PROCESSOR_BALANCE], sums[A.ESCROW], sums[A.SUSPENSE]) == (7, -7, 0)
