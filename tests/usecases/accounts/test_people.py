"""What operators do with people's accounts."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import add_api_key, add_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.errors import RuleBroken
from staffbooking_core.usecases.accounts import api_keys, people
from tests.support.memory_deployment import BookingScenario

pytestmark = pytest.mark.anyio


async def test_a_customer_with_an_open_booking_becomes_no_operator(scene: BookingScenario) -> None:
    """A customer becomes an operator once no booking of theirs is open."""
    operator = await add_user(scene.ports.store, role=Role.ADMIN)
    booking = await scene.paid()
    with pytest.raises(RuleBroken) as caught:
        await people.set_role(scene.ports, scene.customer.user_id, Role.ADMIN, operator.id)
    assert caught.value.code == "open_bookings"
    await scene.cancel(booking)
    await scene.settle_down()
    await people.set_role(scene.ports, scene.customer.user_id, Role.ADMIN, operator.id)


async def test_the_keys_of_a_new_operator_are_revoked(scene: BookingScenario) -> None:
    """A key that a customer made for their own bookings does not read those of others."""
    ports, person_id = scene.ports, scene.customer.user_id
    operator = await add_user(ports.store, role=Role.ADMIN)
    await add_api_key(ports.store, person_id)
    person = await people.set_role(ports, person_id, Role.ADMIN, operator.id)
    [key] = await api_keys.list_keys(ports, person)
    assert key.revoked_at == ports.clock.wall()


async def test_the_keys_of_a_former_operator_stay(scene: BookingScenario) -> None:
    """A key of an operator who becomes a customer works on, for their own bookings."""
    ports, person_id = scene.ports, scene.customer.user_id
    operator = await add_user(ports.store, role=Role.ADMIN)
    await people.set_role(ports, person_id, Role.ADMIN, operator.id)
    key = await add_api_key(ports.store, person_id)
    person = await people.set_role(ports, person_id, Role.CUSTOMER, operator.id)
    assert await api_keys.list_keys(ports, person) == [key]
