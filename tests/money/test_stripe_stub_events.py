"""Disputes, events, lists and account settings of the stub of Stripe."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import stripe

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.testing.builders import MINUTE, NOW, SECOND
from tests.stripe_stub import EventDeliveryMode, PricingTerms, StripeStub, open_stub
from tests.stripe_stub.client import (
    idempotency_options,
    make_payee,
    make_payment,
    open_stripe_client,
    session_params,
    transfer_params,
)

pytestmark = pytest.mark.anyio


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
"""By outcome: status, net balance movements, and whether the charge is still refundable."""


@pytest.mark.parametrize(("outcome", "wanted"), DISPUTES.items(), ids=DISPUTES)
async def test_a_dispute_moves_money(
    stub: StripeStub,
    client: stripe.StripeClient,
    outcome: str,
    wanted: tuple[str, list[int], bool],
) -> None:
    """Each outcome of a dispute has its status, balance movements and refundability."""
    payment = await make_payment(stub, client)
    stub.charge_back(12, outcome)
    [found] = (await client.v1.disputes.list_async({"payment_intent": payment.id})).data
    moved = [each.net for each in found.balance_transactions]
    assert (found.status, moved, found.is_charge_refundable) == wanted
    assert stub.balance() == 19_390 + sum(moved)


async def test_a_dispute_keeps_its_object(stub: StripeStub, client: stripe.StripeClient) -> None:
    """Later outcomes change the open dispute and open no other."""
    payment = await make_payment(stub, client)
    for outcome in ("open", "under_review", "won"):
        stub.charge_back(payment.id, outcome)
    assert [each["status"] for each in stub.objects("dispute")] == ["won"]


async def test_a_disputed_charge_is_not_refunded(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """A charge can be refunded during an inquiry, but not during a dispute."""
    payment = await make_payment(stub, client)
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


async def test_a_won_dispute_allows_refunds(stub: StripeStub, client: stripe.StripeClient) -> None:
    """A charge can be refunded after a won dispute, but not after a lost one."""
    payment = await make_payment(stub, client)
    stub.charge_back(payment.id, "won")
    part: Any = {"payment_intent": payment.id, "amount": 1}
    assert (await client.v1.refunds.create_async(part, idempotency_options())).status == "succeeded"
    stub.charge_back(payment.id, "lost")
    with pytest.raises(stripe.InvalidRequestError, match="charged back"):
        await client.v1.refunds.create_async(part, idempotency_options())


async def test_the_pricing_terms_can_be_changed(clock: VirtualClock) -> None:
    """With fees of zero a payment and its dispute leave a balance of zero."""
    terms = PricingTerms(fee_rate=0, fee_fixed=0, dispute_fee=0)
    async with open_stub(clock.wall, terms=terms) as stub, open_stripe_client(stub) as client:
        await make_payment(stub, client)
        stub.charge_back(12, "open")
        assert stub.balance() == 0


# Events ---------------------------------------------------------------------------------------


def kinds(stub: StripeStub) -> list[str]:
    """The types of the events that are due now."""
    return [json.loads(body)["type"] for _, body in stub.events()]


async def test_a_payment_sends_events(stub: StripeStub, client: stripe.StripeClient) -> None:
    """A payment sends one event per change, in order, once."""
    await make_payment(stub, client)
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
    payment = await make_payment(stub, client)
    stub.events()
    await client.v1.refunds.create_async({"payment_intent": payment.id}, idempotency_options())


async def _reversed(stub: StripeStub, client: stripe.StripeClient) -> None:
    params = transfer_params(
        await make_payment(stub, client), await make_payee(stub, client), 17_000
    )
    stub.events()
    made = await client.v1.transfers.create_async(params, idempotency_options())
    await client.v1.transfers.reversals.create_async(made.id, None, idempotency_options())


async def _won(stub: StripeStub, client: stripe.StripeClient) -> None:
    await make_payment(stub, client)
    stub.events()
    stub.charge_back(12, "won")


CHANGES: dict[str, tuple[Callable[[StripeStub, stripe.StripeClient], Any], list[str]]] = {
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


@pytest.mark.parametrize(("act", "wanted"), CHANGES.values(), ids=CHANGES)
async def test_each_change_sends_its_events(
    stub: StripeStub, client: stripe.StripeClient, act: Callable[..., Any], wanted: list[str]
) -> None:
    """Each change sends events with Stripe's names."""
    await act(stub, client)
    assert kinds(stub) == wanted


async def test_events_are_signed(stub: StripeStub, client: stripe.StripeClient) -> None:
    """The SDK verifies the signature, its time is the stub's, and the object has its metadata."""
    await make_payment(stub, client)
    headers, body = stub.events()[-1]
    stripe.WebhookSignature.verify_header(body, headers["Stripe-Signature"], stub.secrets[0])
    assert f"t={int(NOW.timestamp())}," in headers["Stripe-Signature"]
    assert json.loads(body)["data"]["object"]["metadata"]["intent_id"] == "12"


async def test_a_payee_sends_a_thin_event(stub: StripeStub, client: stripe.StripeClient) -> None:
    """An event of a connected account only names it, and is signed with the other secret."""
    reference = await make_payee(stub, client)
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
async def test_events_are_misdelivered(
    stub: StripeStub,
    client: stripe.StripeClient,
    clock: VirtualClock,
    how: EventDeliveryMode,
    at_once: list[str],
    later: list[str],
) -> None:
    """Events are delivered twice, in reverse, late or never, and listed in each case."""
    payment = await make_payment(stub, client)
    stub.events()
    stub.set_event_delivery(how)
    await client.v1.refunds.create_async({"payment_intent": payment.id}, idempotency_options())
    names = {"refund.created": "a", "charge.refunded": "b"}
    assert [names[each] for each in kinds(stub)] == at_once
    clock.advance(10 * MINUTE)
    assert [names[each] for each in kinds(stub)] == later
    listed = await client.v1.events.list_async({"types": ["refund.created", "charge.refunded"]})
    assert [names[each.type] for each in listed.data] == ["b", "a"]


async def test_an_event_keeps_the_objects_fields(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """An event has the object's fields at the time of the event."""
    payment = await make_payment(stub, client)
    await client.v1.refunds.create_async({"payment_intent": payment.id}, idempotency_options())
    [event] = (await client.v1.events.list_async({"type": "charge.succeeded"})).data
    assert event.data.object["amount_refunded"] == 0


# Lists ----------------------------------------------------------------------------------------


async def test_lists_have_pages(stub: StripeStub, client: stripe.StripeClient) -> None:
    """Lists are newest first, in pages, and continue after or before an id."""
    payment = await make_payment(stub, client)
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
    """Lists are filtered by a field, by a range of times and by both, and expand references."""
    payment = await make_payment(stub, client)
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


async def test_the_account_is_correct_by_default(client: stripe.StripeClient) -> None:
    """By default the account can transfer, has manual payouts, and has both webhook endpoints."""
    account = await client.v1.accounts.retrieve_current_async()
    settings = (await client.v1.balance_settings.retrieve_async()).to_dict()
    [endpoint] = (await client.v1.webhook_endpoints.list_async()).data
    destinations = await client.v2.core.event_destinations.list_async()
    assert account.to_dict()["capabilities"]["transfers"] == "active"
    assert settings["payments"]["payouts"]["schedule"]["interval"] == "manual"
    assert (endpoint.status, endpoint.enabled_events) == ("enabled", ["*"])
    assert [each.event_payload for each in destinations.data] == ["thin"]


async def test_the_account_can_be_misconfigured(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """The account can be set to daily payouts, no endpoint and no transfers."""
    stub.set_settings(
        payout_interval="daily", endpoints=(), capabilities={"card_payments": "active"}
    )
    account = await client.v1.accounts.retrieve_current_async()
    settings = (await client.v1.balance_settings.retrieve_async()).to_dict()
    assert "transfers" not in account.to_dict()["capabilities"]
    assert settings["payments"]["payouts"]["schedule"]["interval"] == "daily"
    assert (await client.v1.webhook_endpoints.list_async()).data == []
