"""Stripe's test mode as the outside world of a bench, as far as possible without a browser.

The hosted page needs a browser, so a payment is made with a test card and the metadata that the
page would have set. Each bench has its own deployment name, so that earlier runs do not count.
"""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, NoReturn

import pytest
from attrs import frozen
from stripe import HTTPXClient, StripeClient

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.stripe.processor import API_VERSION, StripeProcessor
from staffbooking_adapters.testing.processor.base import ProcessorBench
from staffbooking_core.domain.payments.processor import Checkout, Payment, PayoutState
from tests.money.processors import BASE_URL

INSTANT_FUNDS_CARD = "pm_card_bypassPending"
"""The funds are available at once, as with card 4000 0000 0000 0077."""
DISPUTED_CARD = "pm_card_createDispute"


def stripe_test_key(environ: Mapping[str, str]) -> str:
    """The key of Stripe's test mode. Fails without one, and with a key of another mode."""
    key = environ.get("STRIPE_TEST_KEY", "")
    if not key.startswith(("sk_test_", "rk_test_")):
        pytest.fail("STRIPE_TEST_KEY must be a key of Stripe's test mode, sk_test_...")
    return key


@frozen
class StripeTestModeWorld:
    client: StripeClient
    environment: str
    payment_refs_by_intent: dict[int, tuple[str, ...]]
    """The bench's known payments by intent."""

    async def pay(self, checkout: Checkout) -> None:
        await self.charge(checkout, INSTANT_FUNDS_CARD)

    async def charge(self, checkout: Checkout, card: str) -> None:
        """Pay with a test card as the hosted page does."""
        session = await self.client.v1.checkout.sessions.retrieve_async(checkout.ref)
        metadata = session.metadata.to_dict() if session.metadata else {}
        intent_id = int(metadata["intent_id"])
        paid = await self.client.v1.payment_intents.create_async(
            {
                "amount": session.amount_total or 0,
                "currency": session.currency or "usd",
                "confirm": True,
                "payment_method": card,
                "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
                "transfer_group": f"sb_{self.environment}_intent_{intent_id}",
                "metadata": metadata,
            },
            {"idempotency_key": secrets.token_hex(16)},
        )
        self.payment_refs_by_intent[intent_id] = (*self.payment_refs_by_intent[intent_id], paid.id)

    async def refund_by_hand(self, payment: Payment, amount: int) -> None:
        await self.client.v1.refunds.create_async(
            {"payment_intent": payment.ref, "amount": amount},
            {"idempotency_key": secrets.token_hex(16)},
        )

    async def reverse_by_hand(self, payout: PayoutState, amount: int) -> None:
        await self.client.v1.transfers.reversals.create_async(
            payout.ref, {"amount": amount}, {"idempotency_key": secrets.token_hex(16)}
        )

    async def set_ready(self, payee_ref: str, ready: bool) -> None:
        if ready:
            await self._fail_unsupported()

    async def _fail_unsupported(self, *_: Any, **__: Any) -> NoReturn:
        pytest.fail("this needs a browser, a bank or a bad network: it can't be tested here")

    decline = charge_back = break_next = events = balance = _fail_unsupported


@asynccontextmanager
async def open_test_mode_bench(key: str) -> AsyncIterator[ProcessorBench]:
    """Stripe's adapter on Stripe's test mode, with a new deployment name."""
    environment = f"test-{secrets.token_hex(6)}"
    http = HTTPXClient()
    client = StripeClient(key, stripe_version=API_VERSION, http_client=http)
    processor = StripeProcessor(key, (), environment, base_url=BASE_URL, currency="usd")
    charged: dict[int, tuple[str, ...]] = defaultdict(tuple)
    world = StripeTestModeWorld(client, environment, charged)
    clock = VirtualClock(datetime.now(UTC))
    try:
        yield ProcessorBench(processor, world, clock, payment_refs=charged)
    finally:
        await http.close_async()
        await processor.close()
