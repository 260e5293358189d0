"""Contract of the stores: busy times of companions, and calendar feeds."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta

from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    add_companion,
    add_user,
    make_calendar,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_adapters.testing.store.companions.booked_days import (
    add_accepted_booking,
    cancel_booking,
    change_companion,
)
from staffbooking_core.domain.companions.availability import Calendar, Interval, has_free_hour
from staffbooking_core.domain.companions.companion import CompanionQuery

MONDAY = date(2027, 3, 1)
WEEK = [MONDAY + n * DAY for n in range(7)]
LATER = NOW + timedelta(hours=1, microseconds=5)


def interval(day, start=0, hours=24):
    begin = datetime(day.year, day.month, day.day, start, tzinfo=UTC)
    return Interval(begin, begin + hours * HOUR)


async def open_days(store, companion, days=WEEK):
    """The given days on which a search finds any companion."""
    found = []
    for day in days:
        async with store.read_view() as view:
            if (await view.companions.search(CompanionQuery(date=day))).summaries:
                found.append(day)
    return found


async def save_busy(store, companion, *busy):
    """Save the companion with these busy times, and return it."""
    return await change_companion(store, companion, calendar=evolve(companion.calendar, busy=busy))


# Feeds ----------------------------------------------------------------------------------


async def save_feed(store, companion, digest, at=NOW):
    await store.run_transaction(
        lambda tx: tx.portfolio.save_calendar_feed(companion.id, digest, at)
    )


async def owner(store, digest):
    return await read_store(store, lambda view: view.portfolio.calendar_feed_owner_id(digest))


async def since(store, companion):
    return await read_store(
        store, lambda view: view.portfolio.calendar_feed_created_at(companion.id)
    )


class CalendarsContract(StoreContract):
    """Busy times of companions, and calendar feeds."""

    async def test_busy_times_are_stored(self, store):
        """A companion and its agenda have the stored busy times and `busy_until`."""
        calendar = make_calendar(busy=(interval(WEEK[1], 9, 2),), busy_until=date(2029, 3, 2))
        companion = await add_companion(store, calendar=calendar)
        found = await read_store(store, lambda view: view.companions.companion(companion.id))
        agenda = await read_store(
            store, lambda view: view.companions.availability(companion.id, NOW, NOW + DAY)
        )
        assert (found.calendar, agenda.calendar) == (calendar, calendar)

    async def test_a_request_sees_busy_times(self, store):
        """The context of a booking request has the companion's busy times."""
        calendar = Calendar("UTC", busy=(interval(WEEK[1]),))
        companion, customer = await add_companion(store, calendar=calendar), await add_user(store)
        context = await read_store(
            store,
            lambda view: view.bookings.request_context(companion.id, None, customer.id, WEEK[1]),
        )
        assert context.companion.calendar == calendar

    async def test_a_companion_busy_all_day_is_not_found(self, store):
        """A search finds no companion on the days that a busy time fills, and on all others."""
        companion = await add_companion(store)
        await save_busy(store, companion, interval(WEEK[2], hours=48))
        assert await open_days(store, companion) == [*WEEK[:2], *WEEK[4:]]

    async def test_a_day_with_a_free_hour_is_found(self, store):
        """A day is found while a booking and busy times leave one free hour."""
        calendar = make_calendar(days=range(5))
        companion, customer = await add_companion(store, calendar=calendar), await add_user(store)
        await add_accepted_booking(
            store, companion, customer.id, starts_at=interval(WEEK[1], 9).starts_at
        )
        one = await save_busy(store, companion, interval(WEEK[1], 13, 3))
        left = await open_days(store, companion)
        await save_busy(store, one, interval(WEEK[1], 13, 4))
        assert (left, await open_days(store, companion)) == (WEEK[:5], [WEEK[0], *WEEK[2:5]])

    async def test_removed_busy_times_hide_nothing(self, store):
        """Busy times that a save removes no longer hide their days."""
        companion = await save_busy(
            store, await add_companion(store), interval(WEEK[0]), interval(WEEK[3])
        )
        companion = await save_busy(store, companion, interval(WEEK[5]))
        replaced = await open_days(store, companion)
        await save_busy(store, companion)
        assert replaced == [*WEEK[:5], WEEK[6]]
        assert await open_days(store, companion) == WEEK

    async def test_a_cancelled_booking_leaves_busy_times(self, store):
        """A day filled by a busy time stays hidden when a booking on it is cancelled."""
        companion, customer = await add_companion(store), await add_user(store)
        booking = await add_accepted_booking(
            store, companion, customer.id, starts_at=interval(WEEK[1]).starts_at
        )
        await save_busy(store, companion, interval(WEEK[1], hours=24))
        await cancel_booking(store, booking)
        assert await open_days(store, companion) == [WEEK[0], *WEEK[2:]]

    async def test_rebooking_candidates_are_not_busy(self, store):
        """A companion is no rebooking candidate for a day that a busy time fills."""
        companion = await save_busy(store, await add_companion(store), interval(WEEK[1]))
        service = companion.service_types[0]
        for day, found in ((WEEK[0], [companion.id]), (WEEK[1], [])):
            async with store.read_view() as view:
                candidates = await view.companions.search_candidates(
                    CompanionQuery(service=service, date=day, limit=10), NOW, NOW + DAY
                )
            assert [one.availability.companion_id for one in candidates] == found

    async def test_an_import_in_bulk_marks_busy_days(self, store):
        """`save_staff_members` hides an existing companion on the days that busy times fill."""
        companion, free = await add_companion(store), await add_companion(store)
        calendar = evolve(companion.calendar, busy=(interval(WEEK[3]),))

        async def unit(tx):
            user = await tx.accounts.user(companion.id)
            await tx.imports.save_staff_members([(user, evolve(companion, calendar=calendar))])

        await store.run_transaction(unit)
        await change_companion(store, free, active=False)
        assert await open_days(store, companion) == [*WEEK[:3], *WEEK[4:]]

    async def test_searches_respect_random_busy_times(self, store):
        """A search finds companions with random busy times on exactly the days with a free hour."""
        rng = random.Random(7)
        for zone in ("UTC", "Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin"):
            busy = [
                Interval(at, at + rng.randint(1, 60) * HOUR)
                for at in (
                    interval(MONDAY).starts_at + rng.randint(0, 240) * HOUR for _ in range(4)
                )
            ]
            calendar = make_calendar(zone, days=rng.sample(range(7), 5), busy=tuple(busy))
            companion = await add_companion(store, calendar=calendar)
            days = [MONDAY + n * DAY for n in range(14)]
            found = await open_days(store, companion, days)
            assert found == [day for day in days if has_free_hour(calendar, (), day)]
            await change_companion(store, companion, active=False)

    async def test_a_feed_is_found_by_its_digest(self, store):
        """A feed's digest gives its owner and creation time, and another digest gives None."""
        companion = await add_companion(store)
        await save_feed(store, companion, b"\x01" * 32, LATER)
        assert await owner(store, b"\x01" * 32) == companion.id
        assert await since(store, companion) == LATER
        assert await owner(store, b"\x02" * 32) is None

    async def test_a_new_feed_replaces_the_old(self, store):
        """A companion's new feed replaces its old one."""
        companion = await add_companion(store)
        await save_feed(store, companion, b"\x01" * 32)
        await save_feed(store, companion, b"\x02" * 32, LATER)
        assert await owner(store, b"\x01" * 32) is None
        assert (await owner(store, b"\x02" * 32), await since(store, companion)) == (
            companion.id,
            LATER,
        )

    async def test_a_removed_feed_is_gone(self, store):
        """Removing a feed, once or twice, removes only that companion's feed."""
        one, other = await add_companion(store), await add_companion(store)
        await save_feed(store, one, b"\x01" * 32)
        await save_feed(store, other, b"\x02" * 32)
        for _ in range(2):
            await store.run_transaction(lambda tx: tx.portfolio.remove_calendar_feed(one.id))
        assert (await owner(store, b"\x01" * 32), await since(store, one)) == (None, None)
        assert await owner(store, b"\x02" * 32) == other.id
