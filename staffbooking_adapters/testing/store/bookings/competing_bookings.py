"""Contract of the stores: the bookings that compete with an acceptance."""

from __future__ import annotations

from datetime import timedelta

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, add_booking, add_companion
from staffbooking_adapters.testing.store.base import StoreContract
from staffbooking_core.domain.bookings.lifecycle import BookingStatus

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
