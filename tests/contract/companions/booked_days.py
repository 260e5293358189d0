"""Bookings put into a store the way the use-cases do it: with the marks on their days."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Status
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.companions.search_index import local_days, marks_on
from staffbooking_core.ports import Store, Writing
from tests.support.builders import DAY, make_booking, make_change, moved, next_booking_id


async def hold(store: Store, companion: Companion, customer_id: int, **given: Any) -> Booking:
    """An accepted booking of a companion, with its days marked."""
    given = {
        "status": Status.ACCEPTED,
        "companion_id": companion.id,
        "customer_id": customer_id,
        **given,
    }
    booking = make_booking(id=await next_booking_id(store), **given)

    async def unit(tx: Writing) -> None:
        await tx.bookings.add(make_change(booking))
        await _mark(tx, booking)

    await store.write(unit)
    return booking


async def release(store: Store, booking: Booking) -> None:
    """The booking is cancelled, and its days marked anew."""
    cancelled = moved(booking, status=Status.CANCELLED)

    async def unit(tx: Writing) -> None:
        await tx.bookings.save(make_change(cancelled))
        await _mark(tx, cancelled)

    await store.write(unit)


async def change_companion(store: Store, companion: Companion, **fields: Any) -> Companion:
    """The companion with other fields, saved."""
    changed = evolve(companion, **fields)
    await store.write(lambda unit: unit.companions.save_companion(changed))
    return changed


async def _mark(tx: Writing, booking: Booking) -> None:
    companion = await tx.companions.lock_companion(booking.companion_id)
    assert companion is not None
    calendar, span = companion.calendar, Interval(booking.starts_at, booking.ends_at)
    first, last = span.starts_at - 2 * DAY, span.ends_at + 2 * DAY
    busy = await tx.companions.busy(companion.id, first, last)
    marks = marks_on(calendar, busy, local_days(calendar.timezone, span))
    await tx.companions.mark_days(companion.id, marks)
