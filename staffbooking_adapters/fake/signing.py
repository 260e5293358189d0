"""The fake's events: signed bytes that say where to look, as Stripe signs its own.

Header `Fake-Signature: t=<unix seconds>,v1=<hex>`, the HMAC-SHA256 of `<t>.<body>`. Any of
several `v1` may match. An event holds for 300 s before and after its time, by wall clocks.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from attrs import frozen

from staffbooking_adapters.codec import decode, encode
from staffbooking_core.domain.payments.processor import BadSignature, Nudge

NAME: Final = "Fake-Signature"
TOLERANCE: Final = timedelta(seconds=300)
INTENT_CHANGED: Final = "intent.changed"
PAYEE_CHANGED: Final = "payee.changed"

_FORM = re.compile(r"t=(\d{1,11})((?:,v1=[0-9a-f]{64})+)", re.ASCII)
_MAC_LENGTH = 64


@frozen
class Event:
    """An intent or a payee changed. `sent` tells that it was brought once already."""

    id: str
    created_at: datetime
    intent_id: int | None = None
    payee_ref: str | None = None
    sent: bool = False

    @property
    def nudge(self) -> Nudge:
        return Nudge(self.id, self.intent_id, payee_ref=self.payee_ref)


def body_of(event: Event) -> bytes:
    """The bytes that are signed and brought."""
    fields = {"id": event.id, "created_at": event.created_at}
    if event.payee_ref is not None:
        return encode({**fields, "type": PAYEE_CHANGED, "payee_ref": event.payee_ref})
    return encode({**fields, "type": INTENT_CHANGED, "intent_id": event.intent_id})


def headers_of(body: bytes, secret: bytes, at: datetime) -> Mapping[str, str]:
    """The header that vouches for these bytes."""
    sent = str(int(at.timestamp()))
    return {NAME: f"t={sent},v1={_mac(secret, sent, body)}"}


def _mac(secret: bytes, sent: str, body: bytes) -> str:
    return hmac.digest(secret, sent.encode() + b"." + body, "sha256").hex()


def verify(headers: Mapping[str, str], body: bytes, secret: bytes, now: datetime) -> None:
    """Raises BadSignature unless these very bytes were signed with the secret just now."""
    form = _FORM.fullmatch(_header(headers))
    if form is None:
        raise BadSignature("the signature is missing or malformed")
    sent, listed = form.groups()
    expected = _mac(secret, sent, body).encode()
    given = [part[-_MAC_LENGTH:].encode() for part in listed.split(",")[1:]]
    if not any(hmac.compare_digest(expected, each) for each in given):
        raise BadSignature("the signature is not ours")
    if abs(now.timestamp() - int(sent)) > TOLERANCE.total_seconds():
        raise BadSignature("the event is too old, or from the future")


def _header(headers: Mapping[str, str]) -> str:
    found = [value for name, value in headers.items() if name.lower() == NAME.lower()]
    return found[0] if len(found) == 1 else ""


def read(body: bytes) -> Sequence[Nudge]:
    """Where a verified event says to look; nowhere for a kind that is not known."""
    event: Any = decode(body)
    if event["type"] == INTENT_CHANGED:
        return (Nudge(event["id"], intent_id=event["intent_id"]),)
    if event["type"] == PAYEE_CHANGED:
        return (Nudge(event["id"], payee_ref=event["payee_ref"]),)
    return ()
