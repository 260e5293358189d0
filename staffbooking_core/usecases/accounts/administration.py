"""Administration of accounts and companions by operators, through the CLI (CONTRACT 9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from datetime import datetime

from attrs import evolve, field, frozen

from staffbooking_core.domain.accounts.users import PASSWORD_LENGTH_RANGE, Role, Subscription, User
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.companion import (
    Approval,
    Companion,
    draft_companion,
    missing_fields,
)
from staffbooking_core.domain.companions.portfolio import PortfolioItem, PortfolioItemStatus
from staffbooking_core.domain.notifications.notifications import password_changed_notification
from staffbooking_core.errors import (
    NotFound,
    RuleBroken,
    invalid_field,
)
from staffbooking_core.ports import BookingQuery, NewUser, Ports, Transaction
from staffbooking_core.usecases.accounts.sessions import add_user
from staffbooking_core.validation import validated

__all__ = [
    "CreateUser",
    "create_user",
    "emails_of",
    "enable_user",
    "get_user",
    "get_user_by_id",
    "list_alerts",
    "list_bookings",
    "list_companions",
    "list_payouts",
    "list_portfolio_items",
    "list_users",
    "moderate_item",
    "set_approval",
    "set_password",
    "set_subscription",
]

# Users ----------------------------------------------------------------------------------


@frozen(kw_only=True)
class CreateUser:
    """A new account of any role. Without a password nobody can log in until one is set."""

    email: str
    first_name: str
    last_name: str
    role: Role
    password: str | None = field(default=None, repr=False)
    subscription: Subscription = Subscription.NONE


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
async def list_users(
    ports: Ports, after_id: int = 0, limit: int = 100, offset: int = 0
) -> Sequence[User]:
    """A page of accounts above `after_id`, after the first `offset` of them, by id."""
    async with ports.store.read_view() as view:
        return await view.accounts.users(after_id, limit, offset)


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


# Companions -----------------------------------------------------------------------------


@validated
async def list_companions(
    ports: Ports,
    after_id: int = 0,
    limit: int = 100,
    offset: int = 0,
    approval: Approval | None = None,
) -> Sequence[Companion]:
    """A page of companions above `after_id`, after the first `offset` of them, listed or not, by
    id; with an approval, those alone."""
    async with ports.store.read_view() as view:
        return await view.companions.companions(after_id, limit, offset, approval)


@validated
async def set_approval(ports: Ports, companion_id: int, approval: Approval) -> Companion:
    """Approve or suspend a companion, also a draft that is not stored yet: only approved ones are
    listed and can be booked. Locks the companion.

    Raises NotFound for whoever is no staff member, and RuleBroken `profile_incomplete` where an
    approval lacks profile fields.
    """

    async def unit(tx: Transaction) -> Companion:
        companion = await tx.companions.lock_companion(companion_id)
        if companion is None:
            user = await tx.accounts.lock_user(companion_id)  # Holds up their own first change.
            if user is None or user.role is not Role.STAFF or user.erased_at is not None:
                raise NotFound("Companion")
            companion = await tx.companions.lock_companion(user.id) or draft_companion(user)
        if approval is Approval.APPROVED and (lacking := missing_fields(companion)):
            fields = ", ".join(lacking)
            raise RuleBroken("profile_incomplete", f"The profile has no {fields} yet")
        changed = evolve(companion, approval=approval)
        await tx.companions.save_companion(changed)
        return changed

    return await ports.store.run_transaction(unit)


@validated
async def list_portfolio_items(
    ports: Ports,
    status: PortfolioItemStatus | None = None,
    after_id: int = 0,
    limit: int = 100,
    offset: int = 0,
) -> Sequence[PortfolioItem]:
    """A page of all companions' portfolio items above `after_id`, after the first `offset` of them,
    by id; with a status, those alone."""
    async with ports.store.read_view() as view:
        return await view.portfolio.portfolio_items(status, after_id, limit, offset)


@validated
async def moderate_item(
    ports: Ports, item_id: int, status: PortfolioItemStatus, reason: str | None = None
) -> PortfolioItem:
    """Approve or reject a portfolio item: only approved ones are shown to others, and the owner of
    a rejected one reads the reason. Repeating a decision changes nothing. Locks the companion.
    Raises NotFound."""
    rejection = (reason or "") if status is PortfolioItemStatus.REJECTED else ""

    async def unit(tx: Transaction) -> PortfolioItem:
        item = await tx.portfolio.portfolio_item(item_id)
        owner_id = 0 if item is None else item.companion_id
        companion = await tx.companions.lock_companion(owner_id)
        # Read again: its owner may have removed it before the companion was locked.
        item = await tx.portfolio.portfolio_item(item_id)
        if companion is None or item is None:
            raise NotFound("Portfolio item")
        if item.status is not status:
            item = evolve(item, status=status, rejection=rejection)
            await tx.portfolio.save_portfolio_item(item)
            await tx.companions.save_companion(companion)
        return item

    return await ports.store.run_transaction(unit)


# Bookings and payouts -------------------------------------------------------------------


@validated
async def list_bookings(
    ports: Ports, status: BookingStatus | None = None, page: int = 1, limit: int = 50
) -> Sequence[Booking]:
    """A page of all bookings, the newest event first, up to `limit + 1`."""
    query = BookingQuery(user_id=None, status=status, page=page, limit=limit)
    async with ports.store.read_view() as view:
        return await view.bookings.bookings(query)


@validated
async def list_payouts(
    ports: Ports, limit: int = 100, offset: int = 0, status: PayoutStatus | None = None
) -> Sequence[Booking]:
    """Up to `limit` bookings whose payout is scheduled, failed or frozen, after the first `offset`
    of them, the earliest due first; with one of these statuses, those alone."""
    async with ports.store.read_view() as view:
        return await view.bookings.open_payouts(limit, offset, status)


@validated
async def list_alerts(
    ports: Ports, limit: int = 100, offset: int = 0
) -> Sequence[tuple[datetime, int, str | None, str]]:
    """Wall time, booking id, booking code and text of up to `limit` alerts after the newest
    `offset`, the newest first."""
    async with ports.store.read_view() as view:
        alerts = await view.alerts.alerts(limit, offset)
        codes = await view.alerts.codes_of({booking_id for _, booking_id, _ in alerts})
    return [(at, booking_id, codes.get(booking_id), text) for at, booking_id, text in alerts]
