"""Bookings with all that is saved with them, on every store alike."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

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
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import BOOKING_OVERLAP, BookingQuery
from tests.contract.stores import read_store
from tests.support.builders import (
    DAY,
    HOUR,
    NOW,
    SECOND,
    add_booking,
    add_companion,
    add_user,
    next_version,
    save_booking,
)

pytestmark = pytest.mark.anyio

FINE = NOW + timedelta(microseconds=123_456)
START = NOW + 2 * DAY


def everything(booked_by):
    """Every field that a booking may have, set."""
    entry = TimelineEntry(
        FINE, BookingStatus.PENDING, BookingStatus.ACCEPTED, Trigger.ACCEPT, Party.STAFF
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
        "disputed_at": FINE + 5 * SECOND,
        "dispute_reason": "late",
        "disputed_by": Party.STAFF,
        "payment_status": PaymentStatus.PARTIALLY_REFUNDED,
        "payout_status": PayoutStatus.FROZEN,
        "payout_due_at": FINE + 6 * SECOND,
        "payout_released_at": FINE + 7 * SECOND,
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
    }


async def find(store, booking):
    return await read_store(store, lambda view: view.bookings.booking(booking.id))


async def listed(store, user=None, **given):
    query = BookingQuery(None if user is None else user.id, **given)
    found = await read_store(store, lambda view: view.bookings.bookings(query))
    return [booking.id for booking in found]


# One booking ------------------------------------------------------------------------------


async def test_a_booking_comes_back_as_it_was_added(store):
    """Every field is kept, times to the microsecond, by id and by code."""
    agency = await add_user(store)
    booking = await add_booking(store, **everything(agency.id))
    assert await find(store, booking) == booking
    assert (
        await read_store(store, lambda view: view.bookings.booking_by_code(booking.code)) == booking
    )
    assert (
        await store.run_transaction(lambda unit: unit.bookings.lock_booking(booking.id)) == booking
    )


async def test_an_unset_field_stays_unset(store):
    """A plain request has no agency, intent, reasons or later times."""
    booking = await add_booking(store)
    assert await find(store, booking) == booking


async def test_an_unknown_booking_is_none(store):
    """Codes compare to the letter."""
    booking = await add_booking(store, code="BKABCDEFGHJKMN")
    async with store.read_view() as view:
        assert await view.bookings.booking(booking.id + 1) is None
        assert await view.bookings.booking_by_code("BKabcdefghjkmn") is None
    assert (
        await store.run_transaction(lambda unit: unit.bookings.lock_booking(booking.id + 1)) is None
    )


async def test_a_code_is_used_once(store):
    """A second booking of the same code is refused and leaves nothing."""
    booking = await add_booking(store)
    with pytest.raises(ConstraintViolated) as caught:
        await add_booking(store, code=booking.code)
    assert caught.value.constraint == "uq_bookings_code"
    assert await listed(store) == [booking.id]


async def test_a_number_is_used_once(store):
    """Two bookings can't have one id."""
    booking = await add_booking(store)
    with pytest.raises(ConstraintViolated):
        await add_booking(store, id=booking.id)
    assert await find(store, booking) == booking


async def test_a_saved_step_is_the_booking(store):
    """Every field may change with the next version."""
    agency, booking = await add_user(store), await add_booking(store)
    changed = await save_booking(
        store, next_version(booking, status=BookingStatus.PAID, **everything(agency.id))
    )
    assert await find(store, booking) == changed
    cleared = await save_booking(
        store, next_version(changed, intent=None, payout_due_at=None, paid_at=None)
    )
    assert await find(store, booking) == cleared


@pytest.mark.parametrize("version", [1, 3])
async def test_a_step_follows_the_stored_version(store, version):
    """Saving what was decided on another version is a conflict, and changes nothing."""
    booking = await add_booking(store)
    with pytest.raises(Conflict):
        await save_booking(store, next_version(booking, version=version))
    assert await find(store, booking) == booking


async def test_a_step_needs_its_booking(store):
    """Saving a booking that was never added is a conflict."""
    booking = await add_booking(store)
    with pytest.raises(Conflict):
        await save_booking(store, next_version(booking, id=booking.id + 1, code="BKANOTHER00000"))


# The slot ---------------------------------------------------------------------------------


@pytest.mark.parametrize("status", sorted(SLOT_HOLDING_STATUSES))
@pytest.mark.parametrize("hours", [-3, 0, 1, 3])
async def test_a_held_slot_is_held_alone(store, status, hours):
    """Neither a new booking nor a step may hold time that another holds."""
    companion = await add_companion(store)
    await add_booking(store, companion, status=status, starts_at=START)
    starts_at = START + hours * HOUR
    with pytest.raises(ConstraintViolated) as added:
        await add_booking(store, companion, status=BookingStatus.ACCEPTED, starts_at=starts_at)
    rival = await add_booking(store, companion, starts_at=starts_at)
    with pytest.raises(ConstraintViolated) as saved:
        await save_booking(store, next_version(rival, status=BookingStatus.ACCEPTED))
    assert (added.value.constraint, saved.value.constraint) == (BOOKING_OVERLAP, BOOKING_OVERLAP)
    assert await find(store, rival) == rival


@pytest.mark.parametrize("hours", [-4, 4])
async def test_slots_may_touch(store, hours):
    """One booking's end is no part of it."""
    companion = await add_companion(store)
    await add_booking(store, companion, status=BookingStatus.PAID, starts_at=START)
    await add_booking(
        store, companion, status=BookingStatus.ACCEPTED, starts_at=START + hours * HOUR
    )
    assert len(await listed(store)) == 2


@pytest.mark.parametrize("status", sorted(set(BookingStatus) - SLOT_HOLDING_STATUSES))
async def test_only_some_statuses_hold_the_slot(store, status):
    """Pending, completed and cancelled bookings are in nobody's way."""
    companion = await add_companion(store)
    await add_booking(store, companion, status=status)
    await add_booking(store, companion, status=BookingStatus.PAID)
    await add_booking(store, companion, status=status)
    assert len(await listed(store)) == 3


async def test_a_slot_is_one_companions(store):
    """Different companions may work at the same time."""
    await add_booking(store, status=BookingStatus.PAID)
    await add_booking(store, status=BookingStatus.PAID)
    assert len(await listed(store)) == 2


async def test_a_released_slot_may_be_taken(store):
    """Once a booking is cancelled, another may hold its time; it can't come back then."""
    companion = await add_companion(store)
    booking = await add_booking(store, companion, status=BookingStatus.ACCEPTED)
    cancelled = await save_booking(store, next_version(booking, status=BookingStatus.CANCELLED))
    await add_booking(store, companion, status=BookingStatus.ACCEPTED)
    with pytest.raises(ConstraintViolated) as caught:
        await save_booking(store, next_version(cancelled, status=BookingStatus.DISPUTED))
    assert caught.value.constraint == BOOKING_OVERLAP


async def test_a_booking_is_not_in_its_own_way(store):
    """Its next step holds the same slot."""
    booking = await add_booking(store, status=BookingStatus.ACCEPTED)
    paid = await save_booking(store, next_version(booking, status=BookingStatus.PAID))
    assert await find(store, booking) == paid


async def test_contenders_want_the_same_time(store):
    """The booking and the pending ones that overlap it, of its companion, by id."""
    companion = await add_companion(store)
    first = await add_booking(store, companion, starts_at=START + HOUR)
    mine = await add_booking(store, companion, starts_at=START)
    last = await add_booking(store, companion, starts_at=START - 3 * HOUR)
    await add_booking(store, companion, starts_at=START + 4 * HOUR)
    await add_booking(store, companion, starts_at=START, status=BookingStatus.CANCELLED)
    await add_booking(store, companion, starts_at=START, status=BookingStatus.ACCEPTED)
    await add_booking(store, starts_at=START)
    found = await store.run_transaction(lambda unit: unit.bookings.lock_competing_bookings(mine.id))
    assert list(found) == [first, mine, last]


async def test_a_booking_contends_whatever_its_status(store):
    """The booking asked for is among them also when it is not pending any more."""
    booking = await add_booking(store, status=BookingStatus.PAID)
    found = await store.run_transaction(
        lambda unit: unit.bookings.lock_competing_bookings(booking.id)
    )
    assert list(found) == [booking]


async def test_an_unknown_booking_has_no_contenders(store):
    """Nothing is held for a booking that is not there."""
    assert (
        list(await store.run_transaction(lambda unit: unit.bookings.lock_competing_bookings(404)))
        == []
    )


# Lists ------------------------------------------------------------------------------------


async def test_the_newest_event_comes_first(store):
    """By start, and of one start by id, descending; all bookings where no user is named."""
    soon = await add_booking(store, starts_at=START)
    twin = await add_booking(store, starts_at=START)
    late = await add_booking(store, starts_at=START + DAY)
    assert await listed(store) == [late.id, twin.id, soon.id]


async def test_a_user_sees_the_bookings_of_each_side(store):
    """As customer, as staff member and as the agency that booked; each once."""
    companion, agency = await add_companion(store), await add_user(store)
    staff = await read_store(store, lambda view: view.accounts.user(companion.id))
    customer = await add_user(store)
    plain = await add_booking(store, companion, customer, starts_at=START)
    booked = await add_booking(store, booked_by=agency.id, starts_at=START + DAY)
    as_customer = await add_booking(store, None, staff, starts_at=START + 2 * DAY)
    own = await add_booking(store, None, agency, booked_by=agency.id, starts_at=START + 3 * DAY)
    assert await listed(store, customer) == [plain.id]
    assert await listed(store, agency) == [own.id, booked.id]
    assert await listed(store, staff) == [as_customer.id, plain.id]
    assert await listed(store, staff, sides=frozenset({Party.STAFF})) == [plain.id]
    assert await listed(store, staff, sides=frozenset({Party.CUSTOMER})) == [as_customer.id]
    assert await listed(store, agency, sides=frozenset({Party.CUSTOMER})) == [own.id]
    assert await listed(store, agency, sides=frozenset({Party.API})) == [own.id, booked.id]
    assert await listed(store, staff, sides=frozenset({Party.API})) == []


async def test_a_list_may_be_of_one_status(store):
    """Alone or together with a user."""
    customer = await add_user(store)
    for status in BookingStatus:
        await add_booking(store, None, customer, status=status)
    paid = await add_booking(store, status=BookingStatus.PAID)
    mine = await listed(store, customer, status=BookingStatus.PAID)
    assert len(mine) == 1
    assert await listed(store, status=BookingStatus.PAID) == [paid.id, *mine]


@pytest.mark.parametrize("priority_first", [False, True])
async def test_pending_priority_requests_may_come_first(store, priority_first):
    """Only while they are pending; among themselves the newest event is first."""
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


@pytest.mark.parametrize("priority_first", [False, True])
async def test_pages_of_bookings_join(store, priority_first):
    """Each page has up to one row more than its limit, also where starts are equal."""
    companion, customer = await add_companion(store), await add_user(store)
    for n in range(11):
        starts_at = START + n % 3 * DAY
        await add_booking(store, companion, customer, starts_at=starts_at, priority=n % 2 == 0)
    order = {"priority_first": priority_first}
    everything = await listed(store, customer, limit=50, **order)
    pages = [await listed(store, customer, page=n, limit=4, **order) for n in (1, 2, 3, 4)]
    assert pages == [everything[:5], everything[4:9], everything[8:], []]
    assert len(everything) == 11


async def test_bookings_since_a_time_are_the_soonest(store):
    """What ends after it, by start and number; no more than asked for, and nobody else's."""
    companion = await add_companion(store)
    await add_booking(store, starts_at=START)
    later = await add_booking(store, companion, starts_at=START + DAY)
    twins = [await add_booking(store, companion, starts_at=START) for _ in range(2)]
    await add_booking(store, companion, starts_at=START - 4 * HOUR)
    long = await add_booking(
        store, companion, starts_at=START - DAY + HOUR, duration_hours=24, status=BookingStatus.PAID
    )
    wanted = [long, *twins, later]
    async with store.read_view() as view:
        for limit in (1, 3, 50):
            found = await view.bookings.bookings_since(companion.id, START, limit)
            assert found == wanted[:limit]


async def test_requests_push_no_booking_out(store):
    """However many are sooner: where not all have room, what was accepted goes first, whatever
    became of it."""
    companion, customer = await add_companion(store), await add_user(store)
    requests = [
        await add_booking(store, companion, customer, starts_at=START + n * HOUR) for n in range(4)
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
async def test_bookings_since_a_time_are_not_cancelled(store, status):
    """Whatever else became of them, they are among them."""
    booking = await add_booking(store, starts_at=START, status=status)
    found = await read_store(
        store, lambda view: view.bookings.bookings_since(booking.companion_id, START, 5)
    )
    assert found == ([] if status is BookingStatus.CANCELLED else [booking])
