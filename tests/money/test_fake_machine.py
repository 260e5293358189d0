"""The fake processor's rules for one intent, without any store."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from staffbooking_adapters.codec import dump, load
from staffbooking_adapters.fake import machine
from staffbooking_adapters.fake.cards import Outcome, outcome_of, outcome_of_card
from staffbooking_adapters.fake.charge import LATER, Charge
from staffbooking_adapters.fake.machine import Intent, PageState
from staffbooking_core.domain.payments import (
    ChargebackStatus,
    CheckoutStatus,
    PayOut,
    Refund,
    RefundStatus,
    RefusalCode,
    Refused,
    ReversePayout,
)
from staffbooking_core.errors import InvalidField, RuleBroken
from tests.money.processors import make_checkout
from tests.support.builders import HOUR, MINUTE, NOW, SECOND


def opened(amount: int = 1_000, currency: str = "usd", ref: str = "p1", n: int = 1) -> Intent:
    intent, _ = machine.open_checkout(
        Intent(7), make_checkout(amount, currency), n, ref, f"http://test/{ref}", NOW
    )
    return intent


def paid(amount: int = 1_000, outcome: Outcome = Outcome.SUCCEED) -> Intent:
    intent, _ = machine.play(opened(amount), "p1", outcome, NOW)
    return intent


def refund(intent: Intent, amount: int, ends: RefundStatus | None = None) -> Intent:
    command = Refund("fpay_7_1", amount, "usd")
    return machine.refund(intent, command, 2, NOW, ends)[0]


def pay_out(intent: Intent, amount: int) -> Intent:
    return machine.pay_out(intent, PayOut("fpay_7_1", 3, amount, "usd"), 4, ready=True)[0]


def reverse(intent: Intent, amount: int, payout_ref: str = "fpo_7_1") -> Intent:
    return machine.reverse_payout(intent, ReversePayout(1, amount, "usd"), payout_ref, 5)[0]


def page_state(intent: Intent) -> str:
    return machine.view(intent, "p1").state


# Pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("lives", [30 * MINUTE, 24 * HOUR])
def test_a_page_lives_half_an_hour_to_a_day(lives: timedelta) -> None:
    """Both ends are allowed."""
    command = evolve(make_checkout(), expires_at=NOW + lives)
    _, checkout = machine.open_checkout(Intent(7), command, 1, "p1", "http://test", NOW)
    assert checkout.status is CheckoutStatus.OPEN


@pytest.mark.parametrize("lives", [-SECOND, 30 * MINUTE - SECOND, 24 * HOUR + SECOND])
def test_other_lives_are_refused(lives: timedelta) -> None:
    """A page that would lapse too soon, too late or has lapsed already is invalid."""
    command = evolve(make_checkout(), expires_at=NOW + lives)
    with pytest.raises(Refused) as refused:
        machine.open_checkout(Intent(7), command, 1, "p1", "http://test", NOW)
    assert refused.value.reason is RefusalCode.INVALID


@pytest.mark.parametrize(("currency", "least"), [("usd", 50), ("jpy", 1), ("kwd", 500)])
def test_the_least_amount_follows_the_currency(currency: str, least: int) -> None:
    """Half a unit of most currencies, one of those without decimals."""
    assert machine.min_amount(currency) == least


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.SUCCEED, PageState.PAID),
        (Outcome.SUCCEED_THEN_CHARGEBACK, PageState.PAID),
        (Outcome.DECLINE, PageState.OPEN),
        (Outcome.INSUFFICIENT_FUNDS, PageState.OPEN),
        (Outcome.CHALLENGE, PageState.CHALLENGE),
        (Outcome.EXPIRE, PageState.EXPIRED),
    ],
)
@pytest.mark.parametrize("first", [None, Outcome.CHALLENGE, Outcome.DECLINE])
def test_each_act_of_a_client(first: Outcome | None, outcome: Outcome, state: PageState) -> None:
    """An open page, a challenge and a declined page lead to the same by the same act."""
    intent = opened()
    if first is not None:
        intent, _ = machine.play(intent, "p1", first, NOW)
    intent, _ = machine.play(intent, "p1", outcome, NOW)
    assert page_state(intent) == state


@pytest.mark.parametrize("outcome", Outcome)
@pytest.mark.parametrize("end", [Outcome.SUCCEED, Outcome.EXPIRE])
def test_an_ended_page_stays(end: Outcome, outcome: Outcome) -> None:
    """Nothing that a client does changes a paid or expired page; a note says why."""
    ended, _ = machine.play(opened(), "p1", end, NOW)
    again, note = machine.play(ended, "p1", outcome, NOW)
    assert again == ended
    assert note


def test_a_decline_says_why() -> None:
    """The page shows why the card did not pay, until something else happens."""
    declined, _ = machine.play(opened(), "p1", Outcome.INSUFFICIENT_FUNDS, NOW)
    assert "insufficient funds" in machine.view(declined, "p1").message
    paid_after, _ = machine.play(declined, "p1", Outcome.SUCCEED, NOW)
    assert machine.view(paid_after, "p1").message == ""


def test_the_way_back_depends_on_the_payment() -> None:
    """Who has paid returns to the one address, who has not to the other."""
    command = make_checkout()
    assert machine.view(opened(), "p1").return_url == command.cancel_url
    assert machine.view(paid(), "p1").return_url == command.success_url


def test_two_open_pages_can_both_be_paid() -> None:
    """As at a real processor, nothing but the caller keeps an intent from being paid twice."""
    two, _ = machine.open_checkout(opened(), make_checkout(500), 2, "p2", "http://test", NOW)
    for ref in ("p1", "p2"):
        two, _ = machine.play(two, ref, Outcome.SUCCEED, NOW)
    assert [payment.amount for payment in machine.snapshot(two).payments] == [1_000, 500]


@pytest.mark.parametrize(
    ("number", "outcome"),
    [
        ("4242 4242 4242 4242", Outcome.SUCCEED),
        ("4000-0000-0000-0002", Outcome.DECLINE),
        ("4000000000009995", Outcome.INSUFFICIENT_FUNDS),
        ("4000002500003155", Outcome.CHALLENGE),
        ("4000000000000259", Outcome.SUCCEED_THEN_CHARGEBACK),
        ("4111111111111111", None),
        ("", None),
    ],
)
def test_each_test_card(number: str, outcome: Outcome | None) -> None:
    """Each test card has its outcome, any other number has none."""
    assert outcome_of_card(number) is outcome
    assert outcome_of(f"card:{number}") is outcome


def test_an_unknown_outcome_is_named() -> None:
    """What is neither an outcome nor a card is a fault of the field `outcome`."""
    with pytest.raises(InvalidField) as invalid:
        outcome_of("paid")
    assert [fault.field for fault in invalid.value.faults] == ["outcome"]


# Money --------------------------------------------------------------------------------------


@pytest.mark.parametrize("amount", [0, -1])
def test_amounts_are_positive(amount: int) -> None:
    """Neither nothing nor less than nothing is moved."""
    for move in (refund, pay_out):
        with pytest.raises(Refused) as refused:
            move(paid(), amount)
        assert refused.value.reason is RefusalCode.INVALID


def test_another_currency_is_refused() -> None:
    """Money leaves in the currency in which it came."""
    with pytest.raises(Refused) as refused:
        machine.refund(paid(), Refund("fpay_7_1", 1, "eur"), 2, NOW)
    assert refused.value.reason is RefusalCode.INVALID


def test_what_was_taken_back_can_be_paid_out_again() -> None:
    """A reversed payout leaves its payment as if it had not been made."""
    intent = pay_out(reverse(pay_out(paid(), 1_000), 1_000), 1_000)
    assert machine.balance(intent) == 0


def test_an_unknown_payout_is_not_reversed() -> None:
    """A reversal names a payout that was made."""
    with pytest.raises(Refused) as refused:
        reverse(pay_out(paid(), 1_000), 1, "fpo_7_2")
    assert refused.value.reason is RefusalCode.MISSING


def test_a_payout_is_reversed_once() -> None:
    """Of a payout that was taken back whole nothing is left."""
    with pytest.raises(Refused) as refused:
        reverse(reverse(pay_out(paid(), 1_000), 1_000), 1)
    assert refused.value.reason is RefusalCode.NOTHING_LEFT


@pytest.mark.parametrize(
    ("ends", "balance"), [(RefundStatus.SETTLED, 600), (RefundStatus.FAILED, 1_000)]
)
def test_a_pending_refund_ends_by_itself(ends: RefundStatus, balance: int) -> None:
    """Money is with us until a pending refund settles, and stays where it fails."""
    pending = refund(paid(), 400, ends)
    at_last = machine.at(pending, NOW + LATER)
    assert machine.balance(pending) == 1_000
    assert machine.snapshot(pending).refunds[0].status is RefundStatus.PENDING
    assert machine.snapshot(at_last).refunds[0].status is ends
    assert machine.balance(at_last) == balance


def test_a_pending_refund_counts() -> None:
    """What is on its way back cannot be refunded once more; what failed can."""
    pending = refund(paid(), 1_000, RefundStatus.FAILED)
    with pytest.raises(Refused):
        refund(pending, 1)
    refund(machine.at(pending, NOW + LATER), 1_000)


# Chargebacks --------------------------------------------------------------------------------


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


# Whatever happens ---------------------------------------------------------------------------

AMOUNTS = st.integers(-10, 1_200)
ACTS = st.one_of(
    st.tuples(st.just("refund"), AMOUNTS, st.sampled_from([None, *list(RefundStatus)[1:]])),
    st.tuples(st.just("pay_out"), AMOUNTS, st.booleans()),
    st.tuples(st.just("reverse"), AMOUNTS, st.integers(1, 3)),
    st.tuples(st.just("chargeback"), st.sampled_from(ChargebackStatus)),
    st.tuples(st.just("wait"), st.integers(0, 90)),
    st.tuples(st.just("play"), st.sampled_from(Outcome)),
    st.tuples(st.just("close")),
)


def act(intent: Intent, what: tuple[object, ...], now: datetime) -> Intent:
    """The intent after one act; as it was where the act is refused."""
    try:
        match what:
            case "refund", int(amount), ends:
                assert ends is None or isinstance(ends, RefundStatus)
                command = Refund("fpay_7_1", amount, "usd")
                return machine.refund(intent, command, 2, now, ends)[0]
            case "pay_out", int(amount), bool(ready):
                out = PayOut("fpay_7_1", 3, amount, "usd")
                return machine.pay_out(intent, out, 4, ready)[0]
            case "reverse", int(amount), int(n):
                return reverse(intent, amount, f"fpo_7_{n}")
            case "chargeback", ChargebackStatus() as outcome:
                return machine.chargeback(intent, outcome)
            case "play", Outcome() as outcome:
                return machine.play(intent, "p1", outcome, now)[0]
            case ("close",):
                return machine.close_checkout(intent, "p1")[0]
    except (Refused, RuleBroken):
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
        - refunded(charge)
        - sum(payout.amount for payout in charge.payouts)
        + sum(reversal.amount for reversal in charge.reversals)
        - taken(charge)
    )


@given(st.lists(ACTS, max_size=25))
def test_money_stays_within_its_bounds(acts: list[tuple[Any, ...]]) -> None:
    """Whatever is tried in whatever order: one charge at most, refunds and a lost chargeback
    within it, net payouts within it, and the balance is what the facts add up to."""
    intent, now = opened(), NOW
    for what in [("play", Outcome.SUCCEED), *acts]:
        now += timedelta(seconds=int(what[1]) if what[0] == "wait" else 0)
        intent = act(machine.at(intent, now), what, now)
        [charge] = intent.charges
        assert 0 <= charge.remaining <= 1_000
        assert refunded(charge) + taken(charge) <= 1_000
        assert 0 <= charge.unpaid <= 1_000
        assert all(0 <= payout.reversed <= payout.amount for payout in charge.payouts)
        assert machine.balance(intent) == books(charge)
        assert machine.at(intent, now) == intent
        change = machine.next_change(intent)
        assert change is None or change > now


@given(st.lists(ACTS, max_size=12))
def test_a_state_survives_the_book(acts: list[tuple[object, ...]]) -> None:
    """What is written down as JSON is read as it was."""
    intent = paid()
    for what in acts:
        intent = act(intent, what, NOW)
    assert load(dump(intent), Intent) == intent
