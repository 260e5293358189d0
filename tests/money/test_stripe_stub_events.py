"""What comes from Stripe by itself: disputes, events, lists, and how the account is set up."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import stripe

from staffbooking_adapters.memory.doubles import VirtualClock
from tests.stripe_stub import EventDeliveryMode, PricingTerms, StripeStub, open_stub
from tests.stripe_stub.client import (
    idempotency_options,
    open_stripe_client,
    paid,
    payee,
    session_params,
    transfer,
)
from tests.support.builders import MINUTE, NOW, SECOND

pytestmark = pytest.mark.anyio


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


@pytest.fixture
async def stub(clock: VirtualClock) -> AsyncIterator[StripeStub]:
    async with open_stub(clock.wall) as opened:
        yield opened


@pytest.fixture
async def client(stub: StripeStub) -> AsyncIterator[stripe.StripeClient]:
    async with open_stripe_client(stub) as opened:
        yield opened


# Disputes -------------------------------------------------------------------------------------

DISPUTES: dict[str, tuple[str, list[int], bool]] = {
    "open": ("needs_response", [-21_500], False),
    "under_review": ("under_review", [-21_500], False),
    "won": ("won", [-21_500, 20_000], False),
    "lost": ("lost", [-21_500], False),
    "warning": ("warning_needs_response", [], True),
    "warning_closed": ("warning_closed", [], True),
    "prevented": ("prevented", [-20_000], False),
    "prevented_block": ("prevented", [], False),
}
"""Its status, what it moved net of fees, and whether the charge can still be refunded."""


@pytest.mark.parametrize(("outcome", "wanted"), DISPUTES.items(), ids=DISPUTES)
async def test_a_dispute_moves_money(
    stub: StripeStub,
    client: stripe.StripeClient,
    outcome: str,
    wanted: tuple[str, list[int], bool],
) -> None:
    """The bank takes the amount and Stripe a fee; a won dispute gives the amount back."""
    payment = await paid(stub, client)
    stub.charge_back(12, outcome)
    [found] = (await client.v1.disputes.list_async({"payment_intent": payment.id})).data
    moved = [each.net for each in found.balance_transactions]
    assert (found.status, moved, found.is_charge_refundable) == wanted
    assert stub.balance() == 19_390 + sum(moved)


async def test_a_dispute_goes_on(stub: StripeStub, client: stripe.StripeClient) -> None:
    """What the bank decides is about the dispute that is open, not another one."""
    payment = await paid(stub, client)
    for outcome in ("open", "under_review", "won"):
        stub.charge_back(payment.id, outcome)
    assert [each["status"] for each in stub.objects("dispute")] == ["won"]


async def test_a_disputed_charge_is_not_refunded(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """The client would have the money twice; an inquiry does not stand in the way."""
    payment = await paid(stub, client)
    stub.charge_back(payment.id, "warning")
    await client.v1.refunds.create_async(
        {"payment_intent": payment.id, "amount": 1}, idempotency_options()
    )
    stub.charge_back(payment.id, "open")
    with pytest.raises(stripe.InvalidRequestError) as refused:
        await client.v1.refunds.create_async(
            {"payment_intent": payment.id, "amount": 1}, idempotency_options()
        )
    assert refused.value.code == "charge_disputed"


async def test_a_won_dispute_lets_refunds_through(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """The money is the platform's again, so it can be given back; a lost one is gone."""
    payment = await paid(stub, client)
    stub.charge_back(payment.id, "won")
    part: Any = {"payment_intent": payment.id, "amount": 1}
    assert (await client.v1.refunds.create_async(part, idempotency_options())).status == "succeeded"
    stub.charge_back(payment.id, "lost")
    with pytest.raises(stripe.InvalidRequestError, match="charged back"):
        await client.v1.refunds.create_async(part, idempotency_options())


async def test_the_terms_can_be_others(clock: VirtualClock) -> None:
    """A test may have it free of charge."""
    terms = PricingTerms(fee_rate=0, fee_fixed=0, dispute_fee=0)
    async with open_stub(clock.wall, terms=terms) as stub, open_stripe_client(stub) as client:
        await paid(stub, client)
        stub.charge_back(12, "open")
        assert stub.balance() == 0


# Events ---------------------------------------------------------------------------------------


def kinds(stub: StripeStub) -> list[str]:
    """The types of the events that come in now."""
    return [json.loads(body)["type"] for _, body in stub.events()]


async def test_a_payment_is_told(stub: StripeStub, client: stripe.StripeClient) -> None:
    """Each change makes an event, in order, once."""
    await paid(stub, client)
    assert kinds(stub) == [
        "payment_intent.created",
        "charge.succeeded",
        "payment_intent.succeeded",
        "checkout.session.completed",
    ]
    assert kinds(stub) == []


async def _expired(stub: StripeStub, client: stripe.StripeClient) -> None:
    made = await client.v1.checkout.sessions.create_async(session_params(), idempotency_options())
    await client.v1.checkout.sessions.expire_async(made.id, None, idempotency_options())


async def _declined(stub: StripeStub, client: stripe.StripeClient) -> None:
    stub.decline(
        (await client.v1.checkout.sessions.create_async(session_params(), idempotency_options())).id
    )


async def _refunded(stub: StripeStub, client: stripe.StripeClient) -> None:
    payment = await paid(stub, client)
    stub.events()
    await client.v1.refunds.create_async({"payment_intent": payment.id}, idempotency_options())


async def _reversed(stub: StripeStub, client: stripe.StripeClient) -> None:
    params = transfer(await paid(stub, client), await payee(stub, client), 17_000)
    stub.events()
    made = await client.v1.transfers.create_async(params, idempotency_options())
    await client.v1.transfers.reversals.create_async(made.id, None, idempotency_options())


async def _won(stub: StripeStub, client: stripe.StripeClient) -> None:
    await paid(stub, client)
    stub.events()
    stub.charge_back(12, "won")


TOLD: dict[str, tuple[Callable[[StripeStub, stripe.StripeClient], Any], list[str]]] = {
    "expired": (_expired, ["checkout.session.expired"]),
    "declined": (
        _declined,
        ["payment_intent.created", "charge.failed", "payment_intent.payment_failed"],
    ),
    "refunded": (_refunded, ["refund.created", "charge.refunded"]),
    "reversed": (_reversed, ["transfer.created", "transfer.reversed"]),
    "won": (
        _won,
        [
            "charge.dispute.created",
            "charge.dispute.funds_withdrawn",
            "charge.dispute.funds_reinstated",
            "charge.dispute.closed",
        ],
    ),
}


@pytest.mark.parametrize(("act", "wanted"), TOLD.values(), ids=TOLD)
async def test_a_change_is_told(
    stub: StripeStub, client: stripe.StripeClient, act: Callable[..., Any], wanted: list[str]
) -> None:
    """Stripe's names for what happens."""
    await act(stub, client)
    assert kinds(stub) == wanted


async def test_events_are_signed(stub: StripeStub, client: stripe.StripeClient) -> None:
    """The SDK finds the signature right, at the stub's time, and the marks in the object."""
    await paid(stub, client)
    headers, body = stub.events()[-1]
    stripe.WebhookSignature.verify_header(body, headers["Stripe-Signature"], stub.secrets[0])
    assert f"t={int(NOW.timestamp())}," in headers["Stripe-Signature"]
    assert json.loads(body)["data"]["object"]["metadata"]["intent_id"] == "12"


async def test_a_payee_is_told_thinly(stub: StripeStub, client: stripe.StripeClient) -> None:
    """An event of a connected account only names it, and has the other secret."""
    reference = await payee(stub, client)
    headers, body = stub.events()[0]
    stripe.WebhookSignature.verify_header(body, headers["Stripe-Signature"], stub.secrets[1])
    event = client.parse_event_notification(
        body, headers["Stripe-Signature"], stub.secrets[1], tolerance=10**9
    )
    assert event.type == "v2.core.account[configuration.recipient].capability_status_updated"
    assert json.loads(body)["related_object"]["id"] == reference


@pytest.mark.parametrize(
    ("how", "at_once", "later"),
    [
        (EventDeliveryMode.DUPLICATE, ["a", "a", "b", "b"], []),
        (EventDeliveryMode.REORDER, ["b", "a"], []),
        (EventDeliveryMode.DROP, [], []),
        (EventDeliveryMode.DELAY, [], ["a", "b"]),
    ],
)
async def test_events_go_astray(
    stub: StripeStub,
    client: stripe.StripeClient,
    clock: VirtualClock,
    how: EventDeliveryMode,
    at_once: list[str],
    later: list[str],
) -> None:
    """Events come twice, backwards, late or never, and are listed all the same."""
    payment = await paid(stub, client)
    stub.events()
    stub.set_event_delivery(how)
    await client.v1.refunds.create_async({"payment_intent": payment.id}, idempotency_options())
    names = {"refund.created": "a", "charge.refunded": "b"}
    assert [names[each] for each in kinds(stub)] == at_once
    clock.advance(10 * MINUTE)
    assert [names[each] for each in kinds(stub)] == later
    listed = await client.v1.events.list_async({"types": ["refund.created", "charge.refunded"]})
    assert [names[each.type] for each in listed.data] == ["b", "a"]


async def test_an_event_keeps_its_moment(stub: StripeStub, client: stripe.StripeClient) -> None:
    """What an event tells is how the object was, not how it is."""
    payment = await paid(stub, client)
    await client.v1.refunds.create_async({"payment_intent": payment.id}, idempotency_options())
    [event] = (await client.v1.events.list_async({"type": "charge.succeeded"})).data
    assert event.data.object["amount_refunded"] == 0


# Lists ----------------------------------------------------------------------------------------


async def test_lists_have_pages(stub: StripeStub, client: stripe.StripeClient) -> None:
    """The newest first, so many a page, and on from where one was."""
    payment = await paid(stub, client)
    made = [
        await client.v1.refunds.create_async(
            {"payment_intent": payment.id, "amount": 1}, idempotency_options()
        )
        for _ in range(5)
    ]
    newest_first = [each.id for each in reversed(made)]
    first = await client.v1.refunds.list_async({"payment_intent": payment.id, "limit": 2})
    assert ([each.id for each in first.data], first.has_more) == (newest_first[:2], True)
    on: Any = {"starting_after": newest_first[1]}
    assert [each.id for each in (await client.v1.refunds.list_async(on)).data] == newest_first[2:]
    before: Any = {"ending_before": newest_first[4], "limit": 2}
    assert [each.id for each in (await client.v1.refunds.list_async(before)).data] == (
        newest_first[2:4]
    )


async def test_lists_are_filtered(
    stub: StripeStub, client: stripe.StripeClient, clock: VirtualClock
) -> None:
    """By a field, by a range of times, and by both; references in them expand."""
    payment = await paid(stub, client)
    clock.advance(SECOND)
    made = await client.v1.refunds.create_async(
        {"payment_intent": payment.id}, idempotency_options()
    )
    since: Any = {"gte": int(NOW.timestamp()) + 1}
    moved = client.v1.balance_transactions
    assert len((await moved.list_async()).data) == 2
    assert [each.type for each in (await moved.list_async({"created": since})).data] == ["refund"]
    assert (await moved.list_async({"created": since, "type": "charge"})).data == []
    [found] = (await moved.list_async({"type": "refund", "expand": ["data.source"]})).data
    source: Any = found.source
    assert source.id == made.id


# The account ------------------------------------------------------------------------------------


async def test_the_account_is_set_up_well(client: stripe.StripeClient) -> None:
    """At first the platform can charge and transfer, and keeps its money."""
    account = await client.v1.accounts.retrieve_current_async()
    settings = (await client.v1.balance_settings.retrieve_async()).to_dict()
    [endpoint] = (await client.v1.webhook_endpoints.list_async()).data
    destinations = await client.v2.core.event_destinations.list_async()
    assert account.to_dict()["capabilities"]["transfers"] == "active"
    assert settings["payments"]["payouts"]["schedule"]["interval"] == "manual"
    assert (endpoint.status, endpoint.enabled_events) == ("enabled", ["*"])
    assert [each.event_payload for each in destinations.data] == ["thin"]


async def test_the_account_can_be_set_up_badly(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """Payouts every day, no endpoint, no transfers: all that an operator may have missed."""
    stub.set_settings(
        payout_interval="daily", endpoints=(), capabilities={"card_payments": "active"}
    )
    account = await client.v1.accounts.retrieve_current_async()
    settings = (await client.v1.balance_settings.retrieve_async()).to_dict()
    assert "transfers" not in account.to_dict()["capabilities"]
    assert settings["payments"]["payouts"]["schedule"]["interval"] == "daily"
    assert (await client.v1.webhook_endpoints.list_async()).data == []
