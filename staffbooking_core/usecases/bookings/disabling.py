"""Disabling an account, and what becomes of its bookings and payouts (CONTRACT 10).

1. The account is disabled in one transaction, together with the check that a decision was made
   about bookings that are accepted or paid: no new booking of it begins after that.
2. Each of its open bookings is followed up in a transaction of its own. A repeated call goes on
   where an interrupted one ended.

A payout that becomes due later, or would be sent before step 2 has held it, is held by
`booking_writes.hold_disabled_payout`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_core.domain.accounts.users import User
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
from staffbooking_core.domain.reconciliation.state import record_fact
from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.inputs import ShortText
from staffbooking_core.operator_inputs import BookingsOfDisabled
from staffbooking_core.ports import BookingsReadPort, Ports, Transaction
from staffbooking_core.usecases.booking_writes import advance_booking, save_transition
from staffbooking_core.validation import validated

__all__ = [
    "BookingsAhead",
    "DisabledAccount",
    "Obligations",
    "disable_user",
    "find_obligations",
]

_BATCH_SIZE = 100


@frozen
class Obligations:
    """What hangs on an account, by id."""

    bookings: tuple[Booking, ...]
    """Its bookings that are pending, accepted or paid, as the customer or the companion."""
    payouts: tuple[Booking, ...]
    """The bookings whose payout it expects: scheduled, failed or on hold."""

    def need_decision(self, now: datetime) -> bool:
        """Whether an accepted or paid booking is ahead (`now` is business time)."""
        return bool(self.ahead(now))

    def ahead(self, now: datetime) -> Sequence[Booking]:
        """The accepted and paid bookings that have not ended: a decision is needed about them."""
        return [booking for booking in self.bookings if _is_ahead(booking, now)]


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


@validated
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


@validated
async def disable_user(
    ports: Ports,
    email: str,
    decision: BookingsOfDisabled | None = None,
    reason: ShortText | None = None,
    actor_id: int | None = None,
) -> DisabledAccount:
    """Disable an account: its sessions and API keys stop at once, its companion is not listed.
    Its requests end (`party_disabled`), its payouts are put on hold until an operator releases
    them, and its accepted and paid bookings that have not ended are cancelled with a full refund,
    or go on. Safe to repeat.

    `reason` is for the operators: it is in the alerts of held payouts. `actor_id` is the id of the
    admin, if one is signed in. Raises NotFound, RuleBroken `own_account` where the admin's own
    account is meant, and BookingsAhead (`bookings_ahead`) where a decision is needed: nothing is
    changed then.
    """
    wall, now = ports.clock.wall(), await ports.clock.business()

    async def unit(tx: Transaction) -> tuple[User, Obligations]:
        found = await tx.accounts.user_by_email(email)
        held = None if found is None else await tx.accounts.lock_user(found.id)
        if held is None or held.erased_at is not None:
            raise NotFound("User")
        if held.id == actor_id:  # The session would end, and perhaps nobody could undo it.
            raise RuleBroken("own_account", "Nobody can disable their own account")
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
    decision: BookingsOfDisabled | None
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
                return await self._forget_release(tx, booking)
            return await advance_booking(tx, self.ports, booking, transition_input)

        return await self.ports.store.run_transaction(unit)

    async def _forget_release(self, tx: Transaction, booking: Booking) -> Booking:
        """The payout of a disputed booking can't be held: its release before counts no more when
        the dispute is withdrawn."""
        if booking.companion_id != self.user_id or not booking.payout_hold_lifted:
            return booking
        result = record_fact(booking, payout_hold_lifted=False)
        return await save_transition(tx, self.ports, booking, result, self.now)

    def _transition_for(self, booking: Booking) -> TransitionInput | None:
        if booking.status is BookingStatus.PENDING:
            return TransitionInput(Trigger.PARTY_DISABLED, Party.SYSTEM, self.now)
        # A request that was accepted meanwhile ends too where nobody decided to keep bookings.
        if _is_ahead(booking, self.now) and self.decision is not BookingsOfDisabled.KEEP:
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
