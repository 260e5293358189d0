"""Webhook endpoints as their owners manage them (SPECIFICATION 4.10, CONTRACT 7).

`user` is the owner; None is an operator, who may manage any endpoint. Deleted endpoints and those
of other users raise NotFound.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.webhooks.deliveries import (
    DEFAULT_WEBHOOK_EVENTS,
    EndpointSecrets,
    EndpointSubscription,
    WebhookEndpoint,
)
from staffbooking_core.domain.webhooks.url_safety import validate_webhook_url
from staffbooking_core.errors import NotFound, RuleBroken, SealBroken, invalid_field
from staffbooking_core.inputs import ChangeWebhook, CreateWebhook
from staffbooking_core.ports import (
    AccountsReadPort,
    NewWebhookEndpoint,
    Ports,
    Transaction,
)
from staffbooking_core.usecases.accounts.accounts import lock_caller
from staffbooking_core.usecases.accounts.api_keys import check_subscription
from staffbooking_core.usecases.webhooks.deliveries import WEBHOOK_SECRET_PURPOSE
from staffbooking_core.validation import validated

__all__ = [
    "ResealResult",
    "activate_secret",
    "authorize",
    "delete_endpoint",
    "enable_endpoint",
    "get_endpoint",
    "is_served",
    "list_all_endpoints",
    "list_endpoints",
    "list_endpoints_after",
    "register_endpoint",
    "require_owned",
    "reseal_secrets",
    "rotate_secret",
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
    Unauthenticated where the user was disabled or erased, or got another role, meanwhile.
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
        await lock_caller(tx.accounts, user.id, user.role)
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
async def get_endpoint(ports: Ports, user: User, endpoint_id: int) -> WebhookEndpoint:
    """An endpoint of the user. Raises NotFound."""
    async with ports.store.read_view() as view:
        return require_owned(await view.webhooks.endpoint(endpoint_id), user)


@validated
async def list_all_endpoints(
    ports: Ports, page: int = 1, limit: int = 50
) -> Sequence[EndpointSubscription]:
    """A page of all endpoints by id, with their owners, up to `limit + 1`, for operators."""
    async with ports.store.read_view() as view:
        return await view.webhooks.endpoints(0, limit + 1, (page - 1) * limit)


@validated
async def list_endpoints_after(
    ports: Ports, after_id: int, limit: int
) -> Sequence[EndpointSubscription]:
    """Up to `limit` of all endpoints above `after_id` by id, with their owners, for operators."""
    async with ports.store.read_view() as view:
        return await view.webhooks.endpoints(after_id, limit)


@validated
async def authorize(ports: Ports, user: User | None, endpoint_id: int) -> None:
    """Check that an endpoint is the user's. Raises NotFound."""
    async with ports.store.read_view() as view:
        require_owned(await view.webhooks.endpoint(endpoint_id), user)


@validated
async def update_endpoint(
    ports: Ports, user: User | None, endpoint_id: int, command: ChangeWebhook
) -> WebhookEndpoint:
    """Change the given fields. Deliveries of a paused endpoint are held until it is active again.
    If `ordered` is turned off, waiting deliveries are sent at once. Locks the endpoint. Raises
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
        return endpoint.delete(now)

    await _update_endpoint(ports, user, endpoint_id, work)


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
    batch = [each.endpoint for each in await list_endpoints_after(ports, after_id, limit)]
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
