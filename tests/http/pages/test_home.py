"""Tests of the home page: bookings and newest conversations of the signed-in user."""

from __future__ import annotations

import re
from typing import Any

import pytest

from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from tests.http.deployment import HttpDeployment
from tests.http.messaging.message_calls import send_message, sign_in_parties
from tests.http.pages.test_bookings import PEOPLE
from tests.support.builders import DAY, NOW, SECOND, add_booking, add_companion

pytestmark = pytest.mark.anyio


def rows(text: str) -> list[str]:
    """The ids of the bookings that a page lists."""
    return re.findall(r'href="/bookings/(\d+)/return"', text)


async def test_people_find_their_bookings(each_world: HttpDeployment) -> None:
    """Each party sees its bookings, newest event first, with party, time and status."""
    other = await add_companion(each_world.store, first_name="Noa")
    later: dict[str, Any] = {"starts_at": NOW + 3 * DAY, "companion_name": "Noa Lindqvist"}
    old = await add_booking(each_world.store, each_world.companion, each_world.customer)
    new = await add_booking(
        each_world.store, other, each_world.customer, status=BookingStatus.COMPLETED, **later
    )
    customer, staff = await sign_in_parties(each_world)
    shown = (await customer.get("/")).text
    assert rows(shown) == [str(new.id), str(old.id)]
    assert "Noa Lindqvist" in shown
    assert '<span class="badge">completed</span>' in shown
    assert f"{old.event_date} at {old.start_time}" in shown
    shown = (await staff.get("/")).text
    assert (rows(shown), "for Ada Okoro" in shown) == ([str(old.id)], True)


async def test_bookings_come_in_pages(world: HttpDeployment) -> None:
    """A page lists 20 bookings with links both ways; an invalid page is 422."""
    for _ in range(21):
        await add_booking(world.store, world.companion, world.customer)
    customer = await world.signed_in_client(world.customer.id)
    first, second = [(await customer.get(path)).text for path in ("/", "/?page=2")]
    assert [len(rows(each)) for each in (first, second)] == [20, 1]
    assert 'href="?page=2"' in first
    assert 'href="?page=1"' in second
    assert "There are no more" in (await customer.get("/?page=3")).text
    assert (await customer.get("/?page=0", headers=PEOPLE)).status_code == 422


async def test_newest_messages_stand_beside(each_world: HttpDeployment) -> None:
    """Five conversations are shown with unread counts and a link to all."""
    for _ in range(6):
        other = await add_companion(each_world.store)
        await add_booking(each_world.store, other, each_world.customer)
    customer = await each_world.signed_in_client(each_world.customer.id)
    await customer.get("/")
    each_world.clock.advance(SECOND)
    writer = await each_world.signed_in_client(other.id)
    await send_message(writer, each_world.customer.id, "Are you there?")
    shown = (await customer.get("/")).text
    assert len(re.findall(r'href="/conversations/\d+#last"', shown)) == 5
    assert "Are you there?" in shown
    assert "1 new" in shown
    assert 'href="/conversations"' in shown


async def test_an_admin_finds_all_bookings(world: HttpDeployment) -> None:
    """An admin sees all bookings with the names of both parties."""
    booking = await add_booking(world.store, world.companion, world.customer)
    shown = (await (await world.signed_in_client(world.admin.id)).get("/")).text
    assert rows(shown) == [str(booking.id)]
    assert "Mia Lindqvist for Ada Okoro" in shown


async def test_who_has_none_is_told_so(world: HttpDeployment) -> None:
    """Without bookings or messages, the page shows no list of them."""
    shown = (await (await world.signed_in_client(world.stranger.id)).get("/")).text
    assert "There are none." in shown
    assert "<h2>Messages" not in shown


async def test_who_is_signed_out_can_sign_in(world: HttpDeployment) -> None:
    """A signed-out visitor sees only sign-in and registration."""
    await add_booking(world.store, world.companion, world.customer)
    shown = (await world.client().get("/?page=x")).text
    assert 'href="/account/sign-in"' in shown
    assert 'href="/account/register"' in shown
    assert rows(shown) == []
    assert "<header>" not in shown


HEAD = [
    "/",
    "/conversations",
    "/staff/me",
    "/staff/hours",
    "/staff/payouts",
    "/staff/reviews",
    "/account",
]


@pytest.mark.parametrize("path", [*HEAD, "/account/password", "/account/verify-email"])
async def test_all_pages_lead_to_each_other(world: HttpDeployment, path: str) -> None:
    """Every page has the same header with its links, the user's name and sign-out."""
    booking = await add_booking(world.store, world.companion, world.customer)
    staff = await world.signed_in_client(world.companion.id)
    for each in (path, f"/bookings/{booking.id}/return"):
        shown = (await staff.get(each)).text
        head = shown[shown.index("<header>") : shown.index("</header>")]
        assert re.findall(r'<a href="([^"]+)"', head) == HEAD
        assert "Mia Lindqvist" in head
        assert 'action="/account/sign-out"' in head
    customer = await world.signed_in_client(world.customer.id)
    assert "/staff/payouts" not in (await customer.get("/")).text
