"""The calls of Stripe's adapter: parameters, metadata and idempotency keys."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest
import stripe as sdk
from stripe._api_version import _ApiVersion

from staffbooking_adapters.stripe.currencies import max_amount, min_amount
from staffbooking_adapters.stripe.processor import API_VERSION, StripeProcessor
from staffbooking_adapters.testing.processor.base import (
    CALL_TIMEOUT_SECONDS,
    COMPANION_ID,
    ProcessorBench,
    make_checkout_command,
    make_operation_key,
    make_payee_command,
)
from staffbooking_core.domain.payments.payees import PayeeState
from staffbooking_core.domain.payments.processor import (
    OperationKey,
    OperationKind,
    PayOut,
    ProcessorRefused,
    RefusalCode,
    ReversePayout,
)
from staffbooking_core.ports import PaymentProcessor
from tests.money.processors import make_stripe_processor, stub_of
from tests.money.stripe_live import stripe_test_key

pytestmark = pytest.mark.anyio

METADATA = {"sb_env": "test", "intent_id": "12", "booking_id": "12"}


def _sent(bench: ProcessorBench, operation: str) -> dict[str, Any]:
    """The parameters of the only call of an operation, as received."""
    [params] = [
        each.params for each in stub_of(bench).received_calls if each.operation == operation
    ]
    return params


def _keys(bench: ProcessorBench, operation: str) -> list[str]:
    return [
        each.idempotency_key
        for each in stub_of(bench).received_calls
        if each.operation == operation
    ]


# The client ---------------------------------------------------------------------------------


def test_it_implements_the_port() -> None:
    """Stripe's adapter is a payment processor with the name `stripe`."""
    port: PaymentProcessor = StripeProcessor(
        "sk_test_1", (), "test", base_url="http://x", currency="usd"
    )
    assert port.name == "stripe"


def test_the_pinned_version_is_the_sdks() -> None:
    """The pinned API version is the one of the installed SDK."""
    assert API_VERSION == _ApiVersion.CURRENT


async def test_the_sdk_sends_no_telemetry(stripe: ProcessorBench) -> None:
    """Creating a processor disables the SDK's telemetry."""
    sdk.enable_telemetry = True
    await make_stripe_processor(stub_of(stripe)).close()
    assert not sdk.enable_telemetry


def test_stripe_is_loaded_where_it_is_used() -> None:
    """Importing the wiring does not import the SDK."""
    code = "import sys, staffbooking_adapters.wiring; sys.exit('stripe' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


async def test_secrets_are_not_shown(
    stripe: ProcessorBench, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the logs nor the processor's `repr` contain the API key or a webhook secret."""
    caplog.set_level(logging.DEBUG)
    await stripe.make_payment()
    [*deliveries] = await stripe.outside_world.events()
    for headers, body in deliveries:
        stripe.payments.parse_webhook(headers, body, stripe.clock.wall())
    shown = caplog.text + repr(stripe.payments) + repr(vars(stripe.payments)["_client"])
    assert caplog.records
    assert not [
        each for each in (stub_of(stripe).api_key, *stub_of(stripe).secrets) if each in shown
    ]


@pytest.mark.parametrize("key", ["", "sk_live_1", "rk_live_1", "nonsense"])
def test_only_a_key_of_the_test_mode_is_accepted(key: str) -> None:
    """The tests on Stripe's test mode refuse a key that is not of the test mode."""
    with pytest.raises(pytest.fail.Exception, match="test mode"):
        stripe_test_key({"STRIPE_TEST_KEY": key})


@pytest.mark.parametrize(
    ("currency", "minimum"), [("usd", 50), ("jpy", 50), ("gbp", 30), ("thb", 1000), ("zar", 1000)]
)
def test_each_currency_has_a_minimum(currency: str, minimum: int) -> None:
    """Each currency has Stripe's published minimum, or the default if there is none."""
    assert min_amount(currency) == minimum


@pytest.mark.parametrize(
    ("currency", "maximum"),
    [("usd", 99_999_999), ("crc", 99_999_999), ("inr", 999_999_999), ("cop", 9_999_999_999)],
)
def test_each_currency_has_a_maximum(currency: str, maximum: int) -> None:
    """Each currency has eight digits, or more where Stripe publishes more for cards."""
    assert max_amount(currency) == maximum


# Checkouts ----------------------------------------------------------------------------------


async def test_a_checkout_has_one_line_of_the_total(stripe: ProcessorBench) -> None:
    """A session has one line of the whole amount, cards only, and no adaptive pricing."""
    await stripe.open_checkout(amount=12_345)
    sent = _sent(stripe, "v1.checkout.sessions.create")
    prices = {
        "currency": "usd",
        "unit_amount": "12345",
        "product_data": {"name": "Gala dinner by Mia Lindqvist"},
    }
    assert sent["line_items"] == {"0": {"quantity": "1", "price_data": prices}}
    assert sent["allowed_payment_method_types"] == {"0": "card"}
    assert sent["adaptive_pricing"] == {"enabled": "false"}
    assert (sent["mode"], sent["submit_type"]) == ("payment", "book")


async def test_a_checkout_has_the_bookings_details(stripe: ProcessorBench) -> None:
    """A session has the booking code, the client's email, the return URLs and the expiry."""
    await stripe.open_checkout()
    sent, command = _sent(stripe, "v1.checkout.sessions.create"), make_checkout_command()
    assert sent["client_reference_id"] == command.booking_code
    assert sent["customer_email"] == command.customer_email
    assert (sent["success_url"], sent["cancel_url"]) == (command.success_url, command.cancel_url)
    assert int(sent["expires_at"]) == command.expires_at.timestamp()


async def test_page_and_payment_have_the_metadata(stripe: ProcessorBench) -> None:
    """Session and payment have the same metadata: deployment, intent and operation."""
    key = make_operation_key(OperationKind.OPEN_CHECKOUT)
    await stripe.open_checkout(key)
    sent = _sent(stripe, "v1.checkout.sessions.create")
    metadata = {**METADATA, "op_id": str(key.op_id)}
    assert sent["metadata"] == sent["payment_intent_data"]["metadata"] == metadata
    assert sent["payment_intent_data"]["transfer_group"] == "sb_test_intent_12"


async def test_one_payment_intent_is_created(stripe: ProcessorBench) -> None:
    """A paid session has one payment intent, since the adapter creates none."""
    await stripe.make_payment()
    assert len(stub_of(stripe).objects("payment_intent")) == 1


# Movements ----------------------------------------------------------------------------------


async def test_a_payout_names_its_charge(stripe: ProcessorBench) -> None:
    """A transfer names the charge of its payment as its source."""
    payment, key = await stripe.make_payment(), make_operation_key(OperationKind.PAY_OUT)
    payee = await stripe.open_payee()
    await stripe.pay_out(payment, 17_000, key, payee)
    [charge] = stub_of(stripe).objects("charge")
    assert _sent(stripe, "v1.transfers.create") == {
        "amount": "17000",
        "currency": "usd",
        "destination": payee.ref,
        "source_transaction": charge["id"],
        "transfer_group": "sb_test_intent_12",
        "metadata": {**METADATA, "op_id": str(key.op_id)},
    }


async def test_a_payout_is_made_of_pending_funds(stripe: ProcessorBench) -> None:
    """A payout right after the payment succeeds, though the funds are pending."""
    payment = await stripe.make_payment()
    assert (await stripe.pay_out(payment, 17_000)).amount == 17_000


async def test_a_payout_without_an_account_makes_no_call(stripe: ProcessorBench) -> None:
    """A payout without an account is refused as `PAYEE_NOT_READY` without a call."""
    command = PayOut("pi_1", COMPANION_ID, 1, "usd", "")
    with pytest.raises(ProcessorRefused) as refused:
        await stripe.payments.pay_out(
            command, make_operation_key(OperationKind.PAY_OUT), CALL_TIMEOUT_SECONDS
        )
    assert refused.value.reason is RefusalCode.PAYEE_NOT_READY
    assert stub_of(stripe).received_calls == []


async def test_an_unknown_account_is_not_ready(stripe: ProcessorBench) -> None:
    """A payout to an unknown account is refused as `PAYEE_NOT_READY`."""
    payment = await stripe.make_payment()
    with pytest.raises(ProcessorRefused) as refused:
        await stripe.pay_out(payment, 17_000, payee=PayeeState("acct_of_nobody", ready=True))
    assert refused.value.reason is RefusalCode.PAYEE_NOT_READY


async def test_an_unpaid_intent_is_not_paid_out(stripe: ProcessorBench) -> None:
    """A payout of an intent without a charge is refused as missing."""
    checkout = await stripe.open_checkout()
    await stripe.outside_world.decline(checkout)
    [intent] = stub_of(stripe).objects("payment_intent")
    intent["latest_charge"] = None
    command = PayOut(intent["id"], COMPANION_ID, 1, "usd", "acct_1")
    with pytest.raises(ProcessorRefused) as refused:
        await stripe.payments.pay_out(
            command, make_operation_key(OperationKind.PAY_OUT), CALL_TIMEOUT_SECONDS
        )
    assert refused.value.reason is RefusalCode.MISSING


async def test_refund_and_reversal_have_the_metadata(stripe: ProcessorBench) -> None:
    """A refund and a reversal have the operation in their metadata, and the refund a reason."""
    payment = await stripe.make_payment()
    refunding, reversing = (
        make_operation_key(OperationKind.REFUND),
        make_operation_key(OperationKind.REVERSE_PAYOUT),
    )
    await stripe.refund(payment, 1_000, refunding)
    payout = await stripe.pay_out(payment, 5_000)
    command = ReversePayout(1, 2_000, "usd")
    await stripe.payments.reverse_payout(command, payout.ref, reversing, CALL_TIMEOUT_SECONDS)
    assert _sent(stripe, "v1.refunds.create") == {
        "payment_intent": payment.ref,
        "amount": "1000",
        "reason": "requested_by_customer",
        "metadata": {**METADATA, "op_id": str(refunding.op_id)},
    }
    assert _sent(stripe, "v1.transfers.reversals.create") == {
        "amount": "2000",
        "metadata": {**METADATA, "op_id": str(reversing.op_id)},
    }


# Keys ---------------------------------------------------------------------------------------


async def test_keys_have_the_deployments_name(stripe: ProcessorBench) -> None:
    """An idempotency key has the deployment's name."""
    payment, key = await stripe.make_payment(), make_operation_key(OperationKind.REFUND)
    await stripe.refund(payment, 1_000, key)
    assert _keys(stripe, "v1.refunds.create") == [f"sb_test_refund_{key.op_id}_g1"]


async def test_keys_are_short_enough(stripe: ProcessorBench) -> None:
    """The longest deployment name and ids make a key of at most 255 characters."""
    processor = make_stripe_processor(stub_of(stripe), environment="e" * 32)
    key = OperationKey(
        9_223_372_036_854_775_807, 9_223_372_036_854_775_807, OperationKind.OPEN_CHECKOUT, 99_999
    )
    await processor.open_checkout(make_checkout_command(), key, CALL_TIMEOUT_SECONDS)
    await processor.close()
    assert len(_keys(stripe, "v1.checkout.sessions.create")[0]) <= 255


# Payees -------------------------------------------------------------------------------------


async def test_a_payee_is_an_account_for_transfers(stripe: ProcessorBench) -> None:
    """A payee's account can only receive transfers, and the platform pays fees and losses."""
    key = OperationKey(0, COMPANION_ID, OperationKind.OPEN_PAYEE, 1)
    await stripe.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
    sent = _sent(stripe, "v2.core.accounts.create")
    asked = {"stripe_balance": {"stripe_transfers": {"requested": True}}}
    assert sent["configuration"] == {"recipient": {"capabilities": asked}}
    assert sent["defaults"] == {
        "currency": "usd",
        "responsibilities": {"fees_collector": "application", "losses_collector": "application"},
    }
    assert sent["identity"] == {"country": "US", "entity_type": "individual"}
    assert (sent["dashboard"], sent["contact_email"]) == ("express", "mia@example.com")
    assert sent["metadata"] == {"sb_env": "test", "companion_id": "2"}


async def test_a_payees_needs_are_named(stripe: ProcessorBench) -> None:
    """A new account is not ready, and its needs are Stripe's requirement names."""
    key = OperationKey(0, COMPANION_ID, OperationKind.OPEN_PAYEE, 1)
    opened = await stripe.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
    assert (opened.ready, opened.needs) == (False, ("identity.individual.given_name",))


async def test_each_onboarding_link_is_new(stripe: ProcessorBench) -> None:
    """Each call returns a new onboarding link with our return URLs."""
    payee = await stripe.open_payee(ready=False)
    urls = ("https://bookings.example.com/back", "https://bookings.example.com/again")
    first = await stripe.payments.onboarding_link(payee.ref, *urls, CALL_TIMEOUT_SECONDS)
    second = await stripe.payments.onboarding_link(payee.ref, *urls, CALL_TIMEOUT_SECONDS)
    sent = [
        each
        for each in stub_of(stripe).received_calls
        if each.operation == "v2.core.account_links.create"
    ]
    return_urls = {"return_url": urls[0], "refresh_url": urls[1]}
    assert first.url != second.url
    assert [each.params["use_case"]["account_onboarding"] for each in sent] == [
        return_urls,
        return_urls,
    ]
