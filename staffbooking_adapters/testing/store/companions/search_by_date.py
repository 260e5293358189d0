"""Contract of the stores: search by date finds the companions with a free hour."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from itertools import pairwise

import msgspec
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, add_companion, add_user, make_calendar
from staffbooking_adapters.testing.store.base import StoreContract
from staffbooking_adapters.testing.store.companions.booked_days import (
    add_accepted_booking,
    cancel_booking,
    change_companion,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Interval,
    Slot,
    WeeklySlot,
    has_free_hour,
)
from staffbooking_core.domain.companions.booking_limits import BookingLimits, date_bounds
from staffbooking_core.domain.companions.companion import CompanionQuery

MONDAY = date(2027, 3, 1)
WEEK = [MONDAY + n * DAY for n in range(7)]


async def open_days(store, companion, days=WEEK):
    """The given days on which a search finds the companion."""
    async with store.read_view() as view:
        return [day for day in days if companion.id in await found_on(view, day)]


async def found_on(view, day):
    """The ids in the result of a search by this date, sorted."""
    summaries = (await view.companions.search(CompanionQuery(date=day, limit=50))).summaries
    return sorted(msgspec.json.decode(summary)["id"] for summary in summaries)


def at(day, hour=0):
    return datetime(day.year, day.month, day.day, hour, tzinfo=UTC)


def random_limits(rng):
    return BookingLimits(
        rng.choice([0, 0, 30, 240]),
        rng.choice([0, 0, 20, 24, 48, 72, 720]),
        rng.choice([1095, 1095, 1, 2, 5, 30]),
    )


NOW = at(MONDAY, 10)


def random_calendar(rng):
    timezone = rng.choice(["UTC", "Asia/Tokyo", "America/Los_Angeles", "Europe/Berlin"])
    hours = [(0, 120), (0, 1_440), (540, 600), (540, 1_020), (1_380, 1_440)]
    weekly = [WeeklySlot(day, Slot(*rng.choice(hours))) for day in range(7)]
    closed = rng.sample(WEEK, 2)
    overrides = (DateOverride(closed[0]), DateOverride(closed[1], (Slot(600, 700),)))
    return Calendar(timezone, tuple(rng.sample(weekly, rng.choice([0, 4, 7]))), overrides)


class SearchByDateContract(StoreContract):
    """Search by date finds the companions with a free hour."""

    async def test_weekly_hours_open_their_days(self, store):
        """A companion is found on the weekdays that it works."""
        companion = await add_companion(store, calendar=make_calendar(days=(0, 2, 6)))
        assert await open_days(store, companion) == [WEEK[0], WEEK[2], WEEK[6]]

    async def test_without_weekly_hours_every_day_is_open(self, store):
        """A companion without weekly hours is found on every day."""
        companion = await add_companion(store)
        assert await open_days(store, companion) == WEEK

    @pytest.mark.parametrize(
        ("slots", "is_open"),
        [
            ((Slot(0, 60),), True),
            ((Slot(1_380, 1_440),), True),
            ((Slot(0, 59),), False),
            ((Slot(0, 30), Slot(30, 60)), True),
            ((Slot(0, 30), Slot(31, 61)), False),
        ],
    )
    async def test_a_free_hour_is_contiguous(self, store, slots, is_open):
        """A free hour is 60 contiguous minutes, and adjacent slots are contiguous."""
        weekly = tuple(WeeklySlot(0, slot) for slot in slots)
        companion = await add_companion(store, calendar=Calendar("UTC", weekly))
        assert await open_days(store, companion) == (WEEK[:1] if is_open else [])

    async def test_an_override_replaces_its_date(self, store):
        """On an overridden date only an override slot of at least an hour is found."""
        overrides = (
            DateOverride(WEEK[0]),
            DateOverride(WEEK[1], (Slot(0, 30),)),
            DateOverride(WEEK[5], (Slot(600, 660),)),
            DateOverride(WEEK[6], (Slot(600, 630),)),
        )
        calendar = make_calendar(days=range(5), overrides=overrides)
        companion = await add_companion(store, calendar=calendar)
        assert await open_days(store, companion) == WEEK[2:6]

    @pytest.mark.parametrize(("hours", "is_open"), [(8, False), (7, True), (4, True)])
    async def test_a_booking_may_fill_a_day(self, store, hours, is_open):
        """A day with a booking is found while one free hour is left."""
        companion = await add_companion(store, calendar=make_calendar(days=range(5)))
        customer = await add_user(store)
        await add_accepted_booking(
            store, companion, customer.id, starts_at=at(WEEK[1], 9), duration_hours=hours
        )
        assert (WEEK[1] in await open_days(store, companion)) == is_open

    async def test_bookings_fill_a_day_together(self, store):
        """A day that two bookings fill together is not found."""
        companion = await add_companion(store, calendar=make_calendar(days=range(5)))
        customer = await add_user(store)
        for hour in (9, 13):
            await add_accepted_booking(
                store, companion, customer.id, starts_at=at(WEEK[1], hour), duration_hours=4
            )
        assert await open_days(store, companion) == [WEEK[0], *WEEK[2:5]]

    async def test_a_pending_request_hides_nothing(self, store):
        """A pending booking of a whole day hides no day."""
        companion, customer = await add_companion(store), await add_user(store)
        pending = {"status": BookingStatus.PENDING, "starts_at": at(WEEK[1]), "duration_hours": 24}
        await add_accepted_booking(store, companion, customer.id, **pending)
        assert await open_days(store, companion) == WEEK

    async def test_a_released_slot_is_found_again(self, store):
        """A day filled by a booking is found again when the booking is cancelled."""
        companion, customer = await add_companion(store), await add_user(store)
        booking = await add_accepted_booking(
            store, companion, customer.id, starts_at=at(WEEK[1]), duration_hours=24
        )
        hidden = await open_days(store, companion)
        await cancel_booking(store, booking)
        assert (hidden, await open_days(store, companion)) == ([WEEK[0], *WEEK[2:]], WEEK)

    async def test_a_booking_fills_local_days(self, store):
        """A booking of 24 hours from 11:00 UTC fills one local day in Auckland, 13 hours ahead."""
        calendar = Calendar("Pacific/Auckland")
        companion, customer = await add_companion(store, calendar=calendar), await add_user(store)
        await add_accepted_booking(
            store, companion, customer.id, starts_at=at(WEEK[1], 11), duration_hours=24
        )
        assert await open_days(store, companion) == [*WEEK[:2], *WEEK[3:]]

    async def test_a_booking_over_midnight_fills_two_days(self, store):
        """A booking over midnight fills the hours of both days."""
        slots = (WeeklySlot(1, Slot(1_200, 1_440)), WeeklySlot(2, Slot(0, 240)))
        companion = await add_companion(store, calendar=Calendar("UTC", slots))
        customer = await add_user(store)
        before = await open_days(store, companion)
        await add_accepted_booking(
            store, companion, customer.id, starts_at=at(WEEK[1], 20), duration_hours=8
        )
        assert (before, await open_days(store, companion)) == (WEEK[1:3], [])

    async def test_a_saved_calendar_respects_bookings(self, store):
        """The days of a saved companion follow its current calendar and its bookings."""
        calendar = make_calendar(days=range(5), overrides=(DateOverride(WEEK[3]),))
        companion, customer = await add_companion(store, calendar=calendar), await add_user(store)
        await add_accepted_booking(
            store, companion, customer.id, starts_at=at(WEEK[1], 9), duration_hours=8
        )
        same = await change_companion(store, companion, tagline="Always on time")
        assert await open_days(store, companion) == [WEEK[0], WEEK[2], WEEK[4]]
        longer = make_calendar(days=range(6), start=9, end=18)
        await change_companion(store, same, calendar=longer)
        assert await open_days(store, companion) == WEEK[:6]

    async def test_a_skipped_local_hour_is_not_free(self, store):
        """The hour 02:00 to 03:00 is not found on the Sunday when the clock skips it."""
        calendar = Calendar("Europe/Berlin", (WeeklySlot(6, Slot(120, 180)),))
        companion = await add_companion(store, calendar=calendar)
        sundays = [date(2027, 3, 21), date(2027, 3, 28), date(2027, 4, 4)]
        assert await open_days(store, companion, sundays) == [sundays[0], sundays[2]]

    async def test_searches_by_date_match_has_free_hour(self, store):
        """Of random companions with random bookings, exactly those with a free hour are found."""
        rng, customer = random.Random(11), await add_user(store)
        calendars: dict[int, Calendar] = {}
        busy: dict[int, list[Interval]] = {}
        for _ in range(12):
            calendar = random_calendar(rng)
            companion = await add_companion(store, calendar=calendar)
            starts = sorted(rng.sample(range(0, 14 * 24, 6), 9))
            lengths = [min(rng.randint(1, 24), b - a) for a, b in pairwise(starts)]
            calendars[companion.id], busy[companion.id] = calendar, []
            for start, hours in zip(starts, lengths, strict=False):
                booked = {"starts_at": at(MONDAY, 0) + start * DAY / 24, "duration_hours": hours}
                booking = await add_accepted_booking(store, companion, customer.id, **booked)
                busy[companion.id].append(Interval(booking.starts_at, booking.ends_at))
        days = [MONDAY + n * DAY for n in range(15)]
        async with store.read_view() as view:
            found = {day: await found_on(view, day) for day in days}
        assert found == {
            day: [n for n, calendar in calendars.items() if has_free_hour(calendar, busy[n], day)]
            for day in days
        }

    async def test_searches_follow_the_bounds_of_a_date(self, store):
        """Of random companions with limits and bookings, those are found that are free on the day
        and whose limits the bounds may allow; a page that is not surely allowed is not exact."""
        rng, customer = random.Random(5), await add_user(store)
        agendas = {}
        for _ in range(30):
            calendar = evolve(random_calendar(rng), limits=random_limits(rng))
            companion = await add_companion(store, calendar=calendar)
            start = NOW + rng.randint(0, 7) * DAY
            booking = await add_accepted_booking(
                store, companion, customer.id, starts_at=start, duration_hours=rng.randint(1, 24)
            )
            agendas[companion.id] = calendar, [Interval(booking.starts_at, booking.ends_at)]
        for day in (MONDAY + number * DAY for number in range(-1, 40)):
            bounds, query = date_bounds(day, NOW), CompanionQuery(date=day, limit=50)
            expected = [
                number
                for number, (calendar, busy) in agendas.items()
                if bounds.may_allow(calendar.limits) and has_free_hour(calendar, busy, day)
            ]
            surely = all(bounds.surely_allow(agendas[number][0].limits) for number in expected)
            async with store.read_view() as view:
                page = await view.companions.search(query, bounds)
                candidates = await view.companions.search_candidates(query, NOW, NOW, bounds)
            found = sorted(msgspec.json.decode(summary)["id"] for summary in page.summaries)
            assert found == expected, day
            assert sorted(one.availability.companion_id for one in candidates) == expected
            assert not page.is_exact or surely, day

    async def test_limits_are_read_back_and_can_be_removed(self, store):
        """The limits of a saved companion are read back; without them it is found on every date."""
        limits = BookingLimits(30, 48, 60)
        companion = await add_companion(store, calendar=make_calendar(limits=limits))
        bounds, query = date_bounds(MONDAY + 90 * DAY, NOW), CompanionQuery(date=MONDAY + 90 * DAY)
        async with store.read_view() as view:
            assert (await view.companions.companion(companion.id)).calendar.limits == limits
            assert (await view.companions.search(query, bounds)).summaries == []
        await change_companion(store, companion, calendar=make_calendar())
        async with store.read_view() as view:
            page = await view.companions.search(query, bounds)
        assert (len(page.summaries), page.is_exact) == (1, True)

    async def test_a_buffer_is_kept_around_bookings(self, store):
        """A day whose free hours all lie within the buffers of a booking is not found."""
        customer = await add_user(store)
        calendar = make_calendar(days=range(7), start=0, end=3, limits=BookingLimits(121))
        companion = await add_companion(store, calendar=calendar)
        await add_accepted_booking(
            store, companion, customer.id, starts_at=at(WEEK[2], 0) - DAY / 24, duration_hours=1
        )
        assert await open_days(store, companion) == [day for day in WEEK if day != WEEK[2]]
        await change_companion(
            store, companion, calendar=evolve(calendar, limits=BookingLimits(120))
        )
        assert await open_days(store, companion) == WEEK
