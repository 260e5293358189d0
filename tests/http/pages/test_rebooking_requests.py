"""Tests of the request of somebody else in place of a cancelled booking."""

from __future__ import annotations

import html
import re

import httpx
import pytest

from staffbooking_adapters.testing.builders import add_companion, add_user, make_calendar
from tests.http.bookings.test_booking_flow import accepted, paid, set_clock
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_booking_requests import (
    FILLED,
    bookings,
    browser,
    filled_in,
    hidden,
    page,
    problem,
    refused,
)
from tests.http.pages.test_bookings import DURING, press, record

pytestmark = pytest.mark.anyio


async def let_down(world: HttpDeployment) -> tuple[httpx.AsyncClient, str, str]:
    """A customer's client, the page of their cancelled booking, and its code."""
    path, _, staff = await accepted(world)
    booked = json_body(await staff.post(f"{path}/cancel"))["booking"]
    return await browser(world), f"{path}/return", booked["booking_code"]


async def test_who_was_let_down_requests_somebody_else_first(each_world: HttpDeployment) -> None:
    """The rebooking form is prefilled from the cancelled booking and uses the offer up."""
    other = await add_companion(each_world.store, first_name="Grace")
    client, path, code = await let_down(each_world)
    offered = await client.get(path)
    where = f"/companions/{other.id}/request"
    assert f'href="{where}?rebooking_of={code}">Request Grace<' in offered.text
    assert "31 Mar 2027" in offered.text
    form = await client.get(f"{where}?rebooking_of={code}")
    place = "\nRua Augusta 1, Lisbon</textarea>"
    for said in ('value="2027-03-03"', 'value="18:00"', 'value="4"', place):
        assert said in form.text
    assert (await client.post(where, data={**hidden(form), **FILLED})).status_code == 303
    [priority] = [
        each["priority"] for each in await bookings(client) if each["status"] == "pending"
    ]
    assert priority
    assert "rebooking_of" not in (await client.get(path)).text


async def test_a_rebooking_keeps_what_was_typed_without_a_start(world: HttpDeployment) -> None:
    """Where the start is missing, the form is not prefilled from the cancelled booking anew."""
    other = await add_companion(world.store, first_name="Grace")
    client, _, code = await let_down(world)
    where = f"/companions/{other.id}/request"
    form = filled_in(await client.get(f"{where}?rebooking_of={code}"))
    typed = {"event_date": "2027-03-10", "start_time": "", "duration_hours": "8"}
    answer = await client.post(f"{where}/price", data={**form, **typed, "location": "Elsewhere 9"})
    shown = await client.get(answer.headers["location"])
    kept = filled_in(shown)
    assert {name: kept.get(name, "") for name in typed} == typed
    assert kept["rebooking_of"] == code
    assert "\nElsewhere 9</textarea>" in shown.text


async def test_another_request_is_of_the_same_moment(world: HttpDeployment) -> None:
    """The prefilled time is in the local time zone of the new companion."""
    calendar = make_calendar("Pacific/Kiritimati")
    other = await add_companion(world.store, first_name="Teuea", calendar=calendar)
    client, path, code = await let_down(world)
    was = json_body(await client.get(path.removesuffix("/return")))["booking"]["starts_at"]
    where = f"/companions/{other.id}/request"
    form = filled_in(await client.get(f"{where}?rebooking_of={code}"))
    assert (form["event_date"], form["start_time"]) == ("2027-03-04", "08:00")
    sent = await client.post(where, data={**form, "location": "Here", "service_type": "Trade fair"})
    assert sent.status_code == 303
    [starts] = [b["starts_at"] for b in await bookings(client) if b["status"] == "pending"]
    assert starts == was


async def test_priority_comes_along_on_the_way(world: HttpDeployment) -> None:
    """The rebooking code is kept through search, companion and form pages. The search, in the same
    city, does not offer the very person who cancelled; to others it does."""
    client, path, code = await let_down(world)
    offered = (await client.get(path)).text
    assert "Free at that time" not in offered
    other = await add_companion(world.store, first_name="Grace")
    [search] = re.findall(r'href="(/find\?[^"]*)"', offered)
    found = (await client.get(html.unescape(search))).text
    assert f'name="rebooking_of" value="{code}"' in found
    assert "location=Lisbon" in search
    [profile] = re.findall(r'href="(/companions/\d+[^"]*)"', found)
    assert profile.startswith(f"/companions/{other.id}?")
    anybody = (await world.client().get(html.unescape(search))).text
    assert len(re.findall(r'href="/companions/\d+', anybody)) == 2
    shown = (await client.get(html.unescape(profile))).text
    ways = re.findall(r'href="(/companions/\d+[^"]*)"', shown)
    assert len(ways) > 2
    assert all(f"rebooking_of={code}" in way for way in ways)
    form = await client.get(f"/companions/{other.id}/request?date=2027-03-09&rebooking_of={code}")
    assert hidden(form)["rebooking_of"] == code
    assert 'value="2027-03-09"' in form.text


async def test_an_answer_leaves_the_way_to_somebody_else(each_world: HttpDeployment) -> None:
    """Who reported an absence finds the priority rebooking also once the staff member has answered,
    though the next action is to read the answer then."""
    path, customer, staff = await paid(each_world)
    code = (await record(customer, path))["booking_code"]
    await set_clock(each_world, DURING)
    assert (await press(customer, f"{path}/return", "no_show")).status_code == 303
    search = f'href="/find\\?[^"]*rebooking_of={code}"'
    assert len(re.findall(search, (await customer.get(f"{path}/return")).text)) == 1
    json_body(await staff.post(f"{path}/dispute/statements", json={"text": "I was there"}), 201)
    shown = (await customer.get(f"{path}/return")).text
    assert "Read the answer" in shown
    assert "first in line" in shown
    assert len(re.findall(search, shown)) == 1


async def test_priority_that_is_used_up_is_not_promised(world: HttpDeployment) -> None:
    """A used offer is dropped from new forms and is an error on open ones, which can be resent."""
    client, _, code = await let_down(world)
    where = f"{page(world)}?rebooking_of={code}"
    first, second = await client.get(where), await client.get(where)
    assert (await client.post(page(world), data={**hidden(first), **FILLED})).status_code == 303
    assert "rebooking_of" not in hidden(await client.get(where))
    later = {**hidden(second), **FILLED}
    told = await refused(client, page(world), later)
    assert (told.status_code, "used up or over" in problem(told)) == (400, True)
    assert "rebooking_of" not in hidden(told)
    assert (await client.post(page(world), data={**hidden(told), **FILLED})).status_code == 303


async def test_a_strangers_booking_fills_no_form(world: HttpDeployment) -> None:
    """The code of another customer's booking is 404."""
    path, customer, _ = await accepted(world)
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    stranger = await browser(world, (await add_user(world.store)).id)
    answer = await stranger.get(f"{page(world)}?rebooking_of={code}")
    assert answer.status_code == 404
