"""Saving of bookings: turns the result of a transition into the rows that are saved with it; and
bookings by their public code."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import evolve

from staffbooking_core.domain.bookings.booking import (
    UNPAID_PAYOUT_STATUSES,
    Booking,
    TransitionInput,
    TransitionResult,
)
from staffbooking_core.domain.bookings.lifecycle import EventName, Party, Trigger
from staffbooking_core.domain.bookings.timers import next_timer
from staffbooking_core.domain.bookings.transitions import apply_transition, check_version
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.search_index import booked_days, find_marks_on
from staffbooking_core.domain.notifications.bookings import notifications_for
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import (
    BookingsReadPort,
    BookingsWritePort,
    BookingWrite,
    CompanionsWritePort,
    Ports,
    RebookingCredit,
    Transaction,
)
from staffbooking_core.representations.bookings import booking_record
from staffbooking_core.representations.events import booking_event
from staffbooking_core.usecases.messaging.messages import update_event_group

Versions = frozenset[int] | None
"""The published versions of a booking that a caller accepts (If-Match); None for any."""
LOCAL_DAY_MARGIN = timedelta(days=2)
"""Two intervals that are further apart than this share no local day in any timezone."""


def to_booking_write(
    ports: Ports,
    before: Booking | None,
    result: TransitionResult,
    now: datetime,
    seen_acceptances: int | None = None,
) -> BookingWrite:
    """All rows of a transition, with the published version of the booking after it, and the event
    that reports it: without one of its own, a new version is `booking.updated`. `before` is None
    for a new booking; `now` is business time. Generates the id of the event."""
    booking, name, event, credit = result.booking, result.event, None, None
    if before is not None:
        booking = _with_version(ports, before, booking)
        if name is None and booking.version != before.version:
            name = EventName.BOOKING_UPDATED
        booking = evolve(booking, events=before.events + (name is not None))
    if name is not None:
        reported = evolve(result, booking=booking, event=name)
        event = booking_event(ports.ids.event_id(), before, reported, now, ports.policy)
    if result.grants_credit:
        expires_at = now + ports.policy.rebooking_credit
        credit = RebookingCredit(booking.id, booking.customer_id, expires_at)
    return BookingWrite(
        booking=booking,
        due=next_timer(booking, ports.policy),
        operations_due_at=ports.clock.wall(),
        event=event,
        postings=result.postings,
        orders=result.orders,
        alerts=result.alerts,
        notifications=notifications_for(before, result),
        rebooking_credit=credit,
        seen_acceptances=seen_acceptances,
    )


def _with_version(ports: Ports, before: Booking, after: Booking) -> Booking:
    """The booking after a change with its published version: the next one where an admin, who
    reads every field of the record, sees a difference (CONTRACT 10)."""
    after = evolve(after, version=before.version)
    seen, shown = (booking_record(one, Party.ADMIN, ports.policy) for one in (before, after))
    return after if seen == shown else evolve(after, version=before.version + 1)


async def require_by_code(bookings: BookingsReadPort, code: str) -> Booking:
    """A booking by its public code. Raises NotFound."""
    booking = await bookings.booking_by_code(code)
    if booking is None:
        raise NotFound("Booking")
    return booking


async def lock_by_code(
    bookings: BookingsWritePort, code: str, allowed_versions: Versions = None
) -> Booking:
    """A booking by its public code, locked until the transaction ends. Raises NotFound, and
    VersionMismatch for another version than those that are allowed."""
    found = await require_by_code(bookings, code)
    booking = await bookings.lock_booking(found.id)
    if booking is None:
        raise NotFound("Booking")
    check_version(booking, allowed_versions)
    return booking


async def advance_booking(
    tx: Transaction, ports: Ports, booking: Booking, transition_input: TransitionInput
) -> Booking:
    """Apply a transition to a locked booking and save it; returns the booking after it.

    Raises Forbidden `wrong_party`, VersionMismatch, and RuleBroken with the code of the refused
    transition or guard.
    """
    result = apply_transition(booking, transition_input, ports.policy)
    saved = await save_transition(tx, ports, booking, result, transition_input.now)
    if saved.payout_status is not booking.payout_status:
        return await hold_disabled_payout(tx, ports, saved, transition_input.now)
    return saved


_ACCOUNT_DISABLED = "the account of the staff member is disabled"


async def hold_disabled_payout(
    tx: Transaction, ports: Ports, booking: Booking, now: datetime
) -> Booking:
    """Put a payout on hold that is not made yet, where the staff member's account is disabled and
    no operator has released it (CONTRACT 10). Returns the booking after that."""
    if booking.payout_status not in UNPAID_PAYOUT_STATUSES or booking.payout_hold_lifted:
        return booking
    user = await tx.accounts.user(booking.companion_id)
    if user is None or user.disabled_at is None:
        return booking
    transition_input = TransitionInput(
        Trigger.HOLD_PAYOUT, Party.SYSTEM, now, reason=_ACCOUNT_DISABLED
    )
    result = apply_transition(booking, transition_input, ports.policy)
    return await save_transition(tx, ports, booking, result, now)


async def save_transition(
    tx: Transaction, ports: Ports, before: Booking, result: TransitionResult, now: datetime
) -> Booking:
    """Save a transition of a locked booking, the day marks of its companion where the slot is taken
    or freed, and the members of the event's group conversation. Returns the booking after it. A
    transition that changed nothing is not saved.

    Locks the companion after the booking, and the group after the companion.
    """
    if result == TransitionResult(evolve(before, revision=result.booking.revision)):
        return before
    write = to_booking_write(ports, before, result, now)
    await tx.bookings.save_booking(write)
    if before.holds_slot != result.booking.holds_slot:
        await _save_day_marks(tx.companions, result.booking)
    await update_event_group(tx.messages, before, result.booking, now)
    return write.booking


async def _save_day_marks(companions: CompanionsWritePort, booking: Booking) -> None:
    companion = await companions.lock_companion(booking.companion_id)
    if companion is None:
        return
    hours, span = companion.calendar, Interval(booking.starts_at, booking.ends_at)
    busy = await companions.busy_intervals(
        companion.id, span.starts_at - LOCAL_DAY_MARGIN, span.ends_at + LOCAL_DAY_MARGIN
    )
    marks = find_marks_on(hours, busy, booked_days(hours, span))
    await companions.save_day_marks(companion.id, marks)
