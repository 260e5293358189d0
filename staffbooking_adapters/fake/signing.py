"""The fake processor's events: bodies and signatures, in Stripe's scheme.

Header `Fake-Signature: t=<unix seconds>,v1=<hex>`, the HMAC-SHA256 of `<t>.<body>`. Any of
several `v1` may match. A signature is valid for 300 s before and after its time (wall time).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from attrs import frozen

from staffbooking_adapters.codec import decode, encode
from staffbooking_core.domain.payments.processor import BadEventSignature, ProcessorEvent

SIGNATURE_HEADER: Final = "Fake-Signature"
SIGNATURE_TOLERANCE: Final = timedelta(seconds=300)
_INTENT_CHANGED: Final = "intent.changed"
_PAYEE_CHANGED: Final = "payee.changed"

_SIGNATURE_PATTERN = re.compile(r"t=(\d{1,11})((?:,v1=[0-9a-f]{64})+)", re.ASCII)
_MAC_LENGTH = 64


@frozen
class FakeEvent:
    """A change of an intent or a payee. `sent` is true after the first delivery."""

    id: str
    created_at: datetime
    intent_id: int | None = None
    payee_ref: str | None = None
    sent: bool = False

    @property
    def processor_event(self) -> ProcessorEvent:
        return ProcessorEvent(self.id, self.intent_id, payee_ref=self.payee_ref)


def encode_body(event: FakeEvent) -> bytes:
    """The event's body, which is signed and delivered."""
    fields = {"id": event.id, "created_at": event.created_at}
    if event.payee_ref is not None:
        return encode({**fields, "type": _PAYEE_CHANGED, "payee_ref": event.payee_ref})
    return encode({**fields, "type": _INTENT_CHANGED, "intent_id": event.intent_id})


def sign_headers(body: bytes, secret: bytes, at: datetime) -> Mapping[str, str]:
    """The signature header of a body sent at `at`."""
    sent = str(int(at.timestamp()))
    return {SIGNATURE_HEADER: f"t={sent},v1={_sign(secret, sent, body)}"}


def _sign(secret: bytes, sent: str, body: bytes) -> str:
    return hmac.digest(secret, sent.encode() + b"." + body, "sha256").hex()


def verify(headers: Mapping[str, str], body: bytes, secret: bytes, now: datetime) -> None:
    """Verify a body's signature. Raises BadEventSignature if it is missing, malformed, wrong or
    outside of `SIGNATURE_TOLERANCE`."""
    match = _SIGNATURE_PATTERN.fullmatch(_signature_header(headers))
    if match is None:
        raise BadEventSignature("the signature is missing or malformed")
    sent, listed = match.groups()
    expected = _sign(secret, sent, body).encode()
    signatures = [part[-_MAC_LENGTH:].encode() for part in listed.split(",")[1:]]
    if not any(hmac.compare_digest(expected, each) for each in signatures):
        raise BadEventSignature("the signature is not ours")
    if abs(now.timestamp() - int(sent)) > SIGNATURE_TOLERANCE.total_seconds():
        raise BadEventSignature("the event is too old, or from the future")


def _signature_header(headers: Mapping[str, str]) -> str:
    found = [value for name, value in headers.items() if name.lower() == SIGNATURE_HEADER.lower()]
    return found[0] if len(found) == 1 else ""


def parse_events(body: bytes) -> Sequence[ProcessorEvent]:
    """The processor events in a verified body; none for an unknown type."""
    event: Any = decode(body)
    if event["type"] == _INTENT_CHANGED:
        return (ProcessorEvent(event["id"], intent_id=event["intent_id"]),)
    if event["type"] == _PAYEE_CHANGED:
        return (ProcessorEvent(event["id"], payee_ref=event["payee_ref"]),)
    return ()
