"""Tests of the booking page and its buttons for each party."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from tests.http.bookings.test_booking_flow import accepted, paid, set_clock
from tests.http.deployment import HttpDeployment, json_body

pytestmark = pytest.mark.anyio

PEOPLE = {"accept": "text/html,application/xhtml+xml"}


async def requested(world: HttpDeployment) -> tuple[str, httpx.AsyncClient, httpx.AsyncClient]:
    """A pending booking: its path and the clients of its parties."""
    body = world.request_body()
    made = json_body(await world.client_with_key().post("/api/v1/bookings", json=body), 201)[
        "booking"
    ]
    customer = await world.signed_in_client(world.customer.id)
    return f"/bookings/{made['id']}", customer, await world.signed_in_client(world.companion.id)


async def press(client: httpx.AsyncClient, page: str, step: str, **more: str) -> httpx.Response:
    """Submit one of a page's forms with its hidden fields, without the API's header."""
    text = (await client.get(page)).text
    assert f'value="{step}"' in text, text
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', text))
    action = re.findall(r'<form method="post" action="(/bookings/[^"]*)">', text)[0]
    client.headers.pop("x-csrf-token", None)
    return await client.post(action, data={**hidden, "step": step, **more})


def buttons(text: str) -> set[str]:
    return set(re.findall(r'name="step" value="(\w+)"', text))


async def status(client: httpx.AsyncClient, path: str) -> str:
    found: dict[str, Any] = json_body(await client.get(path))["booking"]
    return str(found["status"])


@pytest.mark.parametrize(("step", "becomes"), [("accept", "accepted"), ("decline", "cancelled")])
async def test_staff_answer_a_request_on_its_page(
    each_world: HttpDeployment, step: str, becomes: str
) -> None:
    """Accepting or declining redirects to the page, which then lacks these buttons."""
    path, _, staff = await requested(each_world)
    assert "accept or decline" in (await staff.get(f"{path}/return")).text
    answer = await press(staff, f"{path}/return", step)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}/return")
    assert await status(staff, path) == becomes
    assert not {"accept", "decline"} & buttons((await staff.get(f"{path}/return")).text)


async def test_a_customer_finds_no_buttons_of_the_staff(world: HttpDeployment) -> None:
    """Customers see no staff buttons, and forged actions are rejected."""
    path, customer, _ = await requested(world)
    page = (await customer.get(f"{path}/return")).text
    assert "waits for the answer" in page
    assert buttons(page) == set()
    token = json_body(await customer.get("/auth/session"))["csrf_token"]
    forged = await customer.post(f"{path}/return", data={"csrf": token, "step": "accept"})
    assert forged.status_code == 403
    assert await status(customer, path) == "pending"


@pytest.mark.parametrize("csrf", [None, "", "x", "\N{SNOWMAN}"])
async def test_a_form_of_somebody_else_does_nothing(
    world: HttpDeployment, csrf: str | None
) -> None:
    """A form without the session's CSRF token is 403 and changes nothing."""
    path, _, staff = await requested(world)
    given = {"step": "accept"} if csrf is None else {"step": "accept", "csrf": csrf}
    answer = await staff.post(f"{path}/return", data=given)
    assert (answer.status_code, answer.json()["code"]) == (403, "csrf_failed")
    assert await status(staff, path) == "pending"


async def test_who_never_paid_is_led_to_the_checkout(world: HttpDeployment) -> None:
    """A customer who has not paid sees no notice of a pending payment."""
    path, customer, _ = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    page = (await customer.get(f"{path}/return")).text
    assert "It is not paid yet" in page
    assert f'href="{url}"' in page
    assert "We wait" not in page


async def test_a_checkout_is_opened_on_the_page(world: HttpDeployment) -> None:
    """Without an open checkout, the button opens one and the page links to it."""
    path, customer, _ = await accepted(world)
    assert "/sandbox/checkout/" not in (await customer.get(f"{path}/return")).text
    assert (await press(customer, f"{path}/return", "checkout")).status_code == 303
    page = (await customer.get(f"{path}/return")).text
    assert "/sandbox/checkout/" in page
    assert "checkout" not in buttons(page)


async def test_who_has_paid_comes_back_with_a_word(world: HttpDeployment) -> None:
    """Only the return code shows the notice of a pending payment."""
    path, customer, _ = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    assert f'{path}/return?cancelled"' in (await customer.get(url)).text
    await customer.post(url, json={"outcome": "succeed"})
    assert f'{path}/return?done"' in (await customer.get(url)).text


async def test_a_cancellation_says_first_what_goes_back(world: HttpDeployment) -> None:
    """The refund equals the amount shown, by the quote in the form."""
    path, customer, _ = await paid(world)
    await set_clock(world, "2027-03-02T12:00:00Z")
    assert "cancel" not in buttons((await customer.get(f"{path}/return")).text)
    assert "You get 200.00 USD back (50%)" in (await customer.get(f"{path}/return?cancel")).text
    assert (await press(customer, f"{path}/return?cancel", "cancel")).status_code == 303
    booking = json_body(await customer.get(path))["booking"]
    assert (booking["status"], booking["refunded_amount"]) == ("cancelled", 200.0)


async def test_a_lapsed_quote_is_told_on_the_page(world: HttpDeployment) -> None:
    """An expired quote is an error and cancels nothing."""
    path, customer, _ = await paid(world)
    token = json_body(await customer.get("/auth/session"))["csrf_token"]
    given = {"csrf": token, "step": "cancel", "quote": "x.y"}
    answer = await customer.post(f"{path}/return", data=given)
    assert answer.status_code == 400
    assert "The quote has lapsed" in answer.text
    assert await status(customer, path) == "paid"


async def test_an_event_is_checked_in_and_confirmed_on_the_page(world: HttpDeployment) -> None:
    """Check-in and confirmation are each available only at their time."""
    path, customer, staff = await paid(world)
    assert buttons((await staff.get(f"{path}/return")).text) == set()
    await set_clock(world, "2027-03-03T17:00:00Z")
    assert (await press(staff, f"{path}/return", "check_in")).status_code == 303
    assert "check_in" not in buttons((await staff.get(f"{path}/return")).text)
    await set_clock(world, "2027-03-03T22:00:00Z")
    assert (await press(customer, f"{path}/return", "confirm")).status_code == 303
    assert await status(customer, path) == "completed"


async def test_a_dispute_needs_its_reason(world: HttpDeployment) -> None:
    """A dispute without a reason is an error on the page; with one it is opened."""
    path, customer, _ = await paid(world)
    await set_clock(world, "2027-03-03T22:00:00Z")
    for given in ({}, {"reason": ""}):
        empty = await press(customer, f"{path}/return", "dispute", **given)
        assert empty.status_code == 422
        assert "Reason" in empty.text
    done = await press(customer, f"{path}/return", "dispute", reason="Nobody came")
    assert done.status_code == 303
    assert await status(customer, path) == "disputed"


async def test_an_absence_is_reported_and_withdrawn_on_the_page(world: HttpDeployment) -> None:
    """The page has a button to report an absence, and one to withdraw the dispute."""
    path, customer, _ = await paid(world)
    await set_clock(world, "2027-03-03T22:00:00Z")
    for word, to in (("no_show", "disputed"), ("withdraw", "paid")):
        assert f'value="{word}"' in (await customer.get(f"{path}/return")).text
        assert (await press(customer, f"{path}/return", word)).status_code == 303
        assert await status(customer, path) == to


async def test_who_is_signed_out_is_led_back_by_the_sign_in(world: HttpDeployment) -> None:
    """The page and a form sent after the session ended lead to sign-in and back."""
    path, _, _ = await requested(world)
    client = world.client()
    assert f"/account/sign-in?next={path}/return" in (await client.get(f"{path}/return")).text
    sent = await client.post(f"{path}/return", data={"step": "accept", "csrf": "x"})
    assert sent.status_code == 303
    assert httpx.URL(sent.headers["location"]).params["next"] == f"{path}/return"


async def test_people_read_a_problem_on_a_page(world: HttpDeployment) -> None:
    """An error is HTML for browsers and JSON for API clients, with the same status."""
    path, _, _ = await requested(world)
    stranger = await world.signed_in_client(world.stranger.id)
    shown = await stranger.get(f"{path}/return", headers=PEOPLE)
    assert (shown.status_code, shown.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "not found" in shown.text
    assert (await stranger.get(f"{path}/return")).json()["code"] == "not_found"


async def test_a_form_counts_as_a_call_does(world: HttpDeployment) -> None:
    """Forms and API calls share the user's rate limit."""
    path, _, staff = await requested(world)
    before = int((await staff.get(path)).headers["x-ratelimit-remaining"])
    await press(staff, f"{path}/return", "accept")
    after = int((await staff.get(path)).headers["x-ratelimit-remaining"])
    assert before - after == 2
