"""Administration of accounts and companions by operators, through the CLI (CONTRACT 9)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from enum import StrEnum

from attrs import evolve, field, frozen

from staffbooking_core.domain.accounts.users import PASSWORD_LENGTH_RANGE, Role, Subscription, User
from staffbooking_core.domain.bookings.booking import (
    OPEN_PAYOUT_STATUSES,
    UNPAID_PAYOUT_STATUSES,
    Booking,
    TransitionInput,
)
from staffbooking_core.domain.bookings.lifecycle import (
    CANCELLABLE_STATUSES,
    BookingStatus,
    Party,
    Trigger,
)
from staffbooking_core.domain.companions.companion import Approval, Companion, missing_fields
from staffbooking_core.domain.companions.portfolio import PortfolioItem, PortfolioItemStatus
from staffbooking_core.domain.notifications.notifications import password_changed_notification
from staffbooking_core.errors import (
    NotFound,
    RuleBroken,
    invalid_field,
)
from staffbooking_core.ports import BookingQuery, BookingsReadPort, NewUser, Ports, Transaction
from staffbooking_core.usecases.accounts.sessions import add_user
from staffbooking_core.usecases.booking_writes import advance_booking

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


async def get_user(ports: Ports, email: str) -> User:
    """The account of an e-mail address. Raises NotFound."""
    async with ports.store.read_view() as view:
        found = await view.accounts.user_by_email(email)
    if found is None:
        raise NotFound("User")
    return found


async def list_users(ports: Ports, after_id: int = 0, limit: int = 100) -> Sequence[User]:
    """A page of accounts above `after_id`, by id."""
    async with ports.store.read_view() as view:
        return await view.accounts.users(after_id, limit)


async def set_subscription(
    ports: Ports, email: str, tier: Subscription, expires_at: datetime | None = None
) -> User:
    """Set the subscription of an account; it does not expire without `expires_at`. Raises
    NotFound."""

    async def change(_: Transaction, person: User) -> User:
        return evolve(person, subscription=tier, subscription_expires_at=expires_at)

    return await _update_user(ports, email, change)


async def enable_user(ports: Ports, email: str) -> User:
    """Enable a disabled account. Raises NotFound."""

    async def change(_: Transaction, person: User) -> User:
        return evolve(person, disabled_at=None)

    return await _update_user(ports, email, change)


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


# Disabling accounts ---------------------------------------------------------------------
#
# 1. The account is disabled in one transaction, together with the check that a decision was made
#    about bookings that are accepted or paid: no new booking of it begins after that.
# 2. Each of its open bookings is followed up in a transaction of its own. A repeated call goes on
#    where an interrupted one ended.
#
# Payouts that become due later are held by `booking_writes.hold_disabled_payout`.

_BATCH_SIZE = 100


class BookingsDecision(StrEnum):
    """What becomes of accepted and paid bookings that have not ended."""

    CANCEL = "cancel"
    """They are cancelled with a full refund, as an admin does it."""
    KEEP = "keep"
    """They go on; payouts to the account are held."""


@frozen
class Obligations:
    """What hangs on an account, by id."""

    bookings: tuple[Booking, ...]
    """Its bookings that are pending, accepted or paid, as the customer or the companion."""
    payouts: tuple[Booking, ...]
    """The bookings whose payout it expects: scheduled, failed or on hold."""

    def need_decision(self, now: datetime) -> bool:
        return any(_is_ahead(booking, now) for booking in self.bookings)


class BookingsAhead(RuleBroken):
    """Accepted or paid bookings are ahead, and nobody decided about them."""

    def __init__(self, obligations: Obligations) -> None:
        self.obligations = obligations
        super().__init__(
            "bookings_ahead", "Accepted or paid bookings are ahead: cancel them or keep them"
        )


@frozen
class DisabledAccount:
    """A disabled account, and its open bookings after that."""

    user: User
    obligations: Obligations
    cancelled: tuple[Booking, ...]
    """The bookings that ended with it: requests, and what was cancelled by the decision."""


def _is_ahead(booking: Booking, now: datetime) -> bool:
    """Whether it is accepted or paid, and has not ended."""
    is_confirmed = booking.status in (BookingStatus.ACCEPTED, BookingStatus.PAID)
    return is_confirmed and booking.ends_at > now


async def find_obligations(ports: Ports, user_id: int) -> Obligations:
    """What hangs on an account; nothing for an unknown one."""
    async with ports.store.read_view() as view:
        return await _obligations_of(view.bookings, user_id)


async def _obligations_of(bookings: BookingsReadPort, user_id: int) -> Obligations:
    found: list[Booking] = []
    while page := await bookings.open_bookings_of(
        user_id, found[-1].id if found else 0, _BATCH_SIZE
    ):
        found += page
    return _sort_obligations(found, user_id)


def _sort_obligations(found: Sequence[Booking], user_id: int) -> Obligations:
    return Obligations(
        tuple(one for one in found if one.status in CANCELLABLE_STATUSES),
        tuple(
            one
            for one in found
            if one.companion_id == user_id and one.payout_status in OPEN_PAYOUT_STATUSES
        ),
    )


async def disable_user(
    ports: Ports,
    email: str,
    decision: BookingsDecision | None = None,
    reason: str | None = None,
    actor_id: int | None = None,
) -> DisabledAccount:
    """Disable an account: its sessions and API keys stop at once, its companion is not listed.
    Its requests end (`party_disabled`), its payouts are put on hold until an operator releases
    them, and its accepted and paid bookings that have not ended are cancelled with a full refund,
    or go on. Safe to repeat.

    `reason` is for the operators: it is in the alerts of held payouts. `actor_id` is the id of the
    admin, if one is signed in. Raises NotFound, and BookingsAhead (`bookings_ahead`) where a
    decision is needed: nothing is changed then.
    """
    wall, now = ports.clock.wall(), await ports.clock.business()

    async def unit(tx: Transaction) -> tuple[User, Obligations]:
        found = await tx.accounts.user_by_email(email)
        held = None if found is None else await tx.accounts.lock_user(found.id)
        if held is None or held.erased_at is not None:
            raise NotFound("User")
        obligations = await _obligations_of(tx.bookings, held.id)
        if decision is None and obligations.need_decision(now):
            raise BookingsAhead(obligations)
        user = evolve(held, disabled_at=held.disabled_at or wall)
        await tx.accounts.end_sessions_of(user.id)
        await tx.accounts.save_user(user)
        return user, obligations

    user, obligations = await ports.store.run_transaction(unit)
    follow_up = _FollowUp(ports, user.id, decision, reason, actor_id, now)
    known = {one.id for one in (*obligations.bookings, *obligations.payouts)}
    after = [await follow_up.apply(booking_id) for booking_id in sorted(known)]
    return DisabledAccount(
        user,
        _sort_obligations([one for one in after if one.is_open_for(user.id)], user.id),
        tuple(one for one in after if one.cancel_reason == "party_disabled"),
    )


@frozen
class _FollowUp:
    """What a disabled account means for each of its bookings."""

    ports: Ports
    user_id: int
    decision: BookingsDecision | None
    reason: str | None
    actor_id: int | None
    now: datetime

    async def apply(self, booking_id: int) -> Booking:
        """End the booking, or hold its payout, as its present state demands. Locks it. Returns it
        after that."""

        async def unit(tx: Transaction) -> Booking:
            booking = await tx.bookings.lock_booking(booking_id)
            assert booking is not None, "bookings are never deleted"
            transition_input = self._transition_for(booking)
            if transition_input is None:
                return booking
            return await advance_booking(tx, self.ports, booking, transition_input)

        return await self.ports.store.run_transaction(unit)

    def _transition_for(self, booking: Booking) -> TransitionInput | None:
        if booking.status is BookingStatus.PENDING:
            return TransitionInput(Trigger.PARTY_DISABLED, Party.SYSTEM, self.now)
        # A request that was accepted meanwhile ends too where nobody decided to keep bookings.
        if _is_ahead(booking, self.now) and self.decision is not BookingsDecision.KEEP:
            return TransitionInput(
                Trigger.PARTY_DISABLED,
                Party.ADMIN,
                self.now,
                disabled_party=booking.party_of(self.user_id),
                actor_id=self.actor_id,
            )
        is_payee = booking.companion_id == self.user_id
        if is_payee and booking.payout_status in UNPAID_PAYOUT_STATUSES:
            return TransitionInput(
                Trigger.HOLD_PAYOUT,
                Party.ADMIN,
                self.now,
                reason=f"the account was disabled: {self.reason or 'no reason'}",
                actor_id=self.actor_id,
            )
        return None


# Companions -----------------------------------------------------------------------------


async def list_companions(ports: Ports, after_id: int = 0, limit: int = 100) -> Sequence[Companion]:
    """A page of companions above `after_id`, listed or not, by id."""
    async with ports.store.read_view() as view:
        return await view.companions.companions(after_id, limit)


async def set_approval(ports: Ports, companion_id: int, approval: Approval) -> Companion:
    """Approve or suspend a companion: only approved ones are listed and can be booked. Locks the
    companion.

    Raises NotFound, and RuleBroken `profile_incomplete` where an approval lacks profile fields.
    """

    async def unit(tx: Transaction) -> Companion:
        companion = await tx.companions.lock_companion(companion_id)
        if companion is None:
            raise NotFound("Companion")
        if approval is Approval.APPROVED and (lacking := missing_fields(companion)):
            fields = ", ".join(lacking)
            raise RuleBroken("profile_incomplete", f"The profile has no {fields} yet")
        changed = evolve(companion, approval=approval)
        await tx.companions.save_companion(changed)
        return changed

    return await ports.store.run_transaction(unit)


async def list_portfolio_items(
    ports: Ports, status: PortfolioItemStatus | None = None, after_id: int = 0, limit: int = 100
) -> Sequence[PortfolioItem]:
    """A page of all companions' portfolio items above `after_id`, by id."""
    async with ports.store.read_view() as view:
        return await view.portfolio.portfolio_items(status, after_id, limit)


async def moderate_item(ports: Ports, item_id: int, status: PortfolioItemStatus) -> PortfolioItem:
    """Approve or reject a portfolio item: only approved ones are shown to others. Repeating a
    decision changes nothing. Locks the companion. Raises NotFound."""

    async def unit(tx: Transaction) -> PortfolioItem:
        item = await tx.portfolio.portfolio_item(item_id)
        owner_id = 0 if item is None else item.companion_id
        companion = await tx.companions.lock_companion(owner_id)
        # Read again: its owner may have removed it before the companion was locked.
        item = await tx.portfolio.portfolio_item(item_id)
        if companion is None or item is None:
            raise NotFound("Portfolio item")
        if item.status is not status:
            item = evolve(item, status=status)
            await tx.portfolio.save_portfolio_item(item)
            await tx.companions.save_companion(companion)
        return item

    return await ports.store.run_transaction(unit)


# Bookings and payouts -------------------------------------------------------------------


async def list_bookings(
    ports: Ports, status: BookingStatus | None = None, page: int = 1, limit: int = 50
) -> Sequence[Booking]:
    """A page of all bookings, the newest event first, up to `limit + 1`."""
    query = BookingQuery(user_id=None, status=status, page=page, limit=limit)
    async with ports.store.read_view() as view:
        return await view.bookings.bookings(query)


async def list_payouts(ports: Ports, limit: int = 100) -> Sequence[Booking]:
    """Up to `limit` bookings whose payout is scheduled, failed or frozen, the earliest due
    first."""
    async with ports.store.read_view() as view:
        return await view.bookings.open_payouts(limit)
