"""The stub of Stripe accepts and returns only what the SDK's types allow."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest
import stripe
from stripe._api_version import _ApiVersion

from staffbooking_adapters.memory.doubles import VirtualClock
from tests.stripe_stub import VERSION, StripeStub, open_stub
from tests.stripe_stub.client import (
    account_params,
    idempotency_options,
    make_payment,
    open_stripe_client,
    session_params,
)
from tests.stripe_stub.contract import stripe_operation
from tests.stripe_stub.errors import InvalidRequestError
from tests.stripe_stub.openapi_limits import (
    OLDER_FIELDS,
    OPENAPI_FILE,
    check_length_limits,
    sample_objects,
)
from tests.stripe_stub.response_check import InvalidStubResponse, check_response, find_object_error

pytestmark = pytest.mark.anyio

LENGTHS = [(200, True), (201, False)] if OPENAPI_FILE.exists() else [(200, True), (201, True)]
"""Lengths of a reference and whether they are accepted; without the document there is no limit."""


# The SDK's types -----------------------------------------------------------------------------


def test_an_operation_is_read_from_the_sdk() -> None:
    """An operation's verb, path and result type are those of the SDK's method."""
    found = stripe_operation("v1.transfers.reversals.create")
    assert (found.verb, found.path) == ("post", "/v1/transfers/{id}/reversals")
    assert found.result.load() is stripe.TransferReversal
    assert not found.is_list


def test_the_version_is_the_sdks() -> None:
    """The stub's version is the one of the installed SDK."""
    assert VERSION == _ApiVersion.CURRENT


def _removed(params: Any) -> None:
    params["payment_method_types"] = ["card"]


def _nested_typo(params: Any) -> None:
    params["line_items"][0]["price_data"]["unit_ammount"] = 1


def _enum_typo(params: Any) -> None:
    params["submit_type"] = "bok"


def _float(params: Any) -> None:
    params["line_items"][0]["price_data"]["unit_amount"] = 12.5


def _missing(params: Any) -> None:
    del params["line_items"][0]["price_data"]["currency"]


def _empty(params: Any) -> None:
    params["cancel_url"] = ""


def _not_a_list(params: Any) -> None:
    params["line_items"] = {"first": params["line_items"][0]}


def _not_a_boolean(params: Any) -> None:
    params["adaptive_pricing"]["enabled"] = "no"


INVALID_CHANGES: dict[str, Callable[[Any], None]] = {
    "payment_method_types": _removed,
    "line_items[0][price_data][unit_ammount]": _nested_typo,
    "submit_type": _enum_typo,
    "line_items[0][price_data][unit_amount]": _float,
    "line_items[0][price_data][currency]": _missing,
    "cancel_url": _empty,
    "line_items": _not_a_list,
    "adaptive_pricing[enabled]": _not_a_boolean,
}


@pytest.mark.parametrize(("param", "change"), INVALID_CHANGES.items(), ids=INVALID_CHANGES)
async def test_an_unfit_parameter_is_named(
    client: stripe.StripeClient, param: str, change: Callable[[Any], None]
) -> None:
    """A parameter that the types do not allow is refused with 400 and named."""
    params = session_params()
    change(params)
    with pytest.raises(stripe.InvalidRequestError) as refused:
        await client.v1.checkout.sessions.create_async(params, idempotency_options())
    assert (refused.value.http_status, refused.value.param) == (400, param)


async def test_a_validation_failure_is_not_stored(client: stripe.StripeClient) -> None:
    """The key of a request that failed validation can be used with other parameters."""
    with pytest.raises(stripe.InvalidRequestError):
        await client.v1.checkout.sessions.create_async(
            session_params(mode="pay"), idempotency_options("k")
        )
    made = await client.v1.checkout.sessions.create_async(
        session_params(), idempotency_options("k")
    )
    assert made.status == "open"


async def test_v2_parses_json(client: stripe.StripeClient) -> None:
    """A number for a text parameter of v2 is refused, and the parameter is named."""
    with pytest.raises(stripe.InvalidRequestError) as refused:
        await client.v2.core.accounts.create_async(
            account_params(display_name=5), idempotency_options()
        )
    body: Any = refused.value.json_body
    assert body["error"]["param"] == "display_name"


async def test_an_unknown_path_is_404(stub: StripeStub) -> None:
    """A path that the stub does not implement is answered 404."""
    headers = {"Authorization": f"Bearer {stub.api_key}", "Stripe-Version": VERSION}
    async with httpx.AsyncClient(base_url=stub.url, headers=headers) as http:
        assert (await http.get("/v1/customers")).status_code == 404


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"amount": "5"}, ".amount cannot be '5'"),
        ({"reason": "bored"}, ".reason cannot be 'bored'"),
        ({"colour": "red"}, ".colour is unknown"),
        ({"charge": {"id": "pi_1", "object": "payment_intent"}}, ".charge cannot be"),
    ],
)
def test_a_wrong_answer_raises(change: dict[str, Any], message: str) -> None:
    """An answer that the SDK's types do not allow raises an error that names the field."""
    right = {"id": "re_1", "object": "refund", "amount": 5, "created": 1, "currency": "usd"}
    check_response(stripe_operation("v1.refunds.retrieve"), right)
    with pytest.raises(InvalidStubResponse) as raised:
        check_response(stripe_operation("v1.refunds.retrieve"), right | change)
    assert message in str(raised.value)


def test_a_missing_field_raises() -> None:
    """An answer without a required field raises an error that names the field."""
    with pytest.raises(InvalidStubResponse, match=r"currency is missing"):
        check_response(
            stripe_operation("v1.refunds.retrieve"),
            {"id": "re_1", "object": "refund", "amount": 5, "created": 1},
        )


async def test_the_stubs_own_bugs_are_raised(clock: VirtualClock) -> None:
    """An invalid answer of the stub raises an error at the end of `open_stub`."""
    with pytest.raises(ExceptionGroup, match="the stub of Stripe is wrong"):
        await _cause_invalid_answer(clock)


async def _cause_invalid_answer(clock: VirtualClock) -> None:
    async with open_stub(clock.wall) as stub, open_stripe_client(stub) as client:
        payment = await make_payment(stub, client)
        stub.objects("charge")[0]["colour"] = "red"
        with pytest.raises(stripe.APIError):
            await client.v1.charges.list_async({"payment_intent": payment.id})


# Stripe's documents --------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "is_accepted"), LENGTHS)
async def test_lengths_are_limited(
    stub: StripeStub, client: stripe.StripeClient, length: int, is_accepted: bool
) -> None:
    """A reference of 200 characters is accepted, and one of 201 only without the document."""
    params = session_params(client_reference_id="B" * length)
    with suppress(stripe.InvalidRequestError):
        await client.v1.checkout.sessions.create_async(params, idempotency_options())
    assert bool(stub.objects("checkout.session")) == is_accepted


SCHEMA = {
    "properties": {
        "names": {"items": {"type": "string", "maxLength": 3}},
        "either": {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "object"}]},
    },
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "value",
    [
        {"names": ["Ada", "Mia"]},
        {"either": "ab"},
        {"either": {"x": "abc"}},
        {"adaptive_pricing": 1},
    ],
)
def test_the_document_accepts(value: dict[str, Any]) -> None:
    """Texts within the limits and parameters in `NEWER_FIELDS` are accepted."""
    check_length_limits(SCHEMA, value)


@pytest.mark.parametrize(
    ("value", "param"),
    [
        ({"names": ["Ada", "Anna"]}, "names[1]"),
        ({"either": "abc"}, "either"),
        ({"neither": "a"}, "neither"),
    ],
)
def test_the_document_refuses(value: dict[str, Any], param: str) -> None:
    """A text that is too long and an unknown parameter are refused, and the parameter is named."""
    with pytest.raises(InvalidRequestError) as refused:
        check_length_limits(SCHEMA, value)
    assert refused.value.param == param


def test_the_sample_objects_fit() -> None:
    """Stripe's sample objects, if present, differ from the types only as in `OLDER_FIELDS`."""
    found = {name: find_object_error(sample) for name, sample in sample_objects().items()}
    assert found == {name: OLDER_FIELDS.get(name) for name in found}


# Access --------------------------------------------------------------------------------------


async def test_a_wrong_key_is_401(stub: StripeStub) -> None:
    """A wrong key is answered 401."""
    async with open_stripe_client(stub, "sk_test_wrong") as client:
        with pytest.raises(stripe.AuthenticationError) as refused:
            await client.v1.balance.retrieve_async()
    assert refused.value.http_status == 401


async def test_a_restricted_key_is_403(stub: StripeStub) -> None:
    """A key without permissions is answered 403."""
    async with open_stripe_client(stub, stub.restricted_key) as client:
        with pytest.raises(stripe.PermissionError) as refused:
            await client.v1.balance.retrieve_async()
    assert refused.value.http_status == 403


async def test_another_version_is_refused(stub: StripeStub) -> None:
    """A call with another API version is refused."""
    async with open_stripe_client(stub, version="2026-09-30.dahlia") as client:
        with pytest.raises(stripe.InvalidRequestError, match="version"):
            await client.v1.balance.retrieve_async()


async def test_a_post_needs_a_key(client: stripe.StripeClient) -> None:
    """A POST with the SDK's random idempotency key is refused."""
    with pytest.raises(stripe.InvalidRequestError, match="Idempotency-Key"):
        await client.v1.checkout.sessions.create_async(session_params())
