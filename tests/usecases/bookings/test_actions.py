"""Actions of the parties: accept, decline, cancel, confirm, check in, read."""

from __future__ import annotations

from datetime import date

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    SECOND,
    add_companion,
    add_user,
    make_booking_write,
)
from staffbooking_adapters.testing.service import make_booking_request
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.errors import (
    ConstraintViolated,
    FieldError,
    Forbidden,
    InvalidField,
    NotFound,
    RuleBroken,
)
from staffbooking_core.inputs import CancelBooking
from staffbooking_core.ports import BOOKING_OVERLAP
from staffbooking_core.usecases.bookings import (
    actions,
    cancellation_quotes,
    overview,
    parties,
    requests,
)
from staffbooking_core.usecases.companions import search
from tests.support.memory_deployment import actor_of, with_another_companion, with_another_customer

pytestmark = pytest.mark.anyio

STRANGER = Actor(10_000, Role.CUSTOMER)
ACTS = [Trigger.DECLINE, Trigger.CHECK_IN, Trigger.CONFIRM]


async def code_of(call):
    """The error code that a call raises."""
    with pytest.raises(RuleBroken) as caught:
        await call
    return caught.value.code


async def test_the_whole_happy_path(scene):
    """A booking is requested, accepted, paid, checked in, confirmed and paid out, and the ledger is
    right."""
    booking = await scene.request()
    await scene.accept(booking)
    await scene.simulate_checkout(booking)
    await scene.drain()
    await scene.jump_to(booking.starts_at - HOUR)
    await scene.apply_trigger(booking, Trigger.CHECK_IN, scene.staff)
    await scene.jump_to(booking.ends_at)
    await scene.apply_trigger(booking, Trigger.CONFIRM, scene.customer)
    await scene.jump_to(booking.ends_at + DAY)
    await scene.drain()
    found = await scene.booking(booking)
    assert [entry.to for entry in found.timeline] == ["pending", "accepted", "paid", "completed"]
    assert (found.payout_status, found.paid_out, found.platform_fee) == ("paid", 34_000, 6_000)
    assert found.checked_in_at == booking.starts_at - HOUR
    assert await scene.processor_balance() == 6_000
    assert await scene.faults() == []


async def test_a_declined_request_is_cancelled_by_staff(scene):
    """A declined request moves no money, grants no credit and emits one event."""
    booking = await scene.request()
    found = await scene.apply_trigger(booking, Trigger.DECLINE, scene.staff)
    assert (found.status, found.cancelled_by) == (BookingStatus.CANCELLED, Party.STAFF)
    assert await scene.operations(booking) == []
    assert await scene.events(booking) == ["booking.created", "booking.cancelled"]


# Accepting ------------------------------------------------------------------------------


async def test_accepting_takes_the_slot(scene):
    """An accepted slot cannot be requested again."""
    await scene.accepted()
    other = await with_another_customer(scene)
    assert await code_of(other.request(start_time="15:00")) == "companion_unavailable"


async def test_rivals_are_cancelled(scene):
    """Accepting cancels every overlapping pending request, and no other."""
    mine = await scene.request()
    rivals = [await scene.request(start_time=time) for time in ("09:00", "12:00", "15:59")]
    apart = [await scene.request(start_time=time) for time in ("08:00", "16:00")]
    await scene.accept(mine)
    for rival in rivals:
        found = await scene.booking(rival)
        assert (found.cancelled_by, found.cancel_reason) == (Party.SYSTEM, "slot_taken")
        assert await scene.events(rival) == ["booking.created", "booking.cancelled"]
    for other in apart:
        assert (await scene.booking(other)).status is BookingStatus.PENDING


async def test_rivals_of_another_companion_stay(scene):
    """Requests of another companion at the same time stay pending."""
    other = await with_another_companion(scene)
    elsewhere = await other.request()
    await scene.accepted()
    assert (await scene.booking(elsewhere)).status is BookingStatus.PENDING


async def test_accepting_twice_is_refused(scene):
    """A second acceptance raises and changes nothing."""
    booking = await scene.accepted()
    assert await code_of(scene.accept(booking)) == "booking_not_pending"
    assert (await scene.booking(booking)).version == booking.version


async def test_a_request_made_in_between_is_refused_at_acceptance(scene):
    """Of two overlapping requests the second acceptance finds the slot taken."""
    first, second = await scene.request(), await scene.request()
    await scene.accept(first)
    assert await code_of(scene.accept(second)) == "booking_not_pending"


async def test_a_slot_that_is_taken_can_not_be_accepted(scene):
    """A pending request that overlaps an accepted booking cannot be accepted."""
    holder = await scene.accepted()
    wanted = make_booking_request(scene.staff.user_id)
    ports = scene.ports
    late = await add_anyway(scene, ports, wanted)
    assert await code_of(scene.accept(late)) == "companion_unavailable"
    assert (await scene.booking(late)).status is BookingStatus.PENDING
    assert (await scene.booking(holder)).status is BookingStatus.ACCEPTED


async def add_anyway(scene, ports, wanted):
    """A pending request for a taken slot, as after a race."""
    free = evolve(wanted, event_date=date(2027, 3, 20))
    booking = await requests.request_booking(ports, scene.customer, free)
    moved_to = {
        "event_date": wanted.event_date,
        "starts_at": booking.starts_at - 16 * DAY,
        "ends_at": booking.ends_at - 16 * DAY,
        "revision": booking.revision + 1,
    }
    moved = evolve(booking, **moved_to)

    async def unit(tx):
        await tx.bookings.save_booking(make_booking_write(moved))

    await ports.store.run_transaction(unit)
    return moved


async def test_the_store_has_the_last_word(scene, monkeypatch):
    """Where two acceptances race, the store's constraint gives the same error."""
    booking = await scene.request()

    async def write(work):
        raise ConstraintViolated(BOOKING_OVERLAP)

    monkeypatch.setattr(scene.ports.store, "run_transaction", write)
    assert await code_of(scene.accept(booking)) == "companion_unavailable"


async def test_another_constraint_is_a_fault_of_ours(scene, monkeypatch):
    """Another violated constraint is not reported as a taken slot."""
    booking = await scene.request()

    async def write(work):
        raise ConstraintViolated("uq_other")

    monkeypatch.setattr(scene.ports.store, "run_transaction", write)
    with pytest.raises(ConstraintViolated):
        await scene.accept(booking)


async def test_a_request_can_be_accepted_until_its_start(scene):
    """A request can be accepted a second before its start, and not at it."""
    booking = await scene.request()
    await scene.jump_to(booking.starts_at - SECOND)
    assert (await scene.accept(booking)).status is BookingStatus.ACCEPTED
    other = await scene.request(event_date=date(2027, 3, 9))
    await scene.jump_to(other.starts_at)
    assert await code_of(scene.accept(other)) == "event_started"


# Cancelling -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "by, hours, refund, payout",
    [
        ("customer", 48, 42_000, 0),
        ("customer", 24, 20_000, 17_000),
        ("customer", 1, 20_000, 17_000),
        ("staff", 1, 42_000, 0),
        ("admin", 1, 42_000, 0),
    ],
)
async def test_an_insured_cancellation_ends_in_the_right_money(scene, by, hours, refund, payout):
    """Refund and payout are made, and the rest is the platform's."""
    booking = await scene.paid(cancellation_insurance=True)
    await scene.jump_to(booking.starts_at - hours * HOUR)
    await scene.cancel(booking, getattr(scene, by))
    await scene.jump_to(booking.starts_at + 9 * DAY)
    await scene.drain()
    found = await scene.booking(booking)
    assert (found.refunded_amount, found.paid_out) == (refund, payout)
    assert await scene.processor_balance() == 42_000 - refund - payout
    assert await scene.faults() == []


async def test_an_empty_reason_is_none(scene):
    """An empty reason is stored as none."""
    booking = await scene.request()
    given = CancelBooking(reason="")
    cancelled = await actions.cancel(scene.ports, scene.customer, booking.id, given)
    assert cancelled.cancel_reason is None


async def test_a_cancelled_slot_is_free_again(scene):
    """The slot of a cancelled booking can be booked."""
    booking = await scene.accepted()
    await scene.cancel(booking)
    assert (await scene.accepted()).status is BookingStatus.ACCEPTED


async def test_an_admin_cancels_after_the_end(scene):
    """An admin can cancel after the event with a full refund."""
    booking = await scene.paid()
    await scene.jump_to(booking.ends_at + DAY)
    assert await code_of(scene.cancel(booking)) == "booking_not_cancellable"
    assert (await scene.cancel(booking, scene.admin)).refunded_amount == 40_000


# Parties --------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", ACTS)
async def test_strangers_find_nothing(scene, trigger):
    """A booking of other users raises NotFound."""
    booking = await scene.request()
    with pytest.raises(NotFound):
        await scene.apply_trigger(booking, trigger, STRANGER)
    with pytest.raises(NotFound):
        await parties.authorize(scene.ports, STRANGER, booking.id, trigger)
    with pytest.raises(NotFound):
        await actions.get_by_id(scene.ports, STRANGER, booking.id)


async def test_a_booking_that_is_not_there_is_not_found(scene):
    """An unknown booking raises NotFound in every call, for an admin too."""
    ports, ghost = scene.ports, await scene.request()
    ghost = evolve(ghost, id=999)
    for call in (
        actions.get_by_id(ports, scene.admin, 999),
        actions.get_by_code(ports, "BK000000000000"),
        cancellation_quotes.quote_cancellation(ports, scene.admin, 999),
        actions.open_checkout(ports, scene.customer, 999),
        scene.accept(ghost),
        scene.cancel(ghost),
        scene.dispute(ghost),
        scene.apply_trigger(ghost, Trigger.CONFIRM, scene.customer),
    ):
        with pytest.raises(NotFound):
            await call


@pytest.mark.parametrize(
    "trigger, wrong",
    [
        (Trigger.ACCEPT, "customer"),
        (Trigger.DECLINE, "customer"),
        (Trigger.CHECK_IN, "customer"),
        (Trigger.CONFIRM, "staff"),
        (Trigger.CHECKOUT, "staff"),
        (Trigger.ACCEPT, "admin"),
        (Trigger.CONFIRM, "admin"),
        (Trigger.DISPUTE, "admin"),
    ],
)
async def test_the_wrong_side_is_forbidden(scene, trigger, wrong):
    """The wrong party is refused before any rule about the status."""
    booking = await scene.request()
    actor = getattr(scene, wrong)
    with pytest.raises(Forbidden):
        await parties.authorize(scene.ports, actor, booking.id, trigger)
    if trigger in ACTS:
        with pytest.raises(Forbidden):
            await scene.apply_trigger(booking, trigger, actor)


@pytest.mark.parametrize("trigger", sorted({*Trigger} - {*ACTS}))
async def test_a_trigger_with_checks_of_its_own_is_refused(scene, trigger):
    """A trigger that another call serves, with its checks, is refused before anything is loaded."""
    ghost = evolve(await scene.request(), id=999)
    with pytest.raises(InvalidField) as caught:
        await scene.apply_trigger(ghost, trigger, scene.staff)
    fault = FieldError("trigger", "must be one of decline, check_in, confirm")
    assert caught.value.field_errors == (fault,)


async def test_who_booked_reads_and_does_not_act(scene):
    """The key's owner may read the booking and not act on it."""
    booking = await scene.request()
    agent = actor_of(await add_user(scene.ports.store))
    changed = evolve(booking, booked_by=agent.user_id, revision=2)

    async def unit(tx):
        await tx.bookings.save_booking(make_booking_write(changed))

    await scene.ports.store.run_transaction(unit)
    _, party, _ = await actions.get_by_id(scene.ports, agent, booking.id)
    assert party is Party.API
    with pytest.raises(Forbidden):
        await scene.cancel(booking, agent)


# Reading --------------------------------------------------------------------------------


async def ids(scene, actor, role=None, status=None, page=1, limit=10):
    rows = await actions.list_bookings(
        scene.ports, actor, role=role, status=status, page=page, limit=limit
    )
    return [row.id for row in rows]


async def test_bookings_are_listed_for_operators(scene):
    """Bookings are listed, all or of a status."""
    booking = await scene.accepted()
    assert [one.id for one in await overview.list_all_bookings(scene.ports)] == [booking.id]
    assert list(await overview.list_all_bookings(scene.ports, BookingStatus.PAID)) == []


async def test_each_lists_their_own(scene):
    """Customer and companion list their bookings; an admin lists all."""
    booking = await scene.request()
    other = await with_another_customer(scene)
    assert await ids(scene, scene.customer) == await ids(scene, scene.staff) == [booking.id]
    assert await ids(scene, other.customer) == []
    assert await ids(scene, scene.admin) == [booking.id]
    assert await ids(scene, scene.admin, role="customer") == []
    assert await ids(scene, evolve(scene.admin, key_id=1)) == []


async def test_a_list_may_be_of_one_side_and_status(scene):
    """Lists are filtered by role and status, the newest event first."""
    first = await scene.request()
    second = await scene.request(event_date=date(2027, 3, 9))
    await scene.apply_trigger(first, Trigger.DECLINE, scene.staff)
    assert await ids(scene, scene.customer) == [second.id, first.id]
    assert await ids(scene, scene.customer, status=BookingStatus.CANCELLED) == [first.id]
    assert await ids(scene, scene.customer, role="staff") == []


async def test_a_page_shows_whether_more_follow(scene):
    """A page has one more row when another page follows."""
    for day in (5, 6, 7):
        await scene.request(event_date=date(2027, 3, day))
    assert len(await ids(scene, scene.customer, limit=2)) == 3
    assert len(await ids(scene, scene.customer, limit=2, page=2)) == 1


async def test_a_code_finds_its_booking(scene):
    """A public code finds its booking for everybody."""
    booking = await scene.request()
    assert await actions.get_by_code(scene.ports, booking.code) == booking
    assert parties.party_of(STRANGER, booking) is None
    assert parties.party_of(scene.admin, booking) is Party.ADMIN


async def test_a_booking_and_its_days_go_together(scene):
    """An accepted booking removes the full day from searches, and its cancellation restores it."""
    ports, day = scene.ports, date(2027, 3, 4)
    await add_companion(ports.store, location_city="Faro")
    booking = await scene.accepted(start_time="00:00", duration_hours=24)
    query = CompanionQuery(location="Lisbon", date=day)
    assert await search.search(ports, query) == []
    await scene.cancel(booking)
    assert len(await search.search(ports, query)) == 1


async def test_times_are_the_services(scene):
    """Bookings are stamped with business time."""
    await scene.jump_to(NOW + 5 * HOUR)
    assert (await scene.request()).created_at == NOW + 5 * HOUR
