"""Portfolios over HTTP, and a staff member's steps from registration to a booking (CONTRACT 3)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio
import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import add_companion
from staffbooking_adapters.testing.builders_portfolio import add_portfolio_item, add_uploaded_image
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.companions.portfolio import PortfolioItemStatus
from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.usecases.companions import approvals
from tests.http.deployment import BASE_URL, HttpDeployment, error_body, error_fields, json_body

pytestmark = pytest.mark.anyio

PATH = "/staff/portfolio"
ITEM = {"title": "The spring ball", "image": "photos/ball.jpg", "description": "Two bars."}


async def member(world: HttpDeployment) -> httpx.AsyncClient:
    """The companion's browser."""
    return await world.signed_in_client(world.companion.id)


async def listed(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json_body(await client.get(PATH))["items"]
    return found


async def shown(world: HttpDeployment) -> list[dict[str, Any]]:
    """The companion's portfolio as others see it."""
    answer = await world.client_with_key().get(f"/api/v1/companions/{world.companion.id}")
    found: list[dict[str, Any]] = json_body(answer)["companion"]["portfolio"]
    return found


async def judge(world: HttpDeployment, item: dict[str, Any], status: PortfolioItemStatus) -> None:
    await approvals.moderate_item(world.ports, item["id"], status)


# Items ----------------------------------------------------------------------------------


async def test_an_item_is_added_approved_shown_and_removed(each_world: HttpDeployment) -> None:
    """Others see an item from its approval until its removal, without its status, and never a
    rejected one."""
    client = await member(each_world)
    answer = json_body(await client.post(PATH, json=ITEM), 201)
    item = answer["item"]
    created = {"id": item["id"], "created_at": "2027-03-01T12:00:00Z"}
    assert answer == {"success": True, "item": {**ITEM, **created, "status": "pending"}}
    second = json_body(await client.post(PATH, json={**ITEM, "title": "A fair"}), 201)["item"]
    assert await listed(client) == [second, item]
    assert await shown(each_world) == []

    await judge(each_world, item, PortfolioItemStatus.APPROVED)
    await judge(each_world, second, PortfolioItemStatus.REJECTED)
    assert await listed(client) == [
        {**second, "status": "rejected"},
        {**item, "status": "approved"},
    ]
    assert await shown(each_world) == [{**ITEM, **created}]

    assert json_body(await client.delete(f"{PATH}/{item['id']}")) == {"success": True}
    assert await shown(each_world) == []
    error_body(await client.delete(f"{PATH}/{item['id']}"), 404, "not_found")
    assert [one["id"] for one in await listed(client)] == [second["id"]]


async def test_a_description_may_be_left_out(world: HttpDeployment) -> None:
    """A description that is absent, null or empty is stored as empty."""
    client = await member(world)
    least = {"title": "The spring ball", "image": "photos/ball.jpg"}
    for said in ({}, {"description": None}, {"description": ""}):
        item = json_body(await client.post(PATH, json={**least, **said}), 201)["item"]
        assert item["description"] == ""


async def test_missing_fields_are_named(world: HttpDeployment) -> None:
    """A missing title or image is 400 and named."""
    answer = await (await member(world)).post(PATH, json={"image": None})
    error_body(answer, 400, "missing_field")
    assert error_fields(answer) == {"title", "image"}


@pytest.mark.parametrize(
    "given",
    [
        {"title": ""},
        {"title": "x" * 121},
        {"title": "two\nlines"},
        {"image": ""},
        {"image": "/photos/ball.jpg"},
        {"image": "photos/../ball.jpg"},
        {"image": "media/unknown.jpg"},
        {"image": "x" * 301},
        {"description": "x" * 2001},
        {"description": 7},
    ],
    ids=lambda given: str(given)[:40],
)
async def test_a_wrong_value_names_its_field(world: HttpDeployment, given: dict[str, Any]) -> None:
    """An invalid value is 422, names its field, and nothing is stored."""
    client = await member(world)
    answer = await client.post(PATH, json={**ITEM, **given})
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == set(given)
    assert await listed(client) == []


async def test_an_image_is_ones_own(each_world: HttpDeployment) -> None:
    """An item accepts the user's own upload, and another user's is 422."""
    client = await member(each_world)
    await add_uploaded_image(each_world.store, each_world.companion.id, "mine.jpg")
    await add_uploaded_image(each_world.store, each_world.customer.id, "theirs.jpg")
    answer = await client.post(PATH, json={**ITEM, "image": "media/theirs.jpg"})
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"image"}
    mine = {**ITEM, "image": "media/mine.jpg"}
    assert json_body(await client.post(PATH, json=mine), 201)["item"]["image"] == "media/mine.jpg"


async def test_a_portfolio_has_at_most_fifty_items(each_world: HttpDeployment) -> None:
    """The 51st item is 400, also when several are added concurrently."""
    client, most = await member(each_world), each_world.ports.policy.max_portfolio_items
    assert most == 50
    for _ in range(most - 1):
        await add_portfolio_item(each_world.store, each_world.companion.id)
    met: list[str] = []

    async def add() -> None:
        answer = await client.post(PATH, json=ITEM)
        met.append(answer.json().get("code", str(answer.status_code)))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(add)
    assert sorted(met) == ["201"] + ["too_many_portfolio_items"] * 2


async def test_anothers_item_is_404(each_world: HttpDeployment) -> None:
    """Deleting another user's item is 404 as for an unknown one, and the item stays."""
    other = await add_companion(each_world.store)
    item = await add_portfolio_item(each_world.store, other.id)
    client = await member(each_world)
    for number in (item.id, 999, "x", 2**63):
        error_body(await client.delete(f"{PATH}/{number}"), 404, "not_found")
    assert len(await listed(await each_world.signed_in_client(other.id))) == 1


async def test_an_item_removed_while_approved_is_gone(each_world: HttpDeployment) -> None:
    """An item removed concurrently with its approval is neither listed nor shown."""
    client = await member(each_world)
    items = [json_body(await client.post(PATH, json=ITEM), 201)["item"] for _ in range(6)]

    async def approve(item: dict[str, Any]) -> None:
        with suppress(NotFound):
            await judge(each_world, item, PortfolioItemStatus.APPROVED)

    async def remove(item: dict[str, Any]) -> None:
        json_body(await client.delete(f"{PATH}/{item['id']}"))

    async with anyio.create_task_group() as tasks:
        for item in items:
            tasks.start_soon(approve, item)
            tasks.start_soon(remove, item)
    assert (await listed(client), await shown(each_world)) == ([], [])


# From registration to a booking ----------------------------------------------------------


async def sign_up(world: HttpDeployment) -> tuple[httpx.AsyncClient, int]:
    """Register a staff member and sign in; returns the client and the user's id."""
    client = world.client()
    account = {"email": "maja@example.com", "password": "a long enough one"}
    names = {"first_name": "Maja", "last_name": "Lind", "role": "staff"}
    user = json_body(await client.post("/auth/register", json={**account, **names}), 201)["user"]
    client.headers["x-csrf-token"] = json_body(await client.post("/auth/login", json=account))[
        "csrf_token"
    ]
    return client, user["id"]


async def test_a_newcomer_is_approved_found_and_booked(each_world: HttpDeployment) -> None:
    """A registered staff member with profile and hours is listed once approved, and can be booked
    within the hours only."""
    each_world.restart(policy=evolve(each_world.ports.policy, base_url=BASE_URL))
    maja, number = await sign_up(each_world)
    hours = [{"weekday": day, "start": "18:00", "end": "24:00"} for day in (2, 3)]
    json_body(
        await maja.put("/staff/availability", json={"timezone": "Europe/Zurich", "weekly": hours})
    )
    item = json_body(await maja.post(PATH, json=ITEM), 201)["item"]
    with pytest.raises(RuleBroken, match="hourly_rate, location_city, location_country, service"):
        await approvals.set_approval(each_world.ports, number, Approval.APPROVED)
    profile = {
        "hourly_rate": 40.5,
        "location_city": "Zürich",
        "location_country": "Switzerland",
        "service_types": ["Bartender"],
    }
    json_body(await maja.put("/staff/profile", json=profile))
    program, query = (
        each_world.client_with_key(),
        "location=z%C3%BCr&service=bartender&date=2027-03-03",
    )
    search = f"/api/v1/companions?{query}"
    assert json_body(await program.get(search))["companions"] == []

    await approvals.set_approval(each_world.ports, number, Approval.APPROVED)
    await judge(each_world, item, PortfolioItemStatus.APPROVED)
    (found,) = json_body(await program.get(search))["companions"]
    assert (found["id"], found["hourly_rate"], found["first_name"]) == (number, 40.5, "Maja")
    page = f"/api/v1/companions/{number}"
    detail = json_body(await program.get(page))["companion"]
    assert [one["title"] for one in detail["portfolio"]] == ["The spring ball"]
    span = "start_date=2027-03-03&end_date=2027-03-03"
    (day,) = json_body(await program.get(f"{page}/availability?{span}"))["availability"]
    assert day["slots"] == [{"start": "18:00", "end": "24:00"}]

    wanted = {"companion_id": number, "service_type": "Bartender", "event_date": "2027-03-03"}
    early = each_world.request_body(**wanted, start_time="17:00")
    error_body(await program.post("/api/v1/bookings", json=early), 400, "companion_unavailable")
    body = each_world.request_body(**wanted, start_time="18:00", duration_hours=6)
    booking = json_body(await program.post("/api/v1/bookings", json=body), 201)["booking"]
    accepted = json_body(await maja.post(f"/bookings/{booking['id']}/accept"))["booking"]
    assert (accepted["status"], accepted["price"]) == ("accepted", 243.0)
    assert json_body(await program.get(search))["companions"] == []
