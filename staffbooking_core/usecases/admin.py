"""What operators do with accounts and companions, by the CLI (CONTRACT 9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from attrs import evolve, field, frozen

from staffbooking_core.domain.accounts import PASSWORD_LENGTH, Role, Subscription, User
from staffbooking_core.domain.bookings import Booking
from staffbooking_core.domain.calendar import Calendar, Override, Slot, WeeklySlot, parse_hhmm
from staffbooking_core.domain.companions import Approval, Companion
from staffbooking_core.domain.lifecycle import Status
from staffbooking_core.errors import NotFound, RuleBroken, StaffbookingError, invalid
from staffbooking_core.inputs import ImportedCompanion, ImportedSlot
from staffbooking_core.ports import BookingQuery, NewUser, Ports, Writing
from staffbooking_core.usecases.sessions import add_user

# Users ----------------------------------------------------------------------------------


@frozen(kw_only=True)
class CreateUser:
    """A new account of any role; without a password nobody can sign in until one is set."""

    email: str
    first_name: str
    last_name: str
    role: Role
    password: str | None = field(default=None, repr=False)
    subscription: Subscription = Subscription.NONE


async def create_user(ports: Ports, wanted: CreateUser) -> User:
    """Make an account. Raises InvalidField for a taken e-mail or a bad password."""
    hashed = None if wanted.password is None else await _hashed(ports, wanted.password)
    person = NewUser(
        email=wanted.email,
        first_name=wanted.first_name,
        last_name=wanted.last_name,
        role=wanted.role,
        created_at=await ports.clock.business(),
        password_hash=hashed,
        subscription=wanted.subscription,
    )
    return await add_user(ports, person)


async def _hashed(ports: Ports, password: str) -> str:
    shortest, longest = PASSWORD_LENGTH
    if not shortest <= len(password) <= longest:
        raise invalid("password", f"must have {shortest} to {longest} characters")
    return await ports.hasher.hash(password)


async def user(ports: Ports, email: str) -> User:
    """The account of an e-mail address."""
    async with ports.store.reading() as view:
        found = await view.accounts.user_by_email(email)
    if found is None:
        raise NotFound("User")
    return found


async def users(ports: Ports, after_id: int = 0, limit: int = 100) -> Sequence[User]:
    """A page of accounts, in the order of ids."""
    async with ports.store.reading() as view:
        return await view.accounts.users(after_id, limit)


async def subscribe(
    ports: Ports, email: str, tier: Subscription, expires_at: datetime | None = None
) -> User:
    """Set the subscription of an account, with no end unless one is given."""

    async def change(_: Writing, person: User) -> User:
        return evolve(person, subscription=tier, subscription_expires_at=expires_at)

    return await _change_user(ports, email, change)


async def disable(ports: Ports, email: str) -> User:
    """Lock an account: its sessions and keys stop at once, its companion is not listed."""
    now = ports.clock.wall()

    async def change(tx: Writing, person: User) -> User:
        await tx.accounts.end_sessions_of(person.id)
        return evolve(person, disabled_at=person.disabled_at or now)

    return await _change_user(ports, email, change)


async def enable(ports: Ports, email: str) -> User:
    """Open a locked account again."""

    async def change(_: Writing, person: User) -> User:
        return evolve(person, disabled_at=None)

    return await _change_user(ports, email, change)


async def set_password(ports: Ports, email: str, password: str) -> User:
    """Set a password; every session of the account ends."""
    hashed = await _hashed(ports, password)

    async def change(tx: Writing, person: User) -> User:
        await tx.accounts.end_sessions_of(person.id)
        return evolve(person, password_hash=hashed)

    return await _change_user(ports, email, change)


async def _change_user(
    ports: Ports, email: str, change: Callable[[Writing, User], Awaitable[User]]
) -> User:
    async def unit(tx: Writing) -> User:
        found = await tx.accounts.user_by_email(email)
        held = None if found is None else await tx.accounts.lock_user(found.id)
        if held is None:
            raise NotFound("User")
        changed = await change(tx, held)
        await tx.accounts.save_user(changed)
        return changed

    return await ports.store.write(unit)


# Companions -----------------------------------------------------------------------------


async def companions(ports: Ports, after_id: int = 0, limit: int = 100) -> Sequence[Companion]:
    """A page of companions, listed or not, in the order of ids."""
    async with ports.store.reading() as view:
        return await view.companions.companions(after_id, limit)


async def approve(ports: Ports, companion_id: int, approval: Approval) -> Companion:
    """Approve or suspend a companion: only approved ones are found and booked."""

    async def unit(tx: Writing) -> Companion:
        companion = await tx.companions.lock_companion(companion_id)
        if companion is None:
            raise NotFound("Companion")
        changed = evolve(companion, approval=approval)
        await tx.companions.save_companion(changed)
        return changed

    return await ports.store.write(unit)


@frozen
class ImportCounts:
    imported: int
    updated: int
    refused: tuple[tuple[int, str], ...]
    """Rows of the batch, by their position, that could not go in, and why."""


async def import_companions(ports: Ports, rows: Sequence[ImportedCompanion]) -> ImportCounts:
    """Import a batch in one unit of work; an e-mail known already is updated.

    A row that can't be honoured is refused with its reason, and the rest goes in.
    """
    now = await ports.clock.business()
    ready: list[tuple[int, ImportedCompanion, str | None]] = []
    refused: list[tuple[int, str]] = []
    for position, row in enumerate(rows):
        try:
            _companion(row, 0, now, ports)
        except (StaffbookingError, ValueError) as error:
            refused.append((position, str(error)))
            continue
        hashed = None if row.password is None else await ports.hasher.hash(row.password)
        ready.append((position, row, hashed))

    async def unit(tx: Writing) -> ImportCounts:
        updated = 0
        wrong = list(refused)
        for position, row, hashed in ready:
            try:
                updated += await _import_row(tx, ports, row, hashed, now)
            except RuleBroken as error:
                wrong.append((position, error.message))
        imported = len(rows) - len(wrong) - updated
        return ImportCounts(imported, updated, tuple(sorted(wrong)))

    return await ports.store.write(unit)


async def _import_row(
    tx: Writing, ports: Ports, row: ImportedCompanion, hashed: str | None, now: datetime
) -> bool:
    person = await tx.accounts.user_by_email(row.email)
    if person is None:
        new = NewUser(row.email, row.first_name, row.last_name, Role.STAFF, now, hashed)
        person = await tx.accounts.add_user(new)
        await tx.companions.save_companion(_companion(row, person.id, now, ports))
        return False
    if person.role is not Role.STAFF:
        raise RuleBroken("not_staff", "email: belongs to an account that is not staff")
    named = evolve(person, first_name=row.first_name, last_name=row.last_name)
    await tx.accounts.save_user(evolve(named, password_hash=hashed or person.password_hash))
    active = person.disabled_at is None
    fresh = evolve(_companion(row, person.id, now, ports), active=active)
    if (known := await tx.companions.lock_companion(person.id)) is not None:
        fresh = evolve(
            fresh,
            member_since=known.member_since,
            rating_sum=known.rating_sum,
            total_reviews=known.total_reviews,
            years_experience=known.years_experience,
            approval=known.approval if not row.approved else Approval.APPROVED,
        )
    await tx.companions.save_companion(fresh)
    return True


def _companion(row: ImportedCompanion, user_id: int, now: datetime, ports: Ports) -> Companion:
    money = ports.policy.currency
    try:
        hourly = money.to_minor(row.hourly_rate)
    except ValueError as error:
        raise invalid("hourly_rate", str(error)) from None
    try:
        daily = None if row.daily_rate is None else money.to_minor(row.daily_rate)
    except ValueError as error:
        raise invalid("daily_rate", str(error)) from None
    return Companion(
        id=user_id,
        first_name=row.first_name,
        last_name=row.last_name,
        hourly_rate=hourly,
        daily_rate=daily,
        location_city=row.location_city,
        location_country=row.location_country,
        calendar=_calendar(row),
        member_since=now,
        tagline=row.tagline,
        bio=row.bio,
        profile_photo=row.profile_photo,
        service_types=row.service_types,
        languages=row.languages,
        tier=row.tier,
        badges=row.badges,
        approval=Approval.APPROVED if row.approved else Approval.PENDING,
        payout_account=row.payout_account,
    )


def _calendar(row: ImportedCompanion) -> Calendar:
    weekly = tuple(
        WeeklySlot(one.weekday, _slot(one, f"weekly.{position}"))
        for position, one in enumerate(row.weekly)
    )
    overrides = tuple(
        Override(
            one.date,
            tuple(
                _slot(slot, f"overrides.{position}.slots.{n}") for n, slot in enumerate(one.slots)
            ),
        )
        for position, one in enumerate(row.overrides)
    )
    if len({override.date for override in overrides}) < len(overrides):
        raise invalid("overrides", "names a date twice")
    return Calendar(row.timezone, weekly, overrides)


def _slot(given: ImportedSlot, field: str) -> Slot:
    start, end = parse_hhmm(given.start), parse_hhmm(given.end, ending=True)
    if start >= end:
        raise invalid(field, "start must be before end")
    return Slot(start, end)


# Bookings and payouts -------------------------------------------------------------------


async def bookings(
    ports: Ports, status: Status | None = None, page: int = 1, limit: int = 50
) -> Sequence[Booking]:
    """A page of all bookings, the newest event first, up to `limit + 1`."""
    query = BookingQuery(user_id=None, status=status, page=page, limit=limit)
    async with ports.store.reading() as view:
        return await view.bookings.bookings(query)


async def payouts(ports: Ports, limit: int = 100) -> Sequence[Booking]:
    """Bookings whose payout is scheduled, failed or frozen, the earliest due first."""
    async with ports.store.reading() as view:
        return await view.money.payouts(limit)
