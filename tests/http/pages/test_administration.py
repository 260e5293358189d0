"""The operators' page lists what waits for a decision."""

from __future__ import annotations

import pytest

from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.usecases.accounts import administration
from tests.http.deployment import HttpDeployment
from tests.support.memory_deployment import BookingScenario, actor_of
from tests.support.portfolio import add_portfolio_item

pytestmark = pytest.mark.anyio

PEOPLE = {"accept": "text/html"}


async def test_the_page_lists_what_waits(world: HttpDeployment) -> None:
    """Disputes, failed refunds and pending approvals are listed."""
    parties = (actor_of(each) for each in (world.customer, world.companion, world.admin))
    scene = BookingScenario(world.ports, *parties)
    refused = await scene.paid()
    await scene.fault("refund", "refuse")
    await scene.cancel(refused)
    disputed = await scene.completed()
    await scene.dispute(disputed)
    await administration.set_approval(world.ports, world.companion.id, Approval.PENDING)
    item = await add_portfolio_item(world.store, world.companion.id)
    await administration.moderate_item(world.ports, item.id, PortfolioItemStatus.PENDING)
    admin = await world.signed_in_client(world.admin.id)
    text = (await admin.get("/admin")).text
    assert disputed.code in text
    assert refused.code in text
    assert f"<li>{world.companion.id}: " in text
    assert f"<li>{item.id}: " in text


async def test_the_page_says_that_nothing_waits(world: HttpDeployment) -> None:
    """Without anything to decide each list says so."""
    admin = await world.signed_in_client(world.admin.id)
    assert (await admin.get("/admin")).text.count("There are none.") == 5


async def test_the_page_is_for_admins(world: HttpDeployment) -> None:
    """Others find nothing, and visitors are led to sign in."""
    customer = await world.signed_in_client(world.customer.id)
    assert (await customer.get("/admin", headers=PEOPLE)).status_code == 404
    answer = await world.client().get("/admin", headers=PEOPLE)
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        "/account/sign-in?next=%2Fadmin",
    )


async def test_a_booking_links_the_group_of_its_event(world: HttpDeployment) -> None:
    """The booking page links the event's group conversation once it is open."""
    parties = (actor_of(each) for each in (world.customer, world.companion, world.admin))
    scene = BookingScenario(world.ports, *parties)
    customer = await world.signed_in_client(world.customer.id)
    booking = await scene.accepted(event_ref="Gala")
    page = f"/bookings/{booking.id}/return"
    assert "Message all of Gala" not in (await customer.get(page)).text
    await scene.accepted(event_ref="Gala", start_time="18:00")
    assert "Message all of Gala" in (await customer.get(page)).text
