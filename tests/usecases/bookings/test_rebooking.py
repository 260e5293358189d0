"""Priority rebooking: the credit granted by a cancellation of the staff (CONTRACT 4)."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest
from attrs import asdict, evolve

from staffbooking_adapters.testing.builders import DAY, SECOND, add_companion, add_user
from staffbooking_adapters.testing.service import make_booking_request
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.domain.companions.availability import Calendar, Slot, WeeklySlot
from staffbooking_core.errors import RuleBroken
from staffbooking_core.inputs import RequestBookingFor
from staffbooking_core.usecases.bookings import actions, requests
from tests.support.memory_deployment import (
    actor_of,
    list_bookings,
    make_idempotent_call,
    with_another_companion,
    with_another_customer,
)

pytestmark = pytest.mark.anyio


async def rebooking_of(scene, booking, by=None):
    """The rebooking offer of a booking as an actor sees it."""
    _, _, rebooking = await actions.get_by_id(scene.ports, by or scene.customer, booking.id)
    return rebooking


async def let_down(scene, **given):
    """An accepted booking that the staff member cancelled."""
    booking = await scene.accepted(**given)
    return await scene.cancel(booking, scene.staff)


async def test_a_cancellation_by_staff_gives_a_credit(scene):
    """The customer sees the credit with its expiry in thirty days."""
    booking = await let_down(scene)
    rebooking = await rebooking_of(scene, booking)
    assert rebooking.expires_at == await scene.now() + 30 * DAY


@pytest.mark.parametrize("actor", ["staff", "admin"])
async def test_a_credit_is_shown_to_the_customer_alone(scene, actor):
    """Only the customer sees the credit."""
    booking = await let_down(scene)
    rebooking = await rebooking_of(scene, booking, getattr(scene, actor))
    assert rebooking is None


async def test_who_could_stand_in_is_suggested(scene):
    """Up to five free companions of the service are suggested, never the one who cancelled."""
    others = [await with_another_companion(scene) for _ in range(7)]
    busy = others[0]
    booking = await let_down(scene)
    await (await with_another_customer(busy)).accepted()
    await with_another_companion(scene, service_types=("Trade fair",))
    rebooking = await rebooking_of(scene, booking)
    suggested = [str(one.staff.user_id) for one in others[1:6]]
    assert [
        summary.decode().split('"id":')[1].split(",")[0] for summary in rebooking.companions
    ] == (suggested)


async def test_nobody_stands_in_for_what_is_past(scene):
    """After the start nobody is suggested, but the credit stays."""
    await with_another_companion(scene)
    booking = await let_down(scene)
    await scene.jump_to(booking.starts_at)
    rebooking = await rebooking_of(scene, booking)
    assert rebooking.companions == ()


async def test_companions_of_the_same_city_are_suggested_else_of_the_country(scene):
    """A rebooking suggests companions of the same city, else of the same country, else nobody."""
    booking = await scene.accepted()
    await scene.cancel(booking, scene.staff)
    async with scene.ports.store.read_view() as view:
        cancelled = await view.companions.companion(scene.staff.user_id)
    place = {"location_city": "Elsewhere", "location_country": "Nowhere"}
    await add_companion(scene.ports.store, **place)
    assert (await rebooking_of(scene, booking)).companions == ()
    place["location_country"] = cancelled.location_country
    near = await add_companion(scene.ports.store, **place)
    assert suggested(await rebooking_of(scene, booking)) == [near.id]
    place["location_city"] = cancelled.location_city.upper()
    same = await add_companion(scene.ports.store, **place)
    assert suggested(await rebooking_of(scene, booking)) == [same.id]


async def test_a_city_of_the_same_name_in_another_country_is_not_the_same_city(scene):
    """Nobody is suggested from a city of the same name in another country."""
    booking = await let_down(scene)
    async with scene.ports.store.read_view() as view:
        cancelled = await view.companions.companion(scene.staff.user_id)
    await add_companion(
        scene.ports.store,
        location_city=cancelled.location_city,
        location_country="Nowhere",
    )
    assert (await rebooking_of(scene, booking)).companions == ()


async def test_who_is_free_is_suggested_behind_many_who_are_not(scene):
    """A free companion is suggested who ranks behind more than a batch of busy ones."""
    mornings = tuple(WeeklySlot(day, Slot(0, 6 * 60)) for day in range(7))
    for _ in range(110):
        await add_companion(scene.ports.store, calendar=Calendar("UTC", weekly=mornings))
    free = await add_companion(scene.ports.store)
    assert suggested(await rebooking_of(scene, await let_down(scene))) == [free.id]


async def test_who_is_in_the_city_is_suggested_behind_a_city_that_contains_its_name(scene):
    """A companion of York is suggested who ranks behind more than a batch of those of New York."""
    async with scene.ports.store.read_view() as view:
        cancelled = await view.companions.companion(scene.staff.user_id)
    for _ in range(110):
        await add_companion(scene.ports.store, location_city=f"New {cancelled.location_city}")
    near = await add_companion(scene.ports.store)
    assert suggested(await rebooking_of(scene, await let_down(scene))) == [near.id]


def suggested(offer):
    return [json.loads(summary)["id"] for summary in offer.companions]


async def test_a_rebooking_has_priority(scene):
    """A rebooking has priority and uses the credit up."""
    booking = await let_down(scene)
    again = await scene.request(rebooking_of=booking.code)
    assert again.priority
    rebooking = await rebooking_of(scene, booking)
    assert rebooking is None


async def no_rebooking(scene, rebooking_of, **given):
    with pytest.raises(RuleBroken) as caught:
        await scene.request(rebooking_of=rebooking_of, **given)
    return caught.value.code


async def test_a_credit_is_used_once(scene):
    """A second use raises and saves no booking."""
    booking = await let_down(scene)
    await scene.request(rebooking_of=booking.code)
    before = len(await list_bookings(scene))
    assert await no_rebooking(scene, booking.code) == "rebooking_not_available"
    assert len(await list_bookings(scene)) == before


@pytest.mark.parametrize("early, lapsed", [(SECOND, False), (0 * SECOND, True)])
async def test_a_credit_lapses(scene, early, lapsed):
    """A credit works until a second before thirty days."""
    booking = await let_down(scene)
    await scene.jump_to(booking.cancelled_at + 30 * DAY - early)
    wanted = {"event_date": date(2027, 7, 1), "rebooking_of": booking.code}
    if lapsed:
        assert await no_rebooking(scene, **wanted) == "rebooking_not_available"
    else:
        assert (await scene.request(**wanted)).priority


async def test_a_credit_is_its_customers(scene):
    """A credit of another customer cannot be used."""
    booking = await let_down(scene)
    other = await with_another_customer(scene)
    assert await no_rebooking(other, booking.code) == "rebooking_not_available"


@pytest.mark.parametrize("code", ["BK000000000000", "nonsense"])
async def test_an_unknown_code_has_no_credit(scene, code):
    """An unknown or uncancelled booking has no credit."""
    assert await no_rebooking(scene, code) == "rebooking_not_available"
    live = await scene.accepted()
    other = {"event_date": date(2027, 3, 9)}
    with pytest.raises(RuleBroken):
        await scene.request(rebooking_of=live.code, **other)


@pytest.mark.usefixtures("blind")
async def test_a_twin_of_a_rebooking_gets_its_answer(scene):
    """A concurrent call with the same key gets the stored response, not a credit error."""
    booking = await let_down(scene)
    first = await scene.request_once(make_idempotent_call(), rebooking_of=booking.code)
    again = await scene.request_once(make_idempotent_call(), rebooking_of=booking.code)
    assert (again.is_replay, again.body) == (True, first.body)


async def test_priority_requests_come_first_for_staff(scene):
    """Staff see pending priority requests first; customers see the newest event first."""
    cancelled = await let_down(scene)
    urgent = await scene.request(rebooking_of=cancelled.code)
    newer = await scene.request(event_date=urgent.event_date + timedelta(days=3))

    async def first(actor):
        return (await list_bookings(scene, actor))[0].id

    assert await first(scene.staff) == urgent.id
    assert await first(scene.customer) == newer.id
    await scene.apply_trigger(urgent, Trigger.DECLINE, scene.staff)
    assert await first(scene.staff) == newer.id


# Through the API ------------------------------------------------------------------------------


async def through_api(scene, code, owner, key_id=9):
    """A request for the scene's customer by an API key of a user."""
    async with scene.ports.store.read_view() as view:
        customer = await view.accounts.user(scene.customer.user_id)
    wanted = {
        **asdict(make_booking_request(scene.staff.user_id)),
        "customer_email": customer.email,
        "rebooking_of": code,
    }
    actor = evolve(owner, key_id=key_id)
    return await requests.request_booking(scene.ports, actor, RequestBookingFor(**wanted))


async def let_down_agency(scene):
    """An agency, and a cancelled booking that it had booked for the customer."""
    agency = actor_of(await add_user(scene.ports.store))
    booking = await scene.accept(await through_api(scene, None, agency))
    return agency, await scene.cancel(booking, scene.staff)


async def test_who_booked_uses_the_credit_through_the_api(scene):
    """The owner of the key that booked the cancelled booking may use its credit."""
    agency, booking = await let_down_agency(scene)
    assert (await through_api(scene, booking.code, agency, key_id=10)).priority


async def test_a_strangers_key_has_no_credit(scene):
    """A stranger who knows the e-mail and the code cannot use the credit up."""
    _, booking = await let_down_agency(scene)
    stranger = actor_of(await add_user(scene.ports.store))
    with pytest.raises(RuleBroken) as caught:
        await through_api(scene, booking.code, stranger)
    assert caught.value.code == "rebooking_not_available"
    assert (await rebooking_of(scene, booking)) is not None


async def test_a_key_does_not_use_the_credit_of_a_session(scene):
    """The credit of a booking that the customer made is not for another's key."""
    booking = await let_down(scene)
    with pytest.raises(RuleBroken):
        await through_api(scene, booking.code, actor_of(await add_user(scene.ports.store)))


async def test_a_customers_own_key_uses_the_credit(scene):
    """The customer who booked the cancelled booking may use its credit by a key of their own."""
    booking = await let_down(scene)
    assert (await through_api(scene, booking.code, scene.customer)).priority


async def test_the_customer_uses_the_credit_of_an_agencys_booking(scene):
    """The customer may use the credit of a booking that an agency made for them."""
    _, booking = await let_down_agency(scene)
    assert (await scene.request(rebooking_of=booking.code)).priority
