"""API keys of enterprise subscribers and admins (SPECIFICATION 4.1, CONTRACT 2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from attrs import evolve

from staffbooking_core.domain.accounts import api_keys
from staffbooking_core.domain.accounts.api_keys import ApiKey, Permission
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.errors import Forbidden, NotFound, RuleBroken, invalid_field
from staffbooking_core.inputs import CreateApiKey, RotateApiKey
from staffbooking_core.ports import NewApiKey, Ports, Transaction
from staffbooking_core.usecases.accounts.accounts import lock_caller
from staffbooking_core.validation import validated

__all__ = ["check_subscription", "create", "get_key", "list_keys", "revoke", "rotate"]


@validated
async def create(ports: Ports, user: User, command: CreateApiKey) -> tuple[str, ApiKey]:
    """Create an API key; returns the key itself, which is shown only once, and its record. Locks
    the owner, so that concurrent calls respect the limit.

    Raises Forbidden `subscription_required` without an active enterprise subscription, RuleBroken
    `too_many_keys` at the limit of active keys, and InvalidField on `expires_at`.
    """
    now = ports.clock.wall()
    check_subscription(user, now)
    key, new = await _make_key(
        ports, user, command.name, frozenset(command.permissions), command.expires_at
    )

    async def unit(tx: Transaction) -> ApiKey:
        await lock_caller(tx.accounts, user.id, user.role)
        _check_limit(ports, await tx.accounts.api_keys_of(user.id), now)
        return await tx.accounts.add_api_key(new)

    return key, await ports.store.run_transaction(unit)


@validated
async def rotate(
    ports: Ports, user: User, key_id: int, command: RotateApiKey
) -> tuple[str, ApiKey, ApiKey]:
    """Replace a key by a new one of the same name and permissions; returns the new key itself,
    which is shown only once, its record, and that of the old one. Both work until the overlap ends;
    without an overlap the old one is revoked. Locks the owner.

    Raises Forbidden `subscription_required`, NotFound, RuleBroken `key_not_active` where the old
    key no longer works and `too_many_keys` where both are one too many, and InvalidField on
    `expires_at`.
    """
    now = ports.clock.wall()
    check_subscription(user, now)
    old = await get_key(ports, user, key_id)
    key, new = await _make_key(ports, user, old.name, old.permissions, command.expires_at)
    overlap = timedelta(hours=command.overlap_hours)

    async def unit(tx: Transaction) -> tuple[ApiKey, ApiKey]:
        await lock_caller(tx.accounts, user.id, user.role)
        keys = {each.id: each for each in await tx.accounts.api_keys_of(user.id)}
        if key_id not in keys:
            raise NotFound("API key")
        replaced = keys[key_id]
        if not replaced.is_active(now):
            raise RuleBroken("key_not_active", "This key no longer works: create a new one")
        if overlap:
            replaced = replaced.retire(now + overlap)
            await tx.accounts.save_api_key_expiry(replaced)
        else:
            replaced = evolve(replaced, revoked_at=now)
            await tx.accounts.revoke_api_key(key_id, now)
        _check_limit(ports, [*(keys | {key_id: replaced}).values()], now)
        return await tx.accounts.add_api_key(new), replaced

    added, replaced = await ports.store.run_transaction(unit)
    return key, added, replaced


async def _make_key(
    ports: Ports, user: User, name: str, permissions: frozenset[Permission], expires_at: str | None
) -> tuple[str, NewApiKey]:
    """A new key and its record. Raises InvalidField on `expires_at`."""
    until = _parse_expiry(expires_at, ports.clock.wall())
    key = api_keys.build_api_key(ports.ids.api_key_body())
    return key, NewApiKey(
        owner_id=user.id,
        name=name,
        digest=api_keys.digest_api_key(key),
        masked_key=api_keys.mask_api_key(key),
        permissions=permissions,
        created_at=await ports.clock.business(),
        expires_at=until,
    )


def _check_limit(ports: Ports, keys: Sequence[ApiKey], now: datetime) -> None:
    """Check that there is place for another key. Raises RuleBroken `too_many_keys`."""
    limit = ports.policy.max_active_keys
    if sum(key.is_active(now) for key in keys) >= limit:
        raise RuleBroken("too_many_keys", f"An account has at most {limit} active keys")


def check_subscription(user: User, now: datetime) -> None:
    """Check that a user may use API keys and webhooks. Raises Forbidden `subscription_required`."""
    if not user.has_api_access(now):
        raise Forbidden("subscription_required", "An active enterprise subscription is required")


def _parse_expiry(text: str | None, now: datetime) -> datetime | None:
    expires_at = None if text is None else datetime.fromisoformat(text)
    if expires_at is not None and expires_at <= now:
        raise invalid_field("expires_at", "must lie in the future")
    return expires_at


@validated
async def list_keys(ports: Ports, user: User) -> Sequence[ApiKey]:
    """All API keys of a user, revoked ones too, the newest first."""
    async with ports.store.read_view() as view:
        return await view.accounts.api_keys_of(user.id)


@validated
async def get_key(ports: Ports, user: User, key_id: int) -> ApiKey:
    """An API key of the user. Raises NotFound."""
    async with ports.store.read_view() as view:
        key = await view.accounts.api_key(key_id)
    if key is None or (key.owner_id != user.id):
        raise NotFound("API key")
    return key


@validated
async def revoke(ports: Ports, user: User | None, key_id: int) -> None:
    """Revoke an API key for good. `user` None is an operator, who may revoke any key.

    Raises NotFound.
    """
    now = ports.clock.wall()

    async def unit(tx: Transaction) -> None:
        key = await tx.accounts.api_key(key_id)
        if key is None or (user is not None and key.owner_id != user.id):
            raise NotFound("API key")
        await tx.accounts.revoke_api_key(key_id, now)

    await ports.store.run_transaction(unit)
