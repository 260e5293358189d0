"""Verifies received webhooks and detects duplicate and out-of-order events.

    receiver = WebhookReceiver([secret])
    received = receiver.receive(headers, body, time.time())
    if not received.is_duplicate:
        ...  # process the event
        receiver.mark_processed(received)

This file needs only the standard library: import it or copy it. `body` must be the request's
exact bytes; a parsed and re-serialized body has another signature.
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

__all__ = [
    "ReceivedEvent",
    "RefusalReason",
    "WebhookReceiver",
    "WebhookRefused",
    "booking_code",
    "hex_signature",
    "sort_by_sequence",
    "standard_signature",
]

Envelope = dict[str, Any]
"""An event: `id, event, created_at, api_version, sequence, data`. Numbers with a fraction,
including all amounts of money, are `Decimal`."""

Headers = Mapping[str, str] | Mapping[bytes, bytes]
"""Request headers, names in any letter case; bytes as in ASGI are accepted."""

_NamedValues = Mapping[str, Sequence[object]]
"""The values of headers by their names in lower case."""

PUBLISHED_SIGNATURE_HEADER, STANDARD_SIGNATURE_HEADER = "x-webhook-signature", "webhook-signature"

_BODY_FIELD_BY_HEADER = {"webhook-id": "id", "x-webhook-id": "id", "x-webhook-event": "event"}
"""Headers that repeat a field of the body."""

_ENVELOPE_FIELD_TYPES = {"id": str, "event": str, "sequence": int, "data": dict}


def hex_signature(secret: str, body: bytes) -> str:
    """The published signature (SPECIFICATION 6.1): hex HMAC-SHA256 keyed with the whole secret
    as text."""
    return hmac.new(secret.encode(), body, "sha256").hexdigest()


def standard_signature(secret: str, event_id: str, timestamp: int, body: bytes) -> str:
    """The version 1 signature of the Standard Webhooks scheme, keyed with the decoded base64
    part of the same secret. `timestamp` is in Unix seconds."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b"%s.%d.%s" % (_to_bytes(event_id), timestamp, body)
    return "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()


class RefusalReason(StrEnum):
    """Why a request was refused."""

    UNSIGNED = "unsigned"
    BAD_HEADER = "bad_header"
    """A header is duplicate or malformed, or a related header is missing."""
    WRONG_SIGNATURE = "wrong_signature"
    OUT_OF_TIME = "out_of_time"
    """The signed timestamp is outside the tolerance: a replay, or a wrong clock."""
    BAD_BODY = "bad_body"
    CONTRADICTION = "contradiction"
    """The headers name another event than the body."""


class WebhookRefused(Exception):
    """The request is not authentic: ignore it and answer 400."""

    def __init__(self, reason: RefusalReason) -> None:
        self.reason = reason
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class ReceivedEvent:
    """A verified event of the service."""

    envelope: Envelope
    is_duplicate: bool
    """The event was processed before: answer 2xx and do nothing."""
    is_stale: bool
    """A later event of the same booking was already processed: this one did happen, but its
    record must not replace the later one."""


class WebhookReceiver:
    """Verifies the webhooks of one endpoint.

    `secrets` are the accepted signing secrets: during a rotation the old one, the new one or
    both. `tolerance_seconds` is the allowed clock difference in both directions. The last
    `max_remembered` processed events, and as many bookings, are remembered in memory. Not
    thread-safe. Raises ValueError for a malformed secret.
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
        """The highest sequence processed for each booking."""

    def receive(self, headers: Headers, body: bytes, now: float) -> ReceivedEvent:
        """Verify a request and return its event; `now` is in Unix seconds. Raises
        WebhookRefused."""
        return self.receive_unsigned(self.verify(headers, body, now))

    def receive_unsigned(self, envelope: Envelope) -> ReceivedEvent:
        """Return an event from a source that needs no signature, such as the pull feed."""
        code, sequence = booking_code(envelope), envelope["sequence"]
        return ReceivedEvent(
            envelope,
            is_duplicate=envelope["id"] in self._sequence_by_event_id,
            is_stale=code is not None
            and sequence < self._sequence_by_booking_code.get(code, sequence),
        )

    def mark_processed(self, received: ReceivedEvent) -> None:
        """Remember an event after it was processed. Call it only on success: a failed event is
        sent again and would count as a duplicate."""
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
        """Verify a request and return its envelope, without duplicate detection.

        Every signature present must be valid. The published signature alone covers no timestamp:
        such a request can be replayed, and only the event id reveals it. Raises WebhookRefused.
        """
        named = _by_lower_name(headers)
        published, standard = (
            _get_header(named, PUBLISHED_SIGNATURE_HEADER),
            _get_header(named, STANDARD_SIGNATURE_HEADER),
        )
        if published is None and standard is None:
            raise WebhookRefused(RefusalReason.UNSIGNED)
        signatures = (standard or "").split()
        if standard is not None:
            self._check_standard_signature(named, signatures, body, now)
        # Several signatures mean that the secret is being rotated. The published signature then
        # uses the old secret, which a receiver with only the new one can't check.
        if published is not None and len(signatures) < 2:
            self._check_signatures(
                [published], [hex_signature(secret, body) for secret in self._secrets]
            )
        envelope = _parse_envelope(body)
        for name, field in _BODY_FIELD_BY_HEADER.items():
            if _get_header(named, name) not in (None, envelope[field]):
                raise WebhookRefused(RefusalReason.CONTRADICTION)
        return envelope

    def _check_standard_signature(
        self, named: _NamedValues, signatures: list[str], body: bytes, now: float
    ) -> None:
        event_id = _get_header(named, "webhook-id")
        # Only the canonical spelling, since the number is signed and not its spelling.
        timestamp_match = re.fullmatch(
            "[1-9][0-9]{0,11}", _get_header(named, "webhook-timestamp") or ""
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
        """Raise WebhookRefused unless a given signature equals an expected one."""
        expected_bytes = [_to_bytes(each) for each in expected]
        if not any(hmac.compare_digest(_to_bytes(g), w) for g in given for w in expected_bytes):
            raise WebhookRefused(RefusalReason.WRONG_SIGNATURE)


def booking_code(envelope: Envelope) -> str | None:
    """The code of the event's booking; None for an event without one, such as a test event."""
    data = envelope["data"]
    booking = data.get("booking")
    code = (booking if isinstance(booking, dict) else data).get("booking_code")
    return code if isinstance(code, str) else None


def sort_by_sequence(envelopes: Iterable[Envelope]) -> list[Envelope]:
    """Sort the events of each booking by sequence, keeping the positions of bookings in the list.

    Do not wait for missing sequence numbers: events that the endpoint is not subscribed to have
    numbers too.
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


def _by_lower_name(headers: Headers) -> _NamedValues:
    """The values of the headers by their names in lower case."""
    named: dict[str, list[object]] = {}
    for name, value in headers.items():
        named.setdefault(_to_text(name).lower(), []).append(value)
    return named


def _get_header(named: _NamedValues, name: str) -> str | None:
    """The value of a header. Raises WebhookRefused for duplicates."""
    values = named.get(name, ())
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
    """Encode any text, including lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def _parse_envelope(body: bytes) -> Envelope:
    try:
        envelope = json.loads(body, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError):
        raise WebhookRefused(RefusalReason.BAD_BODY) from None
    if not isinstance(envelope, dict):
        raise WebhookRefused(RefusalReason.BAD_BODY)
    if not all(
        isinstance(envelope.get(name), kind) for name, kind in _ENVELOPE_FIELD_TYPES.items()
    ):
        raise WebhookRefused(RefusalReason.BAD_BODY)
    return envelope
