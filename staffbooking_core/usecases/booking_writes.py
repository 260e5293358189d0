"""From a step of the domain to its rows: how every change of a booking is saved."""

from __future__ import annotations

from datetime import datetime, timedelta

from staffbooking_core.domain.bookings.booking import Booking, Occurrence, Step, due
from staffbooking_core.domain.bookings.transitions import advance
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.search_index import local_days, marks_on
from staffbooking_core.domain.notifications.notifications import tidings
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import Answer, Change, Credit, Ports, Writing
from staffbooking_core.representations.events import booking_event
from staffbooking_core.usecases.messaging.messages import follow_event

NEAR = timedelta(days=2)
"""What lies further from a booking shares no local day with it."""


def to_change(
    ports: Ports, before: Booking | None, step: Step, now: datetime, answer: Answer | None = None
) -> Change:
    """All rows of a step; `before` is None for a new booking. `now` is business time; the ids
    of events are drawn here."""
    booking, event, credit = step.booking, None, None
    if step.event is not None:
        event = booking_event(ports.ids.event_id(), step.event, booking, now)
    if step.grants_credit:
        expires_at = now + ports.policy.rebooking_credit
        credit = Credit(booking.id, booking.customer_id, expires_at)
    return Change(
        booking=booking,
        due=due(booking, ports.policy),
        at=ports.clock.wall(),
        event=event,
        postings=step.postings,
        orders=step.orders,
        alerts=step.alerts,
        notices=tidings(before, booking),
        credit=credit,
        answer=answer,
    )


async def hold_by_code(tx: Writing, code: str) -> Booking:
    """The booking that an operator names, held. Raises NotFound."""
    found = await tx.bookings.booking_by_code(code)
    booking = None if found is None else await tx.bookings.lock_booking(found.id)
    if booking is None:
        raise NotFound("Booking")
    return booking


async def apply(tx: Writing, ports: Ports, booking: Booking, what: Occurrence) -> Booking:
    """Move a booking that is held, and save the step."""
    step = advance(booking, what, ports.policy)
    await save(tx, ports, booking, step, what.now)
    return step.booking


async def save(tx: Writing, ports: Ports, before: Booking, step: Step, now: datetime) -> None:
    """Save a step, and what it changes of the days on which the companion can be found and of
    the group of its event."""
    await tx.bookings.save(to_change(ports, before, step, now))
    if before.holds_slot != step.booking.holds_slot:
        await _mark_days(tx, step.booking)
    await follow_event(tx, before, step.booking, now)


async def _mark_days(tx: Writing, booking: Booking) -> None:
    companion = await tx.companions.lock_companion(booking.companion_id)
    if companion is None:
        return
    hours, span = companion.calendar, Interval(booking.starts_at, booking.ends_at)
    busy = await tx.companions.busy(companion.id, span.starts_at - NEAR, span.ends_at + NEAR)
    marks = marks_on(hours, busy, local_days(hours.timezone, span))
    await tx.companions.mark_days(companion.id, marks)
