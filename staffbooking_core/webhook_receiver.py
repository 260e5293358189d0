"""For who receives webhooks: whether a request is the service's own, whether its event was
here before, and whether a later one of the same booking was.

    receiver = Receiver([secret])
    received = receiver.receive(headers, body, time.time())
    if not received.is_repeat:
        ...  # what the event brings about
        receiver.done(received)

One file that needs the standard library alone: import it, or copy it. `body` is what came
over the wire, byte for byte: parsed and written anew it has another signature.
"""

from __future__ import annotations

import base64
import hmac
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

Envelope = dict[str, Any]
"""An event: `id, event, created_at, api_version, sequence, data`. Numbers with a fraction, so
all money, are `Decimal`."""

Headers = Mapping[str, str] | Mapping[bytes, bytes]
"""In any case; as bytes they are in ASGI."""

PUBLISHED_SIGNATURE_HEADER, STANDARD_SIGNATURE_HEADER = "x-webhook-signature", "webhook-signature"

BODY_FIELD_BY_HEADER = {"webhook-id": "id", "x-webhook-id": "id", "x-webhook-event": "event"}
"""Headers that say again what the body says."""

ENVELOPE_FIELD_TYPES = {"id": str, "event": str, "sequence": int, "data": dict}


def hex_signature(secret: str, body: bytes) -> str:
    """The published signature (SPECIFICATION 6.1): the key is the whole secret's text."""
    return hmac.new(secret.encode(), body, "sha256").hexdigest()


def standard_signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """The signature of the Standard Webhooks scheme, version 1, with the same secret: the key
    is what its base64 part stands for. `timestamp` is in Unix seconds."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b"%s.%d.%s" % (_to_bytes(event_id), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


class RefusalReason(StrEnum):
    UNSIGNED = "unsigned"
    BAD_HEADER = "bad_header"
    """One is there twice, lacks those that belong to it, or isn't of its form."""
    WRONG_SIGNATURE = "wrong_signature"
    OUT_OF_TIME = "out_of_time"
    """Signed too long ago, or in the future: a replay, or a clock that is wrong."""
    BAD_BODY = "bad_body"
    CONTRADICTION = "contradiction"
    """Headers name another event than the body."""


class WebhookRefused(Exception):
    """A request that is not to be believed: do nothing, and answer 400."""

    def __init__(self, reason: RefusalReason) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """An event that is the service's own."""

    envelope: Envelope
    is_duplicate: bool
    """It was dealt with before: answer 2xx, and do nothing."""
    is_stale: bool
    """A later event of its booking was dealt with before: what it tells did happen, but its
    record must not replace the later one."""


class WebhookReceiver:
    """Takes the webhooks of one endpoint.

    `secrets` are all that may sign: while one is rotated, the old and the new one, or either.
    `tolerance` is how many seconds a signed time may be off, both ways. What is `done` is
    remembered while this process lives: the last `limit` events, and as many bookings. It is
    for one thread at a time. Raises ValueError where a secret isn't one.
    """

    def __init__(
        self, secrets: Sequence[str], tolerance_seconds: float = 300, max_remembered: int = 10_000
    ) -> None:
        if not secrets or not all(map(_is_secret, secrets)):
            raise ValueError("a list of secrets is needed, each whsec_ and base64")
        self._secrets = tuple(secrets)
        self._tolerance_seconds = tolerance_seconds
        self._max_remembered = max_remembered
        self._sequence_by_event_id: dict[str, int] = {}
        self._sequence_by_booking_code: dict[str, int] = {}
        """How far each has come."""

    def receive(self, headers: Headers, body: bytes, now: float) -> ReceivedEvent:
        """The event of a request; `now` is in Unix seconds. Raises Refused."""
        return self.receive_unsigned(self.verify(headers, body, now))

    def receive_unsigned(self, envelope: Envelope) -> ReceivedEvent:
        """An event that came by a way that needs no signature, such as the pull feed."""
        code, sequence = booking_code(envelope), envelope["sequence"]
        return ReceivedEvent(
            envelope,
            is_duplicate=envelope["id"] in self._sequence_by_event_id,
            is_stale=code is not None
            and sequence < self._sequence_by_booking_code.get(code, sequence),
        )

    def mark_processed(self, received: ReceivedEvent) -> None:
        """Remember an event, now that it was dealt with. Not before: what fails is sent again,
        and would be taken for a repeat."""
        code, sequence = booking_code(received.envelope), received.envelope["sequence"]
        self._remember(self._sequence_by_event_id, received.envelope["id"], sequence)
        if code is not None:
            furthest = self._sequence_by_booking_code.pop(code, sequence)
            self._remember(self._sequence_by_booking_code, code, max(furthest, sequence))

    def _remember(self, sequences: dict[str, int], key: str, value: int) -> None:
        sequences[key] = value
        if len(sequences) > self._max_remembered:
            del sequences[next(iter(sequences))]

    def verify(self, headers: Headers, body: bytes, now: float) -> Envelope:
        """The event of a request, without a look at what was received before. Raises Refused.

        Every signature that is there must hold. One without a time is the published one alone:
        then an old request can be played again, and only its id gives it away.
        """
        published, standard = (
            _get_header(headers, PUBLISHED_SIGNATURE_HEADER),
            _get_header(headers, STANDARD_SIGNATURE_HEADER),
        )
        if published is None and standard is None:
            raise WebhookRefused(RefusalReason.UNSIGNED)
        signatures = (standard or "").split()
        if standard is not None:
            self._check_standard_signature(headers, signatures, body, now)
        # Several signatures: the secret is being rotated. The published one is by the old
        # secret then, which a receiver with the new one alone can't know.
        if published is not None and len(signatures) < 2:
            self._check_signatures(
                [published], [hex_signature(secret, body) for secret in self._secrets]
            )
        envelope = _parse_envelope(body)
        for name, field in BODY_FIELD_BY_HEADER.items():
            if _get_header(headers, name) not in (None, envelope[field]):
                raise WebhookRefused(RefusalReason.CONTRADICTION)
        return envelope

    def _check_standard_signature(
        self, headers: Headers, signatures: list[str], body: bytes, now: float
    ) -> None:
        event_id = _get_header(headers, "webhook-id")
        # To the letter, since what is signed is the number and not its spelling.
        timestamp_match = re.fullmatch(
            "[1-9][0-9]{0,11}", _get_header(headers, "webhook-timestamp") or ""
        )
        if event_id is None or timestamp_match is None:
            raise WebhookRefused(RefusalReason.BAD_HEADER)
        signed_at = int(timestamp_match[0])
        expected = [standard_signature(each, event_id, signed_at, body) for each in self._secrets]
        self._check_signatures(signatures, expected)
        if not abs(now - signed_at) <= self._tolerance_seconds:
            raise WebhookRefused(RefusalReason.OUT_OF_TIME)

    @staticmethod
    def _check_signatures(given: Iterable[str], expected: Iterable[str]) -> None:
        """Raise unless one of those given is one of those expected."""
        expected_bytes = [_to_bytes(each) for each in expected]
        if not any(hmac.compare_digest(_to_bytes(g), w) for g in given for w in expected_bytes):
            raise WebhookRefused(RefusalReason.WRONG_SIGNATURE)


def booking_code(envelope: Envelope) -> str | None:
    """The booking that an event is about; None where it is about none, as a test."""
    data = envelope["data"]
    booking = data.get("booking")
    code = (booking if isinstance(booking, dict) else data).get("booking_code")
    return code if isinstance(code, str) else None


def sort_by_sequence(envelopes: Iterable[Envelope]) -> list[Envelope]:
    """Each booking's own events by their sequence, in the places that they had together.

    Nothing is to be waited for where a number is missing: events that an endpoint didn't
    subscribe to have numbers too.
    """
    arrived = list(envelopes)
    own: dict[str | None, list[Envelope]] = {}
    for envelope in arrived:
        own.setdefault(booking_code(envelope), []).append(envelope)
    for code, events in own.items():
        if code is not None:
            events.sort(key=lambda event: int(event["sequence"]))
    events_by_booking = {code: iter(events) for code, events in own.items()}
    return [next(events_by_booking[booking_code(envelope)]) for envelope in arrived]


def _is_secret(secret: str) -> bool:
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except ValueError:
        return False
    return secret.startswith("whsec_") and key != b""


def _get_header(headers: Headers, name: str) -> str | None:
    """Its value, in whatever case the name is written; refused where there are two."""
    values = [value for key, value in headers.items() if _to_text(key).lower() == name]
    if len(values) > 1:
        raise WebhookRefused(RefusalReason.BAD_HEADER)
    return _to_text(values[0]) if values and values[0] is not None else None


def _to_text(given: object) -> str:
    if isinstance(given, bytes):
        return given.decode("latin-1")
    if not isinstance(given, str):
        raise WebhookRefused(RefusalReason.BAD_HEADER)
    return given


def _to_bytes(text: str) -> bytes:
    """Any text at all: what isn't UTF-8 has its own bytes too."""
    return text.encode("utf-8", "surrogatepass")


def _parse_envelope(body: bytes) -> Envelope:
    try:
        envelope = json.loads(body, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        raise WebhookRefused(RefusalReason.BAD_BODY) from None
    if not isinstance(envelope, dict):
        raise WebhookRefused(RefusalReason.BAD_BODY)
    if not all(isinstance(envelope.get(name), kind) for name, kind in ENVELOPE_FIELD_TYPES.items()):
        raise WebhookRefused(RefusalReason.BAD_BODY)
    return envelope
