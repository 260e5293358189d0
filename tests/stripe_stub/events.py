"""Stripe's events: created when an object changes, signed when delivered."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec
from attrs import frozen
from stripe import WebhookSignature

from tests.stripe_stub.version import VERSION

SNAPSHOT_SECRET = "whsec_of_the_accounts_events"
THIN_SECRET = "whsec_of_the_thin_events"


class EventDeliveryMode(StrEnum):
    """How events created from now on are delivered."""

    PROMPT = "prompt"
    DUPLICATE = "duplicate"
    DELAY = "delay"
    REORDER = "reorder"
    """Newest first."""
    DROP = "drop"
    """Never delivered, but listed."""


@frozen
class QueuedEvent:
    due_at: datetime
    body: bytes
    secret: str


class EventQueue:
    """Events on their way to our endpoints."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.delivery = EventDeliveryMode.PROMPT
        self.delay = timedelta(minutes=10)
        self._now = now
        self._queued: list[QueuedEvent] = []

    def send_snapshot_event(
        self, kind: str, document: dict[str, Any], event_id: str, stamp: int
    ) -> Any:
        """Queue and return an event with the object's current fields."""
        event = {
            "id": event_id,
            "object": "event",
            "api_version": VERSION,
            "created": stamp,
            "data": {"object": document},
            "livemode": False,
            "pending_webhooks": 1,
            "request": {"id": None, "idempotency_key": None},
            "type": kind,
        }
        return msgspec.json.decode(self._enqueue(event, SNAPSHOT_SECRET))

    def send_thin_event(self, kind: str, reference: str, event_id: str, moment: str) -> None:
        """Queue an event that has an account's id only."""
        event = {
            "id": event_id,
            "object": "v2.core.event",
            "created": moment,
            "livemode": False,
            "related_object": {
                "id": reference,
                "type": "v2.core.account",
                "url": f"/v2/core/accounts/{reference}",
            },
            "type": kind,
        }
        self._enqueue(event, THIN_SECRET)

    def _enqueue(self, event: dict[str, Any], secret: str) -> bytes:
        late = self.delivery is EventDeliveryMode.DELAY
        body = msgspec.json.encode(event)
        queued = QueuedEvent(self._now() + (self.delay if late else timedelta()), body, secret)
        match self.delivery:
            case EventDeliveryMode.DROP:
                pass
            case EventDeliveryMode.DUPLICATE:
                self._queued += [queued, queued]
            case EventDeliveryMode.REORDER:
                self._queued.insert(0, queued)
            case _:
                self._queued.append(queued)
        return body

    def take_due(self) -> list[tuple[dict[str, str], bytes]]:
        """Take the headers and bodies of due events; each is returned once."""
        now = self._now()
        arrived = [each for each in self._queued if each.due_at <= now]
        self._queued = [each for each in self._queued if each.due_at > now]
        return [(self._headers(each, now), each.body) for each in arrived]

    @staticmethod
    def _headers(event: QueuedEvent, now: datetime) -> dict[str, str]:
        signature = WebhookSignature.generate_signature_header(
            event.body.decode(), event.secret, timestamp=int(now.timestamp())
        )
        return {"Content-Type": "application/json", "Stripe-Signature": signature}
