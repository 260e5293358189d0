"""What owners look up of their endpoints: deliveries by state, the bytes that were sent, the newest
events; and sending again what has failed.

Endpoints and deliveries of others raise NotFound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import field, frozen

from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import (
    DEFAULT_WEBHOOK_EVENTS,
    DeliveryGroup,
    DeliveryStatus,
    WebhookEndpoint,
)
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.usecases.webhooks.endpoints import DeliveryLog, is_served, require_owned
from staffbooking_core.validation import validated

__all__ = [
    "DeliveryDetails",
    "EndpointLog",
    "FeedPage",
    "get_delivery",
    "get_endpoint",
    "read_latest_events",
    "read_log",
    "redeliver_failed",
]

_MAX_REDELIVERIES = 500
"""Deliveries that one call sends again."""


@frozen
class EndpointLog:
    """An endpoint with a page of its deliveries, the newest first."""

    endpoint: WebhookEndpoint
    deliveries: Sequence[DeliveryLog]
    has_more: bool
    counts: Mapping[DeliveryStatus, int]
    """How many deliveries have failed or are unfinished; see `delivery_counts` of the port."""


@frozen
class DeliveryDetails:
    """A delivery with its endpoint, its attempts, and the bytes that it sends."""

    endpoint: WebhookEndpoint
    log: DeliveryLog
    body: bytes = field(repr=False)
    """Empty where the event exists no longer."""


@frozen
class FeedPage:
    """Events of a user's feed, the newest first."""

    events: Sequence[bytes] = field(repr=False)
    """Encoded envelopes."""
    names: frozenset[EventName]
    """The events that are in the feed at all."""
    next_before: int | None
    """Where the next page begins; None on the last one."""


@validated
async def get_endpoint(ports: Ports, user: User, endpoint_id: int) -> WebhookEndpoint:
    """An endpoint of the user. Raises NotFound."""
    async with ports.store.read_view() as view:
        return require_owned(await view.webhooks.endpoint(endpoint_id), user)


@validated
async def read_log(
    ports: Ports,
    user: User,
    endpoint_id: int,
    page: int,
    limit: int,
    group: DeliveryGroup | None = None,
    event: str | None = None,
) -> EndpointLog:
    """An endpoint with a page of its deliveries: of a group of statuses alone, and of an event's
    name, where given. Raises NotFound."""
    async with ports.store.read_view() as view:
        endpoint = require_owned(await view.webhooks.endpoint(endpoint_id), user)
        found = await view.webhooks.deliveries(endpoint_id, page, limit, group, event)
        counts = await view.webhooks.delivery_counts(endpoint_id)
    logs = [DeliveryLog(*each) for each in found[:limit]]
    return EndpointLog(endpoint, logs, len(found) > limit, counts)


@validated
async def get_delivery(
    ports: Ports, user: User, endpoint_id: int, delivery_id: int
) -> DeliveryDetails:
    """A delivery of an endpoint with its attempts and its body. Raises NotFound."""
    async with ports.store.read_view() as view:
        endpoint = require_owned(await view.webhooks.endpoint(endpoint_id), user)
        delivery = await view.webhooks.delivery(delivery_id)
        if delivery is None or delivery.endpoint_id != endpoint_id:
            raise NotFound("Delivery")
        attempts = await view.webhooks.attempts_of(delivery_id)
        body = await view.webhooks.delivery_body(delivery_id)
    return DeliveryDetails(endpoint, DeliveryLog(delivery, attempts), body or b"")


@validated
async def redeliver_failed(ports: Ports, user: User, endpoint_id: int, since: datetime) -> int:
    """Send the failed deliveries of an endpoint again that were created at `since` or later, as
    `endpoints.redeliver` does: the newest `_MAX_REDELIVERIES` of them. Returns how many.

    Locks the endpoint, then the deliveries. Raises NotFound.
    """
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> int:
        endpoint = require_owned(await tx.webhooks.lock_endpoint(endpoint_id), user)
        failed = await tx.webhooks.failed_deliveries(endpoint_id, since, _MAX_REDELIVERIES)
        locked = await tx.webhooks.lock_deliveries(sorted(each.id for each in failed))
        again = [each for each in locked if each.status is DeliveryStatus.FAILED]
        if again:
            served = await is_served(tx.accounts, endpoint, now)
            await tx.webhooks.save_deliveries(
                [each.redeliver(now, is_deliverable=served) for each in again]
            )
            if served:
                await tx.webhooks.schedule_endpoint(endpoint_id, now)
        return len(again)

    return await ports.store.run_transaction(unit)


@validated
async def read_latest_events(
    ports: Ports, user: User, before: int | None, name: EventName | None, limit: int
) -> FeedPage:
    """The newest events of the feed that `endpoints.read_feed` reads, below the position `before`
    and of one name where given."""
    reader_id = None if user.role is Role.ADMIN else user.id
    async with ports.store.read_view() as view:
        own = await view.webhooks.endpoints_of(user.id)
        names = DEFAULT_WEBHOOK_EVENTS.union(*(endpoint.events for endpoint in own))
        wanted = names if name is None else names & {name}
        found = await view.webhooks.feed_events_before(
            reader_id, MAX_ID if before is None else before, wanted, limit + 1
        )
    page = found[:limit]
    return FeedPage(
        [body for _, body in page],
        names,
        page[-1][0] if len(found) > limit else None,
    )
