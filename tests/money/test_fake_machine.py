"""The fake processor's rules for one intent, without any store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_adapters.codec import dump, load
from staffbooking_adapters.fake import machine
from staffbooking_adapters.fake.cards import CheckoutOutcome, find_card_outcome, parse_outcome
from staffbooking_adapters.fake.charge import DELAYED_EFFECT_PERIOD, Charge
from staffbooking_adapters.fake.faults import REFUND_PROGRESSIONS
from staffbooking_adapters.fake.machine import FakeIntent, PageState, RefundProgression
from staffbooking_adapters.testing.builders import HOUR, MINUTE, NOW, SECOND
from staffbooking_adapters.testing.processor.base import make_checkout_command
from staffbooking_core.domain.payments.processor import (
    ChargebackStatus,
    CheckoutStatus,
    PayOut,
    ProcessorFee,
    ProcessorRefused,
    RefundPayment,
    RefundStatus,
    RefusalCode,
)
from staffbooking_core.errors import InvalidField, RuleBroken
from tests.money.fake_intents import (
    intent_with_checkout,
    intent_with_payment,
    intent_with_two_payments,
    pay_out_intent,
    refund_intent,
    reverse_intent_payout,
)


def page_state(intent: FakeIntent) -> str:
    return machine.page_view(intent, "p1").state


# Pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lifetime", [30 * MINUTE, 24 * HOUR])
def test_a_page_may_live_half_an_hour_to_a_day(lifetime: timedelta) -> None:
    """A page may expire after 30 minutes and after 24 hours, both ends included."""
    command = evolve(make_checkout_command(), expires_at=NOW + lifetime)
    _, checkout = machine.open_checkout(FakeIntent(7), command, 1, "p1", "http://test", NOW)
    assert checkout.status is CheckoutStatus.OPEN


@pytest.mark.parametrize("lifetime", [-SECOND, 30 * MINUTE - SECOND, 24 * HOUR + SECOND])
def test_other_page_lifetimes_are_refused(lifetime: timedelta) -> None:
    """An expiry in the past, too soon or too late is refused as invalid."""
    command = evolve(make_checkout_command(), expires_at=NOW + lifetime)
    with pytest.raises(ProcessorRefused) as refused:
        machine.open_checkout(FakeIntent(7), command, 1, "p1", "http://test", NOW)
    assert refused.value.reason is RefusalCode.INVALID


@pytest.mark.parametrize(("currency", "minimum"), [("usd", 50), ("jpy", 1), ("kwd", 500)])
def test_the_minimum_amount_depends_on_the_currency(currency: str, minimum: int) -> None:
    """The minimum is half a unit, or one unit in a currency without decimals."""
    assert machine.min_amount(currency) == minimum


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (CheckoutOutcome.SUCCEED, PageState.PAID),
        (CheckoutOutcome.SUCCEED_THEN_CHARGEBACK, PageState.PAID),
        (CheckoutOutcome.DECLINE, PageState.OPEN),
        (CheckoutOutcome.INSUFFICIENT_FUNDS, PageState.OPEN),
        (CheckoutOutcome.CHALLENGE, PageState.CHALLENGE),
        (CheckoutOutcome.EXPIRE, PageState.EXPIRED),
    ],
)
@pytest.mark.parametrize("first", [None, CheckoutOutcome.CHALLENGE, CheckoutOutcome.DECLINE])
def test_each_outcome_leads_to_its_page_state(
    first: CheckoutOutcome | None, outcome: CheckoutOutcome, state: PageState
) -> None:
    """An outcome leads to the same state from an open, a challenged and a declined page."""
    intent = intent_with_checkout()
    if first is not None:
        intent, _ = machine.apply_outcome(intent, "p1", first, NOW)
    intent, _ = machine.apply_outcome(intent, "p1", outcome, NOW)
    assert page_state(intent) == state


@pytest.mark.parametrize("outcome", CheckoutOutcome)
@pytest.mark.parametrize("end", [CheckoutOutcome.SUCCEED, CheckoutOutcome.EXPIRE])
def test_an_ended_page_does_not_change(end: CheckoutOutcome, outcome: CheckoutOutcome) -> None:
    """No outcome changes a paid or expired page, and each returns a note."""
    ended, _ = machine.apply_outcome(intent_with_checkout(), "p1", end, NOW)
    again, note = machine.apply_outcome(ended, "p1", outcome, NOW)
    assert again == ended
    assert note


def test_a_decline_shows_its_reason() -> None:
    """A page shows the reason of the decline until it is paid."""
    declined, _ = machine.apply_outcome(
        intent_with_checkout(), "p1", CheckoutOutcome.INSUFFICIENT_FUNDS, NOW
    )
    assert "insufficient funds" in machine.page_view(declined, "p1").message
    paid_after, _ = machine.apply_outcome(declined, "p1", CheckoutOutcome.SUCCEED, NOW)
    assert machine.page_view(paid_after, "p1").message == ""


def test_the_return_url_depends_on_the_payment() -> None:
    """A page returns to the success URL if paid, else to the cancel URL."""
    command = make_checkout_command()
    assert machine.page_view(intent_with_checkout(), "p1").return_url == command.cancel_url
    assert machine.page_view(intent_with_payment(), "p1").return_url == command.success_url


def test_two_open_pages_can_both_be_paid() -> None:
    """Two open pages of one intent can both be paid, as at a real processor."""
    assert [
        payment.amount for payment in machine.snapshot(intent_with_two_payments()).payments
    ] == [1_000, 500]


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        ("4242 4242 4242 4242", CheckoutOutcome.SUCCEED),
        ("4000-0000-0000-0002", CheckoutOutcome.DECLINE),
        ("4000000000009995", CheckoutOutcome.INSUFFICIENT_FUNDS),
        ("4000002500003155", CheckoutOutcome.CHALLENGE),
        ("4000000000000259", CheckoutOutcome.SUCCEED_THEN_CHARGEBACK),
        ("4111111111111111", None),
        ("", None),
    ],
)
def test_each_test_card(number: str, outcome: CheckoutOutcome | None) -> None:
    """Each test card number has its outcome, and any other number has none."""
    assert find_card_outcome(number) is outcome
    assert parse_outcome(f"card:{number}") is outcome


def test_an_unknown_outcome_is_named() -> None:
    """Text that is neither an outcome nor a card is an error of the field `outcome`."""
    with pytest.raises(InvalidField) as invalid:
        parse_outcome("paid")
    assert [fault.field for fault in invalid.value.field_errors] == ["outcome"]


# Money --------------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [0, -1])
def test_amounts_are_positive(amount: int) -> None:
    """Refunds and payouts of zero and of negative amounts are refused as invalid."""
    for move in (refund_intent, pay_out_intent):
        with pytest.raises(ProcessorRefused) as refused:
            move(intent_with_payment(), amount)
        assert refused.value.reason is RefusalCode.INVALID


def test_another_currency_is_refused() -> None:
    """A refund in a currency other than the payment's is refused as invalid."""
    with pytest.raises(ProcessorRefused) as refused:
        machine.refund(intent_with_payment(), RefundPayment("fpay_7_1", 1, "eur"), 2, NOW)
    assert refused.value.reason is RefusalCode.INVALID


def test_a_reversed_amount_can_be_paid_out_again() -> None:
    """The amount of a fully reversed payout can be paid out again."""
    intent = pay_out_intent(
        reverse_intent_payout(pay_out_intent(intent_with_payment(), 1_000), 1_000), 1_000
    )
    assert machine.balance(intent) == 0


def test_an_unknown_payout_is_not_reversed() -> None:
    """A reversal of an unknown payout is refused as missing."""
    with pytest.raises(ProcessorRefused) as refused:
        reverse_intent_payout(pay_out_intent(intent_with_payment(), 1_000), 1, "fpo_7_2")
    assert refused.value.reason is RefusalCode.MISSING


def test_a_payout_is_reversed_once() -> None:
    """A fully reversed payout has nothing left to reverse."""
    with pytest.raises(ProcessorRefused) as refused:
        reverse_intent_payout(
            reverse_intent_payout(pay_out_intent(intent_with_payment(), 1_000), 1_000), 1
        )
    assert refused.value.reason is RefusalCode.NOTHING_LEFT


@pytest.mark.parametrize("progression", REFUND_PROGRESSIONS.values())
def test_a_refund_ends_by_itself(progression: RefundProgression) -> None:
    """A refund changes status after `DELAYED_EFFECT_PERIOD`, and only a settled one lowers the
    balance."""
    first = refund_intent(intent_with_payment(), 400, progression)
    last = machine.advance_to(first, NOW + DELAYED_EFFECT_PERIOD)
    held = {RefundStatus.PENDING: 1_000, RefundStatus.SETTLED: 600, RefundStatus.FAILED: 1_000}
    for intent, status in zip((first, last), progression, strict=True):
        assert machine.snapshot(intent).refunds[0].status is status
        assert machine.balance(intent) == held[status]


@pytest.mark.parametrize("kind", ["pending_then_failed", "settled_then_failed"])
def test_a_refund_counts_until_it_fails(kind: str) -> None:
    """A pending or settled refund uses up the payment; a failed one frees the amount again."""
    first = refund_intent(intent_with_payment(), 1_000, REFUND_PROGRESSIONS[kind])
    with pytest.raises(ProcessorRefused):
        refund_intent(first, 1)
    refund_intent(machine.advance_to(first, NOW + DELAYED_EFFECT_PERIOD), 1_000)


def test_a_fee_is_rounded_half_up() -> None:
    """The fee of 1,000 at 2.95 % is 30, and the balance is reduced by it."""
    intent = intent_with_payment(1_000, fee_ppm=29_500)
    assert machine.snapshot(intent).fees == (ProcessorFee("ffee_7_1", 30),)
    assert machine.balance(intent) == 970


def test_a_refund_by_hand_has_no_operation() -> None:
    """A refund by hand has no operation and applies to a payment with enough left."""
    two = machine.refund_by_hand(refund_intent(intent_with_two_payments(), 800), 300, NOW)
    assert [state.op_id for state in machine.snapshot(two).refunds] == [2, None]
    assert [charge.refundable_amount for charge in two.charges] == [200, 200]


def test_a_reversal_by_hand_has_no_operation() -> None:
    """A reversal by hand has no operation and applies to a payout with enough left."""
    out = reverse_intent_payout(
        pay_out_intent(pay_out_intent(intent_with_payment(), 400), 500), 300
    )
    changed = machine.reverse_by_hand(out, 450)
    assert [state.op_id for state in machine.snapshot(changed).reversals] == [5, None]
    assert [payout.reversed for payout in machine.snapshot(changed).payouts] == [300, 450]


@pytest.mark.parametrize("amount", [-1, 0, 1_001])
def test_actions_by_hand_have_the_same_bounds(amount: int) -> None:
    """Refunds and reversals by hand outside of the available amount are refused."""
    intent = pay_out_intent(intent_with_payment(), 1_000)
    with pytest.raises(ProcessorRefused):
        machine.refund_by_hand(intent, amount, NOW)
    with pytest.raises(ProcessorRefused):
        machine.reverse_by_hand(intent, amount)


# Any sequence of actions --------------------------------------------------------------------

AMOUNTS = st.integers(-10, 1_200)
ACTIONS = st.one_of(
    st.tuples(st.just("refund"), AMOUNTS, st.sampled_from([None, *REFUND_PROGRESSIONS])),
    st.tuples(st.just("pay_out"), AMOUNTS, st.booleans()),
    st.tuples(st.just("reverse"), AMOUNTS, st.integers(1, 3)),
    st.tuples(st.just("chargeback"), st.sampled_from(ChargebackStatus)),
    st.tuples(st.just("wait"), st.integers(0, 90)),
    st.tuples(st.just("play"), st.sampled_from(CheckoutOutcome)),
    st.tuples(st.just("close")),
)


def apply_action(intent: FakeIntent, action: tuple[object, ...], now: datetime) -> FakeIntent:
    """The intent after one action; unchanged if the action is refused."""
    try:
        match action:
            case "refund", int(amount), kind:
                command, progression = (
                    RefundPayment("fpay_7_1", amount, "usd"),
                    REFUND_PROGRESSIONS.get(str(kind)),
                )
                return machine.refund(intent, command, 2, now, progression)[0]
            case "pay_out", int(amount), bool(ready):
                out = PayOut("fpay_7_1", 3, amount, "usd")
                return machine.pay_out(intent, out, 4, ready)[0]
            case "reverse", int(amount), int(n):
                return reverse_intent_payout(intent, amount, f"fpo_7_{n}")
            case "chargeback", ChargebackStatus() as outcome:
                return machine.chargeback(intent, outcome)
            case "play", CheckoutOutcome() as outcome:
                return machine.apply_outcome(intent, "p1", outcome, now, 29_000)[0]
            case ("close",):
                return machine.close_checkout(intent, "p1")[0]
    except (ProcessorRefused, RuleBroken):
        pass
    return intent


def refunded(charge: Charge) -> int:
    return sum(r.amount for r in charge.refunds if r.status is RefundStatus.SETTLED)


def charged_back(charge: Charge) -> int:
    """The amount held by the bank because of a chargeback."""
    chargeback = charge.chargeback
    if chargeback is None or chargeback.status is ChargebackStatus.WON:
        return 0
    return chargeback.amount


def expected_balance(charge: Charge) -> int:
    """The balance of a charge, computed from its facts alone."""
    return (
        charge.payment.amount
        - sum(fee.amount for fee in charge.fees)
        - refunded(charge)
        - sum(payout.amount for payout in charge.payouts)
        + sum(reversal.amount for reversal in charge.reversals)
        - charged_back(charge)
    )


@given(st.lists(ACTIONS, max_size=25))
def test_money_stays_within_its_bounds(actions: list[tuple[Any, ...]]) -> None:
    """Any sequence of actions keeps one charge, refunds and chargeback within the payment, net
    payouts within it, and the balance equal to the sum of the facts."""
    intent, now = intent_with_checkout(), NOW
    for action in [("play", CheckoutOutcome.SUCCEED), *actions]:
        now += timedelta(seconds=int(action[1]) if action[0] == "wait" else 0)
        intent = apply_action(machine.advance_to(intent, now), action, now)
        [charge] = intent.charges
        assert 0 <= charge.refundable_amount <= 1_000
        assert refunded(charge) + charged_back(charge) <= 1_000
        assert 0 <= charge.payable_amount <= 1_000
        assert all(0 <= payout.reversed <= payout.amount for payout in charge.payouts)
        assert machine.balance(intent) == expected_balance(charge)
        assert machine.advance_to(intent, now) == intent
        change = machine.next_change_at(intent)
        assert change is None or change > now


@given(st.lists(ACTIONS, max_size=12))
def test_an_intent_survives_encoding(actions: list[tuple[object, ...]]) -> None:
    """An intent is unchanged by encoding as JSON and decoding."""
    intent = intent_with_payment()
    for action in actions:
        intent = apply_action(intent, action, NOW)
    assert load(dump(intent), FakeIntent) == intent
