"""Saving of bookings: turns the result of a transition into the rows that are saved with it."""

from __future__ import annotations

from datetime import datetime, timedelta

from staffbooking_core.domain.bookings.booking import (
    Booking,
    TransitionInput,
    TransitionResult,
    next_timer,
)
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.search_index import find_marks_on, local_days
from staffbooking_core.domain.notifications.notifications import notifications_for
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import (
    BookingsWritePort,
    BookingWrite,
    CompanionsWritePort,
    Ports,
    RebookingCredit,
    Transaction,
)
from staffbooking_core.representations.events import booking_event
from staffbooking_core.usecases.messaging.messages import update_event_group

LOCAL_DAY_MARGIN = timedelta(days=2)
"""Two intervals that are further apart than this share no local day in any timezone."""


def to_booking_write(
    ports: Ports, before: Booking | None, result: TransitionResult, now: datetime
) -> BookingWrite:
    """All rows of a transition. `before` is None for a new booking; `now` is business time.
    Generates the id of the event."""
    booking, event, credit = result.booking, None, None
    if result.event is not None:
        event = booking_event(ports.ids.event_id(), result.event, booking, now)
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
    )


async def lock_by_code(bookings: BookingsWritePort, code: str) -> Booking:
    """A booking by its public code, locked until the transaction ends. Raises NotFound."""
    found = await bookings.booking_by_code(code)
    booking = None if found is None else await bookings.lock_booking(found.id)
    if booking is None:
        raise NotFound("Booking")
    return booking


async def advance_booking(
    tx: Transaction, ports: Ports, booking: Booking, transition_input: TransitionInput
) -> Booking:
    """Apply a transition to a locked booking and save it; returns the booking after it.

    Raises Forbidden `wrong_party`, and RuleBroken with the code of the refused transition or guard.
    """
    result = apply_transition(booking, transition_input, ports.policy)
    await save_transition(tx, ports, booking, result, transition_input.now)
    return result.booking


async def save_transition(
    tx: Transaction, ports: Ports, before: Booking, result: TransitionResult, now: datetime
) -> None:
    """Save a transition of a locked booking, the day marks of its companion where the slot is taken
    or freed, and the members of the event's group conversation.

    Locks the companion after the booking, and the group after the companion.
    """
    await tx.bookings.save_booking(to_booking_write(ports, before, result, now))
    if before.holds_slot != result.booking.holds_slot:
        await _save_day_marks(tx.companions, result.booking)
    await update_event_group(tx.messages, before, result.booking, now)


async def _save_day_marks(companions: CompanionsWritePort, booking: Booking) -> None:
    companion = await companions.lock_companion(booking.companion_id)
    if companion is None:
        return
    hours, span = companion.calendar, Interval(booking.starts_at, booking.ends_at)
    busy = await companions.busy_intervals(
        companion.id, span.starts_at - LOCAL_DAY_MARGIN, span.ends_at + LOCAL_DAY_MARGIN
    )
    marks = find_marks_on(hours, busy, local_days(hours.timezone, span))
    await companions.save_day_marks(companion.id, marks)
