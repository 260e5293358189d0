"""The page on which each side of a completed booking says how the other was."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_core.domain.bookings import Booking
from staffbooking_core.domain.lifecycle import Status
from staffbooking_core.domain.limits import Rule
from tests.http.test_booking_pages import PEOPLE
from tests.http.test_reviews import completed, sides
from tests.http.world import World, ok
from tests.support.builders import HOUR, add_booking

pytestmark = pytest.mark.anyio


def page(booking: Booking) -> str:
    return f"/bookings/{booking.id}/review"


async def fill(client: httpx.AsyncClient, booking: Booking, **given: str) -> httpx.Response:
    """Send the form; without the header that programs send."""
    token = client.headers.pop("x-csrf-token")
    answer = await client.post(page(booking), data={"csrf": token, **given})
    client.headers["x-csrf-token"] = token
    return answer


async def given_to(world: World, user_id: int) -> list[dict[str, Any]]:
    browser = await world.browser(world.stranger.id)
    found: list[dict[str, Any]] = ok(await browser.get(f"/reviews/user/{user_id}"))["reviews"]
    return found


async def test_both_sides_review_by_a_form(each_world: World) -> None:
    """From the booking's page and back to it, where it says then what they gave."""
    booking = await completed(each_world)
    others = (booking.companion_id, booking.customer_id)
    for browser, other in zip(await sides(each_world), others, strict=True):
        shown = (await browser.get(f"/bookings/{booking.id}/return")).text
        assert f'href="{page(booking)}"' in shown
        assert 'name="rating"' in (await browser.get(page(booking))).text
        sent = await fill(
            browser, booking, rating="4", comment="Calm,\r\nand kind", punctuality="5"
        )
        assert (sent.status_code, sent.headers["location"]) == (
            303,
            f"/bookings/{booking.id}/return",
        )
        shown = (await browser.get(sent.headers["location"])).text
        assert ("4 of 5" in shown, "Write a review" in shown) == (True, False)
        [review] = await given_to(each_world, other)
        said = (review["rating"], review["comment"], review["punctuality"], review["appearance"])
        assert said == (4, "Calm,\nand kind", 5, None)


async def test_what_is_left_empty_is_not_said(world: World) -> None:
    """As browsers send it: a field of nothing."""
    booking = await completed(world)
    customer, _ = await sides(world)
    empty = dict.fromkeys(("comment", "punctuality", "professionalism"), "")
    assert (await fill(customer, booking, rating="5", **empty)).status_code == 303
    [review] = await given_to(world, booking.companion_id)
    assert (review["comment"], review["punctuality"]) == (None, None)


async def test_what_is_wrong_is_told_in_the_form(world: World) -> None:
    """Which keeps all that was filled in."""
    booking = await completed(world)
    customer, _ = await sides(world)
    words = 'So "calm" \n<b>' + "x" * 2000
    missing = await fill(customer, booking, comment="Kind", appearance="2")
    assert (missing.status_code, "Rating is required." in missing.text) == (400, True)
    assert "<option selected>2</option>" in missing.text
    long = await fill(customer, booking, rating="3", comment=words)
    assert (long.status_code, "Comment must have" in long.text) == (422, True)
    assert re.search('name="rating" value="3" required checked', long.text)
    kept = re.search(r"<textarea [^>]*>\n(.*?)</textarea>", long.text, re.DOTALL)
    assert kept
    assert html.unescape(kept[1]) == words
    assert await given_to(world, booking.companion_id) == []


async def test_a_review_is_given_once(world: World) -> None:
    """Who comes again is led to the booking; a second one is refused on the page."""
    booking = await completed(world)
    customer, _ = await sides(world)
    await fill(customer, booking, rating="4")
    again = await customer.get(page(booking))
    assert (again.status_code, again.headers["location"]) == (303, f"/bookings/{booking.id}/return")
    second = await fill(customer, booking, rating="1")
    assert (second.status_code, "You have reviewed this" in second.text) == (400, True)


async def test_a_booking_is_completed_first(world: World) -> None:
    """Before that there is no form, no link to it, and a forged one is refused."""
    booking = await add_booking(world.store, world.companion, world.customer, status=Status.PAID)
    customer, _ = await sides(world)
    assert page(booking) not in (await customer.get(f"/bookings/{booking.id}/return")).text
    assert "<textarea" not in (await customer.get(page(booking))).text
    sent = await fill(customer, booking, rating="5")
    assert (sent.status_code, "Only a completed booking" in sent.text) == (400, True)


async def test_it_is_for_the_two_sides_alone(world: World) -> None:
    """Strangers are 404, admins 403, the signed out sign in; a form without the token is 403."""
    booking = await completed(world)
    for who, status in ((world.stranger, 404), (world.admin, 403)):
        browser = await world.browser(who.id)
        assert (await browser.get(page(booking), headers=PEOPLE)).status_code == status
        assert (await fill(browser, booking, rating="5")).status_code == status
        assert (await fill(browser, booking)).status_code == status
    for asked in (
        await world.client().get(page(booking)),
        await world.client().post(page(booking)),
    ):
        assert asked.status_code == 303
        assert httpx.URL(asked.headers["location"]).params["next"] == page(booking)
    customer, _ = await sides(world)
    assert (await fill(customer, booking, rating="5", csrf="x")).status_code == 403
    assert await given_to(world, booking.companion_id) == []


async def test_a_spent_window_loses_no_words(world: World) -> None:
    """The form says when to try again, and still has them."""
    booking = await completed(world)
    limits = evolve(world.ports.policy.limits, general=Rule("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    customer, _ = await sides(world)
    await fill(customer, booking, rating="9")
    refused = await fill(customer, booking, rating="4", comment="Kind")
    assert (refused.status_code, ">\nKind</textarea>" in refused.text) == (429, True)
