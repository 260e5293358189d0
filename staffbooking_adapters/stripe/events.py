"""Verifies Stripe's events and maps them to the intents and payees they refer to.

No other content is trusted: the state is read from Stripe afterwards. There are two kinds: events
of the account, which contain their object, and thin events of payees' accounts (v2), which only
reference it. Each endpoint has its own secret.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from stripe import SignatureVerificationError, WebhookSignature

from staffbooking_adapters.stripe.deployment_tags import DeploymentTags
from staffbooking_adapters.stripe.documents import get_id, get_path
from staffbooking_core.domain.payments.processor import BadEventSignature, ProcessorEvent

_SIGNATURE_HEADER: Final = "stripe-signature"
_SIGNATURE_TOLERANCE: Final = timedelta(seconds=300)
MAX_EVENT_BYTES: Final = 256 * 1024

ACCOUNT_UPDATED_TYPE: Final = "account.updated"

EVENT_TYPES: Final = (
    "checkout.session.completed",
    "checkout.session.async_payment_succeeded",
    "checkout.session.async_payment_failed",
    "checkout.session.expired",
    "payment_intent.succeeded",
    "payment_intent.payment_failed",
    "charge.refunded",
    "charge.updated",
    "refund.created",
    "refund.updated",
    "refund.failed",
    "transfer.created",
    "transfer.updated",
    "transfer.reversed",
    "charge.dispute.created",
    "charge.dispute.updated",
    "charge.dispute.funds_withdrawn",
    "charge.dispute.funds_reinstated",
    "charge.dispute.closed",
)
"""The events of the platform's own account that concern an intent."""

THIN_EVENT_TYPES: Final = (
    "v2.core.account[configuration.recipient].capability_status_updated",
    "v2.core.account[requirements].updated",
)

_SIGNATURE_PATTERN = re.compile(r"t=(\d{1,11})(?:,v\d{1,2}=[0-9a-f]{1,128})+", re.ASCII)


def verify(headers: Mapping[str, str], body: bytes, secrets: Iterable[str], now: datetime) -> None:
    """Verify the signature of an event's exact bytes and its age. Raises BadEventSignature."""
    header = _signature_header(headers)
    match = _SIGNATURE_PATTERN.fullmatch(header)
    if match is None:
        raise BadEventSignature("the signature is missing or malformed")
    if len(body) > MAX_EVENT_BYTES:
        raise BadEventSignature("the event is too large")
    if not any(_is_signed(header, body, secret) for secret in secrets):
        raise BadEventSignature("the signature does not match")
    # The SDK's check does not reject future timestamps and uses its own clock.
    if abs(now.timestamp() - int(match[1])) > _SIGNATURE_TOLERANCE.total_seconds():
        raise BadEventSignature("the event is too old, or from the future")


def _signature_header(headers: Mapping[str, str]) -> str:
    found = [value for name, value in headers.items() if name.lower() == _SIGNATURE_HEADER]
    return found[0] if len(found) == 1 else ""


def _is_signed(header: str, body: bytes, secret: str) -> bool:
    try:
        return bool(WebhookSignature.verify_header(body, header, secret, tolerance=None))
    except (SignatureVerificationError, UnicodeDecodeError):
        return False


def parse_events(body: bytes, tags: DeploymentTags) -> Sequence[ProcessorEvent]:
    """The processor events of a verified body; empty if it does not concern this deployment."""
    try:
        event = json.loads(body)
    except ValueError:
        return ()
    return processor_events(event, tags)


def processor_events(event: Any, tags: DeploymentTags) -> Sequence[ProcessorEvent]:
    """The processor events of a parsed event; at most one."""
    event_id = get_path(event, "id")
    if not isinstance(event_id, str) or event.get("livemode") is not tags.is_live:
        return ()
    if event.get("object") == "v2.core.event":
        payee = (
            get_id(event.get("related_object")) if event.get("type") in THIN_EVENT_TYPES else None
        )
        return () if payee is None else (ProcessorEvent(event_id, payee_ref=payee),)
    subject = get_path(event, "data", "object")
    metadata = get_path(subject, "metadata") or {}
    if not isinstance(subject, dict) or tags.is_foreign(metadata):
        return ()
    if event.get("type") == ACCOUNT_UPDATED_TYPE:
        payee = get_id(subject)
        return () if payee is None else (ProcessorEvent(event_id, payee_ref=payee),)
    if event.get("type") not in EVENT_TYPES or event.get("account") is not None:
        return ()
    return _payment_events(event_id, subject, metadata, tags)


def _payment_events(
    event_id: str, subject: dict[str, Any], metadata: dict[str, Any], tags: DeploymentTags
) -> Sequence[ProcessorEvent]:
    intent_id = tags.find_intent_id(metadata) or tags.find_intent_id_by_group(
        subject.get("transfer_group")
    )
    if intent_id is not None:
        return (ProcessorEvent(event_id, intent_id=intent_id),)
    # Disputes and objects made by hand have no intent id; their payment has one.
    is_payment = subject.get("object") == "payment_intent"
    payment = get_id(subject if is_payment else subject.get("payment_intent"))
    return () if payment is None else (ProcessorEvent(event_id, payment_ref=payment),)
