"""Disputes: opened, discussed and withdrawn by the parties, resolved by operators (CONTRACT 4, 10).

A dispute ends by a withdrawal, an operator's resolution or a verdict on a chargeback. Its deadline
only alerts the operators.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking, TransitionInput
from staffbooking_core.domain.bookings.disputes import (
    DISPUTE_PARTIES,
    NO_SHOW_REASON,
    Dispute,
    DisputeStatement,
    NewDisputeStatement,
    newest_dispute,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.bookings.transitions import apply_transition, check_party
from staffbooking_core.domain.notifications.bookings import statement_notification
from staffbooking_core.errors import Forbidden, NotFound, RuleBroken, invalid_field
from staffbooking_core.inputs import AddDisputeStatement, DisputeBooking
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.ports import DisputesReadPort, Ports, Transaction
from staffbooking_core.usecases.booking_writes import (
    Versions,
    advance_booking,
    hold_disabled_payout,
    lock_by_code,
    require_by_code,
    save_transition,
)
from staffbooking_core.usecases.bookings.parties import require_party
from staffbooking_core.validation import validated

__all__ = [
    "DisputeConversation",
    "add_statement",
    "authorize_party",
    "find_conversation",
    "get_dispute",
    "get_dispute_by_code",
    "list_disputes",
    "open_dispute",
    "report_no_show",
    "require_dispute_party",
    "resolve_dispute",
    "withdraw_dispute",
]


@frozen
class DisputeConversation:
    """The newest dispute of a booking with its statements, the oldest first."""

    booking: Booking
    dispute: Dispute
    statements: tuple[DisputeStatement, ...]


@validated
async def get_dispute(ports: Ports, actor: Actor, booking_id: int) -> DisputeConversation:
    """The newest dispute of a booking, for its parties, whoever booked it, and admins.

    Raises NotFound for a stranger, and where it was never disputed.
    """
    async with ports.store.read_view() as view:
        booking, _ = require_party(actor, await view.bookings.booking(booking_id))
        return _require_dispute(await find_conversation(view.disputes, booking))


@validated
async def get_dispute_by_code(ports: Ports, code: str) -> DisputeConversation:
    """As `get_dispute`, for operators. Raises NotFound."""
    async with ports.store.read_view() as view:
        booking = await require_by_code(view.bookings, code)
        return _require_dispute(await find_conversation(view.disputes, booking))


async def find_conversation(
    disputes: DisputesReadPort, booking: Booking
) -> DisputeConversation | None:
    """The newest dispute of a booking with its statements; None where it was never disputed."""
    dispute = newest_dispute(booking)
    if dispute is None:
        return None
    statements = await disputes.statements_of(booking.id, booking.dispute_number)
    return DisputeConversation(booking, dispute, tuple(statements))


def _require_dispute(found: DisputeConversation | None) -> DisputeConversation:
    if found is None:
        raise NotFound("Dispute")
    return found


def require_dispute_party(actor: Actor, booking: Booking | None) -> tuple[Booking, Party]:
    """The booking, and the side of the actor: customer or staff.

    Raises NotFound for a stranger, and Forbidden `wrong_party` for whoever only reads.
    """
    booking, party = require_party(actor, booking)
    if party not in DISPUTE_PARTIES:
        raise Forbidden("wrong_party", f"The {party} has no part in a dispute")
    return booking, party


@validated
async def authorize_party(ports: Ports, actor: Actor, booking_id: int) -> None:
    """Check that the actor may take part in a dispute of a booking, before the rest of the call is
    validated (CONTRACT 1).

    Raises NotFound for a stranger, and Forbidden `wrong_party`.
    """
    async with ports.store.read_view() as view:
        require_dispute_party(actor, await view.bookings.booking(booking_id))


# The parties ------------------------------------------------------------------------------


@validated
async def open_dispute(
    ports: Ports,
    actor: Actor,
    booking_id: int,
    command: DisputeBooking,
    allowed_versions: Versions = None,
) -> Booking:
    """Open a dispute (SPECIFICATION 3); the reason and its files are the first statement. The
    escrow is kept until the dispute ends. Locks the booking.

    Raises NotFound, Forbidden `wrong_party`, InvalidField on `files`, VersionMismatch, and
    RuleBroken `booking_not_disputable` or the code of a guard.
    """
    files = tuple(command.files)
    return await _open(
        ports, actor, booking_id, Trigger.DISPUTE, command.reason, files, allowed_versions
    )


@validated
async def report_no_show(
    ports: Ports, actor: Actor, booking_id: int, allowed_versions: Versions = None
) -> Booking:
    """Report that the staff member did not come (CONTRACT 10): a dispute with the reason `no_show`,
    and a priority rebooking for the customer. Locks the booking.

    Raises NotFound, Forbidden `wrong_party`, VersionMismatch, and RuleBroken `booking_not_paid`,
    `already_checked_in` or `no_show_not_open`.
    """
    return await _open(
        ports, actor, booking_id, Trigger.NO_SHOW, NO_SHOW_REASON, (), allowed_versions
    )


async def _open(
    ports: Ports,
    actor: Actor,
    booking_id: int,
    trigger: Trigger,
    reason: str,
    files: tuple[str, ...],
    allowed_versions: Versions,
) -> Booking:
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Booking:
        booking, party = require_party(actor, await tx.bookings.lock_booking(booking_id))
        check_party(booking.status, trigger, party)
        await _check_files(tx.disputes, booking, actor, files)
        transition_input = TransitionInput(
            trigger,
            party,
            now,
            reason=reason,
            actor_id=actor.user_id,
            allowed_versions=allowed_versions,
        )
        booking = await advance_booking(tx, ports, booking, transition_input)
        await tx.disputes.add_statement(_statement(booking, actor, party, reason, files, now))
        return booking

    return await ports.store.run_transaction(unit)


@validated
async def add_statement(
    ports: Ports, actor: Actor, booking_id: int, command: AddDisputeStatement
) -> DisputeConversation:
    """Add a party's statement to the open dispute, and notify the other party. Locks the booking.

    Raises NotFound, Forbidden `wrong_party`, InvalidField on `files`, and RuleBroken
    `booking_not_disputed` or `too_many_statements`.
    """
    now = await ports.clock.business()
    files = tuple(command.files)

    async def unit(tx: Transaction) -> DisputeConversation:
        booking, party = require_dispute_party(actor, await tx.bookings.lock_booking(booking_id))
        await _check_files(tx.disputes, booking, actor, files)
        if booking.status is not BookingStatus.DISPUTED:
            raise RuleBroken("booking_not_disputed", "The booking has no open dispute")
        made = await tx.disputes.statements_of(booking.id, booking.dispute_number)
        if len(made) >= (most := ports.policy.max_dispute_statements):
            raise RuleBroken("too_many_statements", f"A dispute has at most {most} statements")
        await tx.disputes.add_statement(_statement(booking, actor, party, command.text, files, now))
        notification = statement_notification(booking, party)
        await tx.notifications.add_notifications([notification], ports.clock.wall())
        return _require_dispute(await find_conversation(tx.disputes, booking))

    return await ports.store.run_transaction(unit)


@validated
async def withdraw_dispute(
    ports: Ports, actor: Actor, booking_id: int, allowed_versions: Versions = None
) -> DisputeConversation:
    """Withdraw the dispute that the actor opened: the booking becomes paid or completed, as it was
    before, and what came due meanwhile is done at its next timer. An absence that was reported
    takes its unused priority rebooking back. Locks the booking.

    Raises NotFound, Forbidden `wrong_party` for the other party, VersionMismatch, and RuleBroken
    `booking_not_disputed`, `chargeback_open` or `rebooking_used`.
    """
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> DisputeConversation:
        booking, party = require_party(actor, await tx.bookings.lock_booking(booking_id))
        is_credit_used = booking.is_no_show and not (
            await tx.bookings.take_back_rebooking_credit(booking.id)
        )
        transition_input = TransitionInput(
            Trigger.WITHDRAW,
            party,
            now,
            is_credit_used=is_credit_used,
            actor_id=actor.user_id,
            allowed_versions=allowed_versions,
        )
        booking = await advance_booking(tx, ports, booking, transition_input)
        return _require_dispute(await find_conversation(tx.disputes, booking))

    return await ports.store.run_transaction(unit)


async def _check_files(
    disputes: DisputesReadPort, booking: Booking, actor: Actor, files: Sequence[str]
) -> None:
    """Raise InvalidField unless all are files that the actor uploaded for this booking."""
    if not files:
        return
    own = {
        file.id for file in await disputes.files_of(booking.id) if file.owner_id == actor.user_id
    }
    if not own.issuperset(files):
        raise invalid_field("files", "must be files that you uploaded for this booking")


def _statement(
    booking: Booking, actor: Actor, party: Party, text: str, files: tuple[str, ...], at: datetime
) -> NewDisputeStatement:
    return NewDisputeStatement(
        booking_id=booking.id,
        dispute_number=booking.dispute_number,
        author_id=actor.user_id,
        party=party,
        text=text,
        files=files,
        at=at,
    )


# Operators --------------------------------------------------------------------------------


@validated
async def list_disputes(ports: Ports, page: int = 1, limit: int = 50) -> Sequence[Booking]:
    """A page of disputed bookings, up to `limit + 1`: overdue ones first, then those that become
    overdue soonest."""
    async with ports.store.read_view() as view:
        return await view.bookings.disputed_bookings(page, limit)


RESOLUTION_TRIGGERS = {
    ResolutionOutcome.RELEASE: Trigger.RESOLVE_RELEASE,
    ResolutionOutcome.REFUND: Trigger.RESOLVE_REFUND,
    ResolutionOutcome.SPLIT: Trigger.RESOLVE_SPLIT,
}
"""The trigger of each outcome."""

_VERDICTS = {
    ResolutionOutcome.RELEASE: "for the staff member",
    ResolutionOutcome.REFUND: "for the customer",
    ResolutionOutcome.SPLIT: "with the money shared",
}
"""How the alert tells each resolution."""


@validated
async def resolve_dispute(
    ports: Ports,
    code: str,
    outcome: ResolutionOutcome,
    amount: int = 0,
    note: str | None = None,
    actor_id: int | None = None,
    allowed_versions: Versions = None,
) -> Booking:
    """Resolve a dispute. `amount` is the customer's part of a split in minor units, `actor_id` the
    id of the admin, if it is one with an account. Locks the booking.

    Raises InvalidField on `amount` beside no split, NotFound, VersionMismatch, and RuleBroken
    `booking_not_disputed`, `split_out_of_range`, or `chargeback_open` where the processor decides.
    """
    if amount and outcome is not ResolutionOutcome.SPLIT:
        raise invalid_field("amount", "is for a split only")
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Booking:
        booking = await lock_by_code(tx.bookings, code, allowed_versions)
        transition_input = TransitionInput(
            *(RESOLUTION_TRIGGERS[outcome], Party.ADMIN, now),
            reason=note,
            refund_amount=amount,
            actor_id=actor_id,
        )
        result = apply_transition(booking, transition_input, ports.policy)
        if note:  # The alerts keep the operator's reason on record.
            text = f"the dispute of booking {code} was resolved, {_VERDICTS[outcome]}: {note}"
            result = result.with_alert(text)
        resolved = await save_transition(tx, ports, booking, result, now)
        return await hold_disabled_payout(tx, ports, resolved, now)

    return await ports.store.run_transaction(unit)
