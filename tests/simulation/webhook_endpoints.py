"""Webhook endpoints of a history: their responses, and the final check that every event was
delivered or failed permanently.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, pairwise
from typing import Any

from attrs import define, frozen

from staffbooking_adapters.memory.webhooks.receivers import MemorySender
from staffbooking_adapters.testing.builders import MINUTE
from staffbooking_adapters.testing.builders_webhooks import add_endpoint
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    Delivery,
    DeliveryAttempt,
    DeliveryFailure,
    DeliveryStatus,
    WebhookEndpoint,
)
from staffbooking_core.inputs import ChangeWebhook
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.webhooks import deliveries, endpoints as webhooks_endpoints
from staffbooking_core.webhook_receiver import WebhookReceiver
from tests.support.webhook_deployment import RETRY_DELAYS

RECEIVER_BEHAVIOURS: Mapping[str, Sequence[int | DeliveryFailure]] = {
    "well": (200,),
    "badly": (500, DeliveryFailure.TIMEOUT, 200, 302, 200),
    "not at all": (DeliveryFailure.CONNECTION_FAILED,),
}
"""Responses of receivers, repeated."""

FINAL_DELIVERY_STATUSES = frozenset(
    {DeliveryStatus.SUCCEEDED, DeliveryStatus.FAILED, DeliveryStatus.HELD}
)
MAX_DELIVERY_ROUNDS = 8


@frozen
class StoredEvent:
    """An event as stored with its booking."""

    booking_id: int
    position: int | None
    body: bytes
    envelope: dict[str, Any]

    def is_for_endpoint(self, owner: Actor, endpoint: WebhookEndpoint) -> bool:
        booking = self.envelope["data"]["booking"]
        parties = {booking["companion_id"]}
        if not self.envelope["event"].startswith("payout."):
            parties |= {booking["customer_id"], booking["booked_by"]}
        may = owner.role is Role.ADMIN or owner.user_id in parties
        return may and self.envelope["event"] in endpoint.events


@define(eq=False)
class WebhookEndpoints:
    ports: Ports
    endpoints: Sequence[tuple[Actor, WebhookEndpoint]]
    sender: MemorySender
    is_clock_steady: bool = True
    """Whether no clock was changed, so that the delays before retries can be checked."""

    def set_behaviour(self, number: int, behaviour: str) -> None:
        """Set the behaviour of a receiver."""
        _, endpoint = self.endpoints[number % len(self.endpoints)]
        answers = cycle(RECEIVER_BEHAVIOURS[behaviour])
        self.sender.receivers[endpoint.url] = lambda _, body: next(answers)

    async def set_active(self, number: int, *, active: bool) -> None:
        """Pause or enable an endpoint as its owner."""
        actor, endpoint = self.endpoints[number % len(self.endpoints)]
        async with self.ports.store.read_view() as view:
            owner = await view.accounts.user(actor.user_id)
        assert owner is not None
        await webhooks_endpoints.update_endpoint(
            self.ports, owner, endpoint.id, ChangeWebhook(active=active)
        )

    # The end ----------------------------------------------------------------------------

    async def heal(self) -> None:
        """Let every receiver succeed, and enable every endpoint."""
        for number in range(len(self.endpoints)):
            self.set_behaviour(number, "well")
            await self.set_active(number, active=True)

    async def finish_deliveries(self, bookings: Sequence[int]) -> list[str]:
        """Send all deliveries; returns their faults."""
        await self.heal()
        for _ in range(MAX_DELIVERY_ROUNDS):
            self.ports.clock.advance(MINUTE)  # type: ignore[attr-defined]
            if not await self._deliver():
                break
        return [fault async for fault in _find_faults(self, bookings)]

    async def _deliver(self) -> int:
        resumed = await deliveries.resume_held_deliveries(self.ports)
        return resumed + await deliveries.deliver_all_due(self.ports)


async def _find_faults(hooks: WebhookEndpoints, bookings: Sequence[int]) -> Any:
    events = [event for booking in bookings for event in await _stored_events(hooks.ports, booking)]
    for fault in _position_faults(events):
        yield fault
    bodies = {event.envelope["id"]: event.body for event in events}
    for sent in hooks.sender.sent:
        if sent.body != bodies[sent.headers["X-Webhook-Id"]]:
            yield f"other bytes were sent than {sent.headers['X-Webhook-Id']} has"
    for owner, endpoint in hooks.endpoints:
        async with hooks.ports.store.read_view() as view:
            rows = await view.webhooks.deliveries(endpoint.id, 1, 10_000)
        due = [event.envelope["id"] for event in events if event.is_for_endpoint(owner, endpoint)]
        if sorted(delivery.event_id for delivery, _ in rows) != sorted(due):
            yield f"endpoint {endpoint.id} has not one delivery of each of its events"
        for fault in _reception_faults(hooks, endpoint):
            yield fault
        for delivery, attempts in rows:
            for fault in _delivery_faults(delivery, attempts):
                yield f"delivery {delivery.id}: {fault}"
            for number in _early_attempts(attempts) if hooks.is_clock_steady else ():
                yield f"delivery {delivery.id}: attempt {number} was early"


async def _stored_events(ports: Ports, booking_id: int) -> list[StoredEvent]:
    """The events of a booking in the order of their sequence."""
    async with ports.store.read_view() as view:
        found = [body for _, body in await view.bookings.events_of(booking_id)]
        envelopes = [json.loads(body) for body in found]
        positions = [await view.webhooks.feed_position(each["id"], None) for each in envelopes]
    return [
        StoredEvent(booking_id, position, body, envelope)
        for position, body, envelope in zip(positions, found, envelopes, strict=True)
    ]


def _position_faults(events: Sequence[StoredEvent]) -> Iterator[str]:
    positions = [event.position for event in events if event.position is not None]
    if sorted(positions) != [*range(1, len(events) + 1)]:
        yield f"the positions of {len(events)} events are {sorted(positions)}"
    for one, other in pairwise(events):
        if one.booking_id == other.booking_id and (one.position or 0) >= (other.position or 0):
            yield f"booking {one.booking_id}: its events don't stand in their order"


def _reception_faults(hooks: WebhookEndpoints, endpoint: WebhookEndpoint) -> Iterator[str]:
    yield from _receiver_faults(hooks, endpoint)
    if endpoint.ordered:
        yield from _order_faults(hooks.sender, endpoint)


def _receiver_faults(hooks: WebhookEndpoints, endpoint: WebhookEndpoint) -> Iterator[str]:
    """Events that a receiver with our `WebhookReceiver` would process more than once."""
    receiver = WebhookReceiver(deliveries.unseal_secrets(hooks.ports, endpoint))
    processed: Counter[str] = Counter()
    for sent in hooks.sender.sent:
        if sent.url == endpoint.url:
            at = int(sent.headers["webhook-timestamp"])
            received = receiver.receive(sent.headers, sent.body, at)
            if not received.is_duplicate:
                processed[received.envelope["id"]] += 1
                receiver.mark_processed(received)
    for event_id, times in processed.items():
        if times > 1:
            yield f"the receiver of endpoint {endpoint.id} processed {event_id} {times} times"


def _order_faults(sender: MemorySender, endpoint: WebhookEndpoint) -> Iterator[str]:
    """Events that were sent after a later event of their booking. Repeated and late attempts do not
    count: a worker may be slow until another one takes over."""
    latest: dict[str, int] = {}
    last_attempts: dict[str, int] = {}
    for sent in sender.sent:
        event_id, attempt = sent.headers["X-Webhook-Id"], int(sent.headers["X-Webhook-Attempt"])
        if sent.url != endpoint.url or attempt <= last_attempts.get(event_id, 0):
            continue
        last_attempts[event_id] = attempt
        envelope = json.loads(sent.body)
        data = envelope["data"]
        code = data.get("booking_code") or data["booking"]["booking_code"]
        if envelope["sequence"] < latest.get(code, 0):
            yield f"event {envelope['sequence']} of {code} was sent after {latest[code]}"
        latest[code] = envelope["sequence"]


def _delivery_faults(delivery: Delivery, attempts: Sequence[DeliveryAttempt]) -> Iterator[str]:
    if delivery.status not in FINAL_DELIVERY_STATUSES:
        yield f"is {delivery.status}"
    numbers = [attempt.number for attempt in attempts]
    if numbers != [*range(1, delivery.attempts + 1)] or len(numbers) > len(RETRY_DELAYS) + 1:
        yield f"attempts {numbers}"
    if delivery.status is DeliveryStatus.FAILED and len(numbers) <= len(RETRY_DELAYS):
        yield f"has failed after {len(numbers)} attempts"
    succeeded = [attempt for attempt in attempts if attempt.error is None]
    if succeeded != ([attempts[-1]] if delivery.status is DeliveryStatus.SUCCEEDED else []):
        yield f"is {delivery.status}, with {len(succeeded)} successes"


def _early_attempts(attempts: Sequence[DeliveryAttempt]) -> Iterator[int]:
    for wait, (one, other) in zip(RETRY_DELAYS, pairwise(attempts), strict=False):
        if other.at - one.at < wait:
            yield other.number


async def add_webhook_endpoints(
    ports: Ports, subscriber: Actor, other: Actor, admin: Actor
) -> WebhookEndpoints:
    """Endpoints of a subscriber, which is ordered, of a user without a subscription, whose
    deliveries are held, and of an admin, which is close to being disabled and omits one event."""
    assert isinstance(ports.webhook_sender, MemorySender)
    given: list[tuple[Actor, dict[str, Any]]] = [
        (subscriber, {"ordered": True}),
        (other, {}),
        (admin, {"events": {*EventName} - {EventName.BOOKING_CREATED}, "consecutive_failures": 8}),
    ]
    endpoints = []
    for actor, more in given:
        async with ports.store.read_view() as view:
            owner = await view.accounts.user(actor.user_id)
        added = await add_endpoint(ports.store, owner, vault=ports.vault, **more)
        endpoints.append((actor, added))
    hooks = WebhookEndpoints(ports, endpoints, ports.webhook_sender)
    for number, behaviour in enumerate(("well", "well", "badly")):
        hooks.set_behaviour(number, behaviour)
    return hooks
