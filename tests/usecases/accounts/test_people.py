"""What operators do with people's accounts."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import add_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.errors import RuleBroken
from staffbooking_core.usecases.accounts import people
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
