"""Idempotency keys and injected faults of the stub of Stripe."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
import stripe

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.testing.builders import DAY, SECOND
from tests.stripe_stub import VERSION, StripeStub, open_stub
from tests.stripe_stub.client import (
    account_params,
    idempotency_options,
    make_payment,
    open_stripe_client,
    session_params,
    transfer_params,
)

pytestmark = pytest.mark.anyio


# Keys ----------------------------------------------------------------------------------------


async def test_a_repeat_is_replayed(stub: StripeStub, client: stripe.StripeClient) -> None:
    """The same key and parameters get the first answer, marked as a replay, and create nothing."""
    first = await client.v1.checkout.sessions.create_async(
        session_params(), idempotency_options("k")
    )
    again = await client.v1.checkout.sessions.create_async(
        session_params(), idempotency_options("k")
    )
    assert again == first
    assert again.last_response is not None
    assert again.last_response.headers["Idempotent-Replayed"] == "true"
    assert len(stub.objects("checkout.session")) == 1


async def test_a_key_is_bound_to_its_parameters(client: stripe.StripeClient) -> None:
    """The same key with other parameters is an idempotency error."""
    await client.v1.checkout.sessions.create_async(session_params(), idempotency_options("k"))
    with pytest.raises(stripe.IdempotencyError) as refused:
        await client.v1.checkout.sessions.create_async(
            session_params(amount=1_000), idempotency_options("k")
        )
    assert refused.value.http_status == 400


async def test_a_key_is_bound_to_its_path(client: stripe.StripeClient) -> None:
    """The same key on another object is an idempotency error."""
    sessions = client.v1.checkout.sessions
    first, second = [
        await sessions.create_async(session_params(), idempotency_options()) for _ in range(2)
    ]
    await sessions.expire_async(first.id, None, idempotency_options("k"))
    with pytest.raises(stripe.IdempotencyError):
        await sessions.expire_async(second.id, None, idempotency_options("k"))


async def test_a_refusal_is_stored(stub: StripeStub, client: stripe.StripeClient) -> None:
    """A refusal is repeated under its key after its cause is gone, and another key succeeds."""
    payment = await make_payment(stub, client)
    wanted = transfer_params(
        payment,
        (await client.v2.core.accounts.create_async(account_params(), idempotency_options())).id,
        5,
    )
    for _ in range(2):
        with pytest.raises(stripe.InvalidRequestError) as refused:
            await client.v1.transfers.create_async(wanted, idempotency_options("k"))
        assert refused.value.code == "insufficient_capabilities_for_transfer"
        stub.set_payee_ready(wanted["destination"])
    assert (
        await client.v1.transfers.create_async(wanted, idempotency_options("other"))
    ).amount == 5


async def test_a_key_expires_after_a_day(clock: VirtualClock, client: stripe.StripeClient) -> None:
    """A key creates a second object after 24 hours, and not a second before."""
    params = session_params(expires_at=None)
    first = await client.v1.checkout.sessions.create_async(params, idempotency_options("k"))
    clock.advance(DAY - SECOND)
    still = await client.v1.checkout.sessions.create_async(params, idempotency_options("k"))
    clock.advance(SECOND)
    second = await client.v1.checkout.sessions.create_async(params, idempotency_options("k"))
    assert still.id == first.id != second.id


async def test_a_key_in_use_is_409(stub: StripeStub, client: stripe.StripeClient) -> None:
    """A second request under a key is answered 409 while the first one is running."""
    stub.inject_fault("open_checkout", "slow", seconds=60)
    async with anyio.create_task_group() as group:
        group.start_soon(
            client.v1.checkout.sessions.create_async, session_params(), idempotency_options("k")
        )
        while not stub.received_calls:
            await anyio.lowlevel.checkpoint()
        with pytest.raises(stripe.APIError) as refused:
            await client.v1.checkout.sessions.create_async(
                session_params(), idempotency_options("k")
            )
        stub.flush_delayed_responses()
    body: Any = refused.value.json_body
    assert (refused.value.http_status, body["error"]["code"]) == (409, "idempotency_key_in_use")
    later = await client.v1.checkout.sessions.create_async(
        session_params(), idempotency_options("k")
    )
    assert [each["id"] for each in stub.objects("checkout.session")] == [later.id]


async def test_v2_repeats_a_successful_answer(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """The same key of v2 creates one account."""
    first, again = [
        await client.v2.core.accounts.create_async(account_params(), idempotency_options("k"))
        for _ in range(2)
    ]
    assert first.id == again.id
    assert len(stub.objects("v2.core.account")) == 1


async def test_v2_executes_a_failed_call_again(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """In v2 a failed call is executed again under the same key."""
    stub.inject_fault("open_payee", "error_500")
    with pytest.raises(stripe.APIError):
        await client.v2.core.accounts.create_async(account_params(), idempotency_options("k"))
    assert stub.objects("v2.core.account") == []
    assert (
        await client.v2.core.accounts.create_async(account_params(), idempotency_options("k"))
    ).id


async def test_v2_returns_an_object_created_despite_an_error(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """In v2 a repeat after an error returns the object that was created."""
    stub.inject_fault("open_payee", "error_500_after")
    with pytest.raises(stripe.APIError):
        await client.v2.core.accounts.create_async(account_params(), idempotency_options("k"))
    found = await client.v2.core.accounts.create_async(account_params(), idempotency_options("k"))
    assert [each["id"] for each in stub.objects("v2.core.account")] == [found.id]


# Faults --------------------------------------------------------------------------------------

CALL_ERRORS: dict[str, tuple[type[stripe.StripeError], int | None, int, bool]] = {
    "reset_before": (stripe.APIConnectionError, None, 0, True),
    "reset_after": (stripe.APIConnectionError, None, 1, True),
    "truncated": (stripe.APIConnectionError, None, 1, True),
    "error_500": (stripe.APIError, 500, 0, False),
    "error_500_after": (stripe.APIError, 500, 1, False),
    "html": (stripe.APIError, 502, 0, True),
    "rate_limit": (stripe.RateLimitError, 429, 0, True),
    "conflict": (stripe.APIError, 409, 0, True),
    "refuse:balance_insufficient": (stripe.InvalidRequestError, 400, 0, False),
}
"""The error, its status, the number of created objects, and whether a repeat succeeds."""


@pytest.mark.parametrize(("kind", "wanted"), CALL_ERRORS.items(), ids=CALL_ERRORS)
async def test_each_fault_of_a_call(
    stub: StripeStub,
    client: stripe.StripeClient,
    kind: str,
    wanted: tuple[type[stripe.StripeError], int | None, int, bool],
) -> None:
    """Each fault raises its error, executes the call or not, and is stored under the key or not."""
    error, status, made, repeat_succeeds = wanted
    stub.inject_fault("open_checkout", kind)
    with pytest.raises(error) as raised:
        await client.v1.checkout.sessions.create_async(session_params(), idempotency_options("k"))
    assert (raised.value.http_status, len(stub.objects("checkout.session"))) == (status, made)
    if repeat_succeeds:
        await client.v1.checkout.sessions.create_async(session_params(), idempotency_options("k"))
        assert len(stub.objects("checkout.session")) == 1
    else:
        with pytest.raises(error):
            await client.v1.checkout.sessions.create_async(
                session_params(), idempotency_options("k")
            )


async def test_a_reset_breaks_the_connection(stub: StripeStub) -> None:
    """A reset fault breaks the connection with a read error."""
    stub.inject_fault("read", "reset_before")
    headers = {"Authorization": f"Bearer {stub.api_key}", "Stripe-Version": VERSION}
    async with httpx.AsyncClient(base_url=stub.url, headers=headers) as http:
        with pytest.raises(httpx.ReadError):
            await http.get("/v1/balance")


async def test_a_fault_applies_to_its_operation(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """A fault of refunds does not affect checkouts."""
    stub.inject_fault("refund", "error_500")
    assert (
        await client.v1.checkout.sessions.create_async(session_params(), idempotency_options())
    ).status == "open"


async def test_a_fault_applies_a_number_of_times(
    stub: StripeStub, client: stripe.StripeClient
) -> None:
    """A fault for two calls does not affect the third."""
    stub.inject_fault("read", "reset_before", times=2)
    for _ in range(2):
        with pytest.raises(stripe.APIConnectionError):
            await client.v1.balance.retrieve_async()
    assert (await client.v1.balance.retrieve_async()).object == "balance"


async def test_random_faults_are_the_same_for_a_seed(clock: VirtualClock) -> None:
    """Random faults affect a part of the POSTs, and the same ones for the same seed."""

    async def run() -> list[str]:
        outcomes = []
        async with open_stub(clock.wall) as stub, open_stripe_client(stub) as client:
            stub.set_fault_rate(seed=5, rate=0.3)
            for _ in range(30):
                try:
                    await client.v1.checkout.sessions.create_async(
                        session_params(), idempotency_options()
                    )
                except stripe.StripeError as error:
                    outcomes.append(type(error).__name__)
                else:
                    outcomes.append("")
        return outcomes

    first, second = await run(), await run()
    assert first == second
    assert 3 < len([each for each in first if each]) < 20


async def test_a_slow_call_was_executed(stub: StripeStub, client: stripe.StripeClient) -> None:
    """A slow call whose caller gave up was executed, and a repeat gets its result."""
    stub.inject_fault("open_checkout", "slow", seconds=60)
    async with anyio.create_task_group() as group:
        group.start_soon(
            client.v1.checkout.sessions.create_async, session_params(), idempotency_options("k")
        )
        while not stub.received_calls:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    # By the end of another call the stub has noticed that the first connection is closed.
    await client.v1.balance.retrieve_async()
    stub.flush_delayed_responses()
    found = await client.v1.checkout.sessions.create_async(
        session_params(), idempotency_options("k")
    )
    assert [each["id"] for each in stub.objects("checkout.session")] == [found.id]


async def test_random_faults_spare_reads(stub: StripeStub, client: stripe.StripeClient) -> None:
    """Random faults do not affect GETs."""
    stub.set_fault_rate(seed=1, rate=1.0)
    assert (await client.v1.balance.retrieve_async()).object == "balance"
