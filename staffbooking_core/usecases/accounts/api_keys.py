"""API keys of enterprise subscribers and admins (SPECIFICATION 4.1, CONTRACT 2)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from staffbooking_core.domain.accounts import api_keys
from staffbooking_core.domain.accounts.api_keys import ApiKey
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.errors import Forbidden, NotFound, RuleBroken, invalid
from staffbooking_core.inputs import CreateKey
from staffbooking_core.ports import NewKey, Ports, Writing
from staffbooking_core.usecases.accounts.accounts import hold_caller


async def create(ports: Ports, user: User, wanted: CreateKey) -> tuple[str, ApiKey]:
    """Make a key: the key itself, told this once, and its record.

    Raises Forbidden without an active enterprise subscription, RuleBroken
    `too_many_keys` where the account has its full number of active ones.
    """
    now = ports.clock.wall()
    check_subscription(user, now)
    expires_at = _expiry(wanted.expires_at, now)
    key = api_keys.mint(ports.ids.key_body())
    new = NewKey(
        owner_id=user.id,
        name=wanted.name,
        digest=api_keys.digest(key),
        masked_key=api_keys.mask(key),
        permissions=frozenset(wanted.permissions),
        created_at=await ports.clock.business(),
        expires_at=expires_at,
    )

    async def unit(tx: Writing) -> ApiKey:
        await hold_caller(tx, user.id)
        active = [key for key in await tx.accounts.keys_of(user.id) if key.is_active(now)]
        if len(active) >= ports.policy.max_active_keys:
            limit = ports.policy.max_active_keys
            raise RuleBroken("too_many_keys", f"An account has at most {limit} active keys")
        return await tx.accounts.add_key(new)

    return key, await ports.store.write(unit)


def check_subscription(user: User, now: datetime) -> None:
    """Raise Forbidden unless this person's keys and webhooks work."""
    if not user.may_use_api(now):
        raise Forbidden("subscription_required", "An active enterprise subscription is required")


def _expiry(text: str | None, now: datetime) -> datetime | None:
    expires_at = None if text is None else datetime.fromisoformat(text)
    if expires_at is not None and expires_at <= now:
        raise invalid("expires_at", "must lie in the future")
    return expires_at


async def listing(ports: Ports, user: User) -> Sequence[ApiKey]:
    """All keys of a person, revoked ones too, the newest first."""
    async with ports.store.reading() as view:
        return await view.accounts.keys_of(user.id)


async def authorize(ports: Ports, user: User, key_id: int) -> None:
    """Raise NotFound unless the key is this person's."""
    async with ports.store.reading() as view:
        key = await view.accounts.key(key_id)
    if key is None or (key.owner_id != user.id):
        raise NotFound("API key")


async def revoke(ports: Ports, user: User | None, key_id: int) -> None:
    """End a key for good; None stands for an operator, who may end anybody's."""
    now = ports.clock.wall()

    async def unit(tx: Writing) -> None:
        key = await tx.accounts.key(key_id)
        if key is None or (user is not None and key.owner_id != user.id):
            raise NotFound("API key")
        await tx.accounts.revoke_key(key_id, now)

    await ports.store.write(unit)
