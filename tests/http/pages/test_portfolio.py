"""Tests of the portfolio page of staff members."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import POLICY, add_companion
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.usecases.companions import approvals
from tests.http.companions.test_images import kept
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_account import csrf
from tests.http.pages.test_booking_requests import hidden
from tests.http.pages.test_pictures import gone, show, uploads, works
from tests.http.pages.test_profile import ME, WORK, filled, member, problem, send
from tests.support.pictures import make_image_bytes

pytestmark = pytest.mark.anyio


async def test_work_is_shown_approved_and_taken_out(each_world: HttpDeployment) -> None:
    """An item is shown with image and status; removal also removes its image."""
    client = await member(each_world)
    sent = await show(client, WORK, make_image_bytes(), title="A <ball>", description="Two\r\nbars")
    assert (sent.status_code, sent.headers["location"]) == (303, f"{WORK}?added")
    assert "Your work is added." in (await client.get(sent.headers["location"])).text
    [item] = await works(client)
    assert (item["title"], item["description"]) == ("A <ball>", "Two\nbars")
    for status, said in (
        (PortfolioItemStatus.PENDING, "once we have looked at it"),
        (PortfolioItemStatus.APPROVED, "is on your public page"),
        (PortfolioItemStatus.REJECTED, "Nobody else sees it"),
    ):
        await approvals.moderate_item(each_world.ports, item["id"], status)
        page = (await client.get(WORK)).text
        for there in (said, "A &lt;ball&gt;", "Two\nbars", f'src="/{item["image"]}"'):
            assert there in page
    sent = await send(client, f"{WORK}/{item['id']}")
    assert (sent.status_code, sent.headers["location"]) == (303, f"{WORK}?removed")
    assert "Your work is removed." in (await client.get(sent.headers["location"])).text
    assert (await works(client), await uploads(client), kept(each_world)) == ([], [], {})


async def test_the_owner_reads_why_a_piece_is_not_shown(world: HttpDeployment) -> None:
    """The reason of a rejection is told, until the piece is approved."""
    item = await add_portfolio_item(world.store, world.companion.id)
    client, reason = await member(world), "Too <dark> to see"
    rejected, approved = PortfolioItemStatus.REJECTED, PortfolioItemStatus.APPROVED
    await approvals.moderate_item(world.ports, item.id, rejected, reason)
    page = (await client.get(WORK)).text
    assert ("Too &lt;dark&gt; to see" in page, "Not approved" in page) == (True, True)
    await approvals.moderate_item(world.ports, item.id, approved, reason)
    assert "to see" not in (await client.get(WORK)).text


async def test_pieces_are_put_in_order(each_world: HttpDeployment) -> None:
    """A piece trades its place with its neighbour, on the public page too; the ends stay."""
    client = await member(each_world)
    for title in ("A", "B", "C"):
        item = await add_portfolio_item(each_world.store, each_world.companion.id, title=title)
        await approvals.moderate_item(each_world.ports, item.id, PortfolioItemStatus.APPROVED)
    ids = {each["title"]: each["id"] for each in await works(client)}
    for title, form, order in (
        ("C", {}, "BCA"),
        ("A", {"earlier": "yes"}, "BAC"),
        ("B", {"earlier": "yes"}, "BAC"),
        ("C", {}, "BAC"),
    ):
        sent = await send(client, f"{WORK}/{ids[title]}/place", **form)
        assert sent.headers["location"] == f"{WORK}?moved#item-{ids[title]}"
        assert "".join(each["title"] for each in await works(client)) == order
    public = (await client.get(f"/companions/{each_world.companion.id}")).text
    assert re.findall(r'<h3 dir="auto">(\w)</h3>', public) == ["B", "A", "C"]


async def test_a_removal_asks_first(world: HttpDeployment) -> None:
    """The button that removes for good is behind a question."""
    await add_portfolio_item(world.store, world.companion.id)
    page = (await (await member(world)).get(WORK)).text
    assert re.search(r'<details class="ask"><summary>Remove.*Remove for good', page, re.DOTALL)


async def test_a_page_tells_what_happened_there_alone(world: HttpDeployment) -> None:
    """A page ignores the flash codes of other pages."""
    client = await member(world)
    for address in (f"{ME}?added", f"{WORK}?saved", f"{WORK}?photo"):
        assert 'role="status"' not in (await client.get(address)).text


async def test_a_picture_that_something_else_shows_stays(world: HttpDeployment) -> None:
    """An image in use elsewhere stays when its item is removed."""
    client = await member(world)
    await show(client, WORK, make_image_bytes(), title="Ball")
    [item] = await works(client)
    await add_portfolio_item(world.store, world.companion.id, image=item["image"])
    assert (await send(client, f"{WORK}/{item['id']}")).status_code == 303
    assert await uploads(client) == [item["image"]]


@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        ({}, 400, "Title: Fill this in."),
        ({"title": " "}, 422, "Title: Fill this in."),
        ({"title": "x" * 121}, 422, "Title: Use at most 120 characters."),
        (
            {"title": "Ball", "description": "x" * 2001},
            422,
            "Description: Use at most 2000 characters.",
        ),
    ],
)
async def test_texts_that_are_refused_stay_in_the_form(
    world: HttpDeployment, given: dict[str, str], status: int, told: str
) -> None:
    """Invalid texts stay in the form, and the image is not kept."""
    client = await member(world)
    given = {"description": '"<b>\nA', **given}
    refused = await show(client, WORK, make_image_bytes(), **given)
    assert refused.status_code == status
    assert problem(refused).startswith(told)
    assert filled(refused) == {"title": "", **given}
    assert (await works(client), await uploads(client), kept(world)) == ([], [], {})


@pytest.mark.parametrize(("size", "status"), [(0, 422), (2_001, 413), (5_000_000, 413)])
async def test_texts_beside_a_refused_picture_stay_in_the_form(
    world: HttpDeployment, size: int, status: int
) -> None:
    """Texts stay in the form if the image is rejected, also if it is too large."""
    world.restart(policy=evolve(POLICY, max_image_bytes=2_000))
    client = await member(world)
    refused = await show(client, WORK, bytes(size), title="The ball", description="Two bars")
    assert refused.status_code == status
    assert 'value="The ball"' in refused.text
    assert "\nTwo bars</textarea>" in refused.text


async def test_texts_of_somebody_else_do_not_come_into_the_form(world: HttpDeployment) -> None:
    """Texts of a cross-site form with an oversized image are not shown."""
    world.restart(policy=evolve(POLICY, max_image_bytes=2_000))
    client = await member(world)
    refused = await show(client, WORK, bytes(2_001), title="The ball", csrf="x")
    assert (refused.status_code, "The ball" in refused.text) == (403, False)


async def test_one_too_many_is_refused(each_world: HttpDeployment) -> None:
    """An item over the limit is rejected; its texts stay and its image is not kept."""
    each_world.restart(policy=evolve(POLICY, max_portfolio_items=1))
    client = await member(each_world)
    await show(client, WORK, make_image_bytes(), title="Ball")
    page = (await client.get(WORK)).text
    assert ("at most 1 items" in page, 'name="title"' in page) == (True, False)
    refused = await show(client, WORK, make_image_bytes(), title="Fair")
    assert (refused.status_code, problem(refused)) == (400, "A portfolio has at most 1 items.")
    assert (len(await works(client)), len(await uploads(client))) == (1, 1)
    assert len(kept(each_world)) == 1


async def test_a_picture_that_can_not_be_removed_hides_no_refusal(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed image removal does not hide the original error."""
    world.restart(policy=evolve(POLICY, max_portfolio_items=0))
    client = await member(world)
    monkeypatch.setattr("staffbooking_core.usecases.companions.images.remove_image", gone)
    refused = await show(client, WORK, make_image_bytes(), title="Ball")
    assert (refused.status_code, problem(refused)) == (400, "A portfolio has at most 0 items.")


async def test_work_of_somebody_else_is_not_there(world: HttpDeployment) -> None:
    """Another member's item is 404, as a missing one is, and stays."""
    other = await add_companion(world.store)
    item = await add_portfolio_item(world.store, other.id, title="Theirs")
    client = await member(world)
    assert "Theirs" not in (await client.get(WORK)).text
    for number in (item.id, 999, 0, "x", 2**63):
        assert (await send(client, f"{WORK}/{number}")).status_code == 404
        assert (await send(client, f"{WORK}/{number}/place")).status_code == 404
    assert len(await works(await world.signed_in_client(other.id))) == 1


async def test_a_picture_elsewhere_is_not_loaded(world: HttpDeployment) -> None:
    """An image on another host is not shown."""
    await add_portfolio_item(world.store, world.companion.id, image="photos/ball.jpg")
    page = (await (await member(world)).get(WORK)).text
    assert ("The spring ball" in page, "<img" in page) == (True, False)


# The same form again --------------------------------------------------------------------


async def drawn(client: httpx.AsyncClient) -> Callable[..., Awaitable[httpx.Response]]:
    """A function that submits one rendered form any number of times."""
    form = hidden(await client.get(WORK))

    async def send(content: bytes = make_image_bytes(), title: str = "Ball") -> httpx.Response:
        return await client.post(
            WORK, data={**form, "title": title}, files={"file": ("a.png", content, "image/png")}
        )

    return send


async def test_a_button_pressed_twice_adds_once(each_world: HttpDeployment) -> None:
    """A form submitted twice, also concurrently, adds one item and one image."""
    client = await member(each_world)
    send = await drawn(client)
    answers = [*await asyncio.gather(send(), send(), send()), await send()]
    led = {(answer.status_code, answer.headers.get("location")) for answer in answers}
    assert led == {(303, f"{WORK}?added")}
    [item] = await works(client)
    assert (await uploads(client), len(kept(each_world))) == ([item["image"]], 1)


async def test_what_was_added_is_so_where_there_is_no_more_room(world: HttpDeployment) -> None:
    """A replay succeeds even at the limit of items or images."""
    world.restart(policy=evolve(POLICY, max_images=1, max_portfolio_items=1))
    send = await drawn(await member(world))
    assert [(await send()).status_code for _ in range(2)] == [303, 303]


async def test_the_next_form_adds_the_next(world: HttpDeployment) -> None:
    """Each rendered form has its own key, so equal forms add separate items."""
    client = await member(world)
    for _ in range(2):
        await (await drawn(client))()
    assert len(await works(client)) == 2


@pytest.mark.parametrize(
    "other", [{"title": "Fair"}, {"content": make_image_bytes(width=9)}], ids=["text", "picture"]
)
async def test_who_goes_back_and_changes_the_form_is_told(
    world: HttpDeployment, other: dict[str, Any]
) -> None:
    """A changed form with a used key is an error; submitted again it adds another item."""
    client = await member(world)
    send = await drawn(client)
    await send()
    again = await send(**other)
    assert again.status_code == 400
    assert problem(again).startswith("This form added something before, filled in otherwise")
    assert (len(await works(client)), len(kept(world))) == (1, 1)
    form = {**hidden(again), **filled(again)}
    sent = await client.post(WORK, data=form, files={"file": ("a.png", make_image_bytes())})
    assert (sent.status_code, len(await works(client))) == (303, 2)


@pytest.mark.parametrize("given", [{"key": "mine"}, {}])
async def test_a_form_that_was_refused_passes_once_it_is_mended(
    world: HttpDeployment, given: dict[str, str]
) -> None:
    """A corrected form passes with its key, or with the new key of the error page."""
    client = await member(world)
    form = {"csrf": csrf(await client.get(ME)), **given}
    refused = await client.post(WORK, data=form, files={"file": ("a.png", make_image_bytes())})
    assert refused.status_code == 400
    form = hidden(refused)
    assert form["key"] == given.get("key", form["key"]) != ""
    mended = await client.post(
        WORK, data={**form, "title": "Ball"}, files={"file": ("a.png", make_image_bytes())}
    )
    assert (mended.status_code, len(await works(client))) == (303, 1)
