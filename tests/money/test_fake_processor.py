"""The fake processor beyond the port: its sandbox page, balance, lookups and checkup."""

from __future__ import annotations

import string

import pytest
from attrs import evolve

from staffbooking_adapters.fake.charge import DELAYED_EFFECT_PERIOD
from staffbooking_adapters.fake.sandbox import NOT_A_TEST_CARD
from staffbooking_adapters.testing.builders import HOUR, NOW
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    INTENT_ID,
    ProcessorBench,
    make_checkout_command,
    make_operation_key,
)
from staffbooking_core.domain.payments.processor import OperationKind, RefundPayment, ReversePayout
from staffbooking_core.errors import InvalidField, RuleBroken
from staffbooking_core.ports import CheckoutPage, PaymentProcessor, SandboxProcessor
from tests.money.fake_helpers import make_fake_bench
from tests.money.processors import fake_processor_of

pytestmark = pytest.mark.anyio


def test_it_implements_both_ports(fake: ProcessorBench) -> None:
    """The fake is a payment processor, and its sandbox is the sandbox port."""
    processor = fake_processor_of(fake)
    both: tuple[PaymentProcessor, SandboxProcessor] = (processor, processor.sandbox)
    assert both[0].name == "fake"


# The page --------------------------------------------------------------------------------------


async def test_a_page_shows_what_is_paid(bench: ProcessorBench) -> None:
    """A page has the intent's amount, description, booking code, email and return URL."""
    checkout, command = await bench.open_checkout(), make_checkout_command()
    assert await fake_processor_of(bench).sandbox.checkout_page(checkout.ref) == CheckoutPage(
        ref=checkout.ref,
        intent_id=INTENT_ID,
        amount=command.amount,
        currency=command.currency,
        description=command.description,
        booking_code=command.booking_code,
        customer_email=command.customer_email,
        return_url=command.cancel_url,
        state="open",
    )


async def test_a_page_has_an_unguessable_reference(fake: ProcessorBench) -> None:
    """A page's reference is 32 new hexadecimal digits, and ends its URL."""
    first, second = await fake.open_checkout(), await fake.open_checkout()
    assert first.ref != second.ref
    assert len(first.ref) == 32
    assert set(first.ref) <= set(string.hexdigits.lower())
    assert first.url == f"http://test/sandbox/checkout/{first.ref}"


@pytest.mark.parametrize("ref", ["0" * 32, "", "\0", "é", "a/b", "\ud800", "x" * 3000])
async def test_an_unknown_page_is_none(bench: ProcessorBench, ref: str) -> None:
    """An unknown reference returns None on every document store."""
    sandbox = fake_processor_of(bench).sandbox
    assert await sandbox.checkout_page(ref) is None
    assert await sandbox.simulate_checkout(ref, "succeed") is None


async def test_a_lapsed_page_is_shown_as_expired(fake: ProcessorBench) -> None:
    """A page is shown as expired from its expiry on, without an action."""
    checkout = await fake.open_checkout()
    await fake.clock.set_business(NOW + 12 * HOUR)
    page = await fake_processor_of(fake).sandbox.checkout_page(checkout.ref)
    assert page is not None
    assert page.state == "expired"


async def test_a_card_pays(fake: ProcessorBench) -> None:
    """A successful test card pays the page."""
    checkout = await fake.open_checkout()
    page = await fake_processor_of(fake).sandbox.simulate_checkout(
        checkout.ref, "card:4242 4242 4242 4242"
    )
    assert page is not None
    assert page.state == "paid"


async def test_a_real_card_is_not_stored(fake: ProcessorBench) -> None:
    """A number that is no test card changes nothing, and the answer has the reason."""
    checkout = await fake.open_checkout()
    page = await fake_processor_of(fake).sandbox.simulate_checkout(
        checkout.ref, "card:4111111111111111"
    )
    assert page is not None
    assert (page.state, page.message) == ("open", NOT_A_TEST_CARD)
    assert await fake_processor_of(fake).sandbox.checkout_page(checkout.ref) == evolve(
        page, message=""
    )


async def test_an_unknown_outcome_is_refused(fake: ProcessorBench) -> None:
    """An unknown outcome raises `InvalidField` for `outcome`."""
    with pytest.raises(InvalidField) as invalid:
        await fake_processor_of(fake).sandbox.simulate_checkout(
            (await fake.open_checkout()).ref, "win"
        )
    assert [fault.field for fault in invalid.value.field_errors] == ["outcome"]


# Money -----------------------------------------------------------------------------------------


async def test_the_balance_is_what_is_held(bench: ProcessorBench) -> None:
    """The balance of all intents is payments, reversals and won chargebacks less payouts, refunds
    and chargebacks."""
    sandbox, payment = fake_processor_of(bench).sandbox, await bench.make_payment(amount=20_000)
    payout = await bench.pay_out(payment, 17_000)
    await bench.payments.reverse_payout(
        ReversePayout(1, 2_000, "usd"),
        payout.ref,
        make_operation_key(OperationKind.REVERSE_PAYOUT),
        CALL_TIMEOUT_SECONDS,
    )
    other = await bench.make_payment(intent_id=13, amount=9_000)
    command = RefundPayment(other.ref, 1_000, "usd")
    await bench.payments.refund(
        command, make_operation_key(OperationKind.REFUND, 13), CALL_TIMEOUT_SECONDS
    )
    assert await sandbox.balance() == 20_000 - 17_000 + 2_000 + 9_000 - 1_000
    await sandbox.chargeback(13, "open")
    assert await sandbox.balance() == 5_000
    await sandbox.chargeback(13, "won")
    assert await sandbox.balance() == 13_000


async def test_the_balance_moves_with_time(bench: ProcessorBench) -> None:
    """A pending refund lowers the balance when it settles, without a read of the intent."""
    payment = await bench.make_payment(amount=20_000)
    await fake_processor_of(bench).sandbox.add_fault("refund", "pending_then_settled", 1)
    await bench.refund(payment, 5_000)
    assert await fake_processor_of(bench).sandbox.balance() == 20_000
    await bench.clock.set_business(NOW + DELAYED_EFFECT_PERIOD)
    assert await fake_processor_of(bench).sandbox.balance() == 15_000


async def test_an_empty_store_has_no_balance(bench: ProcessorBench) -> None:
    """The balance of an empty document store is zero."""
    assert await fake_processor_of(bench).sandbox.balance() == 0


async def test_an_unpaid_intent_is_not_charged_back(bench: ProcessorBench) -> None:
    """A chargeback of an unpaid or unknown intent is refused as `not_paid`."""
    await bench.open_checkout()
    for intent_id in (INTENT_ID, 404):
        with pytest.raises(RuleBroken) as broken:
            await fake_processor_of(bench).sandbox.chargeback(intent_id, "lost")
        assert broken.value.code == "not_paid"


async def test_an_unknown_verdict_is_refused(fake: ProcessorBench) -> None:
    """An unknown verdict raises `InvalidField` for `outcome`."""
    await fake.make_payment()
    with pytest.raises(InvalidField) as invalid:
        await fake_processor_of(fake).sandbox.chargeback(INTENT_ID, "draw")
    assert [fault.field for fault in invalid.value.field_errors] == ["outcome"]


# Lookups ---------------------------------------------------------------------------------------


async def test_the_intent_of_a_payment_is_found(bench: ProcessorBench) -> None:
    """An intent is found by the payment's reference."""
    payment = await bench.make_payment(intent_id=13)
    assert await bench.payments.find_intent(payment.ref, CALL_TIMEOUT_SECONDS) == 13


@pytest.mark.parametrize(
    "ref", ["", "\0", "é", "pi_12", "fpay_12_2", "fpay_404_1", "fpay_012_1", f"fpay_{'9' * 19}_1"]
)
async def test_a_foreign_payment_has_no_intent(bench: ProcessorBench, ref: str) -> None:
    """A reference that is no payment of this processor has no intent, on every document store."""
    await bench.make_payment()
    assert await bench.payments.find_intent(ref, CALL_TIMEOUT_SECONDS) is None


async def test_the_checkup_says_that_no_money_moves(fake: ProcessorBench) -> None:
    """The checkup says that no money moves and payees are ready at once, and all is in order."""
    found = {each.name: each for each in await fake.payments.checkup(CALL_TIMEOUT_SECONDS)}
    assert "no money moves" in found["processor"].detail
    assert "at once" in found["payees"].detail
    assert all(each.ok for each in found.values())


async def test_the_checkup_knows_how_payees_are_completed() -> None:
    """With `manual_payees` the checkup says that payees are completed by hand."""
    found = {
        each.name: each for each in await make_fake_bench(manual_payees=True).payments.checkup(1)
    }
    assert "by hand" in found["payees"].detail


async def test_the_checkup_names_queued_faults(bench: ProcessorBench) -> None:
    """The checkup reports queued faults as not in order."""
    await fake_processor_of(bench).sandbox.add_fault("refund", "timeout_after", 2)
    found = {each.name: each for each in await bench.payments.checkup(CALL_TIMEOUT_SECONDS)}
    assert not found["faults"].ok
    assert found["faults"].detail == "refund timeout_after x 2"
