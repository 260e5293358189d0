"""Operators' changes of accounts (CONTRACT 9, 10)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime

from attrs import evolve

from staffbooking_core.domain.accounts.users import PASSWORD_LENGTH_RANGE, Subscription, User
from staffbooking_core.domain.notifications.notifications import password_changed_notification
from staffbooking_core.errors import NotFound, invalid_field
from staffbooking_core.operator_inputs import CreateUser
from staffbooking_core.ports import NewUser, Ports, Transaction
from staffbooking_core.usecases.accounts.sessions import add_user
from staffbooking_core.validation import validated

__all__ = [
    "CreateUser",
    "create_user",
    "emails_of",
    "enable_user",
    "get_user",
    "get_user_by_id",
    "list_users",
    "list_users_after",
    "set_password",
    "set_subscription",
]


@validated
async def create_user(ports: Ports, command: CreateUser) -> User:
    """Create an account. Raises InvalidField on `email` if it is taken, or on `password`."""
    hashed = None if command.password is None else await _hash_password(ports, command.password)
    person = NewUser(
        email=command.email,
        first_name=command.first_name,
        last_name=command.last_name,
        role=command.role,
        created_at=await ports.clock.business(),
        password_hash=hashed,
        subscription=command.subscription,
    )
    return await add_user(ports, person)


async def _hash_password(ports: Ports, password: str) -> str:
    shortest, longest = PASSWORD_LENGTH_RANGE
    if not shortest <= len(password) <= longest:
        raise invalid_field("password", f"must have {shortest} to {longest} characters")
    return await ports.hasher.hash(password)


@validated
async def get_user(ports: Ports, email: str) -> User:
    """The account of an e-mail address. Raises NotFound."""
    async with ports.store.read_view() as view:
        found = await view.accounts.user_by_email(email)
    if found is None:
        raise NotFound("User")
    return found


@validated
async def get_user_by_id(ports: Ports, user_id: int) -> User:
    """An account by id. Raises NotFound."""
    async with ports.store.read_view() as view:
        found = await view.accounts.user(user_id)
    if found is None:
        raise NotFound("User")
    return found


@validated
async def list_users(ports: Ports, page: int = 1, limit: int = 50) -> Sequence[User]:
    """A page of all accounts by id, up to `limit + 1`."""
    async with ports.store.read_view() as view:
        return await view.accounts.users(0, limit + 1, (page - 1) * limit)


@validated
async def list_users_after(ports: Ports, after_id: int, limit: int) -> Sequence[User]:
    """Up to `limit` accounts above `after_id` by id."""
    async with ports.store.read_view() as view:
        return await view.accounts.users(after_id, limit)


@validated
async def emails_of(ports: Ports, user_ids: Collection[int]) -> Mapping[int, str]:
    """The e-mail addresses of these users, by id."""
    async with ports.store.read_view() as view:
        return await view.accounts.emails_of(user_ids)


@validated
async def set_subscription(
    ports: Ports, email: str, tier: Subscription, expires_at: datetime | None = None
) -> User:
    """Set the subscription of an account; it does not expire without `expires_at`. Raises
    NotFound."""

    async def change(_: Transaction, person: User) -> User:
        return evolve(person, subscription=tier, subscription_expires_at=expires_at)

    return await _update_user(ports, email, change)


@validated
async def enable_user(ports: Ports, email: str) -> User:
    """Enable a disabled account. Raises NotFound."""

    async def change(_: Transaction, person: User) -> User:
        return evolve(person, disabled_at=None)

    return await _update_user(ports, email, change)


@validated
async def set_password(ports: Ports, email: str, password: str) -> User:
    """Set a password. All sessions of the account end, and its owner is notified.

    Raises NotFound, and InvalidField on `password`.
    """
    hashed = await _hash_password(ports, password)

    async def change(tx: Transaction, person: User) -> User:
        await tx.accounts.end_sessions_of(person.id)
        await tx.notifications.add_notifications(
            [password_changed_notification(person.id)], ports.clock.wall()
        )
        return evolve(person, password_hash=hashed)

    return await _update_user(ports, email, change)


async def _update_user(
    ports: Ports, email: str, update: Callable[[Transaction, User], Awaitable[User]]
) -> User:
    async def unit(tx: Transaction) -> User:
        found = await tx.accounts.user_by_email(email)
        held = None if found is None else await tx.accounts.lock_user(found.id)
        if held is None or held.erased_at is not None:
            raise NotFound("User")
        changed = await update(tx, held)
        await tx.accounts.save_user(changed)
        return changed

    return await ports.store.run_transaction(unit)
