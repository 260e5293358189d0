"""What a booking request reads and leaves behind, on every store alike: its context,
events, kept answers and credits."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters import codec
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import IDEMPOTENCY_KEY_TAKEN, BookableCompanion
from tests.contract.stores import read_store
from tests.support.builders import (
    DAY,
    HOUR,
    NOW,
    POLICY,
    SECOND,
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
    next_version,
    save_booking,
)

pytestmark = pytest.mark.anyio

START = NOW + 2 * DAY
DATE = START.date()


async def context(store, companion_id=0, email=None, customer_id=None, day=DATE):
    return await read_store(
        store, lambda view: view.bookings.request_context(companion_id, email, customer_id, day)
    )


# The context of a request -----------------------------------------------------------------


async def test_a_context_tells_what_a_request_needs(store):
    """Of the companion just what a request is decided on, with the full name."""
    calendar = make_calendar("Asia/Tokyo", days=range(5))
    companion = await add_companion(store, calendar=calendar, first_name="Mia", last_name="Berg")
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


@pytest.mark.parametrize("hidden", [{"approval": Approval.PENDING}, {"active": False}])
async def test_only_a_listed_companion_is_bookable(store, hidden):
    """Others are as unknown as one that was never there."""
    companion = await add_companion(store, **hidden)
    assert (await context(store, companion.id)).companion is None
    assert (await context(store, companion.id + 1)).companion is None


async def test_a_customer_is_found_by_email_or_id(store):
    """By e-mail in any case; whoever it is, of whatever role; nobody where none is named."""
    user = await add_user(store, email="ada@example.com", role=Role.ADMIN)
    assert (await context(store, email="ADA@example.com")).customer == user
    assert (await context(store, customer_id=user.id)).customer == user
    assert (await context(store, email="nobody@example.com")).customer is None
    assert (await context(store, customer_id=user.id + 1)).customer is None
    assert (await context(store)).customer is None


@pytest.mark.parametrize("timezone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"])
async def test_a_context_sees_all_time_that_a_request_could_touch(store, timezone):
    """From the first hour of the local day to 24 h after its last, wherever in the world."""
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


async def test_a_context_leaves_out_what_is_far(store):
    """Bookings of other weeks, of others, and such as hold nothing are not told."""
    companion = await add_companion(store)
    for days in (-8, 8):
        await add_booking(store, companion, status=BookingStatus.PAID, starts_at=START + days * DAY)
    await add_booking(store, companion, status=BookingStatus.CANCELLED, starts_at=START)
    await add_booking(store, status=BookingStatus.PAID, starts_at=START)
    assert (await context(store, companion.id)).companion.busy == ()


async def test_each_context_has_a_number_of_its_own(store):
    """Numbers rise, are never given twice, and may stay unused."""
    numbers = [await next_booking_id(store) for _ in range(3)]
    booking = await add_booking(store)
    numbers += [booking.id, await next_booking_id(store)]
    assert numbers == sorted(set(numbers))
    assert numbers[0] > 0


# Events -----------------------------------------------------------------------------------


async def test_an_event_is_encoded_once(store):
    """What receivers get is the envelope as it was when the step was saved."""
    booking = make_booking(id=await next_booking_id(store))
    companion, customer = await add_companion(store), await add_user(store)
    booking = evolve(booking, companion_id=companion.id, customer_id=customer.id)
    event = make_event(booking)
    await store.add_booking(make_booking_write(booking, event=event))
    told = await read_store(store, lambda view: view.bookings.events_of(booking.id))
    assert list(told) == [(1, codec.encode(event.envelope))]
    assert b'"price":400.00,' in told[0][1]


async def test_events_are_in_order(store):
    """By sequence, each booking's own; a step without an event adds none."""
    booking, other = await add_booking(store), await add_booking(store)
    second = make_event(booking, sequence=2)
    third = make_event(booking, sequence=3)
    await save_booking(store, next_version(booking), event=second)
    await save_booking(store, next_version(booking, version=3))
    await save_booking(store, next_version(booking, version=4), event=third)
    async with store.read_view() as view:
        assert list(await view.bookings.events_of(booking.id)) == [
            (2, codec.encode(second.envelope)),
            (3, codec.encode(third.envelope)),
        ]
        assert list(await view.bookings.events_of(other.id)) == []


# Kept answers -----------------------------------------------------------------------------


async def keep(store, answer):
    await store.run_transaction(lambda unit: unit.idempotency.save_response(answer))
    return answer


async def kept(store, answer, now=NOW):
    return await read_store(
        store, lambda view: view.idempotency.stored_response(answer.scope, answer.key, now)
    )


async def test_an_answer_is_kept_byte_for_byte(store):
    """Found by its scope and key, whatever bytes it has."""
    answer = await keep(
        store, make_stored_response(body=bytes(range(256)), fingerprint=b"\xff\x00" * 16)
    )
    assert await kept(store, answer) == answer
    assert await kept(store, evolve(answer, scope="key:2")) is None
    assert await kept(store, evolve(answer, key=answer.key.upper())) is None


async def test_an_answer_expires(store):
    """At its very moment it is not given any more."""
    answer = await keep(store, make_stored_response())
    assert await kept(store, answer, answer.expires_at - SECOND) == answer
    assert await kept(store, answer, answer.expires_at) is None


async def test_the_first_answer_stays(store):
    """A second one for the same scope and key is refused; another scope's is not."""
    answer = await keep(store, make_stored_response())
    await keep(store, evolve(answer, scope="key:2", body=b"another"))
    with pytest.raises(ConstraintViolated) as caught:
        await keep(store, evolve(answer, body=b"second", expires_at=answer.expires_at + HOUR))
    assert caught.value.constraint == IDEMPOTENCY_KEY_TAKEN
    assert await kept(store, answer) == answer


async def test_an_expired_answer_is_replaced(store):
    """Made when the first has expired, the second one counts."""
    answer = await keep(store, make_stored_response())
    later = answer.expires_at + POLICY.idempotency_lifetime
    second = await keep(store, evolve(answer, body=b"second", expires_at=later))
    assert await kept(store, answer, answer.expires_at) == second


async def test_a_booking_is_added_with_its_answer(store):
    """Both or neither: where an answer is kept already, there is no booking either."""
    answer = make_stored_response()
    await add_booking(store, change={"response": answer})
    assert await kept(store, answer) == answer
    companion, customer = await add_companion(store), await add_user(store)
    with pytest.raises(ConstraintViolated) as caught:
        await add_booking(
            store, companion, customer, code="BKSECOND000000", change={"response": answer}
        )
    assert caught.value.constraint == IDEMPOTENCY_KEY_TAKEN
    found = await read_store(store, lambda view: view.bookings.booking_by_code("BKSECOND000000"))
    assert found is None


# Credits ----------------------------------------------------------------------------------


async def test_a_credit_is_granted_with_a_cancellation(store):
    """It is found by the cancelled booking's id; other bookings have none."""
    booking, other = await add_booking(store), await add_booking(store)
    credit = make_rebooking_credit(booking)
    await save_booking(
        store, next_version(booking, status=BookingStatus.CANCELLED), rebooking_credit=credit
    )
    async with store.read_view() as view:
        assert await view.bookings.rebooking_credit(booking.id) == credit
        assert await view.bookings.rebooking_credit(other.id) is None


async def test_a_credit_is_used_once(store):
    """The second use is refused, and the first stays noted."""
    booking, first, second = [await add_booking(store) for _ in range(3)]
    credit = make_rebooking_credit(booking)
    await save_booking(
        store, next_version(booking, status=BookingStatus.CANCELLED), rebooking_credit=credit
    )
    for user, expected in ((first, True), (second, False)):
        used = await store.run_transaction(
            lambda unit, user=user: unit.bookings.use_rebooking_credit(credit, user.id)
        )
        assert used is expected
    found = await read_store(store, lambda view: view.bookings.rebooking_credit(booking.id))
    assert found == evolve(credit, used_by=first.id)


async def test_a_credit_that_was_never_granted_cannot_be_used(store):
    """There is nothing to use up."""
    booking = await add_booking(store)
    used = await store.run_transaction(
        lambda unit: unit.bookings.use_rebooking_credit(make_rebooking_credit(booking), booking.id)
    )
    assert used is False
