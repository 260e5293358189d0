"""The official SDK's client for tests of the stub, and valid parameters for its calls."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count
from typing import Any

import httpx
import stripe

from staffbooking_adapters.testing.builders import HOUR, NOW
from tests.stripe_stub.stub import StripeStub
from tests.stripe_stub.version import VERSION

# Otherwise the SDK writes a file into the home directory.
stripe.enable_telemetry = False

_key_numbers = count(1)


@asynccontextmanager
async def open_stripe_client(
    stub: StripeStub, api_key: str = StripeStub.api_key, version: str = VERSION
) -> AsyncIterator[stripe.StripeClient]:
    http = stripe.HTTPXClient(timeout=httpx.Timeout(20, connect=5))
    try:
        yield stripe.StripeClient(
            api_key,
            stripe_version=version,
            base_addresses={"api": stub.url},
            http_client=http,
            max_network_retries=0,
        )
    finally:
        await http.close_async()


def idempotency_options(text: str = "") -> Any:
    """Request options with an idempotency key, by default a new one."""
    return {"idempotency_key": text or f"key {next(_key_numbers)}"}


def session_params(amount: int = 20_000, lives: timedelta = 12 * HOUR, **changes: Any) -> Any:
    """Parameters of a checkout session; `None` leaves a parameter out."""
    metadata = {"intent_id": "12", "op_id": "7"}
    price = {
        "currency": "usd",
        "unit_amount": amount,
        "product_data": {"name": "Gala dinner by Mia Lindqvist"},
    }
    params = {
        "mode": "payment",
        "line_items": [{"price_data": price, "quantity": 1}],
        "client_reference_id": "BK0123456789AB",
        "customer_email": "ada@example.com",
        "success_url": "https://bookings.example.com/12/return?done",
        "cancel_url": "https://bookings.example.com/12/return",
        "expires_at": int((NOW + lives).timestamp()),
        "submit_type": "book",
        "allowed_payment_method_types": ["card"],
        "adaptive_pricing": {"enabled": False},
        "metadata": metadata,
        "payment_intent_data": {
            "transfer_group": "sb_tests_intent_12",
            "metadata": metadata,
            "description": "Booking BK0123456789AB",
        },
        **changes,
    }
    return {name: value for name, value in params.items() if value is not None}


def account_params(**changes: Any) -> Any:
    """Parameters of a connected account."""
    transfers = {"stripe_balance": {"stripe_transfers": {"requested": True}}}
    return {
        "contact_email": "mia@example.com",
        "display_name": "Mia Lindqvist",
        "dashboard": "express",
        "identity": {"country": "us", "entity_type": "individual"},
        "configuration": {"recipient": {"capabilities": transfers}},
        "defaults": {
            "currency": "usd",
            "responsibilities": {
                "fees_collector": "application",
                "losses_collector": "application",
            },
        },
        "metadata": {"companion_id": "2"},
        "include": ["configuration.recipient", "requirements"],
        **changes,
    }


async def make_payment(
    stub: StripeStub, client: stripe.StripeClient, **changes: Any
) -> stripe.PaymentIntent:
    """Pay a new checkout session; returns the payment intent with its charge."""
    page = await client.v1.checkout.sessions.create_async(
        session_params(**changes), idempotency_options()
    )
    stub.pay(page.id)
    page = await client.v1.checkout.sessions.retrieve_async(page.id)
    return await client.v1.payment_intents.retrieve_async(
        str(page.payment_intent), {"expand": ["latest_charge"]}
    )


async def make_payee(stub: StripeStub, client: stripe.StripeClient) -> str:
    """Create an account that can receive transfers; returns its id."""
    made = await client.v2.core.accounts.create_async(account_params(), idempotency_options())
    stub.set_payee_ready(made.id)
    return made.id


def transfer_params(
    payment: stripe.PaymentIntent, destination: str, amount: int, /, **changes: Any
) -> Any:
    """Parameters of a transfer whose source is one payment; `None` leaves a parameter out."""
    charge: Any = payment.latest_charge
    params = {
        "amount": amount,
        "currency": "usd",
        "destination": destination,
        "source_transaction": charge.id,
        "transfer_group": "sb_tests_intent_12",
        "metadata": {"op_id": "8"},
        **changes,
    }
    return {name: value for name, value in params.items() if value is not None}
