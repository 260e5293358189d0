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
from tests.money.processors import make_checkout_command
from tests.support.builders import HOUR, MINUTE, NOW, SECOND


def page_state(intent: FakeIntent) -> str:
    return machine.page_view(intent, "p1").state


# Pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lives", [30 * MINUTE, 24 * HOUR])
def test_a_page_lives_half_an_hour_to_a_day(lives: timedelta) -> None:
    """Both ends are allowed."""
    command = evolve(make_checkout_command(), expires_at=NOW + lives)
    _, checkout = machine.open_checkout(FakeIntent(7), command, 1, "p1", "http://test", NOW)
    assert checkout.status is CheckoutStatus.OPEN


@pytest.mark.parametrize("lives", [-SECOND, 30 * MINUTE - SECOND, 24 * HOUR + SECOND])
def test_other_lives_are_refused(lives: timedelta) -> None:
    """A page that would lapse too soon, too late or has lapsed already is invalid."""
    command = evolve(make_checkout_command(), expires_at=NOW + lives)
    with pytest.raises(ProcessorRefused) as refused:
        machine.open_checkout(FakeIntent(7), command, 1, "p1", "http://test", NOW)
    assert refused.value.reason is RefusalCode.INVALID


@pytest.mark.parametrize(("currency", "least"), [("usd", 50), ("jpy", 1), ("kwd", 500)])
def test_the_least_amount_follows_the_currency(currency: str, least: int) -> None:
    """Half a unit of most currencies, one of those without decimals."""
    assert machine.min_amount(currency) == least


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
def test_each_act_of_a_client(
    first: CheckoutOutcome | None, outcome: CheckoutOutcome, state: PageState
) -> None:
    """An open page, a challenge and a declined page lead to the same by the same act."""
    intent = intent_with_checkout()
    if first is not None:
        intent, _ = machine.apply_outcome(intent, "p1", first, NOW)
    intent, _ = machine.apply_outcome(intent, "p1", outcome, NOW)
    assert page_state(intent) == state


@pytest.mark.parametrize("outcome", CheckoutOutcome)
@pytest.mark.parametrize("end", [CheckoutOutcome.SUCCEED, CheckoutOutcome.EXPIRE])
def test_an_ended_page_stays(end: CheckoutOutcome, outcome: CheckoutOutcome) -> None:
    """Nothing that a client does changes a paid or expired page; a note says why."""
    ended, _ = machine.apply_outcome(intent_with_checkout(), "p1", end, NOW)
    again, note = machine.apply_outcome(ended, "p1", outcome, NOW)
    assert again == ended
    assert note


def test_a_decline_says_why() -> None:
    """The page shows why the card did not pay, until something else happens."""
    declined, _ = machine.apply_outcome(
        intent_with_checkout(), "p1", CheckoutOutcome.INSUFFICIENT_FUNDS, NOW
    )
    assert "insufficient funds" in machine.page_view(declined, "p1").message
    paid_after, _ = machine.apply_outcome(declined, "p1", CheckoutOutcome.SUCCEED, NOW)
    assert machine.page_view(paid_after, "p1").message == ""


def test_the_way_back_depends_on_the_payment() -> None:
    """Who has paid returns to the one address, who has not to the other."""
    command = make_checkout_command()
    assert machine.page_view(intent_with_checkout(), "p1").return_url == command.cancel_url
    assert machine.page_view(intent_with_payment(), "p1").return_url == command.success_url


def test_two_open_pages_can_both_be_paid() -> None:
    """As at a real processor, nothing but the caller keeps an intent from being paid twice."""
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
    """Each test card has its outcome, any other number has none."""
    assert find_card_outcome(number) is outcome
    assert parse_outcome(f"card:{number}") is outcome


def test_an_unknown_outcome_is_named() -> None:
    """What is neither an outcome nor a card is a fault of the field `outcome`."""
    with pytest.raises(InvalidField) as invalid:
        parse_outcome("paid")
    assert [fault.field for fault in invalid.value.field_errors] == ["outcome"]


# Money --------------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [0, -1])
def test_amounts_are_positive(amount: int) -> None:
    """Neither nothing nor less than nothing is moved."""
    for move in (refund_intent, pay_out_intent):
        with pytest.raises(ProcessorRefused) as refused:
            move(intent_with_payment(), amount)
        assert refused.value.reason is RefusalCode.INVALID


def test_another_currency_is_refused() -> None:
    """Money leaves in the currency in which it came."""
    with pytest.raises(ProcessorRefused) as refused:
        machine.refund(intent_with_payment(), RefundPayment("fpay_7_1", 1, "eur"), 2, NOW)
    assert refused.value.reason is RefusalCode.INVALID


def test_what_was_taken_back_can_be_paid_out_again() -> None:
    """A reversed payout leaves its payment as if it had not been made."""
    intent = pay_out_intent(
        reverse_intent_payout(pay_out_intent(intent_with_payment(), 1_000), 1_000), 1_000
    )
    assert machine.balance(intent) == 0


def test_an_unknown_payout_is_not_reversed() -> None:
    """A reversal names a payout that was made."""
    with pytest.raises(ProcessorRefused) as refused:
        reverse_intent_payout(pay_out_intent(intent_with_payment(), 1_000), 1, "fpo_7_2")
    assert refused.value.reason is RefusalCode.MISSING


def test_a_payout_is_reversed_once() -> None:
    """Of a payout that was taken back whole nothing is left."""
    with pytest.raises(ProcessorRefused) as refused:
        reverse_intent_payout(
            reverse_intent_payout(pay_out_intent(intent_with_payment(), 1_000), 1_000), 1
        )
    assert refused.value.reason is RefusalCode.NOTHING_LEFT


@pytest.mark.parametrize("course", REFUND_PROGRESSIONS.values())
def test_a_refund_ends_by_itself(course: RefundProgression) -> None:
    """Money is gone while a refund is settled, and with us before and where it fails."""
    first = refund_intent(intent_with_payment(), 400, course)
    last = machine.advance_to(first, NOW + DELAYED_EFFECT_PERIOD)
    held = {RefundStatus.PENDING: 1_000, RefundStatus.SETTLED: 600, RefundStatus.FAILED: 1_000}
    for intent, status in zip((first, last), course, strict=True):
        assert machine.snapshot(intent).refunds[0].status is status
        assert machine.balance(intent) == held[status]


@pytest.mark.parametrize("kind", ["pending_then_failed", "settled_then_failed"])
def test_a_refund_counts_until_it_fails(kind: str) -> None:
    """What is on its way back cannot be refunded once more; what failed can."""
    first = refund_intent(intent_with_payment(), 1_000, REFUND_PROGRESSIONS[kind])
    with pytest.raises(ProcessorRefused):
        refund_intent(first, 1)
    refund_intent(machine.advance_to(first, NOW + DELAYED_EFFECT_PERIOD), 1_000)


def test_a_fee_is_rounded_half_up() -> None:
    """Of 1,000 at 2.95 % thirty are kept, and the balance lacks them."""
    intent = intent_with_payment(1_000, fee_ppm=29_500)
    assert machine.snapshot(intent).fees == (ProcessorFee("ffee_7_1", 30),)
    assert machine.balance(intent) == 970


def test_a_refund_by_hand_is_none_of_ours() -> None:
    """It bears no operation, and is taken from a payment that has as much left."""
    two = machine.refund_by_hand(refund_intent(intent_with_two_payments(), 800), 300, NOW)
    assert [state.op_id for state in machine.snapshot(two).refunds] == [2, None]
    assert [charge.refundable_amount for charge in two.charges] == [200, 200]


def test_a_reversal_by_hand_is_none_of_ours() -> None:
    """It bears no operation, and is taken from a payout that has as much left."""
    out = reverse_intent_payout(
        pay_out_intent(pay_out_intent(intent_with_payment(), 400), 500), 300
    )
    changed = machine.reverse_by_hand(out, 450)
    assert [state.op_id for state in machine.snapshot(changed).reversals] == [5, None]
    assert [payout.reversed for payout in machine.snapshot(changed).payouts] == [300, 450]


@pytest.mark.parametrize("amount", [-1, 0, 1_001])
def test_a_hand_is_held_to_the_same_bounds(amount: int) -> None:
    """Nobody refunds or takes back what is not there."""
    intent = pay_out_intent(intent_with_payment(), 1_000)
    with pytest.raises(ProcessorRefused):
        machine.refund_by_hand(intent, amount, NOW)
    with pytest.raises(ProcessorRefused):
        machine.reverse_by_hand(intent, amount)


# Whatever happens ---------------------------------------------------------------------------

AMOUNTS = st.integers(-10, 1_200)
ACTS = st.one_of(
    st.tuples(st.just("refund"), AMOUNTS, st.sampled_from([None, *REFUND_PROGRESSIONS])),
    st.tuples(st.just("pay_out"), AMOUNTS, st.booleans()),
    st.tuples(st.just("reverse"), AMOUNTS, st.integers(1, 3)),
    st.tuples(st.just("chargeback"), st.sampled_from(ChargebackStatus)),
    st.tuples(st.just("wait"), st.integers(0, 90)),
    st.tuples(st.just("play"), st.sampled_from(CheckoutOutcome)),
    st.tuples(st.just("close")),
)


def act(intent: FakeIntent, what: tuple[object, ...], now: datetime) -> FakeIntent:
    """The intent after one act; as it was where the act is refused."""
    try:
        match what:
            case "refund", int(amount), kind:
                command, course = (
                    RefundPayment("fpay_7_1", amount, "usd"),
                    REFUND_PROGRESSIONS.get(str(kind)),
                )
                return machine.refund(intent, command, 2, now, course)[0]
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


def taken(charge: Charge) -> int:
    """What the bank has of it."""
    chargeback = charge.chargeback
    if chargeback is None or chargeback.status is ChargebackStatus.WON:
        return 0
    return chargeback.amount


def books(charge: Charge) -> int:
    """What is held of a payment, by the list of its facts alone."""
    return (
        charge.payment.amount
        - sum(fee.amount for fee in charge.fees)
        - refunded(charge)
        - sum(payout.amount for payout in charge.payouts)
        + sum(reversal.amount for reversal in charge.reversals)
        - taken(charge)
    )


@given(st.lists(ACTS, max_size=25))
def test_money_stays_within_its_bounds(acts: list[tuple[Any, ...]]) -> None:
    """Whatever is tried in whatever order: one charge at most, refunds and a lost chargeback
    within it, net payouts within it, and the balance is what the facts add up to."""
    intent, now = intent_with_checkout(), NOW
    for what in [("play", CheckoutOutcome.SUCCEED), *acts]:
        now += timedelta(seconds=int(what[1]) if what[0] == "wait" else 0)
        intent = act(machine.advance_to(intent, now), what, now)
        [charge] = intent.charges
        assert 0 <= charge.refundable_amount <= 1_000
        assert refunded(charge) + taken(charge) <= 1_000
        assert 0 <= charge.payable_amount <= 1_000
        assert all(0 <= payout.reversed <= payout.amount for payout in charge.payouts)
        assert machine.balance(intent) == books(charge)
        assert machine.advance_to(intent, now) == intent
        change = machine.next_change_at(intent)
        assert change is None or change > now


@given(st.lists(ACTS, max_size=12))
def test_a_state_survives_the_book(acts: list[tuple[object, ...]]) -> None:
    """What is written down as JSON is read as it was."""
    intent = intent_with_payment()
    for what in acts:
        intent = act(intent, what, NOW)
    assert load(dump(intent), FakeIntent) == intent
