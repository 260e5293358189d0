"""The fake processor's chargebacks: what a bank takes back, and what it decides."""

from __future__ import annotations

import pytest

from staffbooking_adapters.fake import machine
from staffbooking_adapters.fake.cards import Outcome
from staffbooking_adapters.fake.charge import LATER
from staffbooking_adapters.fake.faults import COURSES
from staffbooking_adapters.fake.machine import Intent
from staffbooking_core.domain.payments.processor import ChargebackStatus, Fee, RefusalCode, Refused
from staffbooking_core.errors import RuleBroken
from tests.money.fake_intents import opened, paid, paid_twice, pay_out, refund
from tests.support.builders import NOW, SECOND


def test_each_payment_has_a_chargeback_of_its_own() -> None:
    """A second claim goes to the other payment, and each says which it is of."""
    both = machine.chargeback(
        machine.chargeback(paid_twice(), ChargebackStatus.OPEN), ChargebackStatus.OPEN
    )
    assert [each.payment_ref for each in machine.snapshot(both).chargebacks] == [
        "fpay_7_1",
        "fpay_7_2",
    ]


def test_a_verdict_is_of_the_disputed_payment() -> None:
    """It is not of another payment that could be claimed as well."""
    disputed = machine.chargeback(paid_twice(), ChargebackStatus.OPEN)
    lost = machine.chargeback(disputed, ChargebackStatus.LOST)
    assert [each.status for each in machine.snapshot(lost).chargebacks] == [ChargebackStatus.LOST]


def test_chargebacks_are_told_oldest_first() -> None:
    """The order is that of their opening, not that of the payments."""
    first_gone = refund(paid_twice(), 1_000, COURSES["pending_then_failed"])
    of_second = machine.chargeback(first_gone, ChargebackStatus.OPEN)
    both = machine.chargeback(machine.at(of_second, NOW + LATER), ChargebackStatus.OPEN)
    assert [each.ref for each in machine.snapshot(both).chargebacks] == ["fcb_7_2", "fcb_7_1"]


@pytest.mark.parametrize(
    ("outcome", "balance"),
    [(ChargebackStatus.OPEN, 0), (ChargebackStatus.WON, 700), (ChargebackStatus.LOST, 0)],
)
def test_a_chargeback_takes_what_is_left(outcome: ChargebackStatus, balance: int) -> None:
    """It takes what was not refunded; won it comes back, lost it stays away. A verdict
    without an open chargeback opens it first."""
    charged = machine.chargeback(refund(paid(), 300), outcome)
    [chargeback] = machine.snapshot(charged).chargebacks
    assert (chargeback.amount, chargeback.status) == (700, outcome)
    assert machine.balance(charged) == balance


def test_a_chargeback_after_the_payout_leaves_a_debt() -> None:
    """The bank takes from the platform what was paid out already."""
    assert machine.balance(machine.chargeback(pay_out(paid(), 850), ChargebackStatus.OPEN)) == -850


def test_a_won_payment_can_be_refunded() -> None:
    """After the bank decided for us, and only then, a refund passes again."""
    won = machine.chargeback(paid(), ChargebackStatus.WON)
    assert machine.balance(refund(won, 1_000)) == 0
    with pytest.raises(Refused) as refused:
        refund(machine.chargeback(paid(), ChargebackStatus.LOST), 1)
    assert refused.value.reason is RefusalCode.DISPUTED


@pytest.mark.parametrize(
    ("intent", "outcome", "code"),
    [
        (opened(), ChargebackStatus.OPEN, "not_paid"),
        (refund(paid(), 1_000), ChargebackStatus.OPEN, "nothing_left"),
        (
            machine.chargeback(paid(), ChargebackStatus.OPEN),
            ChargebackStatus.OPEN,
            "already_charged_back",
        ),
        (
            machine.chargeback(paid(), ChargebackStatus.WON),
            ChargebackStatus.LOST,
            "chargeback_decided",
        ),
    ],
)
def test_what_cannot_be_charged_back(intent: Intent, outcome: ChargebackStatus, code: str) -> None:
    """Each chargeback that cannot be is refused by its own rule."""
    with pytest.raises(RuleBroken) as broken:
        machine.chargeback(intent, outcome)
    assert broken.value.code == code


def test_a_card_charges_back_later() -> None:
    """The card for it pays first, and is charged back after a while."""
    intent = paid(outcome=Outcome.SUCCEED_THEN_CHARGEBACK)
    assert machine.snapshot(machine.at(intent, NOW + LATER - SECOND)).chargebacks == ()
    [chargeback] = machine.snapshot(machine.at(intent, NOW + LATER)).chargebacks
    assert (chargeback.amount, chargeback.status) == (1_000, ChargebackStatus.OPEN)


def test_a_refunded_card_is_not_charged_back() -> None:
    """Where everything was refunded in the meantime, the bank has nothing to take."""
    intent = refund(paid(outcome=Outcome.SUCCEED_THEN_CHARGEBACK), 1_000)
    later = machine.at(intent, NOW + LATER)
    assert machine.snapshot(later).chargebacks == ()
    assert machine.next_change(later) is None


def test_a_chargeback_costs_the_fee_again() -> None:
    """Whatever the bank decides."""
    won = machine.chargeback(paid(1_000, fee_ppm=30_000), ChargebackStatus.WON)
    assert machine.snapshot(won).fees == (Fee("ffee_7_1", 30), Fee("fcbfee_7_1", 30))
    assert machine.balance(won) == 940
