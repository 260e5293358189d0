"""Webhooks: endpoints, deliveries and the event feed, and the sender.

A worker claims an endpoint, not a delivery: at most one worker serves an endpoint at a time, and
enforces the limit of deliveries in flight. A claimed endpoint with some of its due deliveries is an
`EndpointBatch`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

from attrs import field, frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    Delivery,
    DeliveryAttempt,
    DeliveryFailure,
    DeliveryGroup,
    DeliveryStatus,
    EndpointSubscription,
    NewDelivery,
    PublishedEvent,
    WebhookEndpoint,
)
from staffbooking_core.ports.leases import Lease
from staffbooking_core.representations.events import WebhookTestEvent

__all__ = [
    "MAX_COUNTED_DELIVERIES",
    "DueDelivery",
    "EndpointBatch",
    "EndpointClaim",
    "NewWebhookEndpoint",
    "WebhookSender",
    "WebhookStats",
    "WebhooksReadPort",
    "WebhooksWritePort",
]


@frozen
class NewWebhookEndpoint:
    """An endpoint that has no id yet."""

    owner_id: int
    url: str
    events: frozenset[EventName]
    description: str | None
    created_at: datetime
    ordered: bool = False


@frozen
class DueDelivery:
    """A delivery that is due, with the bytes to send."""

    delivery: Delivery
    body: bytes = field(repr=False)
    request_id: str | None = None
    """The id of the request that caused the event, for the log."""


MAX_COUNTED_DELIVERIES = 1_000
"""How many failed and unfinished deliveries of an endpoint are counted at most."""

EndpointClaim: TypeAlias = tuple[int, str]
"""An endpoint's id, and the token of the lease on it."""


@frozen
class EndpointBatch:
    """A claimed endpoint with some of its due deliveries; only the holder sends to it until `lease`
    ends."""

    endpoint: WebhookEndpoint
    owner: User
    lease: Lease
    due_deliveries: tuple[DueDelivery, ...]

    @property
    def claim(self) -> EndpointClaim:
        """The claim on the endpoint."""
        return self.endpoint.id, self.lease.token


@frozen
class WebhookStats:
    """Figures for metrics. `lag` is how late the most overdue delivery is, in seconds."""

    succeeded: int
    """Attempts over all endpoints, deleted ones too: the counter never decreases."""
    failed: int
    pending: int
    """Deliveries."""
    held: int
    unplaced: int
    """Events that have no position yet."""
    lag: float


class WebhooksReadPort(Protocol):
    """Queries on endpoints, deliveries and the event feed."""

    async def endpoint(self, endpoint_id: int) -> WebhookEndpoint | None:
        """An endpoint by id; deleted ones too."""
        ...

    async def endpoints_of(self, owner_id: int) -> Sequence[WebhookEndpoint]:
        """The endpoints of a user that are not deleted, the oldest first."""
        ...

    async def endpoints(
        self, after_id: int, limit: int, offset: int = 0
    ) -> Sequence[EndpointSubscription]:
        """Up to `limit` endpoints above `after_id` that are not deleted, after the first `offset`
        of them, by id, with their owners."""
        ...

    async def silent_endpoints(
        self, before_id: int | None, limit: int
    ) -> Sequence[EndpointSubscription]:
        """Up to `limit` endpoints below `before_id` that are silent (`is_silent`), the newest
        first, with their owners."""
        ...

    async def delivery(self, delivery_id: int) -> Delivery | None:
        """A delivery by id."""
        ...

    async def deliveries(
        self,
        endpoint_id: int,
        page: int,
        limit: int,
        group: DeliveryGroup | None = None,
        event: str | None = None,
    ) -> Sequence[tuple[Delivery, Sequence[DeliveryAttempt]]]:
        """Deliveries of an endpoint, the newest first, each with its attempts, oldest first: up to
        `limit + 1` from the page's start. Where given, those of a group of statuses alone, and
        those of an event's name."""
        ...

    async def delivery_body(self, delivery_id: int) -> bytes | None:
        """The bytes that a delivery sends; None without the delivery or its event."""
        ...

    async def delivery_counts(self, endpoint_id: int) -> Mapping[DeliveryStatus, int]:
        """How many of an endpoint's deliveries have failed or are unfinished, by status, among the
        newest `MAX_COUNTED_DELIVERIES` of them."""
        ...

    async def failed_deliveries(
        self, endpoint_id: int, since: datetime, limit: int
    ) -> Sequence[Delivery]:
        """Up to `limit` failed deliveries of an endpoint with an attempt at `since` or later, the
        newest first. `since` is wall time."""
        ...

    async def attempts_of(self, delivery_id: int) -> Sequence[DeliveryAttempt]:
        """The attempts of a delivery, the oldest first."""
        ...

    async def attempts_since(
        self, since: datetime, limit: int
    ) -> Sequence[tuple[Delivery, DeliveryAttempt]]:
        """Up to `limit` attempts that began at `since` or later, the oldest first, with their
        deliveries."""
        ...

    async def feed_position(self, event_id: str, reader_id: int | None) -> int | None:
        """The position of an event in a reader's feed; None where it is not in it. With the reader
        None, the feed of all events."""
        ...

    async def feed_events_after(
        self, reader_id: int | None, after_position: int, names: Collection[EventName], limit: int
    ) -> Sequence[bytes]:
        """Up to `limit` encoded envelopes of events with these names above a position of a reader's
        feed, by position."""
        ...

    async def feed_events_before(
        self,
        reader_id: int | None,
        before_position: int,
        names: Collection[EventName],
        limit: int,
    ) -> Sequence[tuple[int, bytes]]:
        """As `feed_events_after`, but the newest events below a position, the newest first, each
        with its position."""
        ...

    async def has_unsequenced_events(self) -> bool:
        """Whether a committed event has no position yet."""
        ...

    async def unsequenced_events(self, limit: int) -> Sequence[PublishedEvent]:
        """About `limit` events without a position, the oldest first, each with all others of its
        booking that have none."""
        ...

    async def endpoints_with_held_deliveries(
        self, after_id: int, limit: int
    ) -> Sequence[EndpointSubscription]:
        """Up to `limit` endpoints above `after_id` that are active and not deleted and have held
        deliveries, by id."""
        ...

    async def next_batch_due_at(self, now: datetime, *, degraded: bool) -> datetime | None:
        """When the next endpoint on which no lease runs is due, which may be in the past; None
        where no work is left. With `degraded`, looks at endpoints whose last attempt failed
        or was slow, without it at all others."""
        ...

    async def stats(self, now: datetime) -> WebhookStats:
        """The figures for metrics; `now` is wall time."""
        ...


class WebhooksWritePort(WebhooksReadPort, Protocol):
    """Commands on endpoints, deliveries and the event feed. Times are wall time. Locks last until
    the transaction ends."""

    async def add_endpoint(self, new_endpoint: NewWebhookEndpoint) -> WebhookEndpoint:
        """Insert an endpoint with an empty secret; the caller saves it with a sealed one in the
        same transaction."""
        ...

    async def lock_endpoint(self, endpoint_id: int) -> WebhookEndpoint | None:
        """An endpoint by id, locked; deleted ones too."""
        ...

    async def save_endpoints(self, endpoints: Sequence[WebhookEndpoint]) -> None:
        """Update endpoints; neither their claims nor when they are due."""
        ...

    # The feed: every committed event gets a position, in batches --------------------------

    async def lock_feed(self) -> int:
        """The last assigned position, 0 at first, locked: positions become visible in ascending
        order."""
        ...

    async def save_feed_positions(
        self, positioned_events: Sequence[tuple[PublishedEvent, int]]
    ) -> None:
        """Assign positions to events, and add the events to the feeds of their parties."""
        ...

    async def lock_endpoints_of(self, user_ids: Sequence[int]) -> Sequence[EndpointSubscription]:
        """The endpoints of these users and of all admins that are not deleted, locked in the order
        of ids."""
        ...

    async def add_deliveries(self, new_deliveries: Sequence[NewDelivery]) -> None:
        """Insert deliveries; their endpoints, which the caller has locked, become due with the
        pending ones. A delivery that exists (same endpoint, same event) is unchanged."""
        ...

    async def add_test_delivery(
        self, new_delivery: NewDelivery, envelope: WebhookTestEvent
    ) -> DueDelivery:
        """Insert a delivery of an event that is in no feed, and that no batch includes. Its body is
        the encoded envelope, stored with it."""
        ...

    # Sending ---------------------------------------------------------------------------

    async def claim_batches(
        self, now: datetime, lease: Lease, limit: int, batch_size: int, *, degraded: bool
    ) -> Sequence[EndpointBatch]:
        """Claim up to `limit` due endpoints, the longest overdue first, each with up to
        `batch_size` pending deliveries that are due: retries before first attempts, each by
        `next_at`. An endpoint with nothing due is claimed and returned without deliveries. With
        `degraded`, claims endpoints whose last attempt failed or was slow, without it all
        others.

        Of an ordered endpoint, deliveries that come after an unfinished one of an earlier event of
        their booking become waiting, and are left out; redeliveries neither wait nor are waited
        for."""
        ...

    async def next_deliveries(
        self, batches: Sequence[tuple[WebhookEndpoint, Delivery]], now: datetime, limit: int
    ) -> Mapping[int, Sequence[DueDelivery]]:
        """The next due deliveries of each of these endpoints, by endpoint id: up to `limit`, as
        `claim_batches` finds them, of first attempts only those after the given one. The caller has
        claimed and locked the endpoints."""
        ...

    async def renew_claims(self, tokens: Sequence[str], until: datetime) -> None:
        """Prolong the claims with these tokens that are still held."""
        ...

    async def lock_claims(
        self, claims: Sequence[EndpointClaim]
    ) -> Mapping[EndpointClaim, EndpointSubscription]:
        """The claims that are still held: their endpoints, locked in the order of ids, with their
        owners; deleted ones too."""
        ...

    async def release_endpoints(self, endpoint_ids: Sequence[int], now: datetime) -> None:
        """Release these endpoints, which the caller has locked: each is due again with its first
        pending delivery, or now where that is overdue."""
        ...

    async def lock_deliveries(self, delivery_ids: Sequence[int]) -> Sequence[Delivery]:
        """Deliveries by id, locked in the order of ids."""
        ...

    async def save_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Update the progress of deliveries. For a pending one of an endpoint that is not claimed,
        the caller also calls `schedule_endpoint`."""
        ...

    async def advance_deliveries(self, deliveries: Sequence[Delivery]) -> Collection[int]:
        """Save deliveries, each as it is after one more attempt, and return the ids of those that
        were saved. Others are no longer pending, or have had that attempt. The caller has claimed
        and locked their endpoints."""
        ...

    async def release_waiting_deliveries(self, finished_ids: Sequence[int]) -> None:
        """Make the next waiting delivery of each of these finished ones' bookings pending, unless
        another one is unfinished before it. The caller has claimed their endpoints."""
        ...

    async def add_attempts(self, attempts: Sequence[tuple[int, DeliveryAttempt]]) -> None:
        """Insert attempts, each with the id of its delivery."""
        ...

    async def schedule_endpoint(self, endpoint_id: int, earliest_at: datetime) -> None:
        """Make an endpoint, which the caller has locked, due at `earliest_at`, unless it is due
        earlier."""
        ...

    # Holding ---------------------------------------------------------------------------
    # A store may process a limited number at a time, and leave the rest for the next call.

    async def hold_deliveries(self, endpoint_id: int, now: datetime) -> int:
        """Hold pending and waiting deliveries of an endpoint, which the caller has locked; how
        many. What is left makes the endpoint due, and the worker that claims it continues. A claim
        on it stays, so that the results of deliveries in flight can be saved."""
        ...

    async def resume_deliveries(self, endpoint_id: int, now: datetime) -> int:
        """Make held and waiting deliveries of an endpoint, which the caller has locked, pending
        again; how many. Each is due when it was before, and the endpoint with the first of them.
        While any held one is left, `endpoints_with_held_deliveries` returns the endpoint."""
        ...

    async def cancel_deliveries(self, endpoint_id: int, now: datetime) -> int:
        """Cancel pending, waiting and held deliveries of an endpoint, which the caller has locked;
        how many. What is left is continued as by `hold_deliveries`."""
        ...

    async def cancel_held_deliveries(self, held_before: datetime, now: datetime, limit: int) -> int:
        """Cancel up to `limit` deliveries that are held since `held_before` or earlier; how many.
        Locks their endpoints in the order of ids. The deliveries that waited for them are released
        as by `release_waiting_deliveries`, and each endpoint is due with its first pending one, or
        now where that is overdue."""
        ...


class WebhookSender(Protocol):
    """Sends to https endpoints at public addresses only, unless the deployment is a sandbox that
    allows more. A receiver's failures are results, never errors."""

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float
    ) -> int | DeliveryFailure:
        """POST a body once, within `timeout_seconds`: the status of the response, or why there is
        none. The address is checked when it is connected to; redirects are not followed."""
        ...

    async def resolves_to_unsafe(self, host: str) -> bool:
        """Whether a host name resolves to an address that would be refused; False where it does not
        resolve."""
        ...
