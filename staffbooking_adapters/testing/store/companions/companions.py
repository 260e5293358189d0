"""Contract of the stores: companions and their agendas. Searches are in `test_search`."""

from __future__ import annotations

from datetime import date, datetime

import msgspec
import pytest

from staffbooking_adapters import codec
from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    POLICY,
    add_booking,
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
from staffbooking_core.domain.bookings.lifecycle import SLOT_HOLDING_STATUSES, BookingStatus
from staffbooking_core.domain.companions.availability import (
    Calendar,
    DateOverride,
    Interval,
    Slot,
    WeeklySlot,
)
from staffbooking_core.domain.companions.companion import Approval, Badge, CompanionQuery, Tier
from staffbooking_core.ports import CompanionAvailability
from staffbooking_core.representations.companions import companion_detail, companion_summary

CALENDAR = Calendar(
    "America/New_York",
    (WeeklySlot(0, Slot(540, 1020)), WeeklySlot(6, Slot(0, 1440))),
    (
        DateOverride(date(2027, 3, 4), (Slot(600, 660), Slot(700, 1440))),
        DateOverride(date(2027, 3, 5)),
    ),
)
COMPLETE = {
    "first_name": "Björk",
    "last_name": "İnce",
    "hourly_rate": 12_345,
    "daily_rate": 99_999_999_999,
    "location_city": "São Paulo",
    "location_country": "Brasil",
    "calendar": CALENDAR,
    "tagline": 'Hosts, greets; "smiles" & 100% on time',
    "bio": "Line one\nline two \N{GRINNING FACE}",
    "profile_photo": "photos/7.webp",
    "service_types": ("Gala dinner", "Köche"),
    "languages": ("Português",),
    "years_experience": 0,
    "tier": Tier.ELITE,
    "badges": (Badge.VERIFIED, Badge.RISING_STAR),
    "rating_sum": 14,
    "total_reviews": 3,
    "approval": Approval.APPROVED,
}


async def agenda_of(store, companion, first=NOW - DAY, last=NOW + 10 * DAY):
    return await read_store(
        store, lambda view: view.companions.availability(companion.id, first, last)
    )


def midnight(day):
    return datetime(day.year, day.month, day.day, tzinfo=NOW.tzinfo)


class CompanionsContract(StoreContract):
    """Companions and their agendas. Searches are in `test_search`."""

    # One companion ----------------------------------------------------------------------------
    async def test_a_companion_is_stored_as_saved(self, store):
        """A companion is stored with every field and the whole calendar."""
        companion = await add_companion(store, **COMPLETE)
        assert (
            await read_store(store, lambda view: view.companions.companion(companion.id))
            == companion
        )
        locked = await store.run_transaction(
            lambda unit: unit.companions.lock_companion(companion.id)
        )
        assert locked == companion

    async def test_an_unset_field_stays_unset(self, store):
        """None is stored as None, and an empty tuple as an empty tuple."""
        bare = {"daily_rate": None, "service_types": (), "languages": (), "years_experience": None}
        companion = await add_companion(store, **bare)
        assert (
            await read_store(store, lambda view: view.companions.companion(companion.id))
            == companion
        )

    async def test_an_unknown_companion_is_none(self, store):
        """An unknown companion is None in every lookup."""
        async with store.read_view() as view:
            assert await view.companions.companion(404) is None
            assert await view.companions.detail(404) is None
            assert await view.companions.availability(404, NOW, NOW + DAY) is None
        assert await store.run_transaction(lambda unit: unit.companions.lock_companion(404)) is None

    async def test_saving_again_replaces(self, store):
        """Saving again replaces the companion and its detail."""
        companion = await add_companion(store, **COMPLETE)
        bare = {"calendar": make_calendar(), "service_types": (), "badges": (), "bio": ""}
        changed = await change_companion(store, companion, **bare)
        async with store.read_view() as view:
            assert await view.companions.companion(companion.id) == changed
            detail = await view.companions.detail(companion.id)
        assert detail == codec.encode(companion_detail(changed, POLICY.currency))

    async def test_the_detail_is_stored_encoded(self, store):
        """The stored detail is the encoded detail record, with exact decimals."""
        companion = await add_companion(store, **COMPLETE)
        detail = await read_store(store, lambda view: view.companions.detail(companion.id))
        assert detail == codec.encode(companion_detail(companion, POLICY.currency))
        assert b'"hourly_rate":123.45,"daily_rate":999999999.99,' in detail
        assert b'"rating_avg":4.67,' in detail

    @pytest.mark.parametrize(
        "hidden",
        [{"approval": Approval.PENDING}, {"approval": Approval.SUSPENDED}, {"active": False}],
        ids=["pending", "suspended", "disabled"],
    )
    async def test_only_a_listed_companion_is_shown(self, store, hidden):
        """An unlisted companion has neither detail nor agenda, but can be loaded."""
        companion = await add_companion(store, **hidden)
        async with store.read_view() as view:
            assert await view.companions.detail(companion.id) is None
            assert await view.companions.availability(companion.id, NOW, NOW + DAY) is None
            assert await view.companions.companion(companion.id) == companion

    async def test_companions_are_listed_by_id(self, store):
        """Companions are listed by id above the given one, listed or not."""
        companions = [
            await add_companion(store, approval=approval)
            for approval in (Approval.APPROVED, Approval.PENDING, Approval.SUSPENDED)
        ]
        async with store.read_view() as view:
            assert list(await view.companions.companions(0, 10)) == companions
            assert list(await view.companions.companions(companions[0].id, 1)) == companions[1:2]

    # Agendas ----------------------------------------------------------------------------------
    async def test_an_agenda_has_the_calendar_and_busy_times(self, store):
        """An agenda has the calendar, and the intervals of accepted bookings by start."""
        companion = await add_companion(store, calendar=CALENDAR)
        customer = await add_user(store)
        late = await add_accepted_booking(store, companion, customer.id, starts_at=NOW + 5 * DAY)
        early = await add_accepted_booking(store, companion, customer.id, starts_at=NOW + 2 * DAY)
        busy = tuple(Interval(each.starts_at, each.ends_at) for each in (early, late))
        assert await agenda_of(store, companion) == CompanionAvailability(
            companion.id, CALENDAR, busy
        )

    @pytest.mark.parametrize("status", BookingStatus)
    async def test_only_accepted_paid_and_disputed_bookings_take_time(self, store, status):
        """A booking that was not completed is busy time while its status is in
        `SLOT_HOLDING_STATUSES`, and only then."""
        companion = await add_companion(store)
        await add_booking(store, companion, status=status)
        agenda = await agenda_of(store, companion)
        assert bool(agenda.busy) == (status in SLOT_HOLDING_STATUSES)

    async def test_an_agenda_has_no_bookings_of_others(self, store):
        """An agenda leaves out bookings of other companions."""
        companion, other = await add_companion(store), await add_companion(store)
        await add_booking(store, other, status=BookingStatus.PAID)
        assert (await agenda_of(store, companion)).busy == ()

    async def test_an_agenda_covers_the_requested_period(self, store):
        """An agenda has the bookings that overlap the requested period, and no others."""
        companion, customer = await add_companion(store), await add_user(store)
        starts = [NOW + n * DAY for n in range(1, 6)]
        for starts_at in starts:
            await add_accepted_booking(
                store, companion, customer.id, starts_at=starts_at, duration_hours=6
            )
        agenda = await agenda_of(store, companion, starts[1] + HOUR, starts[3] + HOUR)
        assert [span.starts_at for span in agenda.busy] == starts[1:4]

    async def test_busy_intervals_overlap_the_period(self, store):
        """`busy_intervals` gives bookings that overlap the period, and none that only touch it."""
        companion, customer = await add_companion(store), await add_user(store)
        booking = await add_accepted_booking(store, companion, customer.id)
        first, last = booking.starts_at, booking.ends_at

        async def unit(tx):
            return [
                len(await tx.companions.busy_intervals(companion.id, start, end))
                for start, end in [
                    (first - HOUR, first),
                    (last, last + HOUR),
                    (first - HOUR, first + HOUR),
                    (first + HOUR, last - HOUR),
                    (first - HOUR, last + HOUR),
                ]
            ]

        assert await store.run_transaction(unit) == [0, 0, 1, 1, 1]

    async def test_a_cancelled_booking_leaves_the_agenda(self, store):
        """The agenda has no busy time for a cancelled booking."""
        companion, customer = await add_companion(store), await add_user(store)
        booking = await add_accepted_booking(store, companion, customer.id)
        await cancel_booking(store, booking)
        assert (await agenda_of(store, companion)).busy == ()

    # Services ---------------------------------------------------------------------------------
    async def test_services_are_counted_regardless_of_case(self, store):
        """Services are counted regardless of case, by name, in their most frequent spelling."""
        for names in (
            ("Gala dinner", "trade fair"),
            ("gala dinner",),
            ("Gala dinner", "Übersetzen"),
            ("ÜBERSETZEN", "Concert"),
            ("Übersetzen",),
        ):
            await add_companion(store, service_types=names)
        assert list(
            await read_store(store, lambda view: view.companions.service_type_counts())
        ) == [
            ("Concert", 1),
            ("Gala dinner", 3),
            ("trade fair", 1),
            ("Übersetzen", 3),
        ]

    async def test_a_companion_counts_once_for_a_service(self, store):
        """A companion that repeats a service in other letter cases counts once."""
        await add_companion(store, service_types=("Gala", "GALA", "Gala"))
        assert list(
            await read_store(store, lambda view: view.companions.service_type_counts())
        ) == [("Gala", 1)]

    async def test_services_of_unlisted_companions_do_not_count(self, store):
        """The services of a companion are counted only when it is listed."""
        hidden = await add_companion(store, approval=Approval.PENDING, service_types=("Gala",))
        assert (
            list(await read_store(store, lambda view: view.companions.service_type_counts())) == []
        )
        await change_companion(store, hidden, approval=Approval.APPROVED, service_types=("Fair",))
        assert list(
            await read_store(store, lambda view: view.companions.service_type_counts())
        ) == [("Fair", 1)]

    async def test_service_names_are_spelled_as_by_the_best_companion(self, store):
        """Service names of listed companions are sorted, and spelled as by the best-ranked one."""
        for names in (
            ("Gala", "fair"),
            ("gala", "Übersetzen"),
            ("ÜBERSETZEN", "GALA", "Übersetzen"),
        ):
            await add_companion(store, service_types=names)
        await add_companion(store, approval=Approval.PENDING, service_types=("Concert",))
        gone = await add_companion(store, service_types=("Abseiling",))
        await change_companion(store, gone, service_types=("Fair",))
        best = await add_companion(store, service_types=("GALA",))
        await change_companion(store, best, rating_sum=5, total_reviews=1)
        found = await read_store(store, lambda view: view.companions.service_names())
        assert list(found) == ["fair", "GALA", "Übersetzen"]

    async def test_cities_are_counted_over_listed_companions(self, store):
        """The cities with the most listed companions come first, however they are spelled."""
        await add_companion(store, location_city="Porto", location_country="Portugal")
        for city in ("Lisbon", "LISBON"):
            await add_companion(store, location_city=city, location_country="Portugal")
        await add_companion(store, location_city="Oslo", approval=Approval.PENDING)
        found = await read_store(store, lambda view: view.companions.city_counts(5))
        assert list(found) == [("Lisbon", "Portugal", 2), ("Porto", "Portugal", 1)]
        assert len(await read_store(store, lambda view: view.companions.city_counts(1))) == 1

    async def test_photos_are_of_companions_that_have_one(self, store):
        """Photos come by id, also of companions that are not listed, and without empty ones."""
        shown = await add_companion(store, profile_photo="media/a.webp")
        hidden = await add_companion(
            store, profile_photo="media/b.webp", approval=Approval.SUSPENDED
        )
        bare, other = (
            await add_companion(store),
            await add_companion(store, profile_photo="media/c"),
        )
        wanted = [shown.id, hidden.id, bare.id, other.id + 1]
        found = await read_store(store, lambda view: view.companions.profile_photos(wanted))
        assert dict(found) == {shown.id: "media/a.webp", hidden.id: "media/b.webp"}
        assert dict(await read_store(store, lambda view: view.companions.profile_photos([]))) == {}

    async def test_listed_companions_are_listed_by_id(self, store):
        """Ids of listed companions come in ascending order, within the range."""
        assert await read_store(store, lambda view: view.companions.last_listed_id()) == 0
        first, second = await add_companion(store), await add_companion(store)
        hidden = await add_companion(store, approval=Approval.SUSPENDED)
        assert await read_store(store, lambda view: view.companions.last_listed_id()) == second.id
        found = await read_store(store, lambda view: view.companions.listed_ids(1, hidden.id))
        assert list(found) == [first.id, second.id]
        found = await read_store(
            store, lambda view: view.companions.listed_ids(first.id + 1, second.id)
        )
        assert list(found) == [second.id]

    # Candidates -------------------------------------------------------------------------------
    async def test_candidates_are_free_on_the_day(self, store):
        """Candidates are listed companions of a service with a free hour, best first, with
        agendas."""
        customer, day = await add_user(store), (NOW + 2 * DAY).date()
        good = await add_companion(store, rating_sum=4, total_reviews=1)
        best = await add_companion(store, rating_sum=5, total_reviews=1)
        await add_companion(store, service_types=("Concert",))
        await add_companion(store, approval=Approval.SUSPENDED)
        await add_companion(store, calendar=Calendar("UTC", (), (DateOverride(day),)))
        full = await add_companion(store)
        await add_accepted_booking(
            store, full, customer.id, starts_at=midnight(day), duration_hours=24
        )
        taken = await add_accepted_booking(
            store, best, customer.id, starts_at=midnight(day), duration_hours=8
        )

        async with store.read_view() as view:
            found = await view.companions.search_candidates(
                CompanionQuery(service="GALA dinner", date=day, limit=10), NOW, NOW + 9 * DAY
            )
        busy = (Interval(taken.starts_at, taken.ends_at),)
        assert [candidate.availability for candidate in found] == [
            CompanionAvailability(best.id, best.calendar, busy),
            CompanionAvailability(good.id, good.calendar, ()),
        ]
        assert [candidate.summary for candidate in found] == [
            codec.encode(companion_summary(companion, POLICY.currency))
            for companion in (best, good)
        ]

    async def test_candidates_have_a_limit(self, store):
        """Candidates are the best ones up to the limit, with the requested busy time only."""
        customer = await add_user(store)
        companions = [await add_companion(store) for _ in range(4)]
        await add_accepted_booking(store, companions[0], customer.id, starts_at=NOW + 20 * DAY)
        async with store.read_view() as view:
            day = (NOW + 2 * DAY).date()
            found = await view.companions.search_candidates(
                CompanionQuery(service="gala dinner", date=day, limit=2), NOW, NOW + 9 * DAY
            )
        assert [candidate.availability.companion_id for candidate in found] == [
            companion.id for companion in companions[:2]
        ]
        assert [candidate.availability.busy for candidate in found] == [(), ()]
        assert msgspec.json.decode(found[0].summary)["id"] == companions[0].id
