"""Chargebacks of the fake processor: opening and verdict."""

from __future__ import annotations

import pytest

from staffbooking_adapters.fake import machine
from staffbooking_adapters.fake.cards import CheckoutOutcome
from staffbooking_adapters.fake.charge import DELAYED_EFFECT_PERIOD
from staffbooking_adapters.fake.faults import REFUND_PROGRESSIONS
from staffbooking_adapters.fake.machine import FakeIntent
from staffbooking_adapters.testing.builders import NOW, SECOND
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    ProcessorFee,
    ProcessorRefused,
    RefusalCode,
)
from staffbooking_core.errors import RuleBroken
from tests.money.fake_intents import (
    intent_with_checkout,
    intent_with_payment,
    intent_with_two_payments,
    pay_out_intent,
    refund_intent,
)


def test_each_payment_has_a_chargeback_of_its_own() -> None:
    """Two chargebacks on one intent apply to its two payments, and each names its payment."""
    both = machine.chargeback(
        machine.chargeback(intent_with_two_payments(), ChargebackStatus.OPEN), ChargebackStatus.OPEN
    )
    assert [each.payment_ref for each in machine.snapshot(both).chargebacks] == [
        "fpay_7_1",
        "fpay_7_2",
    ]


def test_a_verdict_applies_to_the_disputed_payment() -> None:
    """A verdict applies to the open chargeback and opens none on the other payment."""
    disputed = machine.chargeback(intent_with_two_payments(), ChargebackStatus.OPEN)
    lost = machine.chargeback(disputed, ChargebackStatus.LOST)
    assert [each.status for each in machine.snapshot(lost).chargebacks] == [ChargebackStatus.LOST]


def test_chargebacks_are_listed_oldest_first() -> None:
    """A snapshot lists chargebacks in the order of opening, not of the payments."""
    first_gone = refund_intent(
        intent_with_two_payments(), 1_000, REFUND_PROGRESSIONS["pending_then_failed"]
    )
    of_second = machine.chargeback(first_gone, ChargebackStatus.OPEN)
    both = machine.chargeback(
        machine.advance_to(of_second, NOW + DELAYED_EFFECT_PERIOD), ChargebackStatus.OPEN
    )
    assert [each.ref for each in machine.snapshot(both).chargebacks] == ["fcb_7_2", "fcb_7_1"]


@pytest.mark.parametrize(
    ("outcome", "balance"),
    [(ChargebackStatus.OPEN, 0), (ChargebackStatus.WON, 700), (ChargebackStatus.LOST, 0)],
)
def test_a_chargeback_takes_what_is_left(outcome: ChargebackStatus, balance: int) -> None:
    """A chargeback takes the unrefunded amount, and only a won one returns it; a verdict without
    an open chargeback opens it first."""
    charged = machine.chargeback(refund_intent(intent_with_payment(), 300), outcome)
    [chargeback] = machine.snapshot(charged).chargebacks
    assert (chargeback.amount, chargeback.status) == (700, outcome)
    assert machine.balance(charged) == balance


def test_a_chargeback_after_the_payout_leaves_a_debt() -> None:
    """A chargeback of a paid-out payment makes the balance negative by the payout."""
    assert (
        machine.balance(
            machine.chargeback(pay_out_intent(intent_with_payment(), 850), ChargebackStatus.OPEN)
        )
        == -850
    )


def test_a_won_payment_can_be_refunded() -> None:
    """A payment can be refunded after a won chargeback, but not after a lost one."""
    won = machine.chargeback(intent_with_payment(), ChargebackStatus.WON)
    assert machine.balance(refund_intent(won, 1_000)) == 0
    with pytest.raises(ProcessorRefused) as refused:
        refund_intent(machine.chargeback(intent_with_payment(), ChargebackStatus.LOST), 1)
    assert refused.value.reason is RefusalCode.DISPUTED


@pytest.mark.parametrize(
    ("outcome", "overturned", "movement"),
    [
        (ChargebackStatus.WON, ChargebackStatus.LOST, -1_000),
        (ChargebackStatus.LOST, ChargebackStatus.WON, 1_000),
    ],
)
def test_an_appeal_overturns_a_verdict(
    outcome: ChargebackStatus, overturned: ChargebackStatus, movement: int
) -> None:
    """After an appeal the opposite verdict holds, and the statement shows its money."""
    decided = machine.chargeback(intent_with_payment(), outcome)

    appealed = machine.overturn_chargebacks(decided)

    [chargeback] = machine.snapshot(appealed).chargebacks
    assert chargeback.status is overturned
    assert [(line.kind, line.amount) for line in machine.movements(decided, appealed, NOW)] == [
        (MovementKind.REINSTATEMENT, movement)
    ]


def test_an_open_chargeback_is_not_overturned() -> None:
    """An appeal changes nothing where no bank has decided."""
    for intent in (
        intent_with_payment(),
        machine.chargeback(intent_with_payment(), ChargebackStatus.OPEN),
    ):
        assert machine.overturn_chargebacks(intent) == intent


@pytest.mark.parametrize(
    ("intent", "outcome", "code"),
    [
        (intent_with_checkout(), ChargebackStatus.OPEN, "not_paid"),
        (refund_intent(intent_with_payment(), 1_000), ChargebackStatus.OPEN, "nothing_left"),
        (
            machine.chargeback(intent_with_payment(), ChargebackStatus.OPEN),
            ChargebackStatus.OPEN,
            "already_charged_back",
        ),
        (
            machine.chargeback(intent_with_payment(), ChargebackStatus.WON),
            ChargebackStatus.LOST,
            "chargeback_decided",
        ),
    ],
)
def test_an_impossible_chargeback_is_refused(
    intent: FakeIntent, outcome: ChargebackStatus, code: str
) -> None:
    """Each impossible chargeback raises `RuleBroken` with its own code."""
    with pytest.raises(RuleBroken) as broken:
        machine.chargeback(intent, outcome)
    assert broken.value.code == code


def test_a_card_charges_back_later() -> None:
    """`SUCCEED_THEN_CHARGEBACK` opens a chargeback `DELAYED_EFFECT_PERIOD` after payment."""
    intent = intent_with_payment(outcome=CheckoutOutcome.SUCCEED_THEN_CHARGEBACK)
    assert (
        machine.snapshot(
            machine.advance_to(intent, NOW + DELAYED_EFFECT_PERIOD - SECOND)
        ).chargebacks
        == ()
    )
    [chargeback] = machine.snapshot(
        machine.advance_to(intent, NOW + DELAYED_EFFECT_PERIOD)
    ).chargebacks
    assert (chargeback.amount, chargeback.status) == (1_000, ChargebackStatus.OPEN)


def test_a_refunded_card_is_not_charged_back() -> None:
    """A payment refunded in full before its scheduled chargeback is not charged back."""
    intent = refund_intent(
        intent_with_payment(outcome=CheckoutOutcome.SUCCEED_THEN_CHARGEBACK), 1_000
    )
    later = machine.advance_to(intent, NOW + DELAYED_EFFECT_PERIOD)
    assert machine.snapshot(later).chargebacks == ()
    assert machine.next_change_at(later) is None


def test_a_chargeback_costs_the_fee_again() -> None:
    """A chargeback costs the payment's fee again, even if it is won."""
    won = machine.chargeback(intent_with_payment(1_000, fee_ppm=30_000), ChargebackStatus.WON)
    assert machine.snapshot(won).fees == (
        ProcessorFee("ffee_7_1", 30),
        ProcessorFee("fcbfee_7_1", 30),
    )
    assert machine.balance(won) == 940
