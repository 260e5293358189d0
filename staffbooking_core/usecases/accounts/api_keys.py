"""API keys of enterprise subscribers and admins (SPECIFICATION 4.1, CONTRACT 2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from staffbooking_core.domain.accounts import api_keys
from staffbooking_core.domain.accounts.api_keys import ApiKey
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.errors import Forbidden, NotFound, RuleBroken, invalid_field
from staffbooking_core.inputs import CreateApiKey
from staffbooking_core.ports import NewApiKey, Ports, Transaction
from staffbooking_core.usecases.accounts.accounts import lock_caller
from staffbooking_core.validation import validated


@validated
async def create(ports: Ports, user: User, command: CreateApiKey) -> tuple[str, ApiKey]:
    """Create an API key; returns the key itself, which is shown only once, and its record. Locks
    the owner, so that concurrent calls respect the limit.

    Raises Forbidden `subscription_required` without an active enterprise subscription, RuleBroken
    `too_many_keys` at the limit of active keys, and InvalidField on `expires_at`.
    """
    now = ports.clock.wall()
    check_subscription(user, now)
    expires_at = _parse_expiry(command.expires_at, now)
    key = api_keys.build_api_key(ports.ids.api_key_body())
    new = NewApiKey(
        owner_id=user.id,
        name=command.name,
        digest=api_keys.digest_api_key(key),
        masked_key=api_keys.mask_api_key(key),
        permissions=frozenset(command.permissions),
        created_at=await ports.clock.business(),
        expires_at=expires_at,
    )

    async def unit(tx: Transaction) -> ApiKey:
        await lock_caller(tx.accounts, user.id)
        active = [key for key in await tx.accounts.api_keys_of(user.id) if key.is_active(now)]
        if len(active) >= ports.policy.max_active_keys:
            limit = ports.policy.max_active_keys
            raise RuleBroken("too_many_keys", f"An account has at most {limit} active keys")
        return await tx.accounts.add_api_key(new)

    return key, await ports.store.run_transaction(unit)


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
async def authorize(ports: Ports, user: User, key_id: int) -> None:
    """Check that an API key is the user's. Raises NotFound."""
    async with ports.store.read_view() as view:
        key = await view.accounts.api_key(key_id)
    if key is None or (key.owner_id != user.id):
        raise NotFound("API key")


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
