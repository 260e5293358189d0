"""The fake processor's own: its page and its balance."""

from __future__ import annotations

import string

import pytest
from attrs import evolve

from staffbooking_adapters.fake.charge import LATER
from staffbooking_adapters.fake.processor import NO_TEST_CARD
from staffbooking_core.domain.payments.processor import OpKind, Refund, ReversePayout
from staffbooking_core.errors import InvalidField, RuleBroken
from staffbooking_core.ports import CheckoutPage, Payments, SandboxProcessor
from tests.money.fake_helpers import fake_with
from tests.money.processors import (
    INTENT,
    WITHIN,
    Bench,
    fake_of,
    make_checkout,
    make_key,
)
from tests.support.builders import HOUR, NOW

pytestmark = pytest.mark.anyio


def test_it_implements_both_ports(fake: Bench) -> None:
    """It is the processor, and its own test bench."""
    both: tuple[Payments, SandboxProcessor] = (fake_of(fake), fake_of(fake))
    assert both[0].name == "fake"


# The page --------------------------------------------------------------------------------------


async def test_a_page_shows_what_is_paid(bench: Bench) -> None:
    """The page has all that its hosted form shows."""
    checkout, command = await bench.opened(), make_checkout()
    assert await fake_of(bench).checkout_page(checkout.ref) == CheckoutPage(
        ref=checkout.ref,
        intent_id=INTENT,
        amount=command.amount,
        currency=command.currency,
        description=command.description,
        booking_code=command.booking_code,
        customer_email=command.customer_email,
        return_url=command.cancel_url,
        state="open",
    )


async def test_a_page_has_an_unguessable_name(fake: Bench) -> None:
    """The reference is 128 bits in hexadecimal, another one each time, and ends the url."""
    first, second = await fake.opened(), await fake.opened()
    assert first.ref != second.ref
    assert len(first.ref) == 32
    assert set(first.ref) <= set(string.hexdigits.lower())
    assert first.url == f"http://test/sandbox/checkout/{first.ref}"


@pytest.mark.parametrize("ref", ["0" * 32, "", "\0", "é", "a/b", "\ud800", "x" * 3000])
async def test_an_unknown_page_is_none(bench: Bench, ref: str) -> None:
    """What names no page, or can't name one, is answered by none, on every book."""
    fake = fake_of(bench)
    assert await fake.checkout_page(ref) is None
    assert await fake.play(ref, "succeed") is None


async def test_a_lapsed_page_is_shown_as_expired(fake: Bench) -> None:
    """The page says so from its time on, though nobody has acted on it."""
    checkout = await fake.opened()
    await fake.clock.set_business(NOW + 12 * HOUR)
    page = await fake_of(fake).checkout_page(checkout.ref)
    assert page is not None
    assert page.state == "expired"


async def test_a_card_pays(fake: Bench) -> None:
    """What the page's form was given is played by its number."""
    checkout = await fake.opened()
    page = await fake_of(fake).play(checkout.ref, "card:4242 4242 4242 4242")
    assert page is not None
    assert page.state == "paid"


async def test_a_real_card_is_kept_nowhere(fake: Bench) -> None:
    """A number that is no test card changes nothing, and the page says why."""
    checkout = await fake.opened()
    page = await fake_of(fake).play(checkout.ref, "card:4111111111111111")
    assert page is not None
    assert (page.state, page.message) == ("open", NO_TEST_CARD)
    assert await fake_of(fake).checkout_page(checkout.ref) == evolve(page, message="")


async def test_an_unknown_outcome_is_refused(fake: Bench) -> None:
    """A script that asks for an unknown outcome is told the field."""
    with pytest.raises(InvalidField) as invalid:
        await fake_of(fake).play((await fake.opened()).ref, "win")
    assert [fault.field for fault in invalid.value.faults] == ["outcome"]


# Money -----------------------------------------------------------------------------------------


async def test_the_balance_is_what_is_held(bench: Bench) -> None:
    """Over all intents: payments, less what settled refunds, payouts and chargebacks took,
    with what came back."""
    fake, payment = fake_of(bench), await bench.paid(amount=20_000)
    payout = await bench.paid_out(payment, 17_000)
    await bench.payments.reverse_payout(
        ReversePayout(1, 2_000, "usd"), payout.ref, make_key(OpKind.REVERSE_PAYOUT), WITHIN
    )
    other = await bench.paid(intent_id=13, amount=9_000)
    command = Refund(other.ref, 1_000, "usd")
    await bench.payments.refund(command, make_key(OpKind.REFUND, 13), WITHIN)
    assert await fake.balance() == 20_000 - 17_000 + 2_000 + 9_000 - 1_000
    await fake.chargeback(13, "open")
    assert await fake.balance() == 5_000
    await fake.chargeback(13, "won")
    assert await fake.balance() == 13_000


async def test_the_balance_moves_with_time(bench: Bench) -> None:
    """A refund that settles by itself is in the balance, though nobody asked for the intent."""
    payment = await bench.paid(amount=20_000)
    await fake_of(bench).add_fault("refund", "pending_then_settled", 1)
    await bench.refunded(payment, 5_000)
    assert await fake_of(bench).balance() == 20_000
    await bench.clock.set_business(NOW + LATER)
    assert await fake_of(bench).balance() == 15_000


async def test_an_empty_book_holds_nothing(bench: Bench) -> None:
    """At first the balance is zero."""
    assert await fake_of(bench).balance() == 0


async def test_an_unpaid_intent_is_not_charged_back(bench: Bench) -> None:
    """Neither an open page nor an unknown intent has a payment to take back."""
    await bench.opened()
    for intent_id in (INTENT, 404):
        with pytest.raises(RuleBroken) as broken:
            await fake_of(bench).chargeback(intent_id, "lost")
        assert broken.value.code == "not_paid"


async def test_an_unknown_verdict_is_refused(fake: Bench) -> None:
    """A chargeback is open, won or lost."""
    await fake.paid()
    with pytest.raises(InvalidField) as invalid:
        await fake_of(fake).chargeback(INTENT, "draw")
    assert [fault.field for fault in invalid.value.faults] == ["outcome"]


# Looking ---------------------------------------------------------------------------------------


async def test_the_intent_of_a_payment_is_found(bench: Bench) -> None:
    """By the payment's reference alone."""
    payment = await bench.paid(intent_id=13)
    assert await bench.payments.find_intent(payment.ref, WITHIN) == 13


@pytest.mark.parametrize(
    "ref", ["", "\0", "é", "pi_12", "fpay_12_2", "fpay_404_1", "fpay_012_1", f"fpay_{'9' * 19}_1"]
)
async def test_a_foreign_payment_has_no_intent(bench: Bench, ref: str) -> None:
    """What is no payment of this processor belongs to nobody, on every book."""
    await bench.paid()
    assert await bench.payments.find_intent(ref, WITHIN) is None


async def test_the_checkup_says_what_is_pretended(fake: Bench) -> None:
    """Nobody can take it for a real one, and as it comes nothing is wrong."""
    found = {each.name: each for each in await fake.payments.checkup(WITHIN)}
    assert "no money moves" in found["processor"].detail
    assert "at once" in found["payees"].detail
    assert all(each.ok for each in found.values())


async def test_the_checkup_knows_how_payees_are_completed() -> None:
    """By hand, where it was set so."""
    found = {each.name: each for each in await fake_with(manual_payees=True).payments.checkup(1)}
    assert "by hand" in found["payees"].detail


async def test_the_checkup_names_waiting_faults(bench: Bench) -> None:
    """Misbehaviour that was asked for and has not struck yet is not in order."""
    await fake_of(bench).add_fault("refund", "timeout_after", 2)
    found = {each.name: each for each in await bench.payments.checkup(WITHIN)}
    assert not found["faults"].ok
    assert found["faults"].detail == "refund timeout_after x 2"
