"""Webhook endpoints as their owners manage them, and the pull feed (CONTRACT 7).

`user` is the owner; None stands for an operator, who may touch anybody's. Endpoints that
are deleted, or somebody else's, are NotFound.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.webhooks.deliveries import (
    EVENTS,
    Attempt,
    Delivery,
    DeliveryStatus,
    Endpoint,
    NewDelivery,
    Outcome,
    Secrets,
    Subscriber,
)
from staffbooking_core.domain.webhooks.url_safety import judge_url
from staffbooking_core.errors import NotFound, RuleBroken, SealBroken, invalid
from staffbooking_core.inputs import ChangeWebhook, CreateWebhook
from staffbooking_core.ports import NewEndpoint, Parcel, Ports, Writing
from staffbooking_core.representations.events import TEST_EVENT, envelope_of_test
from staffbooking_core.usecases.accounts.accounts import hold_caller
from staffbooking_core.usecases.accounts.api_keys import check_subscription
from staffbooking_core.usecases.webhooks import deliveries
from staffbooking_core.usecases.webhooks.deliveries import SEALED_FOR


async def register(ports: Ports, user: User, wanted: CreateWebhook) -> tuple[Endpoint, str]:
    """Register an endpoint: its record, and its secret, which is told this once.

    Raises Forbidden without an active enterprise subscription, InvalidField on `url` where
    its form or what its name stands for is refused, RuleBroken `too_many_webhooks`.
    """
    check_subscription(user, ports.clock.wall())
    await _check_url(ports, wanted.url)
    secret = ports.ids.webhook_secret()
    new = NewEndpoint(
        owner_id=user.id,
        url=wanted.url,
        events=frozenset(wanted.events or EVENTS),
        description=wanted.description or None,
        created_at=await ports.clock.business(),
    )

    async def unit(tx: Writing) -> Endpoint:
        await hold_caller(tx, user.id)
        limit = ports.policy.max_webhooks
        if len(await tx.webhooks.endpoints_of(user.id)) >= limit:
            raise RuleBroken("too_many_webhooks", f"A user has at most {limit} webhooks")
        added = await tx.webhooks.add_endpoint(new)
        endpoint = evolve(added, secrets=Secrets(_seal(ports, secret, added.id)))
        await tx.webhooks.save_endpoints([endpoint])
        return endpoint

    return await ports.store.write(unit), secret


async def _check_url(ports: Ports, url: str) -> None:
    try:
        host = judge_url(url, insecure=ports.policy.webhook_allow_insecure)
    except ValueError as error:
        raise invalid("url", str(error)) from None
    if await ports.sender.resolves_to_unsafe(host):
        raise invalid("url", "must be a public address")


def _seal(ports: Ports, secret: str, endpoint_id: int) -> bytes:
    return ports.vault.seal(SEALED_FOR, secret.encode(), endpoint_id)


async def listing(ports: Ports, user: User) -> Sequence[Endpoint]:
    """A person's endpoints, the oldest first."""
    async with ports.store.reading() as view:
        return await view.webhooks.endpoints_of(user.id)


async def all_of(ports: Ports, after_id: int, limit: int) -> Sequence[Subscriber]:
    """Everybody's endpoints in the order of ids, with their owners: for operators."""
    async with ports.store.reading() as view:
        return await view.webhooks.endpoints(after_id, limit)


async def authorize(ports: Ports, user: User | None, endpoint_id: int) -> None:
    """Raise NotFound unless the endpoint is this person's."""
    async with ports.store.reading() as view:
        _owned(await view.webhooks.endpoint(endpoint_id), user)


async def change(ports: Ports, user: User, endpoint_id: int, wanted: ChangeWebhook) -> Endpoint:
    """Change what is given, and nothing else. A paused endpoint's deliveries are held until
    it is active again."""

    async def work(tx: Writing, endpoint: Endpoint) -> Endpoint:
        if wanted.events is not None:
            endpoint = evolve(endpoint, events=frozenset(wanted.events))
        if wanted.description is not None:
            endpoint = evolve(endpoint, description=wanted.description or None)
        if wanted.active is None or wanted.active == endpoint.active:
            return endpoint
        return await _set_active(ports, tx, endpoint, active=wanted.active)

    return await _changed(ports, user, endpoint_id, work)


async def enable(ports: Ports, user: User | None, endpoint_id: int) -> Endpoint:
    """Make an endpoint active again, with a clean record; what was held is sent."""

    async def work(tx: Writing, endpoint: Endpoint) -> Endpoint:
        return await _set_active(ports, tx, endpoint, active=True)

    return await _changed(ports, user, endpoint_id, work)


async def _set_active(ports: Ports, tx: Writing, endpoint: Endpoint, *, active: bool) -> Endpoint:
    now = ports.clock.wall()
    if not active:
        await tx.webhooks.hold(endpoint.id, now)
        return endpoint.paused()
    endpoint = endpoint.enabled()
    if await _is_served(tx, endpoint, now):
        await tx.webhooks.resume(endpoint.id, now)
    return endpoint


async def delete(ports: Ports, user: User, endpoint_id: int) -> None:
    """Delete an endpoint: nothing is sent to it any more, its secrets are forgotten."""

    async def work(tx: Writing, endpoint: Endpoint) -> Endpoint:
        now = ports.clock.wall()
        await tx.webhooks.cancel(endpoint.id, now)
        return _deleted(endpoint, now)

    await _changed(ports, user, endpoint_id, work)


async def forget_endpoint(tx: Writing, endpoint_id: int, now: datetime) -> None:
    """Delete an endpoint of a person who is erased, with where it led."""
    if (endpoint := await tx.webhooks.lock_endpoint(endpoint_id)) is not None:
        await tx.webhooks.cancel(endpoint_id, now)
        nowhere = evolve(_deleted(endpoint, now), url="https://erased.invalid", description=None)
        await tx.webhooks.save_endpoints([nowhere])


def _deleted(endpoint: Endpoint, now: datetime) -> Endpoint:
    return evolve(endpoint, active=False, deleted_at=now, secrets=Secrets(b""))


async def rotate_secret(ports: Ports, user: User, endpoint_id: int) -> tuple[str, datetime]:
    """Make a new secret, told this once, and say until when the old one signs as well: the
    published header stays with the old one until then, or until `activate_secret`."""
    now, secret = ports.clock.wall(), ports.ids.webhook_secret()
    overlap = ports.policy.webhook_secret_overlap

    async def work(tx: Writing, endpoint: Endpoint) -> Endpoint:
        sealed = _seal(ports, secret, endpoint.id)
        return evolve(endpoint, secrets=endpoint.secrets.rotated(sealed, now, overlap))

    await _changed(ports, user, endpoint_id, work)
    return secret, now + overlap


async def activate_secret(ports: Ports, user: User, endpoint_id: int) -> Endpoint:
    """End the rotation: the new secret alone signs. RuleBroken `no_rotation` without one."""
    now = ports.clock.wall()

    async def work(tx: Writing, endpoint: Endpoint) -> Endpoint:
        secrets = endpoint.secrets.activated(now)
        if secrets is None:
            raise RuleBroken("no_rotation", "No new secret waits to be activated")
        return evolve(endpoint, secrets=secrets)

    return await _changed(ports, user, endpoint_id, work)


@frozen
class Resealed:
    """What came of a batch of endpoints."""

    last_id: int
    """The last one that was looked at; 0 where there are no more."""
    changed: int
    broken: Sequence[int]
    """Those whose secrets no key opens: they stay as they are."""


async def reseal_secrets(ports: Ports, after_id: int, limit: int) -> Resealed:
    """Seal the secrets of a batch of endpoints with the key that seals now."""
    batch = [each.endpoint for each in await all_of(ports, after_id, limit)]
    changed, broken = 0, []
    for endpoint in batch:
        kept = endpoint.secrets.valid(ports.clock.wall())
        if all(map(ports.vault.is_current, kept)):
            continue
        try:
            await _changed(ports, None, endpoint.id, _resealing(ports))
            changed += 1
        except SealBroken:
            broken.append(endpoint.id)
        except NotFound:
            continue  # It was deleted meanwhile.
    return Resealed(batch[-1].id if batch else 0, changed, broken)


def _resealing(ports: Ports) -> Callable[[Writing, Endpoint], Awaitable[Endpoint]]:
    async def work(tx: Writing, endpoint: Endpoint) -> Endpoint:
        def renewed(sealed: bytes) -> bytes:
            secret = ports.vault.open(SEALED_FOR, sealed, endpoint.id)
            return ports.vault.seal(SEALED_FOR, secret, endpoint.id)

        old = endpoint.secrets.settled(ports.clock.wall())
        upcoming = None if old.next is None else renewed(old.next)
        return evolve(endpoint, secrets=Secrets(renewed(old.current), upcoming, old.next_from))

    return work


# Deliveries -------------------------------------------------------------------------------


@frozen
class Logged:
    """A delivery with its attempts, the oldest first."""

    delivery: Delivery
    attempts: Sequence[Attempt]


async def deliveries_of(
    ports: Ports, user: User | None, endpoint_id: int, page: int, limit: int
) -> tuple[Sequence[Logged], bool]:
    """A page of an endpoint's deliveries, the newest first, and whether more follow."""
    async with ports.store.reading() as view:
        _owned(await view.webhooks.endpoint(endpoint_id), user)
        found = await view.webhooks.deliveries(endpoint_id, page, limit)
    return [Logged(*each) for each in found[:limit]], len(found) > limit


async def redeliver(
    ports: Ports, user: User | None, delivery_id: int, endpoint_id: int | None = None
) -> Logged:
    """Send an event once more, with the same id and bytes: at once, or where its endpoint is
    not served, once it is. One that is still under way is left as it is. `endpoint_id` is the
    endpoint that it must be of, where that is known."""
    now = ports.clock.wall()

    async def unit(tx: Writing) -> Logged:
        known = await tx.webhooks.delivery(delivery_id)
        if known is None or endpoint_id not in (None, known.endpoint_id):
            raise NotFound("Delivery")
        endpoint = _owned(await tx.webhooks.lock_endpoint(known.endpoint_id), user, "Delivery")
        locked = await tx.webhooks.lock_deliveries([delivery_id])
        if not locked:  # Dropped just now: it was too old.
            raise NotFound("Delivery")
        delivery = locked[0]
        again = delivery.again(now, served=await _is_served(tx, endpoint, now))
        if again != delivery:
            await tx.webhooks.save_deliveries([again])
            if again.status is DeliveryStatus.PENDING:
                await tx.webhooks.wake(endpoint.id, now)
        return Logged(again, await tx.webhooks.attempts_of(delivery_id))

    return await ports.store.write(unit)


async def send_test(ports: Ports, user: User, endpoint_id: int) -> Logged:
    """Send a test event now, once: it is not tried again, and its failure counts nowhere."""
    event_id, created_at = ports.ids.event_id(), await ports.clock.business()
    envelope = envelope_of_test(event_id, endpoint_id, created_at)

    async def add(tx: Writing) -> tuple[str, Sequence[str], Parcel]:
        endpoint = _owned(await tx.webhooks.lock_endpoint(endpoint_id), user)
        secrets = deliveries.unsealed(ports, endpoint)
        # Cancelled is what it stays if this process ends before the outcome is known.
        status = DeliveryStatus.CANCELLED
        new = NewDelivery(endpoint.id, event_id, TEST_EVENT, created_at, status, None)
        return endpoint.url, secrets, await tx.webhooks.add_test(new, envelope)

    url, secrets, parcel = await ports.store.write(add)
    outcome = await deliveries.attempt(ports, url, secrets, parcel)
    return await ports.store.write(lambda tx: _log_test(tx, endpoint_id, parcel, outcome))


async def _log_test(tx: Writing, endpoint_id: int, parcel: Parcel, outcome: Outcome) -> Logged:
    endpoint = await tx.webhooks.lock_endpoint(endpoint_id)
    if endpoint is not None and outcome.error is None:
        await tx.webhooks.save_endpoints([evolve(endpoint, consecutive_failures=0)])
    (kept,) = await tx.webhooks.lock_deliveries([parcel.delivery.id])
    made = outcome.as_attempt(kept.attempts + 1)
    done = evolve(kept, attempts=made.number, tries=kept.tries + 1)
    if kept == parcel.delivery:  # Else it was ordered once more while it was under way.
        status = DeliveryStatus.SUCCEEDED if outcome.error is None else DeliveryStatus.FAILED
        done = evolve(done, status=status)
    await tx.webhooks.save_deliveries([done])
    await tx.webhooks.add_attempts([(done.id, made)])
    return Logged(done, [made])


# The pull feed ----------------------------------------------------------------------------


async def feed(
    ports: Ports, user: User, after: str | None, limit: int
) -> tuple[Sequence[bytes], bool]:
    """The user's own events beyond one of them, the oldest first, as encoded envelopes, and
    whether more follow. Admins read all events. RuleBroken `unknown_event` where `after` is
    none of the user's."""
    reader_id = None if user.role is Role.ADMIN else user.id
    async with ports.store.reading() as view:
        position = 0 if after is None else await view.webhooks.position(after, reader_id)
        if position is None:
            raise RuleBroken("unknown_event", "There is no such event in your feed")
        found = await view.webhooks.feed(reader_id, position, limit + 1)
    return found[:limit], len(found) > limit


# What all have in common ------------------------------------------------------------------


def _owned(endpoint: Endpoint | None, user: User | None, what: str = "Webhook") -> Endpoint:
    if endpoint is None or endpoint.deleted_at is not None:
        raise NotFound(what)
    if user is not None and endpoint.owner_id != user.id:
        raise NotFound(what)
    return endpoint


async def _is_served(tx: Writing, endpoint: Endpoint, now: datetime) -> bool:
    owner = await tx.accounts.user(endpoint.owner_id)
    return owner is not None and endpoint.is_served(owner, now)


async def _changed(
    ports: Ports,
    user: User | None,
    endpoint_id: int,
    work: Callable[[Writing, Endpoint], Awaitable[Endpoint]],
) -> Endpoint:
    """An endpoint after `work` on it, saved."""

    async def unit(tx: Writing) -> Endpoint:
        endpoint = _owned(await tx.webhooks.lock_endpoint(endpoint_id), user)
        endpoint = await work(tx, endpoint)
        await tx.webhooks.save_endpoints([endpoint])
        return endpoint

    return await ports.store.write(unit)
