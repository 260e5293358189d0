"""Contract of the stores: what bookings bring to a companion."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from staffbooking_adapters.testing.builders import DAY, NOW, add_booking, add_companion, add_user
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus

YEAR = (date(2027, 1, 1), date(2027, 12, 31))


async def earned(store, companion, first=YEAR[0], last=YEAR[1], limit=100):
    found = await read_store(
        store, lambda view: view.bookings.earnings_of(companion.id, first, last, limit)
    )
    return [booking.id for booking in found]


async def awaited(store, companion, limit=100):
    found = await read_store(
        store, lambda view: view.bookings.open_earnings_of(companion.id, limit)
    )
    return [booking.id for booking in found]


async def add_all(store, companion):
    """A booking in each status of its payout, and one in each other status that brings money."""
    customer = await add_user(store)
    cases = [(BookingStatus.COMPLETED, payout) for payout in PayoutStatus]
    cases += [(BookingStatus.PAID, PayoutStatus.NONE), (BookingStatus.DISPUTED, PayoutStatus.NONE)]
    return {
        case: (
            await add_booking(
                *(store, companion, customer),
                status=case[0],
                payout_status=case[1],
                starts_at=NOW + number * DAY,
            )
        ).id
        for number, case in enumerate(cases)
    }


class EarningsContract(StoreContract):
    """What bookings bring to a companion."""

    async def test_bookings_that_bring_money_are_earnings(self, store):
        """All but those without a payout are listed, the latest start first, up to the limit."""
        companion = await add_companion(store)
        made = await add_all(store, companion)
        await add_booking(store, payout_status=PayoutStatus.PAID)
        expected = [
            number for case, number in made.items() if case != (BookingStatus.COMPLETED, "none")
        ]
        assert await earned(store, companion) == expected[::-1]
        assert await earned(store, companion, limit=2) == expected[::-1][:2]

    async def test_open_earnings_are_to_come_or_owed(self, store):
        """What is neither paid out nor reversed is open, and so is what is owed; the earliest
        first."""
        companion = await add_companion(store)
        made = await add_all(store, companion)
        debt = await add_booking(
            *(store, companion),
            status=BookingStatus.COMPLETED,
            payout_status=PayoutStatus.REVERSED,
            owed_by_staff=5,
            starts_at=NOW - DAY,
        )
        closed = {(BookingStatus.COMPLETED, each) for each in ("none", "paid", "reversed")}
        expected = [debt.id, *(number for case, number in made.items() if case not in closed)]
        assert await awaited(store, companion) == expected
        assert await awaited(store, companion, limit=1) == [debt.id]

    @pytest.mark.parametrize(
        ("starts_at", "event_date", "is_in"),
        [
            (datetime(2026, 12, 31, 10, tzinfo=UTC), date(2027, 1, 1), True),
            (datetime(2027, 1, 1, 11, tzinfo=UTC), date(2026, 12, 31), False),
            (datetime(2028, 1, 1, 11, tzinfo=UTC), date(2027, 12, 31), True),
            (datetime(2027, 12, 31, 10, tzinfo=UTC), date(2028, 1, 1), False),
        ],
    )
    async def test_a_year_goes_by_local_dates(self, store, starts_at, event_date, is_in):
        """The local date of the event decides about its year, in every time zone."""
        companion = await add_companion(store)
        booking = await add_booking(
            *(store, companion),
            payout_status=PayoutStatus.PAID,
            starts_at=starts_at,
            event_date=event_date,
        )
        assert await earned(store, companion) == ([booking.id] if is_in else [])
