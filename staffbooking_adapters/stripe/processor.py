"""Stripe behind the port: hosted checkouts, separate charges and transfers, v2 accounts.

The platform takes the whole payment, holds it, and hands on a companion's part later by a
transfer out of that very payment. What an event says is never believed: it is looked up.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Final

import anyio
import httpx
import stripe
from stripe import StripeClient
from stripe._base_address import BaseAddresses

from staffbooking_adapters.stripe import currencies, events, facts
from staffbooking_adapters.stripe.changes import changes
from staffbooking_adapters.stripe.checkup import Wanted, examine
from staffbooking_adapters.stripe.errors import answering, preparing
from staffbooking_adapters.stripe.looking import look
from staffbooking_adapters.stripe.marks import Marks
from staffbooking_adapters.stripe.reading import id_of, plain
from staffbooking_adapters.stripe.statement import movements
from staffbooking_core.domain.payments.payees import Link, OpenPayee, PayeeState
from staffbooking_core.domain.payments.processor import (
    Checkout,
    IntentRefs,
    Nudge,
    OpenCheckout,
    OpKey,
    PayOut,
    PayoutState,
    Refund,
    RefundState,
    RefusalCode,
    Refused,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.ports.processor import Finding

VERSION: Final = "2026-10-28.endive"
"""The version of Stripe's API that all of this was written for: another one is a decision,
not an accident of an upgrade."""

TIMEOUT: Final = httpx.Timeout(20, connect=5)


class StripeProcessor:
    """Implements `Payments`. Nothing is opened until the first call; `close` at the end.

    `environment` names the deployment among those that share the account, `base_url` is where
    Stripe finds it, `currency` what it charges in. `base_addresses` leads elsewhere than to
    Stripe.
    """

    name = "stripe"

    def __init__(
        self,
        secret_key: str,
        webhook_secrets: Sequence[str],
        environment: str,
        *,
        base_url: str,
        currency: str,
        base_addresses: BaseAddresses | None = None,
    ) -> None:
        stripe.enable_telemetry = False
        self._http = stripe.HTTPXClient(timeout=TIMEOUT)
        self._client = StripeClient(
            secret_key,
            stripe_version=VERSION,
            base_addresses=base_addresses,
            http_client=self._http,
            max_network_retries=0,  # Ours are durable, and within one deadline.
        )
        self._webhook_secrets = tuple(webhook_secrets)
        self._marks = Marks(environment, live=secret_key[2:].startswith("_live_"))
        self._wanted = Wanted(
            live=self._marks.live,
            version=VERSION,
            base_url=base_url,
            currency=currency,
            secrets=len(self._webhook_secrets),
        )

    async def close(self) -> None:
        await self._http.close_async()  # type: ignore[no-untyped-call]

    def min_amount(self, currency: str) -> int:
        return currencies.min_amount(currency)

    # Checkouts ------------------------------------------------------------------------------

    async def open_checkout(self, command: OpenCheckout, key: OpKey, within: float) -> Checkout:
        metadata = self._marks.metadata(key)
        with answering(within):
            session = await self._client.v1.checkout.sessions.create_async(
                {
                    "mode": "payment",
                    "line_items": [
                        {
                            "quantity": 1,
                            "price_data": {
                                "currency": command.currency,
                                "unit_amount": command.amount,
                                "product_data": {"name": command.description},
                            },
                        }
                    ],
                    "client_reference_id": command.booking_code,
                    "customer_email": command.customer_email,
                    "success_url": command.success_url,
                    "cancel_url": command.cancel_url,
                    "expires_at": int(command.expires_at.timestamp()),
                    "submit_type": "book",
                    # Cards alone: no payment succeeds days later, none in another currency.
                    "allowed_payment_method_types": ["card"],
                    "adaptive_pricing": {"enabled": False},
                    "metadata": metadata,
                    "payment_intent_data": {
                        "description": command.description,
                        "transfer_group": self._marks.group(key.intent_id),
                        "metadata": metadata,
                    },
                },
                self._under(key),
            )
            return facts.checkout(session, key.op_id)

    async def close_checkout(self, ref: str, key: OpKey, within: float) -> Checkout:
        until = anyio.current_time() + within
        sessions = self._client.v1.checkout.sessions
        try:
            with answering(within):
                session = await sessions.expire_async(ref, None, self._under(key))
        except Refused as refused:
            if refused.reason is RefusalCode.MISSING:
                raise
            # Only an open page can be closed: what became of this one?
            with preparing(until - anyio.current_time()):
                session = await sessions.retrieve_async(ref)
            if session.status == "open":
                raise
        return facts.checkout(session, key.op_id)

    # Movements of money ---------------------------------------------------------------------

    async def refund(self, command: Refund, key: OpKey, within: float) -> RefundState:
        with answering(within):
            made = await self._client.v1.refunds.create_async(
                {
                    "payment_intent": command.payment_ref,
                    "amount": command.amount,
                    "reason": "requested_by_customer",
                    "metadata": self._marks.metadata(key),
                },
                self._under(key),
            )
            return facts.refund(made, self._marks)

    async def pay_out(self, command: PayOut, key: OpKey, within: float) -> PayoutState:
        """Out of the payment itself: so it can go before the funds have settled, and never
        takes what another booking paid."""
        if not command.payee_ref:
            raise Refused(RefusalCode.PAYEE_NOT_READY, "there is no account to pay out to yet")
        until = anyio.current_time() + within
        with preparing(within):
            intent = await self._client.v1.payment_intents.retrieve_async(command.payment_ref)
        charge = id_of(intent.latest_charge)
        if charge is None:
            raise Refused(RefusalCode.MISSING, f"{command.payment_ref} was never charged")
        with answering(until - anyio.current_time()):
            made = await self._client.v1.transfers.create_async(
                {
                    "amount": command.amount,
                    "currency": command.currency,
                    "destination": command.payee_ref,
                    "source_transaction": charge,
                    "transfer_group": self._marks.group(key.intent_id),
                    "metadata": self._marks.metadata(key),
                },
                self._under(key),
            )
            return facts.payout(made, self._marks)

    async def reverse_payout(
        self, command: ReversePayout, payout_ref: str, key: OpKey, within: float
    ) -> ReversalState:
        with answering(within):
            made = await self._client.v1.transfers.reversals.create_async(
                payout_ref,
                {"amount": command.amount, "metadata": self._marks.metadata(key)},
                self._under(key),
            )
            return facts.reversal(made, self._marks)

    # Payees ---------------------------------------------------------------------------------

    async def open_payee(self, command: OpenPayee, key: OpKey, within: float) -> PayeeState:
        with answering(within):
            account = await self._client.v2.core.accounts.create_async(
                {
                    "contact_email": command.email,
                    "display_name": command.name,
                    "dashboard": "express",
                    "identity": {"country": command.country, "entity_type": "individual"},
                    "configuration": {
                        "recipient": {
                            "capabilities": {
                                "stripe_balance": {"stripe_transfers": {"requested": True}}
                            }
                        }
                    },
                    "defaults": {
                        "currency": command.currency,
                        "responsibilities": {
                            "fees_collector": "application",
                            "losses_collector": "application",
                        },
                    },
                    "metadata": {
                        "sb_env": self._marks.environment,
                        "companion_id": str(command.companion_id),
                    },
                    "include": ["configuration.recipient", "requirements"],
                },
                self._under(key),
            )
            return facts.payee(account)

    async def payee(self, ref: str, within: float) -> PayeeState:
        with answering(within):
            account = await self._client.v2.core.accounts.retrieve_async(
                ref, {"include": ["configuration.recipient", "requirements"]}
            )
            return facts.payee(account)

    async def onboarding_link(
        self, ref: str, return_url: str, refresh_url: str, within: float
    ) -> Link:
        with answering(within):
            link = await self._client.v2.core.account_links.create_async(
                {
                    "account": ref,
                    "use_case": {
                        "type": "account_onboarding",
                        "account_onboarding": {
                            "return_url": return_url,
                            "refresh_url": refresh_url,
                        },
                    },
                },
                # A link serves one visit: the key of another would give that one's again.
                {"idempotency_key": self._marks.key(f"link_{secrets.token_hex(16)}")},
            )
            return Link(link.url, datetime.fromisoformat(link.expires_at))

    # Looking --------------------------------------------------------------------------------

    async def snapshot(self, refs: IntentRefs, within: float) -> Snapshot:
        with answering(within):
            return await look(self._client.v1, self._marks, refs)

    async def find_intent(self, payment_ref: str, within: float) -> int | None:
        try:
            with answering(within):
                intent = await self._client.v1.payment_intents.retrieve_async(payment_ref)
        except Refused as refused:
            if refused.reason is RefusalCode.MISSING:
                return None
            raise
        return self._marks.intent_of(plain(intent.metadata))

    async def changes(self, cursor: str | None, within: float) -> tuple[Sequence[Nudge], str]:
        with answering(within):
            return await changes(self._client.v1, self._marks, cursor)

    def statement(self) -> AsyncIterator[Movement]:
        return movements(self._client.v1, self._marks)

    async def checkup(self, within: float) -> Sequence[Finding]:
        with answering(within):
            return [finding async for finding in examine(self._client, self._wanted)]

    def parse_webhook(
        self, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> Sequence[Nudge]:
        events.verify(headers, body, self._webhook_secrets, now)
        return events.read(body, self._marks)

    def _under(self, key: OpKey) -> stripe.RequestOptions:
        return {"idempotency_key": self._marks.key(key.text)}
