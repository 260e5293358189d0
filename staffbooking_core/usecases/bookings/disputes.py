"""Operators resolve disputes: release, refund, split (CONTRACT 4)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from staffbooking_core.domain.bookings.booking import Booking, Occurrence
from staffbooking_core.domain.bookings.lifecycle import Party, Status, Trigger
from staffbooking_core.domain.bookings.transitions import advance
from staffbooking_core.ports import BookingQuery, Ports, Writing
from staffbooking_core.usecases.booking_writes import hold_by_code, save


async def listing(ports: Ports, page: int = 1, limit: int = 50) -> Sequence[Booking]:
    """Bookings under dispute, up to `limit + 1`."""
    query = BookingQuery(user_id=None, status=Status.DISPUTED, page=page, limit=limit)
    async with ports.store.reading() as view:
        return await view.bookings.bookings(query)


async def resolve(
    ports: Ports, code: str, trigger: Trigger, amount: int = 0, note: str | None = None
) -> Booking:
    """Resolve a dispute: RELEASE, REFUND, or SPLIT with the client's amount in minor units.

    Raises RuleBroken `chargeback_open` where the processor decides, `booking_not_disputed`,
    and `split_out_of_range`.
    """
    now = await ports.clock.business()

    async def unit(tx: Writing) -> Booking:
        booking = await hold_by_code(tx, code)
        what = Occurrence(trigger, Party.ADMIN, now, reason=note, amount=amount)
        step = advance(booking, what, ports.policy)
        if note:  # Why it was decided so stays on record with the alerts.
            text = f"the dispute of booking {code} was ended by {trigger}: {note}"
            step = evolve(step, alerts=(*step.alerts, text))
        await save(tx, ports, booking, step, now)
        return step.booking

    return await ports.store.write(unit)
