"""Contract of the stores: the context of booking requests, events, stored responses, and
rebooking credits."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters import codec
from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    add_booking,
    add_companion,
    add_user,
    make_booking,
    make_booking_write,
    make_calendar,
    make_event,
    make_rebooking_credit,
    make_stored_response,
    next_booking_id,
    next_revision,
    save_booking,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import IDEMPOTENCY_KEY_TAKEN, BookableCompanion

START = NOW + 2 * DAY
DATE = START.date()


async def context(store, companion_id=0, email=None, customer_id=None, day=DATE):
    return await read_store(
        store, lambda view: view.bookings.request_context(companion_id, email, customer_id, day)
    )


# Stored responses ------------------------------------------------------------------------


async def find_response(store, answer):
    return await read_store(
        store, lambda view: view.idempotency.stored_response(answer.scope, answer.key, NOW)
    )


class RequestsContract(StoreContract):
    """The context of booking requests, events, stored responses, and rebooking credits."""

    # The context of a request -----------------------------------------------------------------
    async def test_a_context_has_what_a_request_needs(self, store):
        """A request's context has the companion's name, rates, services, calendar and busy time."""
        calendar = make_calendar("Asia/Tokyo", days=range(5))
        companion = await add_companion(
            store, calendar=calendar, first_name="Mia", last_name="Berg"
        )
        booking = await add_booking(store, companion, status=BookingStatus.PAID, starts_at=START)
        found = await context(store, companion.id)
        assert found.companion == BookableCompanion(
            id=companion.id,
            name="Mia Berg",
            hourly_rate=companion.hourly_rate,
            daily_rate=companion.daily_rate,
            service_types=companion.service_types,
            calendar=calendar,
            busy=(Interval(booking.starts_at, booking.ends_at),),
        )

    async def test_a_context_has_the_sandbox_clock(self, store):
        """A request's context has the clock offset as it was set last."""
        assert (await context(store)).clock_offset == timedelta(0)
        for offset in (3 * DAY + timedelta(microseconds=1), 2 * DAY):

            async def unit(tx, offset=offset):
                await tx.sandbox.lock_clock()
                await tx.sandbox.set_clock_offset(offset)

            await store.run_transaction(unit)
            assert (await context(store)).clock_offset == offset

    async def test_a_context_has_the_number_of_acceptances(self, store):
        """A request's context has how many bookings its companion has accepted, which saving the
        account does not change."""
        companion, other = await add_companion(store), await add_companion(store)

        async def unit(tx):
            await tx.bookings.count_acceptance(companion.id)
            await tx.bookings.count_acceptance(companion.id)
            await tx.accounts.save_user(await tx.accounts.lock_user(companion.id))

        await store.run_transaction(unit)
        found = [(await context(store, each.id)).companion for each in (companion, other)]
        assert [one.acceptances for one in found] == [2, 0]

    @pytest.mark.parametrize("hidden", [{"approval": Approval.PENDING}, {"active": False}])
    async def test_only_a_listed_companion_is_bookable(self, store, hidden):
        """The context of a request has None for an unlisted or unknown companion."""
        companion = await add_companion(store, **hidden)
        assert (await context(store, companion.id)).companion is None
        assert (await context(store, companion.id + 1)).companion is None

    async def test_a_customer_is_found_by_email_or_id(self, store):
        """The customer is found by e-mail in any case or by id, and is None if unknown or not
        given."""
        user = await add_user(store, email="ada@example.com", role=Role.ADMIN)
        assert (await context(store, email="ADA@example.com")).customer == user
        assert (await context(store, customer_id=user.id)).customer == user
        assert (await context(store, email="nobody@example.com")).customer is None
        assert (await context(store, customer_id=user.id + 1)).customer is None
        assert (await context(store)).customer is None

    @pytest.mark.parametrize("timezone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
    async def test_a_context_covers_every_time_zone(self, store, timezone):
        """Busy time covers the local day and the 24 hours after it, in any time zone."""
        companion = await add_companion(store, calendar=make_calendar(timezone))
        offset = {"UTC": 0, "Pacific/Kiritimati": -14, "Pacific/Pago_Pago": 11}[timezone] * HOUR
        midnight = START.replace(hour=0) + offset
        edges = [midnight - HOUR, midnight + 47 * HOUR]
        for starts_at in edges:
            await add_booking(
                store, companion, status=BookingStatus.PAID, starts_at=starts_at, duration_hours=2
            )
        found = await context(store, companion.id)
        assert [span.starts_at for span in found.companion.busy] == edges

    async def test_a_context_excludes_other_busy_time(self, store):
        """Busy time has no distant or cancelled bookings, and none of other companions."""
        companion = await add_companion(store)
        for days in (-8, 8):
            await add_booking(
                store, companion, status=BookingStatus.PAID, starts_at=START + days * DAY
            )
        await add_booking(store, companion, status=BookingStatus.CANCELLED, starts_at=START)
        await add_booking(store, status=BookingStatus.PAID, starts_at=START)
        assert (await context(store, companion.id)).companion.busy == ()

    async def test_reserved_booking_ids_are_unique(self, store):
        """Reserved booking ids increase, also when some stay unused."""
        booking_ids = [await next_booking_id(store) for _ in range(3)]
        booking = await add_booking(store)
        booking_ids += [booking.id, await next_booking_id(store)]
        assert booking_ids == sorted(set(booking_ids))
        assert booking_ids[0] > 0

    # Events -----------------------------------------------------------------------------------
    async def test_an_event_is_encoded_once(self, store):
        """An event is stored as its encoded envelope."""
        booking = make_booking(id=await next_booking_id(store))
        companion, customer = await add_companion(store), await add_user(store)
        booking = evolve(booking, companion_id=companion.id, customer_id=customer.id)
        event = make_event(booking)
        await store.add_booking(make_booking_write(booking, event=event))
        stored_events = await read_store(store, lambda view: view.bookings.events_of(booking.id))
        assert list(stored_events) == [(1, codec.encode(event.envelope))]
        assert b'"price":400.00,' in stored_events[0][1]

    async def test_events_are_in_order(self, store):
        """A booking's events are listed by sequence, and a write without an event adds none."""
        booking, other = await add_booking(store), await add_booking(store)
        second = make_event(booking, sequence=2)
        third = make_event(booking, sequence=3)
        await save_booking(store, next_revision(booking), event=second)
        await save_booking(store, next_revision(booking, revision=3))
        await save_booking(store, next_revision(booking, revision=4), event=third)
        async with store.read_view() as view:
            assert list(await view.bookings.events_of(booking.id)) == [
                (2, codec.encode(second.envelope)),
                (3, codec.encode(third.envelope)),
            ]
            assert list(await view.bookings.events_of(other.id)) == []

    async def test_a_booking_is_added_with_its_response(self, store):
        """A booking is stored with its response, and not stored if the key is taken."""
        answer = make_stored_response()
        await add_booking(store, change={"response": answer})
        assert await find_response(store, answer) == answer
        companion, customer = await add_companion(store), await add_user(store)
        with pytest.raises(ConstraintViolated) as caught:
            await add_booking(
                store, companion, customer, code="BKSECOND000000", change={"response": answer}
            )
        assert caught.value.constraint == IDEMPOTENCY_KEY_TAKEN
        found = await read_store(
            store, lambda view: view.bookings.booking_by_code("BKSECOND000000")
        )
        assert found is None

    # Credits ----------------------------------------------------------------------------------
    async def test_a_credit_is_granted_with_a_cancellation(self, store):
        """A rebooking credit is stored with the cancelled booking, and other bookings have none."""
        booking, other = await add_booking(store), await add_booking(store)
        credit = make_rebooking_credit(booking)
        await save_booking(
            store, next_revision(booking, status=BookingStatus.CANCELLED), rebooking_credit=credit
        )
        async with store.read_view() as view:
            assert await view.bookings.rebooking_credit(booking.id) == credit
            assert await view.bookings.rebooking_credit(other.id) is None

    async def test_a_credit_is_used_once(self, store):
        """The first use of a credit is stored, and a second use returns False."""
        booking, first, second = [await add_booking(store) for _ in range(3)]
        credit = make_rebooking_credit(booking)
        await save_booking(
            store, next_revision(booking, status=BookingStatus.CANCELLED), rebooking_credit=credit
        )
        for user, expected in ((first, True), (second, False)):
            used = await store.run_transaction(
                lambda unit, user=user: unit.bookings.use_rebooking_credit(credit, user.id)
            )
            assert used is expected
        found = await read_store(store, lambda view: view.bookings.rebooking_credit(booking.id))
        assert found == evolve(credit, used_by=first.id)

    async def test_a_credit_that_was_never_granted_cannot_be_used(self, store):
        """Using a credit that was never granted returns False."""
        booking = await add_booking(store)
        used = await store.run_transaction(
            lambda unit: unit.bookings.use_rebooking_credit(
                make_rebooking_credit(booking), booking.id
            )
        )
        assert used is False
