"""Webhook endpoints as their owners manage them, and the pull feed (SPECIFICATION 4.10, CONTRACT
7).

`user` is the owner; None is an operator, who may manage any endpoint. Deleted endpoints and those
of other users raise NotFound.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.webhooks.deliveries import (
    DEFAULT_WEBHOOK_EVENTS,
    AttemptOutcome,
    Delivery,
    DeliveryAttempt,
    DeliveryStatus,
    EndpointSecrets,
    EndpointSubscription,
    NewDelivery,
    WebhookEndpoint,
)
from staffbooking_core.domain.webhooks.url_safety import validate_webhook_url
from staffbooking_core.errors import NotFound, RuleBroken, SealBroken, invalid_field
from staffbooking_core.inputs import ChangeWebhook, CreateWebhook
from staffbooking_core.ports import (
    AccountsReadPort,
    DueDelivery,
    NewWebhookEndpoint,
    Ports,
    Transaction,
    WebhooksWritePort,
)
from staffbooking_core.representations.events import TEST_EVENT_NAME, envelope_for_test_event
from staffbooking_core.usecases.accounts.accounts import lock_caller
from staffbooking_core.usecases.accounts.api_keys import check_subscription
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_core.usecases.webhooks.deliveries import WEBHOOK_SECRET_PURPOSE
from staffbooking_core.validation import validated

__all__ = [
    "DeliveryLog",
    "ResealResult",
    "activate_secret",
    "authorize",
    "delete_endpoint",
    "enable_endpoint",
    "erase_endpoint",
    "is_served",
    "list_all_endpoints",
    "list_deliveries",
    "list_endpoints",
    "read_feed",
    "redeliver",
    "register_endpoint",
    "require_owned",
    "reseal_secrets",
    "rotate_secret",
    "send_test_event",
    "update_endpoint",
]


@validated
async def register_endpoint(
    ports: Ports, user: User, command: CreateWebhook
) -> tuple[WebhookEndpoint, str]:
    """Register an endpoint; returns its record, and its secret, which is shown only once. Locks the
    user, so that concurrent calls respect the limit.

    Raises Forbidden `subscription_required` without an active enterprise subscription, InvalidField
    on `url` where its form or address is refused, RuleBroken `too_many_webhooks`, and
    Unauthenticated where the user was disabled or erased meanwhile.
    """
    check_subscription(user, ports.clock.wall())
    await _check_url(ports, command.url)
    secret = ports.ids.webhook_secret()
    new = NewWebhookEndpoint(
        owner_id=user.id,
        url=command.url,
        events=frozenset(command.events or DEFAULT_WEBHOOK_EVENTS),
        description=command.description or None,
        created_at=await ports.clock.business(),
        ordered=command.ordered,
    )

    async def unit(tx: Transaction) -> WebhookEndpoint:
        await lock_caller(tx.accounts, user.id)
        limit = ports.policy.max_webhooks
        if len(await tx.webhooks.endpoints_of(user.id)) >= limit:
            raise RuleBroken("too_many_webhooks", f"A user has at most {limit} webhooks")
        added = await tx.webhooks.add_endpoint(new)
        endpoint = evolve(added, secrets=EndpointSecrets(_seal_secret(ports, secret, added.id)))
        await tx.webhooks.save_endpoints([endpoint])
        return endpoint

    return await ports.store.run_transaction(unit), secret


async def _check_url(ports: Ports, url: str) -> None:
    try:
        host = validate_webhook_url(url, allow_insecure=ports.policy.webhook_allow_insecure)
    except ValueError as error:
        raise invalid_field("url", str(error)) from None
    if await ports.webhook_sender.resolves_to_unsafe(host):
        raise invalid_field("url", "must be a public address")


def _seal_secret(ports: Ports, secret: str, endpoint_id: int) -> bytes:
    return ports.vault.seal(WEBHOOK_SECRET_PURPOSE, secret.encode(), endpoint_id)


@validated
async def list_endpoints(ports: Ports, user: User) -> Sequence[WebhookEndpoint]:
    """The endpoints of a user, the oldest first."""
    async with ports.store.read_view() as view:
        return await view.webhooks.endpoints_of(user.id)


@validated
async def list_all_endpoints(
    ports: Ports, after_id: int, limit: int, offset: int = 0
) -> Sequence[EndpointSubscription]:
    """A page of all endpoints above `after_id`, after the first `offset` of them, with their
    owners, by id, for operators."""
    async with ports.store.read_view() as view:
        return await view.webhooks.endpoints(after_id, limit, offset)


@validated
async def authorize(ports: Ports, user: User | None, endpoint_id: int) -> None:
    """Check that an endpoint is the user's. Raises NotFound."""
    async with ports.store.read_view() as view:
        require_owned(await view.webhooks.endpoint(endpoint_id), user)


@validated
async def update_endpoint(
    ports: Ports, user: User | None, endpoint_id: int, command: ChangeWebhook
) -> WebhookEndpoint:
    """Change the given fields. Deliveries of a paused endpoint are held until it is active again;
    those of an endpoint that is no longer ordered wait no longer. Locks the endpoint. Raises
    NotFound."""

    async def work(tx: Transaction, endpoint: WebhookEndpoint) -> WebhookEndpoint:
        if command.events is not None:
            endpoint = evolve(endpoint, events=frozenset(command.events))
        if command.description is not None:
            endpoint = evolve(endpoint, description=command.description or None)
        if command.ordered is not None and command.ordered != endpoint.ordered:
            endpoint = await _set_ordered(ports, tx, endpoint, ordered=command.ordered)
        if command.active is None or command.active == endpoint.active:
            return endpoint
        return await _set_active(ports, tx, endpoint, active=command.active)

    return await _update_endpoint(ports, user, endpoint_id, work)


@validated
async def enable_endpoint(ports: Ports, user: User | None, endpoint_id: int) -> WebhookEndpoint:
    """Activate an endpoint, reset its failure count, and resume held deliveries. Locks the
    endpoint. Raises NotFound."""

    async def work(tx: Transaction, endpoint: WebhookEndpoint) -> WebhookEndpoint:
        return await _set_active(ports, tx, endpoint, active=True)

    return await _update_endpoint(ports, user, endpoint_id, work)


async def _set_active(
    ports: Ports, tx: Transaction, endpoint: WebhookEndpoint, *, active: bool
) -> WebhookEndpoint:
    now = ports.clock.wall()
    if not active:
        await tx.webhooks.hold_deliveries(endpoint.id, now)
        return endpoint.pause()
    endpoint = endpoint.enable()
    if await is_served(tx.accounts, endpoint, now):
        await tx.webhooks.resume_deliveries(endpoint.id, now)
    return endpoint


async def _set_ordered(
    ports: Ports, tx: Transaction, endpoint: WebhookEndpoint, *, ordered: bool
) -> WebhookEndpoint:
    now = ports.clock.wall()
    if not ordered and await is_served(tx.accounts, endpoint, now):
        while await tx.webhooks.resume_deliveries(endpoint.id, now):
            pass
    return evolve(endpoint, ordered=ordered)


@validated
async def delete_endpoint(ports: Ports, user: User, endpoint_id: int) -> None:
    """Delete an endpoint: its pending deliveries are cancelled, its secrets are deleted. Locks the
    endpoint. Raises NotFound."""

    async def work(tx: Transaction, endpoint: WebhookEndpoint) -> WebhookEndpoint:
        now = ports.clock.wall()
        await tx.webhooks.cancel_deliveries(endpoint.id, now)
        return _deleted(endpoint, now)

    await _update_endpoint(ports, user, endpoint_id, work)


async def erase_endpoint(webhooks: WebhooksWritePort, endpoint_id: int, now: datetime) -> None:
    """Delete an endpoint of an erased user, including its address. Locks the endpoint."""
    if (endpoint := await webhooks.lock_endpoint(endpoint_id)) is not None:
        await webhooks.cancel_deliveries(endpoint_id, now)
        erased = evolve(_deleted(endpoint, now), url="https://erased.invalid", description=None)
        await webhooks.save_endpoints([erased])


def _deleted(endpoint: WebhookEndpoint, now: datetime) -> WebhookEndpoint:
    return evolve(endpoint, active=False, deleted_at=now, secrets=EndpointSecrets(b""))


@validated
async def rotate_secret(ports: Ports, user: User, endpoint_id: int) -> tuple[str, datetime]:
    """Create a new secret; returns it, shown only once, and until when the old one signs as well.
    The published signature header uses the old secret until then, or until `activate_secret`.

    Locks the endpoint. Raises NotFound.
    """
    now, secret = ports.clock.wall(), ports.ids.webhook_secret()
    overlap = ports.policy.webhook_secret_overlap

    async def work(tx: Transaction, endpoint: WebhookEndpoint) -> WebhookEndpoint:
        sealed = _seal_secret(ports, secret, endpoint.id)
        return evolve(endpoint, secrets=endpoint.secrets.rotate(sealed, now, overlap))

    await _update_endpoint(ports, user, endpoint_id, work)
    return secret, now + overlap


@validated
async def activate_secret(ports: Ports, user: User, endpoint_id: int) -> WebhookEndpoint:
    """End the rotation: only the new secret signs. Locks the endpoint.

    Raises NotFound, and RuleBroken `no_rotation`.
    """
    now = ports.clock.wall()

    async def work(tx: Transaction, endpoint: WebhookEndpoint) -> WebhookEndpoint:
        secrets = endpoint.secrets.activate_next(now)
        if secrets is None:
            raise RuleBroken("no_rotation", "No new secret waits to be activated")
        return evolve(endpoint, secrets=secrets)

    return await _update_endpoint(ports, user, endpoint_id, work)


@frozen
class ResealResult:
    """Outcome of resealing a batch of endpoints."""

    last_id: int
    """The last endpoint that was read; 0 where there are no more."""
    changed: int
    broken: Sequence[int]
    """Endpoints whose secrets cannot be unsealed; they are unchanged."""


@validated
async def reseal_secrets(ports: Ports, after_id: int, limit: int) -> ResealResult:
    """Seal the secrets of up to `limit` endpoints above `after_id` with the current key. Locks one
    endpoint at a time."""
    batch = [each.endpoint for each in await list_all_endpoints(ports, after_id, limit)]
    changed, broken = 0, []
    for endpoint in batch:
        kept = endpoint.secrets.signing_secrets(ports.clock.wall())
        if all(map(ports.vault.is_current, kept)):
            continue
        try:
            await _update_endpoint(ports, None, endpoint.id, _reseal_update(ports))
            changed += 1
        except SealBroken:
            broken.append(endpoint.id)
        except NotFound:
            continue  # Deleted meanwhile.
    return ResealResult(batch[-1].id if batch else 0, changed, broken)


def _reseal_update(
    ports: Ports,
) -> Callable[[Transaction, WebhookEndpoint], Awaitable[WebhookEndpoint]]:
    async def work(tx: Transaction, endpoint: WebhookEndpoint) -> WebhookEndpoint:
        def renewed(sealed: bytes) -> bytes:
            secret = ports.vault.open(WEBHOOK_SECRET_PURPOSE, sealed, endpoint.id)
            return ports.vault.seal(WEBHOOK_SECRET_PURPOSE, secret, endpoint.id)

        old = endpoint.secrets.effective_at(ports.clock.wall())
        upcoming = None if old.next is None else renewed(old.next)
        return evolve(
            endpoint, secrets=EndpointSecrets(renewed(old.current), upcoming, old.next_from)
        )

    return work


# Deliveries -------------------------------------------------------------------------------


@frozen
class DeliveryLog:
    """A delivery with its attempts, the oldest first."""

    delivery: Delivery
    attempts: Sequence[DeliveryAttempt]


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


# The pull feed ----------------------------------------------------------------------------


@validated
async def read_feed(
    ports: Ports, user: User, after_event_id: str | None, limit: int
) -> tuple[Sequence[bytes], bool]:
    """The user's events after a given one, the oldest first, as encoded envelopes, and whether more
    follow (CONTRACT 7): the five default events, and those that one of the user's endpoints names
    now. Admins read those of all bookings.

    Raises RuleBroken `unknown_event` where `after_event_id` is no event of the user's bookings.
    """
    reader_id = None if user.role is Role.ADMIN else user.id
    async with ports.store.read_view() as view:
        position = (
            0
            if after_event_id is None
            else await view.webhooks.feed_position(after_event_id, reader_id)
        )
        if position is None:
            raise RuleBroken("unknown_event", "There is no such event in your feed")
        own = await view.webhooks.endpoints_of(user.id)
        names = DEFAULT_WEBHOOK_EVENTS.union(*(endpoint.events for endpoint in own))
        found = await view.webhooks.feed_events_after(reader_id, position, names, limit + 1)
    return found[:limit], len(found) > limit


# Shared -----------------------------------------------------------------------------------


def require_owned(
    endpoint: WebhookEndpoint | None, user: User | None, noun: str = "Webhook"
) -> WebhookEndpoint:
    """The endpoint, if it is the user's. Raises NotFound for `noun`."""
    if endpoint is None or endpoint.deleted_at is not None:
        raise NotFound(noun)
    if user is not None and endpoint.owner_id != user.id:
        raise NotFound(noun)
    return endpoint


async def is_served(accounts: AccountsReadPort, endpoint: WebhookEndpoint, now: datetime) -> bool:
    """Whether deliveries to the endpoint are sent now."""
    owner = await accounts.user(endpoint.owner_id)
    return owner is not None and endpoint.is_deliverable(owner, now)


async def _update_endpoint(
    ports: Ports,
    user: User | None,
    endpoint_id: int,
    update: Callable[[Transaction, WebhookEndpoint], Awaitable[WebhookEndpoint]],
) -> WebhookEndpoint:
    """Lock an endpoint, apply `update` to it and save it; returns the updated endpoint."""

    async def unit(tx: Transaction) -> WebhookEndpoint:
        endpoint = require_owned(await tx.webhooks.lock_endpoint(endpoint_id), user)
        endpoint = await update(tx, endpoint)
        await tx.webhooks.save_endpoints([endpoint])
        return endpoint

    return await ports.store.run_transaction(unit)
