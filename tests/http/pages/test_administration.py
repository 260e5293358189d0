"""The operators' page lists what waits for a decision."""

from __future__ import annotations

from datetime import timedelta

import pytest

from staffbooking_adapters.testing.builders import DAY
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.usecases.bookings import disputes
from staffbooking_core.usecases.companions import approvals
from staffbooking_core.usecases.payments import payouts
from tests.http.deployment import HttpDeployment
from tests.support.html_pages import page_text
from tests.support.memory_deployment import BookingScenario, actor_of

pytestmark = pytest.mark.anyio

PEOPLE = {"accept": "text/html"}


async def test_the_page_counts_what_waits(each_world: HttpDeployment) -> None:
    """Disputes, failed refunds and pending approvals are counted, with since when, and lead to the
    page where each is done."""
    world = each_world
    parties = (actor_of(each) for each in (world.customer, world.companion, world.admin))
    scene = BookingScenario(world.ports, *parties)
    refused = await scene.paid()
    await scene.fault("refund", "refuse")
    await scene.cancel(refused)
    disputed = await scene.completed()
    await scene.dispute(disputed)
    await scene.jump_to(disputed.ends_at + 4 * DAY)
    await approvals.set_approval(world.ports, world.companion.id, Approval.PENDING)
    item = await add_portfolio_item(world.store, world.companion.id)
    await approvals.moderate_item(world.ports, item.id, PortfolioItemStatus.PENDING)
    admin = await world.signed_in_client(world.admin.id)
    page = (await admin.get("/admin")).text
    text = page_text(page)
    for words, path in (
        ("1 Open disputes Oldest since 4 Mar 2027", "/admin/disputes"),
        ("1 Overdue disputes", "/admin/disputes"),
        ("1 Failed refunds", "/admin/money?show=refunds"),
        ("1 Profiles to approve", "/admin/approvals"),
        ("1 Pictures to approve", "/admin/approvals"),
    ):
        assert words in text
        assert f'href="{path}"' in page
    assert "Nothing waits here: Failed payouts" in text


async def test_alerts_lead_to_their_booking(world: HttpDeployment) -> None:
    """The newest alerts are listed in pages, each with the way to the money of its booking."""
    parties = (actor_of(each) for each in (world.customer, world.companion, world.admin))
    scene = BookingScenario(world.ports, *parties)
    booking = await scene.completed()
    for _ in range(6):
        await payouts.hold_payout(world.ports, booking.code, "Why not")
        await payouts.release_payout(world.ports, booking.code)
    disputed = await scene.dispute(booking)
    await scene.resolve(disputed, ResolutionOutcome.REFUND)
    admin = await world.signed_in_client(world.admin.id)
    page = (await admin.get("/admin")).text
    assert f'href="/admin/bookings/{booking.id}"' in page
    assert f"The payout of booking {booking.code} is on hold: Why not" in page
    assert (await admin.get("/admin?page=99")).text.count("There are no more.") == 1


async def test_an_alert_of_what_is_done_says_so(world: HttpDeployment) -> None:
    """The alert of an overdue dispute stays in the list, and tells once it is decided; the alert of
    the decision, which quotes its reason, only tells what happened."""
    parties = (actor_of(each) for each in (world.customer, world.companion, world.admin))
    scene = BookingScenario(world.ports, *parties)
    disputed = await scene.dispute(await scene.completed())
    await scene.jump_to(disputed.ends_at + 4 * DAY)
    await scene.drain()
    admin = await world.signed_in_client(world.admin.id)
    shown = (await admin.get("/admin")).text
    assert "is overdue: resolve it" in shown
    assert "Done since" not in shown
    await disputes.resolve_dispute(
        world.ports, disputed.code, ResolutionOutcome.RELEASE, note="is overdue: resolve it"
    )
    assert (await admin.get("/admin")).text.count("Done since") == 1


async def test_the_page_says_that_nothing_waits(world: HttpDeployment) -> None:
    """Without anything to decide the page says so."""
    admin = await world.signed_in_client(world.admin.id)
    text = page_text((await admin.get("/admin")).text)
    assert "Nothing needs you" in text
    assert "There are no alerts." in text


async def test_a_wrong_clock_is_told(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the machine's clock is wrong, the page says so and by how much."""
    monkeypatch.setattr(world.clock, "skew", lambda: timedelta(seconds=40))
    admin = await world.signed_in_client(world.admin.id)
    assert "40.000 s ahead" in (await admin.get("/admin")).text


async def test_the_audit_says_who_did_what_and_why(each_world: HttpDeployment) -> None:
    """Decisions are listed with their reason, by kind, by booking and by who took them."""
    world = each_world
    parties = (actor_of(each) for each in (world.customer, world.companion, world.admin))
    booking = await BookingScenario(world.ports, *parties).completed()
    admin = await world.signed_in_client(world.admin.id)
    await admin.post(
        f"/api/admin/payouts/{booking.code}/hold", json={"reason": "<b>The name</b> looks wrong"}
    )
    found = "“<b>The name</b> looks wrong”"
    for query, is_found in (
        ("", True),
        ("subject=payout", True),
        ("subject=refund", False),
        (f"code={booking.code.lower()}", True),
        ("code=BK", False),
        (f"by={world.admin.email}&subject=&code=", True),
        ("by=nobody", False),
        ("page=2", False),
    ):
        text = page_text((await admin.get(f"/admin/audit?{query}")).text)
        assert (found in text) is is_found, query
    text = page_text((await admin.get("/admin/audit")).text)
    assert f"Payout · Put on hold · {booking.code}" in text
    assert f"By {world.admin.email} · from {world.client_address}" in text


@pytest.mark.parametrize("query", ["subject=all", f"by={'x' * 300}", f"code={'x' * 200}", "page=0"])
async def test_filters_that_are_wrong_are_told(world: HttpDeployment, query: str) -> None:
    """Wrong filters are told at their fields."""
    admin = await world.signed_in_client(world.admin.id)
    refused = await admin.get(f"/admin/audit?{query}", headers=PEOPLE)
    assert refused.status_code == 422
    name = query.partition("=")[0]
    assert f'id="e-{name}"' in refused.text or name == "page"


async def test_the_page_is_for_admins(world: HttpDeployment) -> None:
    """Others find nothing, and visitors are led to sign in."""
    customer = await world.signed_in_client(world.customer.id)
    for path in ("/admin", "/admin/audit"):
        assert (await customer.get(path, headers=PEOPLE)).status_code == 404
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
