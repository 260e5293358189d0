"""What happens between the two steps of a booking request: parties are disabled, the customer is
made an operator, and the companion accepts other bookings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from attrs import evolve, frozen

from staffbooking_adapters.testing.builders import add_subscriber, add_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.errors import (
    CompanionUnavailable,
    Conflict,
    Forbidden,
    NotFound,
    StaffbookingError,
    Unauthenticated,
)
from staffbooking_core.ports import Store
from staffbooking_core.usecases.accounts import people
from staffbooking_core.usecases.bookings import disabling
from tests.support.memory_deployment import list_bookings
from tests.usecases.bookings.test_requests import request_for

pytestmark = pytest.mark.anyio


async def disable(scene, user_id):
    async with scene.ports.store.read_view() as view:
        user = await view.accounts.user(user_id)
    await disabling.disable_user(scene.ports, user.email)


@frozen
class Overtaken:
    """A store in which something else happens before a booking is added."""

    real: Store
    overtake: Callable[[], Awaitable[None]]

    def read_view(self):
        return self.real.read_view()

    async def add_booking(self, booking_write):
        await self.overtake()
        await self.real.add_booking(booking_write)


async def make_operator(scene, user_id):
    await people.set_role(scene.ports, user_id, Role.ADMIN, scene.admin.user_id)


async def overtaken(scene, call, user_id, change=disable):
    """The error of a request during which a user is disabled or changed; nothing is booked."""
    overtake = partial(change, scene, user_id)
    ports = evolve(scene.ports, store=Overtaken(scene.ports.store, overtake))
    with pytest.raises(StaffbookingError) as caught:
        await call(evolve(scene, ports=ports))
    assert await list_bookings(scene, scene.staff) == []
    return caught.value


async def test_who_is_disabled_meanwhile_books_nothing(scene):
    """An actor who is disabled before or during the request is unauthenticated."""
    error = await overtaken(scene, lambda each: each.request(), scene.customer.user_id)
    assert (type(error), error.code) == (Unauthenticated, "unauthenticated")
    with pytest.raises(Unauthenticated) as caught:
        await scene.request(companion_id=999)
    assert caught.value.code == "unauthenticated"


async def test_a_companion_disabled_meanwhile_is_not_found(scene):
    """A companion who is disabled during the request is not found."""
    error = await overtaken(scene, lambda each: each.request(), scene.staff.user_id)
    assert isinstance(error, NotFound)


@pytest.mark.parametrize("party", ["owner", "customer"])
async def test_by_api_nothing_is_booked_for_who_is_disabled_meanwhile(scene, party):
    """A disabled key owner has an invalid key; a disabled customer is unknown."""
    people = {
        "owner": await add_subscriber(scene.ports.store),
        "customer": await add_user(scene.ports.store),
    }
    call = partial(request_for, owner=people["owner"], email=people["customer"].email)
    error = await overtaken(scene, call, people[party].id)
    assert error.code == ("invalid_api_key" if party == "owner" else "invalid_field")


async def test_who_is_made_an_operator_meanwhile_books_nothing(scene):
    """An actor who is made an operator during the request is no customer."""
    user_id = scene.customer.user_id
    error = await overtaken(scene, lambda each: each.request(), user_id, make_operator)
    assert (type(error), error.code) == (Forbidden, "customers_only")


async def test_by_api_nothing_is_booked_for_who_is_made_an_operator_meanwhile(scene):
    """A customer who is made an operator during a request by API key is no customer's address."""
    owner, customer = await add_subscriber(scene.ports.store), await add_user(scene.ports.store)
    call = partial(request_for, owner=owner, email=customer.email)
    error = await overtaken(scene, call, customer.id, make_operator)
    assert [each.field for each in error.field_errors] == ["customer_email"]


@pytest.mark.parametrize(("hour", "is_free"), [("10:00", False), ("14:00", True)])
async def test_a_request_is_decided_again_after_an_acceptance(scene, hour, is_free):
    """A request during which the companion accepts another is stored if its time is still free,
    and is refused if not."""
    waiting = [await scene.request(start_time="10:00")]

    async def accept():
        while waiting:
            await scene.accept(waiting.pop())

    ports = evolve(scene.ports, store=Overtaken(scene.ports.store, accept))
    request = evolve(scene, ports=ports).request(start_time=hour)
    if is_free:
        assert (await request).status is BookingStatus.PENDING
    else:
        with pytest.raises(CompanionUnavailable) as caught:
            await request
        assert caught.value.reason == "booked"


async def test_a_companion_who_accepts_all_the_time_is_a_conflict(scene):
    """A request is decided MAX_REQUEST_ATTEMPTS times at most."""

    async def accept():
        await scene.ports.store.run_transaction(
            lambda tx: tx.bookings.count_acceptance(scene.staff.user_id)
        )

    ports = evolve(scene.ports, store=Overtaken(scene.ports.store, accept))
    with pytest.raises(Conflict):
        await evolve(scene, ports=ports).request()
