"""The bookings of a companion within a span of time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, add_booking, add_companion
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.availability import Interval

START = NOW + 30 * DAY
WEEK = Interval(START, START + 7 * DAY)


async def found_within(store, companion_id, span=WEEK, limit=50):
    return await read_store(
        store, lambda view: view.bookings.bookings_within(companion_id, span, limit)
    )


class AgendaContract(StoreContract):
    """The bookings of a companion within a span of time."""

    async def test_bookings_within_a_span_overlap_it(self, store):
        """A booking that overlaps the span is given, by its start; one that touches it is not."""
        companion = await add_companion(store)
        await add_booking(store, starts_at=START)

        async def add(starts_at, hours=4):
            return await add_booking(
                store,
                companion,
                starts_at=starts_at,
                duration_hours=hours,
                status=BookingStatus.PAID,
            )

        last = await add(WEEK.ends_at - HOUR)
        first = await add(START - DAY + HOUR, hours=24)
        await add(START - DAY - 4 * HOUR)
        await add(WEEK.ends_at + 3 * HOUR)
        assert await found_within(store, companion.id) == [first, last]
        assert await found_within(store, companion.id, limit=1) == [first]
        touching = Interval(first.ends_at, last.starts_at)
        assert await found_within(store, companion.id, touching) == []
        second = timedelta(seconds=1)
        wider = Interval(first.ends_at - second, last.starts_at + second)
        assert await found_within(store, companion.id, wider) == [first, last]

    async def test_bookings_at_one_time_are_all_given(self, store):
        """Requests for the same time are in the order in which they came."""
        companion = await add_companion(store)
        twins = [await add_booking(store, companion, starts_at=START + HOUR) for _ in range(3)]
        assert await found_within(store, companion.id) == twins

    @pytest.mark.parametrize("status", BookingStatus)
    async def test_bookings_within_a_span_are_not_cancelled(self, store, status):
        """Bookings of every status but cancelled are given."""
        booking = await add_booking(store, starts_at=START + HOUR, status=status)
        wanted = [] if status is BookingStatus.CANCELLED else [booking]
        assert await found_within(store, booking.companion_id) == wanted
