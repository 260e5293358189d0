"""Tests of the tour of a sandbox: which steps are done, and where their buttons lead."""

from __future__ import annotations

import re

import httpx
import pytest

from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_bookings import PEOPLE
from tests.http.pages.test_testers import mark

pytestmark = pytest.mark.anyio

STEPS = ("search", "request", "accept", "pay", "message", "event", "review", "payout")


async def open_step(client: httpx.AsyncClient, step: str) -> str:
    answer = await client.post("/sandbox/tour/step", data={"step": step}, headers=PEOPLE)
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


async def done_steps(client: httpx.AsyncClient) -> int:
    text = (await client.get("/sandbox/tour", headers=PEOPLE)).text
    return text.count("tour-done")


async def send_request(client: httpx.AsyncClient, way: str) -> int:
    """Send the form that the tour has filled in; the id of the booking."""
    form = dict(httpx.URL(way).params)
    page = (await client.get(way, headers=PEOPLE)).text
    hidden = {
        name: re.findall(rf'name="{name}" value="([^"]+)"', page)[0] for name in ("csrf", "key")
    }
    path = httpx.URL(way).path
    sent = await client.post(path, data={**form, **hidden}, headers=PEOPLE)
    found = re.match(r"/bookings/(\d+)/", sent.headers["location"])
    assert found is not None, sent.headers["location"]
    return int(found[1])


async def test_without_a_sample_there_is_no_tour(world: HttpDeployment) -> None:
    """The tour needs a customer and a staff member of the sample."""
    await mark(world, world.customer.id, world.subscriber.id, world.admin.id)
    client = world.client()
    assert (await client.get("/sandbox/tour", headers=PEOPLE)).status_code == 404
    sent = await client.post("/sandbox/tour/step", data={"step": "search"}, headers=PEOPLE)
    assert (sent.status_code, "connect.sid" in client.cookies) == (404, False)


async def test_the_tour_follows_the_booking(world: HttpDeployment) -> None:
    """Each button signs in as the right person, moves the clock where the step is later, and leads
    to the page of the step; what is done is read from the booking."""
    await mark(world, world.customer.id, world.companion.id)
    client = world.client()
    assert await done_steps(client) == 0
    assert (await open_step(client, "search")).startswith("/find?location=")
    assert await done_steps(client) == 1
    booking_id = await send_request(client, await open_step(client, "request"))
    assert await done_steps(client) == 2
    page = f"/bookings/{booking_id}/return"
    assert await open_step(client, "accept") == page
    staff = await world.signed_in_client(world.companion.id)
    assert (await client.get("/staff/hours", headers=PEOPLE)).status_code == 200
    json_body(await staff.post(f"/bookings/{booking_id}/accept"))
    assert await done_steps(client) == 3
    assert await open_step(client, "pay") == page
    assert await open_step(client, "message") == f"/conversations/with/{world.companion.id}"
    assert await done_steps(client) == 4
    booking = json_body(await staff.get(f"/bookings/{booking_id}"))["booking"]
    assert await open_step(client, "event") == page
    now = (await world.clock.business()).isoformat()
    assert now[:16] == booking["starts_at"][:16]


async def test_a_step_ahead_of_the_booking_leads_back(world: HttpDeployment) -> None:
    """A step that needs the booking leads back to the tour without one, and signs nobody in."""
    await mark(world, world.customer.id, world.companion.id)
    before = await world.clock.business()
    for step in STEPS[2:]:
        client = world.client()
        assert await open_step(client, step) == "/sandbox/tour"
        assert "connect.sid" not in client.cookies
    assert await world.clock.business() == before


async def test_the_tour_starts_again(world: HttpDeployment) -> None:
    """A button forgets the progress."""
    await mark(world, world.customer.id, world.companion.id)
    client = world.client()
    await open_step(client, "search")
    await client.post("/sandbox/tour/again")
    assert await done_steps(client) == 0


async def test_odd_steps_and_forged_progress_change_nothing(world: HttpDeployment) -> None:
    """An unknown step is 4xx, and a forged cookie is no progress."""
    await mark(world, world.customer.id, world.companion.id)
    for text in ("", "x", "SEARCH", "<b>", "9" * 500):
        sent = await world.client().post("/sandbox/tour/step", data={"step": text}, headers=PEOPLE)
        assert 400 <= sent.status_code < 500
    for cookie in ("x", "-", "1", "1-", "-a", "9" * 40 + "-a", '1-a"><script>', "1-" + "z" * 99):
        page = await world.client(cookie=f"demo-tour={cookie}").get("/sandbox/tour")
        assert (page.status_code, page.text.count("tour-done")) == (200, 0), cookie
