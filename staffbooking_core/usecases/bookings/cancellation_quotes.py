"""Quotes of cancellation refunds, signed so that they hold until they expire (CONTRACT 4)."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Any

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking, TransitionInput
from staffbooking_core.domain.bookings.cancellation import CancellationRefund
from staffbooking_core.domain.bookings.effects import cancellation_refund
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import Ports
from staffbooking_core.representations.bookings import CancellationQuoteRecord
from staffbooking_core.representations.json_types import format_instant
from staffbooking_core.usecases.bookings.parties import require_party
from staffbooking_core.validation import validated

__all__ = ["quote_cancellation"]

_SIGNING_PURPOSE = "cancellation-quote"
"""The vault's purpose for signatures of cancellation quotes."""


@validated
async def quote_cancellation(
    ports: Ports, actor: Actor, booking_id: int
) -> CancellationQuoteRecord:
    """The refund of a cancellation now, with a signed quote that fixes it until it expires
    (CONTRACT 4).

    Raises NotFound, Forbidden `wrong_party`, and RuleBroken `booking_not_cancellable`.
    """
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        booking, party = require_party(actor, await view.bookings.booking(booking_id))
    apply_transition(booking, TransitionInput(Trigger.CANCEL, party, now), ports.policy)
    refund = cancellation_refund(booking, party, now, ports.policy)
    expires_at = now + ports.policy.cancellation_quote_lifetime
    if booking.status is BookingStatus.PAID and party is not Party.ADMIN:
        expires_at = min(expires_at, booking.starts_at)  # Later they can't cancel.
    return {
        "refund_percent": refund.percent,
        "refund_amount": Currency(booking.currency).to_decimal(refund.amount),
        "rule": refund.rule,
        "quote": _sign_quote(ports, refund, booking, actor, expires_at),
        "expires_at": format_instant(expires_at),
    }


def _sign_quote(
    ports: Ports, refund: CancellationRefund, booking: Booking, actor: Actor, expires_at: datetime
) -> str:
    """The quote that fixes a refund for this actor and version of the booking until it expires."""
    payload = {
        "booking": booking.id,
        "version": booking.version,
        "user": actor.user_id,
        "percent": refund.percent,
        "amount": refund.amount,
        "rule": refund.rule,
        "until": expires_at.isoformat(),
    }
    message = json.dumps(payload).encode()
    return f"{_b64(message)}.{_b64(ports.vault.sign(_SIGNING_PURPOSE, message))}"


def parse_quote(
    ports: Ports, text: str, booking: Booking, actor: Actor, now: datetime
) -> CancellationRefund:
    """The refund of a quote. Raises RuleBroken `quote_invalid` for one that has lapsed, was forged,
    or is of another actor, booking or version."""
    payload = _verify_quote(ports, text)
    is_for_this_cancellation = (
        payload.get("booking"),
        payload.get("version"),
        payload.get("user"),
    ) == (
        booking.id,
        booking.version,
        actor.user_id,
    )
    if not is_for_this_cancellation or now >= datetime.fromisoformat(payload["until"]):
        raise _invalid_quote()
    return CancellationRefund(payload["percent"], payload["amount"], payload["rule"])


def _verify_quote(ports: Ports, text: str) -> dict[str, Any]:
    message, _, signature = text.partition(".")
    try:
        raw = base64.urlsafe_b64decode(message.encode("ascii"))
        signed = base64.urlsafe_b64decode(signature.encode("ascii"))
    except (UnicodeEncodeError, binascii.Error):
        raise _invalid_quote() from None
    # The decoder skips what is no Base64: only the text that was issued is a quote.
    is_as_issued = text == f"{_b64(raw)}.{_b64(signed)}"
    if not is_as_issued or not ports.vault.verify(_SIGNING_PURPOSE, raw, signed):
        raise _invalid_quote()
    payload: dict[str, Any] = json.loads(raw)
    return payload


def _invalid_quote() -> RuleBroken:
    return RuleBroken("quote_invalid", "The quote has lapsed, or is not for this cancellation")


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()
