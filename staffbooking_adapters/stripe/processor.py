"""The Stripe payment processor: hosted checkouts, separate charges and transfers, v2 accounts.

The platform takes the whole payment, holds it, and later pays out the companion's part by a
transfer from that payment. Event contents are never trusted: the state is read from Stripe.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

import anyio
import httpx
import stripe
from stripe import StripeClient

from staffbooking_adapters.stripe import currencies, events, mapping
from staffbooking_adapters.stripe.checkup import ExpectedSetup, check_setup
from staffbooking_adapters.stripe.deployment_tags import DeploymentTags
from staffbooking_adapters.stripe.documents import get_id, metadata_dict
from staffbooking_adapters.stripe.errors import translate_errors, translate_lookup_errors
from staffbooking_adapters.stripe.event_list import list_events
from staffbooking_adapters.stripe.snapshot import fetch_snapshot
from staffbooking_adapters.stripe.statement import list_movements
from staffbooking_core.domain.payments.payees import OnboardingLink, OpenPayee, PayeeState
from staffbooking_core.domain.payments.processor import (
    Checkout,
    IntentRefs,
    OpenCheckout,
    OperationKey,
    PayOut,
    PayoutState,
    ProcessorEvent,
    ProcessorRefused,
    RefundPayment,
    RefundState,
    RefusalCode,
    ReversalState,
    ReversePayout,
    Snapshot,
)
from staffbooking_core.domain.reconciliation.statement import Movement
from staffbooking_core.ports.processor import CheckupFinding

if TYPE_CHECKING:
    from stripe._base_address import BaseAddresses

API_VERSION: Final = "2026-10-28.endive"
"""The pinned version of Stripe's API, so that upgrading the SDK does not change it."""

_HTTP_TIMEOUT: Final = httpx.Timeout(20, connect=5)


class StripeProcessor:
    """Implements `PaymentProcessor`. No connection is opened before the first call; call `close`.

    `environment` names the deployment among those that share the account, `base_url` is its public
    URL, `currency` the currency of charges. `base_addresses` replaces Stripe's API addresses.
    """

    name = "stripe"
    checkout_origin = "https://checkout.stripe.com"

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
        self._http = stripe.HTTPXClient(timeout=_HTTP_TIMEOUT)
        self._client = StripeClient(
            secret_key,
            stripe_version=API_VERSION,
            base_addresses=base_addresses,
            http_client=self._http,
            max_network_retries=0,  # Operations have durable retries of their own.
        )
        self._webhook_secrets = tuple(webhook_secrets)
        self._tags = DeploymentTags(environment, is_live=secret_key[2:].startswith("_live_"))
        self._expected = ExpectedSetup(
            is_live=self._tags.is_live,
            api_version=API_VERSION,
            base_url=base_url,
            currency=currency,
            secret_count=len(self._webhook_secrets),
        )

    async def close(self) -> None:
        await self._http.close_async()  # type: ignore[no-untyped-call]

    def min_amount(self, currency: str) -> int:
        return currencies.min_amount(currency)

    def max_amount(self, currency: str) -> int:
        return currencies.max_amount(currency)

    # Checkouts ------------------------------------------------------------------------------

    async def open_checkout(
        self, command: OpenCheckout, key: OperationKey, timeout_seconds: float
    ) -> Checkout:
        metadata = self._tags.metadata(key)
        with translate_errors(timeout_seconds):
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
                    # Cards only: payments succeed at once and in the given currency.
                    "allowed_payment_method_types": ["card"],
                    "adaptive_pricing": {"enabled": False},
                    "metadata": metadata,
                    "payment_intent_data": {
                        "description": command.description,
                        "transfer_group": self._tags.transfer_group(key.intent_id),
                        "metadata": metadata,
                    },
                },
                self._request_options(key),
            )
            return mapping.checkout(session, key.op_id)

    async def close_checkout(self, ref: str, key: OperationKey, timeout_seconds: float) -> Checkout:
        deadline = anyio.current_time() + timeout_seconds
        sessions = self._client.v1.checkout.sessions
        try:
            with translate_errors(timeout_seconds):
                session = await sessions.expire_async(ref, None, self._request_options(key))
        except ProcessorRefused as refused:
            if refused.reason is RefusalCode.MISSING:
                raise
            # Only an open session can expire: read the state of this one.
            with translate_lookup_errors(deadline - anyio.current_time()):
                session = await sessions.retrieve_async(ref)
            if session.status == "open":
                raise
        return mapping.checkout(session, key.op_id)

    # Refunds, payouts and reversals ---------------------------------------------------------

    async def refund(
        self, command: RefundPayment, key: OperationKey, timeout_seconds: float
    ) -> RefundState:
        with translate_errors(timeout_seconds):
            stripe_refund = await self._client.v1.refunds.create_async(
                {
                    "payment_intent": command.payment_ref,
                    "amount": command.amount,
                    "reason": "requested_by_customer",
                    "metadata": self._tags.metadata(key),
                },
                self._request_options(key),
            )
            return mapping.refund(stripe_refund, self._tags)

    async def pay_out(
        self, command: PayOut, key: OperationKey, timeout_seconds: float
    ) -> PayoutState:
        """Transfer from the payment itself, so the payout can precede the settlement of funds and
        never uses another booking's money."""
        if not command.payee_ref:
            raise ProcessorRefused(
                RefusalCode.PAYEE_NOT_READY, "there is no account to pay out to yet"
            )
        deadline = anyio.current_time() + timeout_seconds
        with translate_lookup_errors(timeout_seconds):
            intent = await self._client.v1.payment_intents.retrieve_async(command.payment_ref)
        charge = get_id(intent.latest_charge)
        if charge is None:
            raise ProcessorRefused(RefusalCode.MISSING, f"{command.payment_ref} was never charged")
        with translate_errors(deadline - anyio.current_time()):
            transfer = await self._client.v1.transfers.create_async(
                {
                    "amount": command.amount,
                    "currency": command.currency,
                    "destination": command.payee_ref,
                    "source_transaction": charge,
                    "transfer_group": self._tags.transfer_group(key.intent_id),
                    "metadata": self._tags.metadata(key),
                },
                self._request_options(key),
            )
            return mapping.payout(transfer, self._tags)

    async def reverse_payout(
        self, command: ReversePayout, payout_ref: str, key: OperationKey, timeout_seconds: float
    ) -> ReversalState:
        with translate_errors(timeout_seconds):
            transfer_reversal = await self._client.v1.transfers.reversals.create_async(
                payout_ref,
                {"amount": command.amount, "metadata": self._tags.metadata(key)},
                self._request_options(key),
            )
            return mapping.reversal(transfer_reversal, self._tags)

    # Payees ---------------------------------------------------------------------------------

    async def open_payee(
        self, command: OpenPayee, key: OperationKey, timeout_seconds: float
    ) -> PayeeState:
        with translate_errors(timeout_seconds):
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
                        "sb_env": self._tags.environment,
                        "companion_id": str(command.companion_id),
                    },
                    "include": ["configuration.recipient", "requirements"],
                },
                self._request_options(key),
            )
            return mapping.payee(account)

    async def payee(self, ref: str, timeout_seconds: float) -> PayeeState:
        with translate_errors(timeout_seconds):
            account = await self._client.v2.core.accounts.retrieve_async(
                ref, {"include": ["configuration.recipient", "requirements"]}
            )
            return mapping.payee(account)

    async def onboarding_link(
        self, ref: str, return_url: str, refresh_url: str, timeout_seconds: float
    ) -> OnboardingLink:
        with translate_errors(timeout_seconds):
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
                # A link works once: a reused idempotency key would return the old link.
                {"idempotency_key": self._tags.idempotency_key(f"link_{secrets.token_hex(16)}")},
            )
            return OnboardingLink(link.url, datetime.fromisoformat(link.expires_at))

    # Queries --------------------------------------------------------------------------------

    async def snapshot(self, refs: IntentRefs, timeout_seconds: float) -> Snapshot:
        with translate_errors(timeout_seconds):
            return await fetch_snapshot(self._client.v1, self._tags, refs)

    async def find_intent(self, payment_ref: str, timeout_seconds: float) -> int | None:
        try:
            with translate_errors(timeout_seconds):
                intent = await self._client.v1.payment_intents.retrieve_async(payment_ref)
        except ProcessorRefused as refused:
            if refused.reason is RefusalCode.MISSING:
                return None
            raise
        return self._tags.find_intent_id(metadata_dict(intent.metadata))

    async def list_events(
        self, cursor: str | None, timeout_seconds: float
    ) -> tuple[Sequence[ProcessorEvent], str]:
        with translate_errors(timeout_seconds):
            return await list_events(self._client.v1, self._tags, cursor)

    def statement(self) -> AsyncIterator[Movement]:
        return list_movements(self._client.v1, self._tags)

    async def checkup(self, timeout_seconds: float) -> Sequence[CheckupFinding]:
        with translate_errors(timeout_seconds):
            return [finding async for finding in check_setup(self._client, self._expected)]

    def parse_webhook(
        self, headers: Mapping[str, str], body: bytes, now: datetime
    ) -> Sequence[ProcessorEvent]:
        events.verify(headers, body, self._webhook_secrets, now)
        return events.parse_events(body, self._tags)

    def _request_options(self, key: OperationKey) -> stripe.RequestOptions:
        return {"idempotency_key": self._tags.idempotency_key(key.text)}
