"""Contract of the stores: bookings, their slots, and lists of bookings."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    SECOND,
    add_booking,
    add_companion,
    add_user,
    next_revision,
    save_booking,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.bookings.booking import (
    PaymentIntent,
    PaymentStatus,
    PayoutStatus,
    TimelineEntry,
)
from staffbooking_core.domain.bookings.lifecycle import (
    SLOT_HOLDING_STATUSES,
    BookingStatus,
    Party,
    Trigger,
)
from staffbooking_core.domain.bookings.refunds import Refund, RefundReason
from staffbooking_core.domain.payments.operations import SettlementStatus
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import BOOKING_CODE_TAKEN, BOOKING_OVERLAP, BookingQuery

FINE = NOW + timedelta(microseconds=123_456)
START = NOW + 2 * DAY


def optional_fields(booked_by):
    """Values for every optional field of a booking."""
    entry = TimelineEntry(
        *(FINE, BookingStatus.PENDING, BookingStatus.ACCEPTED, Trigger.ACCEPT, Party.STAFF),
        reason="Straße",
        actor_id=7,
    )
    return {
        "booked_by": booked_by,
        "location": "Straße 1,\n東京 \N{GRINNING FACE}",
        "cancellation_insurance": True,
        "event_ref": "Wedding '27",
        "priority": True,
        "events": 3,
        "timeline": (entry, evolve(entry, was=None, actor=Party.SYSTEM)),
        "checked_in_at": FINE,
        "accepted_at": FINE + SECOND,
        "paid_at": FINE + 2 * SECOND,
        "completed_at": FINE + 3 * SECOND,
        "completed_by": Party.ADMIN,
        "cancelled_at": FINE + 4 * SECOND,
        "cancelled_by": Party.CUSTOMER,
        "cancel_reason": "ill",
        "cancel_rule": "24_to_48_hours",
        "disputed_at": FINE + 5 * SECOND,
        "dispute_reason": "late",
        "disputed_by": Party.STAFF,
        "payment_status": PaymentStatus.PARTIALLY_REFUNDED,
        "payout_status": PayoutStatus.FROZEN,
        "payout_due_at": FINE + 6 * SECOND,
        "payout_released_at": FINE + 7 * SECOND,
        "payout_hold_lifted": True,
        "payout_alarmed_at": FINE + 8 * SECOND,
        "escrow": 1,
        "refunded_amount": 2,
        "paid_out": 3,
        "owed_by_staff": 4,
        "netted": -9,
        "payout_n": 5,
        "orders": 6,
        "settlements": 7,
        "chargeback_ref": "cb_1",
        "chargeback_status": ChargebackStatus.LOST,
        "chargeback_amount": 8,
        "intent": PaymentIntent(
            1, FINE, "cs_1", "https://pay.example/1", "pay_1", ("pay_2", "pay_3")
        ),
        "refunds": (
            Refund(
                5, 900, RefundReason.LATE_PAYMENT, FINE, SettlementStatus.SETTLED, FINE + SECOND
            ),
            Refund(6, 100, RefundReason.CANCELLATION, FINE),
        ),
    }


async def find(store, booking):
    return await read_store(store, lambda view: view.bookings.booking(booking.id))


async def listed(store, user=None, **given):
    query = BookingQuery(None if user is None else user.id, **given)
    found = await read_store(store, lambda view: view.bookings.bookings(query))
    return [booking.id for booking in found]


# Open bookings of a user ------------------------------------------------------------------


async def open_ids(store, user_id, after_id=0, limit=100):
    found = await read_store(
        store, lambda view: view.bookings.open_bookings_of(user_id, after_id, limit)
    )
    return [booking.id for booking in found]


class BookingsContract(StoreContract):
    """Bookings, their slots, and lists of bookings."""

    # One booking ------------------------------------------------------------------------------
    async def test_a_booking_is_stored_as_added(self, store):
        """A booking is stored with every field, and found by id and by code."""
        agency = await add_user(store)
        booking = await add_booking(store, **optional_fields(agency.id))
        assert await find(store, booking) == booking
        assert (
            await read_store(store, lambda view: view.bookings.booking_by_code(booking.code))
            == booking
        )
        assert (
            await store.run_transaction(lambda unit: unit.bookings.lock_booking(booking.id))
            == booking
        )

    async def test_an_unset_field_stays_unset(self, store):
        """A booking without optional fields is stored unchanged."""
        booking = await add_booking(store)
        assert await find(store, booking) == booking

    async def test_an_unknown_booking_is_none(self, store):
        """An unknown id or a code in other letter case gives None."""
        booking = await add_booking(store, code="BKABCDEFGHJKMN")
        async with store.read_view() as view:
            assert await view.bookings.booking(booking.id + 1) is None
            assert await view.bookings.booking_by_code("BKabcdefghjkmn") is None
        assert (
            await store.run_transaction(lambda unit: unit.bookings.lock_booking(booking.id + 1))
            is None
        )

    async def test_a_code_is_used_once(self, store):
        """A second booking with the same code raises ConstraintViolated and is not stored."""
        booking = await add_booking(store)
        with pytest.raises(ConstraintViolated) as caught:
            await add_booking(store, code=booking.code)
        assert caught.value.constraint == BOOKING_CODE_TAKEN
        assert await listed(store) == [booking.id]

    async def test_an_id_is_used_once(self, store):
        """A second booking with the same id raises ConstraintViolated and leaves the first."""
        booking = await add_booking(store)
        with pytest.raises(ConstraintViolated):
            await add_booking(store, id=booking.id)
        assert await find(store, booking) == booking

    async def test_a_saved_booking_replaces_the_stored_one(self, store):
        """Saving the next version of a booking can set and clear its fields."""
        agency, booking = await add_user(store), await add_booking(store)
        changed = await save_booking(
            store, next_revision(booking, status=BookingStatus.PAID, **optional_fields(agency.id))
        )
        assert await find(store, booking) == changed
        cleared = await save_booking(
            store, next_revision(changed, intent=None, payout_due_at=None, paid_at=None)
        )
        assert await find(store, booking) == cleared

    @pytest.mark.parametrize("revision", [1, 3])
    async def test_a_stale_revision_is_a_conflict(self, store, revision):
        """Saving a revision that is not the next one raises Conflict and changes nothing."""
        booking = await add_booking(store)
        with pytest.raises(Conflict):
            await save_booking(store, next_revision(booking, revision=revision))
        assert await find(store, booking) == booking

    async def test_saving_an_unknown_booking_is_a_conflict(self, store):
        """Saving a booking that was never added raises Conflict."""
        booking = await add_booking(store)
        with pytest.raises(Conflict):
            await save_booking(
                store, next_revision(booking, id=booking.id + 1, code="BKANOTHER00000")
            )

    # The slot ---------------------------------------------------------------------------------
    @pytest.mark.parametrize("status", sorted(SLOT_HOLDING_STATUSES))
    @pytest.mark.parametrize("hours", [-3, 0, 1, 3])
    async def test_a_held_slot_cannot_be_taken(self, store, status, hours):
        """Adding or saving a booking that overlaps a held slot raises BOOKING_OVERLAP."""
        companion = await add_companion(store)
        await add_booking(store, companion, status=status, starts_at=START)
        starts_at = START + hours * HOUR
        with pytest.raises(ConstraintViolated) as added:
            await add_booking(store, companion, status=BookingStatus.ACCEPTED, starts_at=starts_at)
        rival = await add_booking(store, companion, starts_at=starts_at)
        with pytest.raises(ConstraintViolated) as saved:
            await save_booking(store, next_revision(rival, status=BookingStatus.ACCEPTED))
        assert (added.value.constraint, saved.value.constraint) == (
            BOOKING_OVERLAP,
            BOOKING_OVERLAP,
        )
        assert await find(store, rival) == rival

    @pytest.mark.parametrize("hours", [-4, 4])
    async def test_slots_may_touch(self, store, hours):
        """Bookings that only touch can both hold their slots."""
        companion = await add_companion(store)
        await add_booking(store, companion, status=BookingStatus.PAID, starts_at=START)
        await add_booking(
            store, companion, status=BookingStatus.ACCEPTED, starts_at=START + hours * HOUR
        )
        assert len(await listed(store)) == 2

    @pytest.mark.parametrize("status", sorted(set(BookingStatus) - SLOT_HOLDING_STATUSES))
    async def test_only_some_statuses_hold_the_slot(self, store, status):
        """A booking whose status does not hold the slot does not block others."""
        companion = await add_companion(store)
        await add_booking(store, companion, status=status)
        await add_booking(store, companion, status=BookingStatus.PAID)
        await add_booking(store, companion, status=status)
        assert len(await listed(store)) == 3

    async def test_a_completed_booking_holds_no_slot_when_it_is_disputed(self, store):
        """A disputed booking that was completed before does not block others, and may be saved
        beside them."""
        companion = await add_companion(store)
        ended = await add_booking(
            store, companion, status=BookingStatus.COMPLETED, completed_at=START
        )
        await add_booking(store, companion, status=BookingStatus.PAID)
        disputed = next_revision(ended, status=BookingStatus.DISPUTED)
        await save_booking(store, disputed)
        await add_booking(store, companion, status=BookingStatus.DISPUTED, completed_at=START)
        assert await find(store, ended) == disputed

    async def test_companions_have_separate_slots(self, store):
        """Bookings of different companions can overlap."""
        await add_booking(store, status=BookingStatus.PAID)
        await add_booking(store, status=BookingStatus.PAID)
        assert len(await listed(store)) == 2

    async def test_a_released_slot_may_be_taken(self, store):
        """The slot of a cancelled booking can be taken, and then the cancelled one cannot hold
        it."""
        companion = await add_companion(store)
        booking = await add_booking(store, companion, status=BookingStatus.ACCEPTED)
        cancelled = await save_booking(
            store, next_revision(booking, status=BookingStatus.CANCELLED)
        )
        await add_booking(store, companion, status=BookingStatus.ACCEPTED)
        with pytest.raises(ConstraintViolated) as caught:
            await save_booking(store, next_revision(cancelled, status=BookingStatus.DISPUTED))
        assert caught.value.constraint == BOOKING_OVERLAP

    async def test_a_booking_does_not_overlap_itself(self, store):
        """A booking can be saved with another status that holds the same slot."""
        booking = await add_booking(store, status=BookingStatus.ACCEPTED)
        paid = await save_booking(store, next_revision(booking, status=BookingStatus.PAID))
        assert await find(store, booking) == paid

    # Lists ------------------------------------------------------------------------------------
    async def test_the_latest_booking_is_listed_first(self, store):
        """Without a user, all bookings are listed by start and id, descending; with
        `earliest_first`, ascending."""
        soon = await add_booking(store, starts_at=START)
        twin = await add_booking(store, starts_at=START)
        late = await add_booking(store, starts_at=START + DAY)
        assert await listed(store) == [late.id, twin.id, soon.id]
        assert await listed(store, earliest_first=True) == [soon.id, twin.id, late.id]

    async def test_a_user_lists_the_bookings_of_each_side(self, store):
        """A user's list has bookings as customer, staff member and booker, or of the given
        sides."""
        companion, agency = await add_companion(store), await add_user(store)
        staff = await read_store(store, lambda view: view.accounts.user(companion.id))
        customer = await add_user(store)
        plain = await add_booking(store, companion, customer, starts_at=START)
        booked = await add_booking(store, booked_by=agency.id, starts_at=START + DAY)
        as_booker = await add_booking(store, booked_by=staff.id, starts_at=START + 2 * DAY)
        own = await add_booking(store, None, agency, booked_by=agency.id, starts_at=START + 3 * DAY)
        assert await listed(store, customer) == [plain.id]
        assert await listed(store, agency) == [own.id, booked.id]
        assert await listed(store, staff) == [as_booker.id, plain.id]
        assert await listed(store, staff, parties=frozenset({Party.STAFF})) == [plain.id]
        assert await listed(store, staff, parties=frozenset({Party.CUSTOMER})) == []
        assert await listed(store, agency, parties=frozenset({Party.CUSTOMER})) == [own.id]
        assert await listed(store, agency, parties=frozenset({Party.API})) == [own.id, booked.id]
        assert await listed(store, staff, parties=frozenset({Party.API})) == [as_booker.id]

    async def test_the_bookings_between_people_are_listed(self, store):
        """The bookings of a customer with some companions are listed by start and id,
        descending."""
        mia, noa, other = [await add_companion(store) for _ in range(3)]
        ada = await add_user(store)
        soon = await add_booking(store, mia, ada, starts_at=START, status=BookingStatus.CANCELLED)
        late = await add_booking(store, noa, ada, starts_at=START + DAY)
        twin = await add_booking(store, mia, ada, starts_at=START + DAY)
        await add_booking(store, other, ada)
        await add_booking(store, mia)

        async def between(companion_ids, limit=10):
            found = await read_store(
                store, lambda view: view.bookings.bookings_between(ada.id, companion_ids, limit)
            )
            return [booking.id for booking in found]

        assert await between([mia.id, noa.id]) == [twin.id, late.id, soon.id]
        assert await between([mia.id, noa.id], limit=2) == [twin.id, late.id]
        assert await between([noa.id]) == [late.id]
        assert await between([]) == []

    async def test_a_list_can_be_of_one_status(self, store):
        """A list can be restricted to one status, with or without a user."""
        customer = await add_user(store)
        for status in BookingStatus:
            await add_booking(store, None, customer, status=status)
        paid = await add_booking(store, status=BookingStatus.PAID)
        mine = await listed(store, customer, status=BookingStatus.PAID)
        assert len(mine) == 1
        assert await listed(store, status=BookingStatus.PAID) == [paid.id, *mine]

    @pytest.mark.parametrize("priority_first", [False, True])
    async def test_pending_priority_requests_can_come_first(self, store, priority_first):
        """With `priority_first` pending priority requests are listed first, each part by start."""
        companion = await add_companion(store)
        kinds: list[dict[str, Any]] = [
            {"starts_at": START, "priority": True},
            {"starts_at": START + DAY},
            {"starts_at": START + 2 * DAY, "priority": True, "status": BookingStatus.PAID},
            {"starts_at": START + 3 * DAY, "priority": True},
            {"starts_at": START + 4 * DAY},
        ]
        ids = [(await add_booking(store, companion, **kind)).id for kind in kinds]
        order = (3, 0, 4, 2, 1) if priority_first else (4, 3, 2, 1, 0)
        assert await listed(store, priority_first=priority_first) == [ids[n] for n in order]

    @pytest.mark.parametrize("earliest_first", [False, True])
    @pytest.mark.parametrize("priority_first", [False, True])
    async def test_pages_of_bookings_join(self, store, priority_first, earliest_first):
        """Each page has its `limit` rows and the first row of the next page."""
        companion, customer = await add_companion(store), await add_user(store)
        for n in range(11):
            starts_at = START + n % 3 * DAY
            await add_booking(store, companion, customer, starts_at=starts_at, priority=n % 2 == 0)
        order = {"priority_first": priority_first, "earliest_first": earliest_first}
        all_ids = await listed(store, customer, limit=50, **order)
        pages = [await listed(store, customer, page=n, limit=4, **order) for n in (1, 2, 3, 4)]
        assert pages == [all_ids[:5], all_ids[4:9], all_ids[8:], []]
        assert len(all_ids) == 11

    async def test_bookings_since_a_time_are_ordered_by_start(self, store):
        """`bookings_since` gives up to `limit` bookings of a companion that end later, by start."""
        companion = await add_companion(store)
        await add_booking(store, starts_at=START)
        later = await add_booking(store, companion, starts_at=START + DAY)
        twins = [await add_booking(store, companion, starts_at=START) for _ in range(2)]
        await add_booking(store, companion, starts_at=START - 4 * HOUR)
        long = await add_booking(
            store,
            companion,
            starts_at=START - DAY + HOUR,
            duration_hours=24,
            status=BookingStatus.PAID,
        )
        wanted = [long, *twins, later]
        async with store.read_view() as view:
            for limit in (1, 3, 50):
                found = await view.bookings.bookings_since(companion.id, START, limit)
                assert found == wanted[:limit]

    async def test_accepted_bookings_precede_requests_in_the_limit(self, store):
        """Within the limit of `bookings_since`, bookings that were accepted take precedence over
        earlier requests."""
        companion, customer = await add_companion(store), await add_user(store)
        requests = [
            await add_booking(store, companion, customer, starts_at=START + n * HOUR)
            for n in range(4)
        ]
        others = [
            await add_booking(store, companion, customer, starts_at=START + n * DAY, status=status)
            for n, status in enumerate(
                (BookingStatus.ACCEPTED, BookingStatus.COMPLETED, BookingStatus.DISPUTED), 1
            )
        ]
        async with store.read_view() as view:
            for room in range(4):
                found = await view.bookings.bookings_since(companion.id, START, len(others) + room)
                assert found == [*requests[:room], *others]
            assert await view.bookings.bookings_since(companion.id, START, 2) == others[:2]

    @pytest.mark.parametrize("status", BookingStatus)
    async def test_bookings_since_a_time_are_not_cancelled(self, store, status):
        """`bookings_since` gives bookings of every status but cancelled."""
        booking = await add_booking(store, starts_at=START, status=status)
        found = await read_store(
            store, lambda view: view.bookings.bookings_since(booking.companion_id, START, 5)
        )
        assert found == ([] if status is BookingStatus.CANCELLED else [booking])

    @pytest.mark.parametrize("status", BookingStatus)
    async def test_a_booking_is_open_until_it_is_decided(self, store, status):
        """Pending, accepted and paid bookings are open for the customer and the companion."""
        booking = await add_booking(store, status=status)
        ahead = status in (BookingStatus.PENDING, BookingStatus.ACCEPTED, BookingStatus.PAID)
        for user_id in (booking.customer_id, booking.companion_id):
            assert await open_ids(store, user_id) == ([booking.id] if ahead else [])

    @pytest.mark.parametrize("payout_status", PayoutStatus)
    async def test_a_booking_is_open_until_its_payout(self, store, payout_status):
        """A completed booking is open for the companion while the payout is to come, and for nobody
        else."""
        given = {"status": BookingStatus.COMPLETED, "payout_status": payout_status}
        booking = await add_booking(store, **given)
        to_come = payout_status in (
            PayoutStatus.SCHEDULED,
            PayoutStatus.FAILED,
            PayoutStatus.FROZEN,
        )
        assert await open_ids(store, booking.companion_id) == ([booking.id] if to_come else [])
        assert await open_ids(store, booking.customer_id) == []

    async def test_a_booking_is_not_open_for_who_booked_it(self, store):
        """Who booked it for another has nothing open."""
        agency = await add_user(store)
        await add_booking(store, booked_by=agency.id)
        assert await open_ids(store, agency.id) == []

    async def test_open_bookings_come_in_pages(self, store):
        """A page has up to the limit of bookings above an id, in the order of ids."""
        customer = await add_user(store)
        made = [(await add_booking(store, customer=customer)).id for _ in range(3)]
        assert await open_ids(store, customer.id, limit=2) == made[:2]
        assert await open_ids(store, customer.id, after_id=made[1]) == made[2:]
