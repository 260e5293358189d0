"""Webhooks: who gets an event, when a delivery is tried again, when an endpoint is disabled
(SPECIFICATION 6.1, CONTRACT 7).

Times of deliveries and endpoints are wall time, but for `created_at`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from attrs import evolve, field, frozen

from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.policy import Policy
from staffbooking_core.webhook_receiver import hex_signature, standard_signature

WEBHOOK_EVENTS = tuple(EventName)
"""All that an endpoint can subscribe to, in the order in which they are listed."""

MAX_WEBHOOK_URL_LENGTH = 2048


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    HELD = "held"
    """Kept while its endpoint may not be sent to."""
    CANCELLED = "cancelled"


FINISHED_DELIVERY_STATUSES = frozenset(
    {DeliveryStatus.SUCCEEDED, DeliveryStatus.FAILED, DeliveryStatus.CANCELLED}
)
"""Statuses in which no attempt follows by itself."""


class DeliveryFailure(StrEnum):
    """Why an attempt failed, as far as its owner is told: never what the receiver said."""

    TIMEOUT = "timeout"
    NAME_NOT_RESOLVED = "name_not_resolved"
    UNSAFE_ADDRESS = "unsafe_address"
    CONNECTION_FAILED = "connection_failed"
    TLS_FAILED = "tls_failed"
    CONNECTION_CLOSED = "connection_closed"
    MALFORMED_RESPONSE = "malformed_response"
    REDIRECT = "redirect"
    HTTP_STATUS = "http_status"


@frozen
class EndpointSecrets:
    """An endpoint's sealed secrets; while one is rotated out there are two."""

    current: bytes = field(repr=False)
    next: bytes | None = field(default=None, repr=False)
    next_from: datetime | None = None
    """When `next` takes over by itself."""

    def effective_at(self, now: datetime) -> EndpointSecrets:
        """As they stand at `now`: a rotation that has run out is done."""
        if self.next is None or self.next_from is None or now < self.next_from:
            return self
        return EndpointSecrets(self.next)

    def signing_secrets(self, now: datetime) -> tuple[bytes, ...]:
        """Those that sign at `now`, the one of the published header first."""
        kept = self.effective_at(now)
        return (kept.current,) if kept.next is None else (kept.current, kept.next)

    def rotate(self, sealed: bytes, now: datetime, overlap: timedelta) -> EndpointSecrets:
        """With a new secret on its way in; one that was on its way before is dropped."""
        return EndpointSecrets(self.effective_at(now).current, sealed, now + overlap)

    def activate_next(self, now: datetime) -> EndpointSecrets | None:
        """With the new secret alone; None where none is on its way in."""
        kept = self.effective_at(now)
        return None if kept.next is None else EndpointSecrets(kept.next)


@frozen
class WebhookEndpoint:
    """An address that a user has registered."""

    id: int
    owner_id: int
    url: str
    events: frozenset[EventName]
    description: str | None
    created_at: datetime
    secrets: EndpointSecrets
    active: bool = True
    """False while its owner has paused it, and once it was disabled."""
    consecutive_failures: int = 0
    """Deliveries in a row that ended exhausted."""
    disabled_at: datetime | None = None
    disabled_reason: str | None = None
    deleted_at: datetime | None = None
    troubled: bool = False
    """Whether its last attempt failed, or took long: those are sent to apart, so that they
    delay nobody."""
    succeeded: int = 0
    """Attempts so far, by their outcome: for metrics."""
    failed: int = 0

    def is_deliverable(self, owner: User, now: datetime) -> bool:
        """Whether deliveries are sent to it: else they are held (CONTRACT 7)."""
        return (
            self.active
            and self.deleted_at is None
            and owner.disabled_at is None
            and owner.has_api_access(now)
        )

    def pause(self) -> WebhookEndpoint:
        return evolve(self, active=False)

    def enable(self) -> WebhookEndpoint:
        """Active with a clean record, whyever it wasn't."""
        return evolve(
            self, active=True, consecutive_failures=0, disabled_at=None, disabled_reason=None
        )


@frozen
class DeliveryAttempt:
    """One try to deliver, as it is logged."""

    number: int
    at: datetime
    duration_ms: int
    response_status: int | None = None
    error: str | None = None
    """A `Failure`, or None for a success."""


@frozen
class Delivery:
    """One event on its way to one endpoint."""

    id: int
    endpoint_id: int
    event_id: str
    event: str
    created_at: datetime
    status: DeliveryStatus
    next_at: datetime | None
    """Not to be sent before; kept while held, None once there is no more to do."""
    attempts: int = 0
    """All that were made."""
    tries: int = 0
    """Those made since it was last ordered."""
    counts: bool = True
    """Whether its failure counts for its endpoint: not where it was sent again on demand."""
    held_at: datetime | None = None

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED_DELIVERY_STATUSES

    def redeliver(self, now: datetime, *, is_deliverable: bool) -> Delivery:
        """Ordered once more on demand, from the first try on. One that is still under way is
        left as it is."""
        if not self.is_finished:
            return self
        return evolve(
            self,
            status=DeliveryStatus.PENDING if is_deliverable else DeliveryStatus.HELD,
            next_at=now,
            tries=0,
            counts=False,
            held_at=None if is_deliverable else now,
        )


@frozen
class NewDelivery:
    endpoint_id: int
    event_id: str
    event: str
    created_at: datetime
    status: DeliveryStatus
    next_at: datetime | None
    held_at: datetime | None = None


@frozen
class AttemptOutcome:
    """How an attempt ended: with a status of HTTP, or without one."""

    at: datetime
    ended_at: datetime
    response_status: int | None = None
    failure: DeliveryFailure | None = None

    @property
    def error(self) -> DeliveryFailure | None:
        """None for a success, which is a 2xx (CONTRACT 7)."""
        if self.failure is not None:
            return self.failure
        status = self.response_status or 0
        if 200 <= status < 300:
            return None
        return DeliveryFailure.REDIRECT if 300 <= status < 400 else DeliveryFailure.HTTP_STATUS

    def to_attempt(self, number: int) -> DeliveryAttempt:
        """As the log keeps it."""
        duration_ms = round((self.ended_at - self.at) / timedelta(milliseconds=1))
        return DeliveryAttempt(
            number, self.at, max(0, duration_ms), self.response_status, self.error
        )


def apply_attempt_to_delivery(
    delivery: Delivery, outcome: AttemptOutcome, policy: Policy
) -> Delivery:
    """THE schedule: what becomes of a delivery by an attempt. The waits run from the end of
    the failed attempt; after the last of them it has failed."""
    made = evolve(delivery, attempts=delivery.attempts + 1, tries=delivery.tries + 1)
    if outcome.error is None:
        return evolve(made, status=DeliveryStatus.SUCCEEDED, next_at=None, held_at=None)
    if delivery.status is DeliveryStatus.CANCELLED:
        return made
    if delivery.tries >= len(policy.webhook_retry_delays):
        return evolve(made, status=DeliveryStatus.FAILED, next_at=None, held_at=None)
    return evolve(made, next_at=outcome.ended_at + policy.webhook_retry_delays[delivery.tries])


def apply_attempt_to_endpoint(
    endpoint: WebhookEndpoint, delivery: Delivery, outcome: AttemptOutcome, policy: Policy
) -> WebhookEndpoint:
    """What becomes of an endpoint by an attempt; `delivery` is as the attempt left it. At the
    last failure in a row that is borne it is disabled."""
    if outcome.error is None:
        slow = outcome.ended_at - outcome.at > policy.webhook_slow_threshold
        succeeded = endpoint.succeeded + 1
        return evolve(endpoint, consecutive_failures=0, troubled=slow, succeeded=succeeded)
    endpoint = evolve(endpoint, troubled=True, failed=endpoint.failed + 1)
    if delivery.status is not DeliveryStatus.FAILED or not delivery.counts or not endpoint.active:
        return endpoint
    failures = endpoint.consecutive_failures + 1
    endpoint = evolve(endpoint, consecutive_failures=failures)
    if failures < policy.webhook_disable_after:
        return endpoint
    return evolve(
        endpoint,
        active=False,
        disabled_at=outcome.ended_at,
        disabled_reason=f"{failures} deliveries in a row failed",
    )


@frozen
class PublishedEvent:
    """An event that is committed, as far as its readers are to be found."""

    id: str
    booking_id: int
    sequence: int
    name: EventName
    parties: tuple[int, ...]


@frozen
class EndpointSubscription:
    """An endpoint with the user that it belongs to."""

    endpoint: WebhookEndpoint
    owner: User

    def matches(self, event: PublishedEvent) -> bool:
        """Parties get an event, and admins (CONTRACT 7)."""
        may = self.owner.role is Role.ADMIN or self.owner.id in event.parties
        return may and self.endpoint.deleted_at is None and event.name in self.endpoint.events


def sort_for_feed(events: Iterable[PublishedEvent]) -> list[PublishedEvent]:
    """The order in which events get their positions: by their making, as far as clocks of
    several machines agree, and a booking's own strictly by their sequence."""
    by_id = sorted(events, key=lambda event: event.id)
    by_booking: dict[int, list[PublishedEvent]] = {}
    for event in by_id:
        by_booking.setdefault(event.booking_id, []).append(event)
    for booking_events in by_booking.values():
        booking_events.sort(key=lambda event: event.sequence, reverse=True)
    return [by_booking[event.booking_id].pop() for event in by_id]


def fan_out_deliveries(
    events: Iterable[PublishedEvent],
    subscriptions: Collection[EndpointSubscription],
    created_at: datetime,
    now: datetime,
) -> list[NewDelivery]:
    """One delivery for each event and endpoint that gets it, in the events' order."""
    new = []
    for event in events:
        for subscription in subscriptions:
            if not subscription.matches(event):
                continue
            is_deliverable = subscription.endpoint.is_deliverable(subscription.owner, now)
            new.append(
                NewDelivery(
                    endpoint_id=subscription.endpoint.id,
                    event_id=event.id,
                    event=event.name,
                    created_at=created_at,
                    status=DeliveryStatus.PENDING if is_deliverable else DeliveryStatus.HELD,
                    next_at=now,
                    held_at=None if is_deliverable else now,
                )
            )
    return new


def delivery_headers(
    secrets: Sequence[str], event_id: str, event: str, number: int, body: bytes, now: datetime
) -> dict[str, str]:
    """The headers of an attempt. The published signature is by the first of the secrets; the
    one of the Standard Webhooks scheme is by each of them."""
    timestamp = int(now.timestamp())
    return {
        "Content-Type": "application/json",
        "X-Webhook-Signature": hex_signature(secrets[0], body),
        "X-Webhook-Event": event,
        "X-Webhook-Id": event_id,
        "X-Webhook-Attempt": str(number),
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(
            standard_signature(secret, event_id, timestamp, body) for secret in secrets
        ),
    }
