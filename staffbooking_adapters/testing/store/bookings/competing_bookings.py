"""Contract of the stores: the bookings that compete with an acceptance, and new ones meanwhile."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    add_booking,
    add_companion,
    add_user,
    make_booking,
    make_booking_write,
    next_booking_id,
)
from staffbooking_adapters.testing.store.base import StoreContract
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import CALENDAR_CHANGED

START = NOW + 2 * DAY


async def competing_bookings(store, booking_id, buffer=timedelta()):
    found = await store.run_transaction(
        lambda unit: unit.bookings.lock_competing_bookings(booking_id, buffer)
    )
    return list(found)


class CompetingBookingsContract(StoreContract):
    """The bookings that compete with an acceptance."""

    async def test_competing_bookings_overlap(self, store):
        """Competing bookings are the booking and the overlapping pending ones of its companion."""
        companion = await add_companion(store)
        first = await add_booking(store, companion, starts_at=START + HOUR)
        mine = await add_booking(store, companion, starts_at=START)
        last = await add_booking(store, companion, starts_at=START - 3 * HOUR)
        await add_booking(store, companion, starts_at=START + 4 * HOUR)
        await add_booking(store, companion, starts_at=START, status=BookingStatus.CANCELLED)
        await add_booking(store, companion, starts_at=START, status=BookingStatus.ACCEPTED)
        await add_booking(store, starts_at=START)
        assert await competing_bookings(store, mine.id) == [first, mine, last]

    async def test_bookings_within_the_buffer_compete(self, store):
        """Bookings that are less than the buffer apart compete; at exactly the buffer they do
        not."""
        companion = await add_companion(store)
        mine = await add_booking(store, companion, starts_at=START)
        ends = mine.ends_at
        near = await add_booking(store, companion, starts_at=ends + HOUR)
        await add_booking(store, companion, starts_at=ends + 2 * HOUR)
        before = await add_booking(store, companion, starts_at=START - 5 * HOUR)
        await add_booking(store, companion, starts_at=START - 6 * HOUR)
        assert await competing_bookings(store, mine.id, 2 * HOUR) == [mine, near, before]
        assert await competing_bookings(store, mine.id, HOUR) == [mine]

    async def test_a_booking_competes_in_any_status(self, store):
        """The competing bookings include the booking itself in any status."""
        booking = await add_booking(store, status=BookingStatus.PAID)
        assert await competing_bookings(store, booking.id) == [booking]

    async def test_an_unknown_booking_has_no_competitors(self, store):
        """An unknown booking has no competing bookings."""
        assert await competing_bookings(store, 404) == []

    async def test_a_booking_decided_before_an_acceptance_is_not_stored(self, store):
        """A booking that was decided before an acceptance of its companion raises
        CALENDAR_CHANGED, also while that is being committed; one that was decided after it is
        stored."""
        companion, customer = await add_companion(store), await add_user(store)
        parties = {"companion_id": companion.id, "customer_id": customer.id}
        bookings = [make_booking(id=await next_booking_id(store), **parties) for _ in range(2)]
        early, late = (
            make_booking_write(booking, seen_acceptances=seen)
            for seen, booking in enumerate(bookings)
        )
        tasks = []

        async def accept(tx):
            await tx.bookings.count_acceptance(companion.id)
            tasks.append(asyncio.create_task(store.add_booking(early)))
            for _ in range(200):  # Time for a booking that does not wait for the lock.
                await tx.accounts.user(companion.id)
                await asyncio.sleep(0)

        await store.run_transaction(accept)
        with pytest.raises(ConstraintViolated) as caught:
            await tasks[0]
        assert caught.value.constraint == CALENDAR_CHANGED
        await store.add_booking(late)
        async with store.read_view() as view:
            stored = [await view.bookings.booking(booking.id) for booking in bookings]
        assert stored == [None, bookings[1]]

    async def test_an_acceptance_sees_bookings_stored_before(self, store):
        """An acceptance that is counted while a booking of the companion is stored sees it among
        its competitors afterwards."""
        companion = await add_companion(store)
        mine = await add_booking(store, companion)
        parties = {"companion_id": companion.id, "customer_id": mine.customer_id}
        other = make_booking(id=await next_booking_id(store), starts_at=mine.starts_at, **parties)
        tasks = []

        async def store_other(tx):
            await tx.bookings.add_booking(make_booking_write(other, seen_acceptances=0))
            tasks.append(asyncio.create_task(store.run_transaction(accept)))
            for _ in range(200):  # Time for an acceptance that does not wait for the lock.
                await tx.bookings.booking(other.id)
                await asyncio.sleep(0)

        async def accept(tx):
            await tx.bookings.count_acceptance(companion.id)
            return await tx.bookings.lock_competing_bookings(mine.id, timedelta())

        await store.run_transaction(store_other)
        assert {booking.id for booking in await tasks[0]} == {mine.id, other.id}
