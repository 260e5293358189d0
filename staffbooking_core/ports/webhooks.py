"""Webhooks as the store keeps them, and the sender that takes them to their receivers.

An endpoint, not a delivery, is what a worker claims: so at most one serves it at a time, and
the bound of deliveries in flight is that worker's own. `turn` is what it may do with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeAlias

from attrs import field, frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    Delivery,
    DeliveryAttempt,
    DeliveryFailure,
    EndpointSubscription,
    NewDelivery,
    PublishedEvent,
    WebhookEndpoint,
)
from staffbooking_core.ports.values import Lease
from staffbooking_core.representations.events import WebhookTestEvent


@frozen
class NewWebhookEndpoint:
    owner_id: int
    url: str
    events: frozenset[EventName]
    description: str | None
    created_at: datetime


@frozen
class DueDelivery:
    """A delivery that is due, with the bytes to send."""

    delivery: Delivery
    body: bytes = field(repr=False)


EndpointClaim: TypeAlias = tuple[int, str]
"""An endpoint's id, and the token of the lease on it."""


@frozen
class EndpointBatch:
    """A claimed endpoint with some of its due deliveries: it is sent to until `lease` ends,
    by its holder alone."""

    endpoint: WebhookEndpoint
    owner: User
    lease: Lease
    due_deliveries: tuple[DueDelivery, ...]

    @property
    def claim(self) -> EndpointClaim:
        return self.endpoint.id, self.lease.token


@frozen
class WebhookStats:
    """For metrics. `lag` is how late the most overdue delivery is, in seconds."""

    succeeded: int
    """Attempts, over all endpoints: deleted ones too, since a counter never goes down."""
    failed: int
    pending: int
    """Deliveries."""
    held: int
    unplaced: int
    """Events that have no position yet."""
    lag: float


class WebhooksReadPort(Protocol):
    async def endpoint(self, endpoint_id: int) -> WebhookEndpoint | None:
        """Deleted ones too."""
        ...

    async def endpoints_of(self, owner_id: int) -> Sequence[WebhookEndpoint]:
        """Those that are not deleted, the oldest first."""
        ...

    async def endpoints(self, after_id: int, limit: int) -> Sequence[EndpointSubscription]:
        """Those that are not deleted, in the order of ids, with their owners."""
        ...

    async def delivery(self, delivery_id: int) -> Delivery | None: ...
    async def deliveries(
        self, endpoint_id: int, page: int, limit: int
    ) -> Sequence[tuple[Delivery, Sequence[DeliveryAttempt]]]:
        """The newest first, each with its attempts, oldest first: up to `limit + 1` from the
        page's start."""
        ...

    async def attempts_of(self, delivery_id: int) -> Sequence[DeliveryAttempt]:
        """The oldest first."""
        ...

    async def attempts_since(
        self, since: datetime, limit: int
    ) -> Sequence[tuple[Delivery, DeliveryAttempt]]:
        """Attempts that began at `since` or later, the oldest first."""
        ...

    async def feed_position(self, event_id: str, reader_id: int | None) -> int | None:
        """Where an event stands in its reader's feed; None where it doesn't. The reader None
        sees all events."""
        ...

    async def feed_events_after(
        self, reader_id: int | None, after_position: int, limit: int
    ) -> Sequence[bytes]:
        """The envelopes beyond a position, in their order, up to `limit`."""
        ...

    async def has_unsequenced_events(self) -> bool:
        """Whether a committed event has no position yet."""
        ...

    async def unsequenced_events(self, limit: int) -> Sequence[PublishedEvent]:
        """About `limit` events without a position, the first made first, each with all others
        of its booking that have none."""
        ...

    async def endpoints_with_held_deliveries(
        self, after_id: int, limit: int
    ) -> Sequence[EndpointSubscription]:
        """Endpoints that are active and not deleted, and have deliveries held: in the order of
        ids, from the first above `after_id`."""
        ...

    async def next_batch_due_at(self, now: datetime, *, degraded: bool) -> datetime | None:
        """When the next endpoint that nobody has claimed is due, in the past where one is;
        None where none has anything to do."""
        ...

    async def stats(self, now: datetime) -> WebhookStats: ...


class WebhooksWritePort(WebhooksReadPort, Protocol):
    async def add_endpoint(self, new_endpoint: NewWebhookEndpoint) -> WebhookEndpoint:
        """With an empty secret, to be saved with a sealed one in the same unit of work."""
        ...

    async def lock_endpoint(self, endpoint_id: int) -> WebhookEndpoint | None:
        """Held until the unit of work ends; deleted ones too."""
        ...

    async def save_endpoints(self, endpoints: Sequence[WebhookEndpoint]) -> None:
        """Neither their claims nor their turns are touched."""
        ...

    # Placing: every committed event gets a position, one step at a time ---------------

    async def lock_feed(self) -> int:
        """The last position that was given, 0 at first. Nobody else gives one until this unit
        of work ends: so positions become visible in their order."""
        ...

    async def save_feed_positions(
        self, positioned_events: Sequence[tuple[PublishedEvent, int]]
    ) -> None:
        """Give positions, and put the events into the feeds of their parties."""
        ...

    async def lock_endpoints_of(self, user_ids: Sequence[int]) -> Sequence[EndpointSubscription]:
        """The endpoints of these users and of all admins, deleted ones left out, held in the
        order of ids."""
        ...

    async def add_deliveries(self, new_deliveries: Sequence[NewDelivery]) -> None:
        """Their endpoints, which are held, get their turn where one is pending. A delivery
        that is there already (same endpoint, same event) stays as it is."""
        ...

    async def add_test_delivery(
        self, new_delivery: NewDelivery, envelope: WebhookTestEvent
    ) -> DueDelivery:
        """The delivery of an event that stands in no feed, and is sent by nobody's turn; its
        own bytes are encoded here, and kept with it."""
        ...

    # Sending ---------------------------------------------------------------------------

    async def claim_batches(
        self, now: datetime, lease: Lease, limit: int, batch_size: int, *, degraded: bool
    ) -> Sequence[EndpointBatch]:
        """Claim endpoints whose turn has come, the longest overdue first, each with up to
        `batch` pending deliveries that are due: retries before first tries, each by
        `next_at`. One with nothing due is claimed and given without any."""
        ...

    async def renew_claims(self, tokens: Sequence[str], until: datetime) -> None:
        """Make these claims last longer, where they are still held."""
        ...

    async def lock_claims(
        self, claims: Sequence[EndpointClaim]
    ) -> Mapping[EndpointClaim, EndpointSubscription]:
        """Those of the claims that are still held: their endpoints, locked in the order of ids,
        deleted ones too, with their owners."""
        ...

    async def release_endpoints(self, endpoint_ids: Sequence[int], now: datetime) -> None:
        """Release these endpoints, which are locked: the next turn of each comes with its
        first pending delivery, or now where that is overdue."""
        ...

    async def lock_deliveries(self, delivery_ids: Sequence[int]) -> Sequence[Delivery]:
        """Held, in the order of ids."""
        ...

    async def save_deliveries(self, deliveries: Sequence[Delivery]) -> None:
        """Replace their progress. A pending one that nobody's turn covers also needs `wake`."""
        ...

    async def add_attempts(self, attempts: Sequence[tuple[int, DeliveryAttempt]]) -> None:
        """Attempts by the id of their delivery."""
        ...

    async def schedule_endpoint(self, endpoint_id: int, earliest_at: datetime) -> None:
        """Let an endpoint, which is locked, have a turn at `at`, if none comes earlier."""
        ...

    # Holding ---------------------------------------------------------------------------
    # A store may do a thousand at a time, and leave the rest for the next call.

    async def hold_deliveries(self, endpoint_id: int, now: datetime) -> int:
        """Hold pending deliveries of an endpoint, which is locked; how many. What is left gives
        it a turn, and whoever claims that goes on. Who has claimed it keeps the claim, to save
        what is in flight."""
        ...

    async def resume_deliveries(self, endpoint_id: int, now: datetime) -> int:
        """Make held deliveries of an endpoint, which is locked, pending again; how many. Each
        is due when it would have been, and its endpoint's turn comes with the first. While any
        is left, `holding` gives the endpoint."""
        ...

    async def cancel_deliveries(self, endpoint_id: int, now: datetime) -> int:
        """Cancel what is pending or held of an endpoint, which is locked; what is left is as
        with `hold`."""
        ...

    async def cancel_held_deliveries(self, held_before: datetime, limit: int) -> int:
        """Cancel deliveries that are held since before then."""
        ...


class WebhookSender(Protocol):
    """The way out: https to public addresses alone, unless the deployment is a sandbox that
    allows more. Never raises for what a receiver does."""

    async def send(
        self, url: str, headers: Mapping[str, str], body: bytes, timeout_seconds: float
    ) -> int | DeliveryFailure:
        """POST once, and be done within `seconds`: the status of the response, or why there is
        none. The address is judged when it is connected to; no redirect is followed."""
        ...

    async def resolves_to_unsafe(self, host: str) -> bool:
        """Whether a name stands for an address that would be refused, as far as can be said
        now: one that can't be resolved yet doesn't."""
        ...
