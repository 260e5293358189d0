"""Deliveries as owners look them up, with the bytes that were sent; sending again what has failed;
and test events (CONTRACT 7).

`user` is the owner; None is an operator, who may see any endpoint. Endpoints and deliveries of
others raise NotFound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import evolve, field, frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.webhooks.deliveries import (
    AttemptOutcome,
    Delivery,
    DeliveryAttempt,
    DeliveryGroup,
    DeliveryStatus,
    NewDelivery,
    WebhookEndpoint,
)
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import DueDelivery, Ports, Transaction, WebhooksWritePort
from staffbooking_core.representations.events import TEST_EVENT_NAME, envelope_for_test_event
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_core.usecases.webhooks.endpoints import is_served, require_owned
from staffbooking_core.validation import validated

__all__ = [
    "DeliveryDetails",
    "DeliveryLog",
    "EndpointLog",
    "get_delivery",
    "list_deliveries",
    "read_log",
    "redeliver",
    "redeliver_failed",
    "send_test_event",
]

_MAX_REDELIVERIES = 500
"""Deliveries that one call sends again."""


@frozen
class DeliveryLog:
    """A delivery with its attempts, the oldest first."""

    delivery: Delivery
    attempts: Sequence[DeliveryAttempt]


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
    """Empty where the event no longer exists."""


@validated
async def list_deliveries(
    ports: Ports, user: User | None, endpoint_id: int, page: int, limit: int
) -> tuple[Sequence[DeliveryLog], bool]:
    """A page of an endpoint's deliveries, the newest first, and whether more follow. Raises
    NotFound."""
    async with ports.store.read_view() as view:
        require_owned(await view.webhooks.endpoint(endpoint_id), user)
        found = await view.webhooks.deliveries(endpoint_id, page, limit)
    return [DeliveryLog(*each) for each in found[:limit]], len(found) > limit


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
async def redeliver(
    ports: Ports, user: User | None, delivery_id: int, endpoint_id: int | None = None
) -> DeliveryLog:
    """Send an event again with the same id and bytes: at once, or when its endpoint is served
    again. A pending delivery is unchanged. `endpoint_id`, where given, must be the delivery's
    endpoint.

    Locks the endpoint, then the delivery. Raises NotFound.
    """
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> DeliveryLog:
        stored = await tx.webhooks.delivery(delivery_id)
        if stored is None or endpoint_id not in (None, stored.endpoint_id):
            raise NotFound("Delivery")
        endpoint = require_owned(
            await tx.webhooks.lock_endpoint(stored.endpoint_id), user, "Delivery"
        )
        locked = await tx.webhooks.lock_deliveries([delivery_id])
        if not locked:  # Deleted just now by retention.
            raise NotFound("Delivery")
        delivery = locked[0]
        again = delivery.redeliver(now, is_deliverable=await is_served(tx.accounts, endpoint, now))
        if again != delivery:
            await tx.webhooks.save_deliveries([again])
            if again.status is DeliveryStatus.PENDING:
                await tx.webhooks.schedule_endpoint(endpoint.id, now)
        return DeliveryLog(again, await tx.webhooks.attempts_of(delivery_id))

    return await ports.store.run_transaction(unit)


@validated
async def redeliver_failed(ports: Ports, user: User, endpoint_id: int, since: datetime) -> int:
    """Send the deliveries of an endpoint again that have failed at `since` or later, which is wall
    time, as `redeliver` does: the newest 500 of them. Returns how many.

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
async def send_test_event(ports: Ports, user: User, endpoint_id: int) -> DeliveryLog:
    """Send a test event once (SPECIFICATION 6.1). It is not retried, and its failure does not
    count. The request is sent outside of transactions.

    Raises NotFound, and SealBroken.
    """
    event_id, created_at = ports.ids.event_id(), await ports.clock.business()
    envelope = envelope_for_test_event(event_id, endpoint_id, created_at)

    async def add(tx: Transaction) -> tuple[str, Sequence[str], DueDelivery]:
        endpoint = require_owned(await tx.webhooks.lock_endpoint(endpoint_id), user)
        secrets = deliveries.unseal_secrets(ports, endpoint)
        # Stays cancelled if the process ends before the outcome is saved.
        status = DeliveryStatus.CANCELLED
        new = NewDelivery(endpoint.id, event_id, TEST_EVENT_NAME, created_at, status, None)
        return endpoint.url, secrets, await tx.webhooks.add_test_delivery(new, envelope)

    url, secrets, due = await ports.store.run_transaction(add)
    outcome = await deliveries.attempt_delivery(ports, url, secrets, due)
    return await ports.store.run_transaction(
        lambda tx: _save_test_result(tx.webhooks, endpoint_id, due, outcome)
    )


async def _save_test_result(
    webhooks: WebhooksWritePort, endpoint_id: int, due: DueDelivery, outcome: AttemptOutcome
) -> DeliveryLog:
    endpoint = await webhooks.lock_endpoint(endpoint_id)
    if endpoint is not None and outcome.error is None:
        await webhooks.save_endpoints([evolve(endpoint, consecutive_failures=0)])
    (kept,) = await webhooks.lock_deliveries([due.delivery.id])
    made = outcome.to_attempt(kept.attempts + 1)
    done = evolve(kept, attempts=made.number, tries=kept.tries + 1)
    if kept == due.delivery:  # Else a redelivery was requested meanwhile.
        status = DeliveryStatus.SUCCEEDED if outcome.error is None else DeliveryStatus.FAILED
        done = evolve(done, status=status)
    await webhooks.save_deliveries([done])
    await webhooks.add_attempts([(done.id, made)])
    return DeliveryLog(done, [made])
