"""The stub of Stripe follows Stripe's rules: sessions, payments, refunds, transfers, payees."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
import stripe

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, SECOND
from tests.stripe_stub import StripeStub
from tests.stripe_stub.client import (
    account_params,
    idempotency_options,
    make_payee,
    make_payment,
    session_params,
    transfer_params,
)

pytestmark = pytest.mark.anyio


def refund(payment: stripe.PaymentIntent, **changes: Any) -> Any:
    return {"payment_intent": payment.id, "reason": "requested_by_customer", **changes}


# Pages ----------------------------------------------------------------------------------------


async def test_a_page_has_no_payment_yet(client: stripe.StripeClient) -> None:
    """A new session is open and unpaid with a URL and without a payment intent."""
    made = await client.v1.checkout.sessions.create_async(session_params(), idempotency_options())
    assert made.id.startswith("cs_test_")
    assert (made.url or "").startswith("https://checkout.stripe.com/")
    assert (made.status, made.payment_status, made.payment_intent) == ("open", "unpaid", None)
    assert (made.amount_total, made.livemode) == (20_000, False)


@pytest.mark.parametrize(
    ("lives", "is_created"),
    [
        (30 * MINUTE - SECOND, False),
        (30 * MINUTE, True),
        (DAY, True),
        (DAY + SECOND, False),
    ],
)
async def test_a_page_may_live_half_an_hour_to_a_day(
    stub: StripeStub, client: stripe.StripeClient, lives: timedelta, is_created: bool
) -> None:
    """A session is created if it expires 30 minutes to 24 hours from now, both included."""
    with suppress(stripe.InvalidRequestError):
        await client.v1.checkout.sessions.create_async(
            session_params(lives=lives), idempotency_options()
        )
    assert bool(stub.objects("checkout.session")) == is_created


async def test_an_amount_can_be_too_small(client: stripe.StripeClient) -> None:
    """A payment of less than 50 cents is refused, and one of 50 cents is not."""
    with pytest.raises(stripe.InvalidRequestError) as refused:
        await client.v1.checkout.sessions.create_async(
            session_params(amount=49), idempotency_options()
        )
    assert refused.value.code == "amount_too_small"
    assert await client.v1.checkout.sessions.create_async(
        session_params(amount=50), idempotency_options()
    )


async def test_an_amount_can_be_too_large(client: stripe.StripeClient) -> None:
    """A payment of nine digits of dollars is refused."""
    with pytest.raises(stripe.InvalidRequestError) as refused:
        await client.v1.checkout.sessions.create_async(
            session_params(amount=100_000_000), idempotency_options()
        )
    assert refused.value.code == "amount_too_large"


async def test_an_open_page_is_closed_once(client: stripe.StripeClient) -> None:
    """A closed session is expired and has no URL, and closing it again is refused."""
    made = await client.v1.checkout.sessions.create_async(session_params(), idempotency_options())
    closed = await client.v1.checkout.sessions.expire_async(made.id, None, idempotency_options())
    assert (closed.status, closed.url) == ("expired", None)
    with pytest.raises(stripe.InvalidRequestError):
        await client.v1.checkout.sessions.expire_async(made.id, None, idempotency_options())


async def test_a_paid_page_is_not_closed(stub: StripeStub, client: stripe.StripeClient) -> None:
    """Closing a paid session is refused because it is complete."""
    made = await client.v1.checkout.sessions.create_async(session_params(), idempotency_options())
    stub.pay(made.id)
    with pytest.raises(stripe.InvalidRequestError, match="complete"):
        await client.v1.checkout.sessions.expire_async(made.id, None, idempotency_options())


async def test_a_page_expires(
    stub: StripeStub, client: stripe.StripeClient, clock: VirtualClock
) -> None:
    """A session is expired after its expiry, and cannot be paid."""
    made = await client.v1.checkout.sessions.create_async(session_params(), idempotency_options())
    clock.advance(12 * HOUR)
    stub.pay(made.id)
    found = await client.v1.checkout.sessions.retrieve_async(made.id)
    assert (found.status, found.payment_intent) == ("expired", None)


async def test_metadata_is_limited(client: stripe.StripeClient) -> None:
    """A metadata value of more than 500 characters is refused."""
    with pytest.raises(stripe.InvalidRequestError) as refused:
        await client.v1.checkout.sessions.create_async(
            session_params(metadata={"a": "b" * 501}), idempotency_options()
        )
    assert refused.value.param == "metadata[a]"


# Payments -------------------------------------------------------------------------------------


async def test_a_payment_succeeds(stub: StripeStub, client: stripe.StripeClient) -> None:
    """A payment creates a succeeded intent whose charge has its metadata and transfer group."""
    payment = await make_payment(stub, client)
    charge: Any = payment.latest_charge
    assert (payment.status, payment.amount_received) == ("succeeded", 20_000)
    assert charge.metadata.to_dict() == {"intent_id": "12", "op_id": "7"}
    assert charge.transfer_group == "sb_tests_intent_12"


async def test_a_decline_leaves_a_failed_charge(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """After a decline the session is open, and the intent's latest charge has failed."""
    made = await client.v1.checkout.sessions.create_async(session_params(), idempotency_options())
    stub.decline(made.id)
    found = await client.v1.checkout.sessions.retrieve_async(
        made.id, {"expand": ["payment_intent.latest_charge"]}
    )
    intent: Any = found.payment_intent
    assert (found.status, intent.status) == ("open", "requires_payment_method")
    assert (intent.latest_charge.status, intent.latest_charge.paid) == ("failed", False)


async def test_a_fee_is_taken(stub: StripeStub, client: stripe.StripeClient) -> None:
    """A charge costs 2.9 % and 30 cents, and the rest is added to the balance as pending."""
    payment = await make_payment(stub, client)
    found = await client.v1.payment_intents.retrieve_async(
        payment.id, {"expand": ["latest_charge.balance_transaction"]}
    )
    charge: Any = found.latest_charge
    moved = charge.balance_transaction
    assert (moved.amount, moved.fee, moved.net, moved.status) == (20_000, 610, 19_390, "pending")
    assert stub.balance() == 19_390


async def test_funds_become_available(
    stub: StripeStub, client: stripe.StripeClient, clock: VirtualClock
) -> None:
    """Pending funds are available after two days."""
    await make_payment(stub, client)
    before = await client.v1.balance.retrieve_async()
    clock.advance(2 * DAY)
    after = await client.v1.balance.retrieve_async()
    assert (before.available[0].amount, before.pending[0].amount) == (0, 19_390)
    assert (after.available[0].amount, after.pending[0].amount) == (19_390, 0)


async def test_only_references_expand(stub: StripeStub, client: stripe.StripeClient) -> None:
    """A field that is no reference cannot be expanded."""
    payment = await make_payment(stub, client)
    for path in ("amount", "nothing"):
        with pytest.raises(stripe.InvalidRequestError, match="cannot be expanded"):
            await client.v1.payment_intents.retrieve_async(payment.id, {"expand": [path]})


# Refunds --------------------------------------------------------------------------------------


async def test_refunds_do_not_exceed_the_charge(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """A refund of more than is left is refused without a code, or with one if nothing is left."""
    payment = await make_payment(stub, client)
    made = await client.v1.refunds.create_async(
        refund(payment, amount=15_000), idempotency_options()
    )
    with pytest.raises(stripe.InvalidRequestError, match="greater than unrefunded") as exceeding:
        await client.v1.refunds.create_async(refund(payment, amount=5_001), idempotency_options())
    await client.v1.refunds.create_async(refund(payment), idempotency_options())
    with pytest.raises(stripe.InvalidRequestError) as nothing:
        await client.v1.refunds.create_async(refund(payment, amount=1), idempotency_options())
    assert (made.status, exceeding.value.code) == ("succeeded", None)
    assert nothing.value.code == "charge_already_refunded"
    assert stub.balance() == -610


async def test_an_unknown_payment_is_missing(client: stripe.StripeClient) -> None:
    """An unknown reference is answered 400 in a body and 404 in a path."""
    with pytest.raises(stripe.InvalidRequestError) as in_body:
        await client.v1.refunds.create_async({"payment_intent": "pi_none"}, idempotency_options())
    with pytest.raises(stripe.InvalidRequestError) as in_path:
        await client.v1.refunds.retrieve_async("re_none")
    assert (in_body.value.code, in_body.value.http_status) == ("resource_missing", 400)
    assert (in_path.value.code, in_path.value.http_status) == ("resource_missing", 404)


@pytest.mark.parametrize(
    ("outcome", "status", "refunded"),
    [("pending_then_settled", "succeeded", 20_000), ("pending_then_failed", "failed", 0)],
)
async def test_a_refund_ends_later(
    stub: StripeStub,
    client: stripe.StripeClient,
    clock: VirtualClock,
    outcome: str,
    status: str,
    refunded: int,
) -> None:
    """A pending refund settles, or fails and returns the money to the platform, after a minute."""
    payment = await make_payment(stub, client)
    stub.inject_fault("refund", outcome)
    made = await client.v1.refunds.create_async(refund(payment), idempotency_options())
    clock.advance(60 * SECOND)
    ended = await client.v1.refunds.retrieve_async(made.id)
    assert (made.status, made.pending_reason) == ("pending", "processing")
    assert ended.status == status
    assert stub.objects("charge")[0]["amount_refunded"] == refunded
    assert stub.balance() == 19_390 - refunded


async def test_a_refund_by_hand_has_no_metadata(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """A refund made in the Dashboard is listed without metadata."""
    payment = await make_payment(stub, client)
    stub.refund_by_hand(payment.id, 500)
    [found] = (await client.v1.refunds.list_async({"payment_intent": payment.id})).data
    assert (found.amount, found.metadata.to_dict() if found.metadata else {}) == (500, {})


# Payouts --------------------------------------------------------------------------------------


async def test_a_transfer_pays_a_payee(stub: StripeStub, client: stripe.StripeClient) -> None:
    """A transfer from a charge with pending funds succeeds and is listed by its group."""
    payment, destination = await make_payment(stub, client), await make_payee(stub, client)
    made = await client.v1.transfers.create_async(
        transfer_params(payment, destination, 17_000), idempotency_options()
    )
    [found] = (await client.v1.transfers.list_async({"transfer_group": "sb_tests_intent_12"})).data
    assert found.id == made.id
    assert (stub.balance(), stub.connected_balance(destination)) == (2_390, 17_000)


async def test_transfers_do_not_exceed_the_charge(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """Transfers that exceed their charge in sum are refused."""
    payment, destination = await make_payment(stub, client), await make_payee(stub, client)
    await client.v1.transfers.create_async(
        transfer_params(payment, destination, 17_000), idempotency_options()
    )
    with pytest.raises(stripe.InvalidRequestError, match="must not exceed the source amount"):
        await client.v1.transfers.create_async(
            transfer_params(payment, destination, 3_001), idempotency_options()
        )


WRONG_TRANSFERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "without a source": ({"source_transaction": None}, "balance_insufficient"),
    "another currency": ({"currency": "eur"}, None),
    "unknown source": ({"source_transaction": "ch_none"}, "resource_missing"),
    "unknown payee": ({"destination": "acct_none"}, "resource_missing"),
    "another group": ({"transfer_group": "sb_tests_intent_13"}, None),
    "nothing": ({"amount": 0}, "parameter_invalid_integer"),
}


@pytest.mark.parametrize("change", WRONG_TRANSFERS.values(), ids=WRONG_TRANSFERS)
async def test_a_transfer_is_refused(
    stub: StripeStub, client: stripe.StripeClient, change: tuple[dict[str, Any], str | None]
) -> None:
    """Each invalid transfer is refused with its code and moves no money."""
    payment, destination = await make_payment(stub, client), await make_payee(stub, client)
    params = transfer_params(payment, destination, 17_000, **change[0])
    with pytest.raises(stripe.InvalidRequestError) as refused:
        await client.v1.transfers.create_async(params, idempotency_options())
    assert refused.value.code == change[1]
    assert stub.connected_balance(destination) == 0


async def test_a_reversal_returns_a_transfer(stub: StripeStub, client: stripe.StripeClient) -> None:
    """A transfer counts and lists its reversals, and a reversal of more than is left is refused."""
    payment, destination = await make_payment(stub, client), await make_payee(stub, client)
    made = await client.v1.transfers.create_async(
        transfer_params(payment, destination, 17_000), idempotency_options()
    )
    part: Any = {"amount": 10_000, "metadata": {"op_id": "9"}}
    back = await client.v1.transfers.reversals.create_async(made.id, part, idempotency_options())
    with pytest.raises(stripe.InvalidRequestError, match="greater than unreversed"):
        await client.v1.transfers.reversals.create_async(
            made.id, {"amount": 7_001}, idempotency_options()
        )
    found = await client.v1.transfers.retrieve_async(made.id)
    assert (found.amount_reversed, found.reversed) == (10_000, False)
    assert [each.id for each in found.reversals.data] == [back.id]
    assert stub.connected_balance(destination) == 7_000


async def test_a_reversal_needs_the_payees_money(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """A reversal is refused if the payee's balance was paid out to the bank."""
    payment, destination = await make_payment(stub, client), await make_payee(stub, client)
    made = await client.v1.transfers.create_async(
        transfer_params(payment, destination, 17_000), idempotency_options()
    )
    stub.drain_connected_balance(destination)
    with pytest.raises(stripe.InvalidRequestError) as refused:
        await client.v1.transfers.reversals.create_async(
            made.id, {"amount": 1}, idempotency_options()
        )
    assert refused.value.code == "balance_insufficient"


# Payees ---------------------------------------------------------------------------------------


async def test_a_payee_becomes_ready(stub: StripeStub, client: stripe.StripeClient) -> None:
    """An account is restricted until it is ready, and shows that only with `include`."""
    made = await client.v2.core.accounts.create_async(account_params(), idempotency_options())
    plain = await client.v2.core.accounts.retrieve_async(made.id)
    stub.set_payee_ready(made.id)
    found = await client.v2.core.accounts.retrieve_async(
        made.id, {"include": ["configuration.recipient"]}
    )
    assert [_transfers_of(each) for each in (made, found)] == ["restricted", "active"]
    assert (plain.configuration, plain.requirements) == (None, None)


def _transfers_of(payee: stripe.v2.core.Account) -> str:
    recipient: Any = payee.to_dict()["configuration"]["recipient"]
    return str(recipient["capabilities"]["stripe_balance"]["stripe_transfers"]["status"])


async def test_a_link_is_new_each_time(stub: StripeStub, client: stripe.StripeClient) -> None:
    """Each onboarding link is different and expires after five minutes."""
    use: Any = {
        "type": "account_onboarding",
        "account_onboarding": {
            "refresh_url": "https://x.example/a",
            "return_url": "https://x.example/b",
        },
    }
    wanted: Any = {"account": await make_payee(stub, client), "use_case": use}
    first, second = [
        await client.v2.core.account_links.create_async(wanted, idempotency_options()) for _ in "ab"
    ]
    assert first.url != second.url
    assert first.expires_at == "2027-03-01T12:05:00.000Z"
