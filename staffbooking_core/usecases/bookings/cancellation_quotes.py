"""Signed quotes of cancellation refunds (CONTRACT 4)."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime
from typing import Any

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.cancellation import CancellationRefund
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import Ports

_SIGNING_PURPOSE = "cancellation-quote"
"""The vault's purpose for signatures of cancellation quotes."""


def sign_quote(
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
    if not ports.vault.verify(_SIGNING_PURPOSE, raw, signed):
        raise _invalid_quote()
    payload: dict[str, Any] = json.loads(raw)
    return payload


def _invalid_quote() -> RuleBroken:
    return RuleBroken("quote_invalid", "The quote has lapsed, or is not for this cancellation")


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode()
