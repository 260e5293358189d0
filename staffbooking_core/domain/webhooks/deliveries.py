"""Webhook endpoints and deliveries: subscriptions, retries, disabling (SPECIFICATION 6.1, CONTRACT
7).

Times of deliveries and endpoints are wall time, except `created_at`.
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

__all__ = [
    "AttemptOutcome",
    "Delivery",
    "DeliveryAttempt",
    "DeliveryFailure",
    "DeliveryGroup",
    "DeliveryStatus",
    "EndpointSecrets",
    "EndpointSubscription",
    "NewDelivery",
    "PublishedEvent",
    "WebhookEndpoint",
]

WEBHOOK_EVENTS = tuple(EventName)
"""All events that an endpoint can subscribe to, in the order of lists."""

DEFAULT_WEBHOOK_EVENTS = frozenset(
    {
        EventName.BOOKING_CREATED,
        EventName.BOOKING_COMPLETED,
        EventName.BOOKING_CANCELLED,
        EventName.PAYMENT_COMPLETED,
        EventName.REVIEW_CREATED,
    }
)
"""The events of an endpoint that names none, which are in every feed (SPECIFICATION 6.1)."""

MAX_WEBHOOK_URL_LENGTH = 2048

_MILLISECOND = timedelta(milliseconds=1)


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    HELD = "held"
    """Kept while its endpoint is paused, disabled or without API access."""
    CANCELLED = "cancelled"
    WAITING = "waiting"
    """Pending, and waits for an earlier one of its booking: its endpoint is ordered."""


FINISHED_DELIVERY_STATUSES = frozenset(
    {DeliveryStatus.SUCCEEDED, DeliveryStatus.FAILED, DeliveryStatus.CANCELLED}
)
"""Statuses after which no attempt follows automatically."""


class DeliveryGroup(StrEnum):
    """What people look for in a log of deliveries."""

    FAILED = "failed"
    UNFINISHED = "unfinished"
    """Not sent yet, or to be sent again: pending, waiting or held."""
    SUCCEEDED = "succeeded"
    CANCELLED = "cancelled"

    @property
    def statuses(self) -> tuple[DeliveryStatus, ...]:
        if self is DeliveryGroup.UNFINISHED:
            return DeliveryStatus.PENDING, DeliveryStatus.WAITING, DeliveryStatus.HELD
        return (DeliveryStatus(self.value),)


class DeliveryFailure(StrEnum):
    """Why an attempt failed, as shown to the endpoint's owner; the response is not shown."""

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
    """An endpoint's encrypted secrets; there are two during a rotation."""

    current: bytes = field(repr=False)
    next: bytes | None = field(default=None, repr=False)
    next_from: datetime | None = None
    """When `next` replaces `current`."""

    def effective_at(self, now: datetime) -> EndpointSecrets:
        """The secrets at `now`: after the overlap, `next` has replaced `current`."""
        if self.next is None or self.next_from is None or now < self.next_from:
            return self
        return EndpointSecrets(self.next)

    def signing_secrets(self, now: datetime) -> tuple[bytes, ...]:
        """The secrets that sign at `now`; the first one signs the published header."""
        kept = self.effective_at(now)
        return (kept.current,) if kept.next is None else (kept.current, kept.next)

    def rotate(self, sealed: bytes, now: datetime, overlap: timedelta) -> EndpointSecrets:
        """Start a rotation to a new secret; one that was pending is dropped."""
        return EndpointSecrets(self.effective_at(now).current, sealed, now + overlap)

    def activate_next(self, now: datetime) -> EndpointSecrets | None:
        """End the rotation with the new secret; None where no rotation is pending."""
        kept = self.effective_at(now)
        return None if kept.next is None else EndpointSecrets(kept.next)


@frozen
class WebhookEndpoint:
    """A URL that a user has registered for events."""

    id: int
    owner_id: int
    url: str
    events: frozenset[EventName]
    description: str | None
    created_at: datetime
    secrets: EndpointSecrets
    active: bool = True
    """False while paused or disabled."""
    consecutive_failures: int = 0
    """Number of consecutive deliveries that failed after all attempts."""
    disabled_at: datetime | None = None
    disabled_reason: str | None = None
    deleted_at: datetime | None = None
    degraded: bool = False
    """Whether the last attempt failed or was slow. Such endpoints are sent to in a separate queue,
    so that they do not delay others."""
    succeeded: int = 0
    """Number of successful attempts, for metrics."""
    failed: int = 0
    ordered: bool = False
    """Whether a delivery waits until those of earlier events of its booking are finished;
    redeliveries are outside the order (CONTRACT 10)."""

    def is_deliverable(self, owner: User, now: datetime) -> bool:
        """Whether deliveries to the endpoint are sent; otherwise they are held (CONTRACT 7)."""
        return (
            self.active
            and self.deleted_at is None
            and owner.disabled_at is None
            and owner.has_api_access(now)
        )

    @property
    def is_silent(self) -> bool:
        """Whether its receiver gives no sign of life: it was disabled for that, its deliveries
        failed last, or its last attempt was in trouble."""
        return self.deleted_at is None and (
            self.disabled_at is not None or self.consecutive_failures > 0 or self.degraded
        )

    def pause(self) -> WebhookEndpoint:
        """Stop deliveries until the endpoint is enabled again."""
        return evolve(self, active=False)

    def enable(self) -> WebhookEndpoint:
        """Activate the endpoint and reset its failures, whether paused or disabled."""
        return evolve(
            self, active=True, consecutive_failures=0, disabled_at=None, disabled_reason=None
        )

    def delete(self, now: datetime) -> WebhookEndpoint:
        """Delete the endpoint with its secrets."""
        return evolve(self, active=False, deleted_at=now, secrets=EndpointSecrets(b""))


@frozen
class DeliveryAttempt:
    """The log entry of one attempt of a delivery."""

    number: int
    at: datetime
    duration_ms: int
    response_status: int | None = None
    error: str | None = None
    """A `DeliveryFailure`; None for a success."""


@frozen
class Delivery:
    """The delivery of one event to one endpoint."""

    id: int
    endpoint_id: int
    event_id: str
    event: str
    created_at: datetime
    status: DeliveryStatus
    next_at: datetime | None
    """Earliest time of the next attempt; kept while held, None once finished."""
    attempts: int = 0
    """Number of all attempts."""
    tries: int = 0
    """Number of attempts since the delivery or its last redelivery was ordered."""
    counts: bool = True
    """Whether a failure counts for the endpoint; false for a redelivery on demand."""
    held_at: datetime | None = None

    @property
    def is_finished(self) -> bool:
        return self.status in FINISHED_DELIVERY_STATUSES

    def redeliver(self, now: datetime, *, is_deliverable: bool) -> Delivery:
        """Order a finished delivery again, with all its attempts. An unfinished one is
        unchanged."""
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
    """A delivery before it is stored."""

    endpoint_id: int
    event_id: str
    event: str
    created_at: datetime
    status: DeliveryStatus
    next_at: datetime | None
    held_at: datetime | None = None


@frozen
class AttemptOutcome:
    """The outcome of an attempt: an HTTP status, or a failure without one."""

    at: datetime
    ended_at: datetime
    response_status: int | None = None
    failure: DeliveryFailure | None = None

    @property
    def error(self) -> DeliveryFailure | None:
        """None for a success, that is a 2xx status (CONTRACT 7)."""
        if self.failure is not None:
            return self.failure
        status = self.response_status or 0
        if 200 <= status < 300:
            return None
        return DeliveryFailure.REDIRECT if 300 <= status < 400 else DeliveryFailure.HTTP_STATUS

    def to_attempt(self, number: int) -> DeliveryAttempt:
        """The log entry of the attempt."""
        duration_ms = round((self.ended_at - self.at) / _MILLISECOND)
        return DeliveryAttempt(
            number, self.at, max(0, duration_ms), self.response_status, self.error
        )


def apply_attempt_to_delivery(
    delivery: Delivery, outcome: AttemptOutcome, policy: Policy
) -> Delivery:
    """The delivery after an attempt, by the retry schedule of the policy.

    A wait starts at the end of the failed attempt. If the attempt after the last wait fails, the
    delivery has failed.
    """
    attempts, tries = delivery.attempts + 1, delivery.tries + 1
    if outcome.error is None:
        done = DeliveryStatus.SUCCEEDED
        return evolve(
            delivery, attempts=attempts, tries=tries, status=done, next_at=None, held_at=None
        )
    made = evolve(delivery, attempts=attempts, tries=tries)
    if delivery.status is DeliveryStatus.CANCELLED:
        return made
    if delivery.tries >= len(policy.webhook_retry_delays):
        return evolve(made, status=DeliveryStatus.FAILED, next_at=None, held_at=None)
    return evolve(made, next_at=outcome.ended_at + policy.webhook_retry_delays[delivery.tries])


def apply_attempts_to_endpoint(
    endpoint: WebhookEndpoint, attempts: Iterable[tuple[Delivery, AttemptOutcome]], policy: Policy
) -> WebhookEndpoint:
    """The endpoint after attempts, in their order; each delivery is as its attempt left it.

    The endpoint is disabled after `webhook_disable_after` consecutive failed deliveries.
    """
    succeeded = endpoint.succeeded
    for delivery, outcome in attempts:
        if outcome.error is not None:
            endpoint = _apply_failure(endpoint, delivery, outcome, policy)
            continue
        succeeded += 1
        is_slow = outcome.ended_at - outcome.at > policy.webhook_slow_threshold
        # A copy of an endpoint costs as much as all else here.
        if endpoint.consecutive_failures or endpoint.degraded is not is_slow:
            endpoint = evolve(endpoint, consecutive_failures=0, degraded=is_slow)
    return evolve(endpoint, succeeded=succeeded)


def _apply_failure(
    endpoint: WebhookEndpoint, delivery: Delivery, outcome: AttemptOutcome, policy: Policy
) -> WebhookEndpoint:
    endpoint = evolve(endpoint, degraded=True, failed=endpoint.failed + 1)
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
    """The fields of a committed event that decide which endpoints receive it."""

    id: str
    booking_id: int
    sequence: int
    name: EventName
    parties: tuple[int, ...]


@frozen
class EndpointSubscription:
    """An endpoint with its owner."""

    endpoint: WebhookEndpoint
    owner: User

    def matches(self, event: PublishedEvent) -> bool:
        """Whether the endpoint receives the event: its owner is a party or an admin (CONTRACT
        7)."""
        may = self.owner.role is Role.ADMIN or self.owner.id in event.parties
        return may and self.endpoint.deleted_at is None and event.name in self.endpoint.events


def sort_for_feed(events: Iterable[PublishedEvent]) -> list[PublishedEvent]:
    """Sort events for the feed: by creation time, and within a booking strictly by sequence.

    Ids have the creation time, which is as exact as the clocks of several machines.
    """
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
    """One delivery for each event and matching endpoint, in the events' order."""
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
    """The headers of an attempt.

    `X-Webhook-Signature` is by the first secret, the Standard Webhooks signature by all of them.
    """
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
