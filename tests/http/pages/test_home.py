"""Tests of the home page: bookings and newest conversations of the signed-in user."""

from __future__ import annotations

import re
from functools import partial

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, NOW, SECOND, add_booking, add_companion
from staffbooking_adapters.testing.builders_reviews import add_review
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from tests.http.bookings.test_booking_flow import paid, set_clock
from tests.http.deployment import HttpDeployment, json_body
from tests.http.messaging.message_calls import send_message
from tests.http.pages.test_bookings import AFTER, PEOPLE
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio


def rows(text: str) -> list[str]:
    """The ids of the bookings that a page lists."""
    return re.findall(r'href="/bookings/(\d+)/return"', text)


def section(text: str, name: str) -> str:
    """The part of a page under the heading with this id; empty without it."""
    return text.partition(f'id="{name}"')[2].partition("</section>")[0]


async def test_what_needs_the_customer_comes_first(each_world: HttpDeployment) -> None:
    """An accepted booking waits to be paid; a request and a paid booking are ahead."""
    add = partial(add_booking, each_world.store, each_world.companion, each_world.customer)
    due = await add(status=BookingStatus.ACCEPTED, starts_at=NOW + 5 * DAY, accepted_at=NOW)
    paid = await add(status=BookingStatus.PAID, starts_at=NOW + 4 * DAY, paid_at=NOW)
    asked = await add(starts_at=NOW + 3 * DAY)
    shown = (await (await each_world.signed_in_client(each_world.customer.id)).get("/")).text
    assert rows(section(shown, "needs-you")) == [str(due.id)]
    assert "Mia said yes. Pay US$400.00 to confirm the booking." in shown
    assert rows(section(shown, "ahead")) == [str(asked.id), str(paid.id)]


async def test_requests_of_staff_tell_conflicts(each_world: HttpDeployment) -> None:
    """A request needs the staff member's answer, and names what else is at that time; the time that
    is left is told with the deadline."""
    add = partial(add_booking, each_world.store, each_world.companion, each_world.customer)
    taken = await add(status=BookingStatus.ACCEPTED, accepted_at=NOW)
    asked = [await add() for _ in range(2)]
    shown = (await (await each_world.signed_in_client(each_world.companion.id)).get("/")).text
    needs = section(shown, "needs-you")
    assert needs.count("Ada would like to book you.") == 2
    assert needs.count("Answer by") == 2
    assert needs.count("left</span>") == 2
    assert page_text(needs).count("At the same time:") == 4
    assert page_text(needs).count("(To be paid)") == 2
    assert rows(needs).count(str(taken.id)) == 2
    assert rows(needs).count(str(asked[0].id)) == 2


async def test_a_dispute_needs_whoever_has_not_spoken(each_world: HttpDeployment) -> None:
    """A dispute needs whoever has not told their side. Once they have, it is among the open
    bookings, where an answer of the other side stands to be read."""
    path, customer, staff = await paid(each_world)
    await set_clock(each_world, AFTER)
    json_body(await customer.post(f"{path}/dispute", json={"reason": "Closed early"}))

    async def told(client: httpx.AsyncClient, name: str) -> str:
        return page_text(section((await client.get("/")).text, name))

    assert "Tell your side" not in await told(customer, "needs-you")
    assert "Tell your side" in await told(staff, "needs-you")
    json_body(await staff.post(f"{path}/dispute/statements", json={"text": "Asked to"}), 201)
    assert "You have told your side." in await told(staff, "disputes")
    assert "Nothing waits for you." in await told(customer, "needs-you")
    assert "Mia has answered in the dispute. Read the answer" in await told(customer, "ahead")


async def test_the_first_of_many_open_bookings_are_shown(world: HttpDeployment) -> None:
    """Of more than 50 open bookings of a status those that start first are shown, and the page says
    that there are more."""
    add = partial(add_booking, world.store, world.companion, world.customer)
    asked = [await add(starts_at=NOW + (3 + n) * DAY) for n in range(50)]
    client = await world.signed_in_client(world.customer.id)
    assert "There are more open bookings." not in (await client.get("/")).text
    await add(starts_at=NOW + 60 * DAY)
    shown = (await client.get("/")).text
    assert rows(section(shown, "ahead")) == [str(booking.id) for booking in asked]
    assert "There are more open bookings." in shown


async def test_who_needs_the_customer_is_shown_by_photo(each_world: HttpDeployment) -> None:
    """A row that needs the customer shows the staff member's photo; the staff member, who books
    nobody, sees the customer's initials."""
    companion = evolve(each_world.companion, profile_photo="media/face.webp")
    await each_world.store.run_transaction(lambda tx: tx.companions.save_companion(companion))
    add = partial(add_booking, each_world.store, companion, each_world.customer)
    await add(status=BookingStatus.ACCEPTED, accepted_at=NOW)
    await add(starts_at=NOW + 5 * DAY)
    for user_id, is_shown in ((each_world.customer.id, True), (companion.id, False)):
        client = await each_world.signed_in_client(user_id)
        needs = section((await client.get("/")).text, "needs-you")
        assert ('src="/media/face.webp"' in needs) is is_shown


async def test_past_bookings_can_be_reviewed_once(each_world: HttpDeployment) -> None:
    """A completed booking tells that it took place, and asks for a review until there is one."""
    booking = await add_booking(
        each_world.store,
        each_world.companion,
        each_world.customer,
        status=BookingStatus.COMPLETED,
        starts_at=NOW - DAY,
    )
    client = await each_world.signed_in_client(each_world.customer.id)
    shown = (await client.get("/")).text
    assert rows(section(shown, "past")) == [str(booking.id)]
    assert "It took place" in section(shown, "past")
    assert "Write a review" in section(shown, "past")
    assert rows(section(shown, "needs-you")) == []
    await add_review(each_world.store, booking)
    shown = (await client.get("/")).text
    assert "It took place" in section(shown, "past")
    assert "Write a review" not in shown


async def test_the_history_comes_in_pages(world: HttpDeployment) -> None:
    """The history lists 20 bookings a page with links both ways; an invalid page is 422."""
    for _ in range(21):
        await add_booking(world.store, world.companion, world.customer)
    customer = await world.signed_in_client(world.customer.id)
    paths = ("/history", "/history?page=2")
    first, second = [(await customer.get(path)).text for path in paths]
    assert [len(rows(each)) for each in (first, second)] == [20, 1]
    assert 'href="?page=2"' in first
    assert 'href="?page=1"' in second
    assert "There are no more" in (await customer.get("/history?page=3")).text
    assert (await customer.get("/history?page=0", headers=PEOPLE)).status_code == 422


async def test_the_history_is_filtered_by_status(world: HttpDeployment) -> None:
    """The history of one status has its bookings alone, also on further pages."""
    await add_booking(world.store, world.companion, world.customer)
    ended = await add_booking(
        world.store, world.companion, world.customer, status=BookingStatus.CANCELLED
    )
    customer = await world.signed_in_client(world.customer.id)
    assert rows((await customer.get("/history?status=cancelled")).text) == [str(ended.id)]
    assert (await customer.get("/history?status=odd", headers=PEOPLE)).status_code == 422


async def test_newest_messages_stand_beside(each_world: HttpDeployment) -> None:
    """Four conversations are shown with unread counts and a link to all."""
    for _ in range(6):
        other = await add_companion(each_world.store)
        await add_booking(each_world.store, other, each_world.customer)
    customer = await each_world.signed_in_client(each_world.customer.id)
    await customer.get("/")
    each_world.clock.advance(SECOND)
    writer = await each_world.signed_in_client(other.id)
    await send_message(writer, each_world.customer.id, "Are you there?")
    shown = (await customer.get("/")).text
    assert len(re.findall(r'href="/conversations/\d+#last"', shown)) == 4
    assert "Are you there?" in shown
    assert "1 new" in page_text(shown)
    assert 'href="/conversations"' in shown


async def test_an_admin_finds_all_bookings(world: HttpDeployment) -> None:
    """An admin sees all bookings with the names of both parties."""
    booking = await add_booking(world.store, world.companion, world.customer)
    shown = (await (await world.signed_in_client(world.admin.id)).get("/")).text
    assert rows(shown) == [str(booking.id)]
    assert "Mia Lindqvist for Ada Okoro" in shown


async def test_who_has_none_is_led_on(world: HttpDeployment) -> None:
    """Without bookings, the page leads a customer to the search."""
    shown = (await (await world.signed_in_client(world.stranger.id)).get("/")).text
    assert "Your first event?" in shown
    assert '<a class="main button" href="/find">' in shown


async def test_who_is_signed_out_can_sign_in(world: HttpDeployment) -> None:
    """A signed-out visitor finds sign-in and registration, and nobody's bookings."""
    await add_booking(world.store, world.companion, world.customer)
    shown = (await world.client().get("/?page=x")).text
    assert 'href="/account/sign-in"' in shown
    assert 'href="/account/register"' in shown
    assert rows(shown) == []


HEAD = [
    "/",
    "/",
    "/staff/hours",
    "/conversations",
    "/staff/payouts",
    "/staff/me",
    "/account",
]


@pytest.mark.parametrize(
    "path", [*dict.fromkeys(HEAD), "/staff/reviews", "/account/password", "/account/verify-email"]
)
async def test_all_pages_lead_to_each_other(world: HttpDeployment, path: str) -> None:
    """Every page has the same header with its links, the user's name and sign-out."""
    booking = await add_booking(world.store, world.companion, world.customer)
    staff = await world.signed_in_client(world.companion.id)
    for each in (path, f"/bookings/{booking.id}/return"):
        shown = (await staff.get(each)).text
        head = shown[shown.index("<header") : shown.index("</header>")]
        assert re.findall(r'<a [^>]*href="([^"]+)"', head) == HEAD
        assert "Mia Lindqvist" in head
        assert 'action="/account/sign-out"' in head
    customer = await world.signed_in_client(world.customer.id)
    assert "/staff/payouts" not in (await customer.get("/")).text
