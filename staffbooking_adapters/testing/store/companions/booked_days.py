"""Adds and cancels bookings as the use-cases do: with the marks of their days."""

from __future__ import annotations

from typing import Any

from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    make_booking,
    make_booking_write,
    next_booking_id,
    next_revision,
)
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.companions.search_index import booked_days, find_marks_on
from staffbooking_core.ports import Store, Transaction


async def add_accepted_booking(
    store: Store, companion: Companion, customer_id: int, **given: Any
) -> Booking:
    """Add an accepted booking of a companion, with the marks of its days."""
    given = {
        "status": BookingStatus.ACCEPTED,
        "companion_id": companion.id,
        "customer_id": customer_id,
        **given,
    }
    booking = make_booking(id=await next_booking_id(store), **given)

    async def unit(tx: Transaction) -> None:
        await tx.bookings.add_booking(make_booking_write(booking))
        await _mark_days(tx, booking)

    await store.run_transaction(unit)
    return booking


async def cancel_booking(store: Store, booking: Booking) -> None:
    """Cancel a booking, and save the marks of its days."""
    cancelled = next_revision(booking, status=BookingStatus.CANCELLED)

    async def unit(tx: Transaction) -> None:
        await tx.bookings.save_booking(make_booking_write(cancelled))
        await _mark_days(tx, cancelled)

    await store.run_transaction(unit)


async def change_companion(store: Store, companion: Companion, **fields: Any) -> Companion:
    """Save the companion with other fields, and return it."""
    changed = evolve(companion, **fields)
    await store.run_transaction(lambda unit: unit.companions.save_companion(changed))
    return changed


async def _mark_days(tx: Transaction, booking: Booking) -> None:
    companion = await tx.companions.lock_companion(booking.companion_id)
    assert companion is not None
    calendar, span = companion.calendar, Interval(booking.starts_at, booking.ends_at)
    first, last = span.starts_at - 2 * DAY, span.ends_at + 2 * DAY
    busy = await tx.companions.busy_intervals(companion.id, first, last)
    marks = find_marks_on(calendar, busy, booked_days(calendar, span))
    await tx.companions.save_day_marks(companion.id, marks)
