"""Tests of the booking page: what both sides read, and its buttons for each side."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from staffbooking_core.operator_inputs import ResolutionOutcome
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.bookings import disputes
from tests.http.bookings.test_booking_flow import accepted, paid, set_clock
from tests.http.deployment import HttpDeployment, json_body
from tests.support.html_pages import page_forms, page_text

pytestmark = pytest.mark.anyio

PEOPLE = {"accept": "text/html,application/xhtml+xml"}
DURING, AFTER = "2027-03-03T18:20:00Z", "2027-03-03T22:00:00Z"


async def requested(world: HttpDeployment) -> tuple[str, httpx.AsyncClient, httpx.AsyncClient]:
    """A pending booking: its path and the clients of its parties."""
    body = world.request_body()
    made = json_body(await world.client_with_key().post("/api/v1/bookings", json=body), 201)[
        "booking"
    ]
    customer = await world.signed_in_client(world.customer.id)
    return f"/bookings/{made['id']}", customer, await world.signed_in_client(world.companion.id)


async def read(client: httpx.AsyncClient, path: str) -> str:
    """The text of a booking's page."""
    answer = await client.get(f"{path}/return")
    assert answer.status_code == 200, answer.text
    return page_text(answer.text)


async def press(client: httpx.AsyncClient, page: str, step: str) -> httpx.Response:
    """Submit the form with this button, without the API's header."""
    forms = page_forms((await client.get(page)).text)
    [form] = [each for each in forms if ("step", step) in each.buttons]
    client.headers.pop("x-csrf-token", None)
    return await client.post(form.action, data={**form.fields, "step": step})


def buttons(text: str) -> set[str]:
    return {value for form in page_forms(text) for name, value in form.buttons if name == "step"}


async def record(client: httpx.AsyncClient, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json_body(await client.get(path))["booking"]
    return found


async def status(client: httpx.AsyncClient, path: str) -> str:
    return str((await record(client, path))["status"])


@pytest.mark.parametrize(("step", "becomes"), [("accept", "accepted"), ("decline", "cancelled")])
async def test_staff_answer_a_request_on_its_page(
    each_world: HttpDeployment, step: str, becomes: str
) -> None:
    """Accepting or declining redirects to the page, which then lacks these buttons."""
    path, _, staff = await requested(each_world)
    assert "would like to book you" in await read(staff, path)
    answer = await press(staff, f"{path}/return", step)
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}/return")
    assert await status(staff, path) == becomes
    assert not {"accept", "decline"} & buttons((await staff.get(f"{path}/return")).text)


async def test_a_customer_finds_no_buttons_of_the_staff(world: HttpDeployment) -> None:
    """Customers see no staff buttons, and forged actions are rejected."""
    path, customer, _ = await requested(world)
    assert "Your request is with Mia, who answers next." in await read(customer, path)
    assert buttons((await customer.get(f"{path}/return")).text) == set()
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


async def test_a_button_pressed_twice_acts_once(world: HttpDeployment) -> None:
    """The second submit of a form leads to the page without an error."""
    path, _, staff = await requested(world)
    [form, *_] = page_forms((await staff.get(f"{path}/return")).text)
    staff.headers.pop("x-csrf-token", None)
    for _ in range(2):
        answer = await staff.post(form.action, data={**form.fields, "step": "accept"})
        assert (answer.status_code, answer.headers["location"]) == (303, f"{path}/return")
    assert (await record(staff, path))["version"] == 2


async def test_a_refused_action_leads_to_a_page_that_tells_why(world: HttpDeployment) -> None:
    """A form that comes too late is redirected, so that Back finds no refused form; the page tells
    the reason, and how it stands now."""
    path, customer, staff = await requested(world)
    [form, *_] = page_forms((await staff.get(f"{path}/return")).text)
    json_body(await customer.post(f"{path}/cancel"))
    staff.headers.pop("x-csrf-token", None)
    answer = await staff.post(form.action, data={**form.fields, "step": "accept"})
    assert answer.status_code == 303
    assert answer.headers["location"] == f"{path}/return?refused=booking_not_pending"
    text = page_text((await staff.get(answer.headers["location"])).text)
    assert "The request was answered or withdrawn meanwhile." in text
    assert "Ada cancelled it" in text
    text = page_text((await staff.get(f"{path}/return?refused=else")).text)
    assert "That is not possible any more." in text


# Paying ---------------------------------------------------------------------------------


async def test_paying_takes_one_click(each_world: HttpDeployment) -> None:
    """The button leads straight to the hosted checkout, to which the policy lets forms lead."""
    path, customer, staff = await accepted(each_world)
    assert buttons((await staff.get(f"{path}/return")).text) == set()
    page = await customer.get(f"{path}/return")
    origin = each_world.ports.payments.checkout_origin
    assert f"form-action 'self' {origin};" in page.headers["content-security-policy"]
    answer = await press(customer, f"{path}/return", "checkout")
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(f"{origin}/sandbox/checkout/")
    assert "400.00" in page_text((await customer.get(answer.headers["location"])).text)


async def test_the_checkout_names_the_booking_in_the_language(world: HttpDeployment) -> None:
    """The heading of the sandbox's checkout has the day as other pages have it."""
    path, customer, _ = await accepted(world)
    answer = await press(customer, f"{path}/return", "checkout")
    address = answer.headers["location"]
    shown = (await customer.get(address, headers={"accept-language": "de"})).text
    [heading] = re.findall("<h1>(.*)</h1>", shown)
    assert heading == "Gala dinner mit Mia Lindqvist, Mi., 3. März 2027"


async def test_a_checkout_elsewhere_is_a_link(world: HttpDeployment) -> None:
    """A checkout at an origin to which no form may lead is linked by the page."""

    class Elsewhere:
        checkout_origin = "https://pay.example"

        def __getattr__(self, name: str) -> Any:
            return getattr(world.processor, name)

    path, _, _ = await accepted(world)
    world.restart(payments=Elsewhere())
    customer = await world.signed_in_client(world.customer.id)
    answer = await press(customer, f"{path}/return", "checkout")
    assert answer.headers["location"] == f"{path}/return?checkout"
    shown = (await customer.get(answer.headers["location"])).text
    assert 'class="main button" href="http' in shown
    assert "/sandbox/checkout/" in shown


async def test_the_time_to_pay_is_the_bookings(world: HttpDeployment) -> None:
    """The page shows until when the booking can be paid, not when the checkout expires."""
    path, customer, _ = await accepted(world)
    json_body(await customer.post(f"{path}/checkout"))
    assert "Pay by 3 Mar 2027, 18:00 (UTC)" in await read(customer, path)
    assert "2 Mar 2027, 11:00" not in await read(customer, path)


async def test_the_timeline_says_who_pays(world: HttpDeployment) -> None:
    """The staff member is not told to pay, neither above nor in the timeline."""
    path, _, staff = await accepted(world)
    shown = await read(staff, path)
    assert shown.count("Ada pays by 3 Mar 2027, 18:00 (UTC)") == 2
    assert "Pay by" not in shown


async def test_who_has_paid_comes_back_with_a_word(world: HttpDeployment) -> None:
    """Only the return code shows the notice of a pending payment."""
    path, customer, _ = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    assert "We wait" not in await read(customer, path)
    assert f'{path}/return?cancelled"' in (await customer.get(url)).text
    await customer.post(url, json={"outcome": "succeed"})
    assert f'{path}/return?done"' in (await customer.get(url)).text


async def test_a_processor_that_is_away_is_told(world: HttpDeployment) -> None:
    """Without a checkout, the page says that nothing was charged."""
    path, customer, _ = await accepted(world)
    told = (await customer.get(f"{path}/return?refused=processor_unavailable")).text
    assert "Nothing was charged" in page_text(told)


# Cancelling -----------------------------------------------------------------------------


async def cancel(client: httpx.AsyncClient, path: str, **given: str) -> httpx.Response:
    """Submit the form of the page that asks before a cancellation."""
    [form] = page_forms((await client.get(f"{path}/cancellation")).text)
    client.headers.pop("x-csrf-token", None)
    return await client.post(f"{path}/cancellation", data={**form.fields, **given})


async def test_a_cancellation_says_first_what_goes_back(world: HttpDeployment) -> None:
    """The refund equals the amount shown, by the quote in the form; the page shows the next change,
    and the safe button comes first."""
    path, customer, staff = await paid(world)
    await set_clock(world, "2027-03-02T12:00:00Z")
    shown = (await customer.get(f"{path}/cancellation")).text
    text = page_text(shown)
    assert "You get back US$200.00 50% of the price" in text
    assert "After 2 Mar 2027, 18:00 (UTC), nothing comes back." in text
    assert text.index("Keep the booking") < text.index("Cancel the booking", 20)
    assert (await cancel(customer, path, reason="Rain,\r\nall day")).status_code == 303
    booking = await record(customer, path)
    assert (booking["status"], booking["refunded_amount"]) == ("cancelled", 200.0)
    assert booking["cancel_reason"] == "Rain,\nall day"
    seen, other = await read(customer, path), await read(staff, path)
    assert "You cancelled it 30 hours before the start." in seen
    assert "US$200.00 of US$400.00 is on its way back to you. It was cancelled 24 hours to" in seen
    assert "Ada cancelled it 30 hours before the start." in other
    assert "Rain, all day" in other
    assert "so half the price goes back. You keep US$170.00." in other
    assert "stays with Mia" not in other


async def test_each_cancellation_reads_differently(world: HttpDeployment) -> None:
    """Who ended it, and what becomes of the money, is told to both sides."""
    path, customer, staff = await paid(world)
    assert (await cancel(staff, path)).status_code == 303
    assert "Mia cancelled it 54 hours before the start." in await read(customer, path)
    assert "All of it (US$400.00) is on its way back to you." in await read(customer, path)
    await due_work.run_all_due(world.ports)
    assert "All of it (US$400.00) has gone back to you." in await read(customer, path)
    assert "Refund arrived" in await read(staff, path)
    assert "You cancelled it" in await read(staff, path)
    declined, _, _ = await requested(world)
    await press(staff, f"{declined}/return", "decline")
    assert "Mia can't take it. Nothing was paid" in await read(customer, declined)
    lapsed, _, _ = await accepted(world)
    await set_clock(world, "2027-03-03T18:00:00Z")
    await due_work.run_all_due(world.ports)
    assert "It lapsed, since it was not paid in time." in await read(customer, lapsed)


async def test_a_lapsed_quote_is_told_on_the_page(world: HttpDeployment) -> None:
    """An expired quote is an error, keeps the reason, and cancels nothing."""
    path, customer, _ = await paid(world)
    answer = await cancel(customer, path, quote="x.y", reason="So <b> it is")
    assert answer.status_code == 400
    assert "The quote has lapsed" in answer.text
    assert "So &lt;b&gt; it is</textarea>" in answer.text
    assert await status(customer, path) == "paid"


async def test_what_can_not_be_cancelled_is_not_asked(world: HttpDeployment) -> None:
    """Without a possible cancellation, page and form lead to the booking, as a second submit
    does."""
    path, customer, staff = await paid(world)
    [form] = page_forms((await customer.get(f"{path}/cancellation")).text)
    customer.headers.pop("x-csrf-token", None)
    for _ in range(2):
        sent = await customer.post(f"{path}/cancellation", data=form.fields)
        assert (sent.status_code, sent.headers["location"]) == (303, f"{path}/return")
    shown = await staff.get(f"{path}/cancellation")
    assert (shown.status_code, shown.headers["location"]) == (303, f"{path}/return")


# The event ------------------------------------------------------------------------------


async def test_both_sides_see_a_check_in(each_world: HttpDeployment) -> None:
    """A check-in stands in the headline and in the timeline of both sides."""
    path, customer, staff = await paid(each_world)
    await set_clock(each_world, "2027-03-03T17:00:00Z")
    assert "You see here when Mia has checked in." in await read(customer, path)
    assert (await press(staff, f"{path}/return", "check_in")).status_code == 303
    assert "check_in" not in buttons((await staff.get(f"{path}/return")).text)
    seen, own = await read(customer, path), await read(staff, path)
    assert "Mia has checked in." in seen
    assert "Checked in by Mia" in seen
    assert "You have checked in." in own
    assert "Checked in by you" in own


async def test_an_event_is_confirmed_on_the_page(world: HttpDeployment) -> None:
    """Confirmation is available at its time, and ends the talk of escrow."""
    path, customer, staff = await paid(world)
    assert "safe in escrow" in await read(customer, path)
    assert "confirm" not in buttons((await customer.get(f"{path}/return")).text)
    await set_clock(world, AFTER)
    assert (await press(customer, f"{path}/return", "confirm")).status_code == 303
    assert await status(customer, path) == "completed"
    for side in (customer, staff):
        assert "escrow" not in await read(side, path)


async def test_an_absence_is_reported_and_withdrawn_on_the_page(world: HttpDeployment) -> None:
    """The page has a button to report an absence, and one to withdraw the dispute."""
    path, customer, staff = await paid(world)
    await set_clock(world, DURING)
    assert "It has begun, and Mia has not checked in." in await read(customer, path)
    assert "until 4 Mar 2027, 22:00 (UTC)" in await read(customer, path)
    for word, to in (("no_show", "disputed"), ("withdraw", "paid")):
        assert (await press(customer, f"{path}/return", word)).status_code == 303
        assert await status(customer, path) == to
    assert "Absence reported by Ada" in await read(staff, path)
    assert "Dispute withdrawn by Ada" in await read(staff, path)


async def test_an_operators_decision_is_told(world: HttpDeployment) -> None:
    """How a dispute was decided, with the note, is told to both sides."""
    path, customer, staff = await paid(world)
    await set_clock(world, AFTER)
    json_body(await customer.post(f"{path}/dispute", json={"reason": "The bar was closed"}))
    code = (await record(customer, path))["booking_code"]
    note = "Half the evening"
    await disputes.resolve_dispute(world.ports, code, ResolutionOutcome.SPLIT, 15_000, note)
    for side in (customer, staff):
        text = await read(side, path)
        assert "We shared the money: US$150.00 goes back to Ada." in text
        assert note in text
        assert "The bar was closed" in text


# Visitors -------------------------------------------------------------------------------


async def test_what_it_costs_adds_up_for_each_side(world: HttpDeployment) -> None:
    """The customer reads the lines of the total, the staff member fee and payout."""
    path, customer, staff = await paid(world)
    seen, own = await read(customer, path), await read(staff, path)
    assert "US$100.00 × 4 hours US$400.00 Total US$400.00" in seen
    assert "Service fee" not in seen
    assert "Service fee -US$60.00 You get US$340.00" in own
    assert "Everything back (US$400.00) until 1 Mar 2027, 18:00 (UTC)" in seen
    assert "If you cancel" not in own


async def test_a_change_is_seen_by_its_stamp(each_world: HttpDeployment) -> None:
    """The stamp on the page is the one that its script asks for, until something changes. Strangers
    and signed-out visitors get none."""
    path, customer, staff = await requested(each_world)
    stamp = (await customer.get(f"{path}/stamp")).text
    assert f'data-stamp="{stamp}"' in (await customer.get(f"{path}/return")).text
    assert (await staff.get(f"{path}/stamp")).text == stamp
    json_body(await staff.post(f"{path}/accept"))
    assert (await customer.get(f"{path}/stamp")).text != stamp
    stranger = await each_world.signed_in_client(each_world.stranger.id)
    assert (await stranger.get(f"{path}/stamp")).status_code == 404
    assert (await each_world.client().get(f"{path}/stamp")).status_code == 401


async def test_other_readers_have_no_buttons(world: HttpDeployment) -> None:
    """Whoever booked it reads it without buttons; an admin may cancel it."""
    path, _, _ = await paid(world)
    booker = await world.signed_in_client(world.subscriber.id)
    assert "All is set: it is paid, and Mia is booked." in await read(booker, path)
    shown = (await booker.get(f"{path}/return")).text
    assert (page_forms(shown), "cancellation" in shown) == ([], False)
    admin = await world.signed_in_client(world.admin.id)
    assert "Paid; the event is ahead." in await read(admin, path)
    assert (await cancel(admin, path)).status_code == 303
    assert "We cancelled it" in await read(await world.signed_in_client(world.customer.id), path)


async def test_who_is_signed_out_is_led_back_by_the_sign_in(world: HttpDeployment) -> None:
    """The page leads to sign-in and back; a form sent after the session ended is kept."""
    path, _, _ = await requested(world)
    client = world.client()
    assert f"/account/sign-in?next={path}/return" in (await client.get(f"{path}/return")).text
    sent = await client.post(f"{path}/return", data={"step": "accept", "csrf": "x"})
    assert (sent.status_code, "step=accept" in sent.text) == (401, True)


async def test_people_read_a_problem_on_a_page(world: HttpDeployment) -> None:
    """An error is HTML for browsers and JSON for API clients, with the same status."""
    path, _, _ = await requested(world)
    stranger = await world.signed_in_client(world.stranger.id)
    for page in ("return", "cancellation", "problem", "receipt", "calendar.ics"):
        shown = await stranger.get(f"{path}/{page}", headers=PEOPLE)
        assert shown.status_code == 404
        assert shown.headers["content-type"] == "text/html; charset=utf-8"
        assert (await stranger.get(f"{path}/{page}")).json()["code"] == "not_found"


async def test_a_form_counts_as_a_call_does(world: HttpDeployment) -> None:
    """Forms and API calls share the user's rate limit; a look for changes counts nothing."""
    path, _, staff = await requested(world)
    before = int((await staff.get(path)).headers["x-ratelimit-remaining"])
    await press(staff, f"{path}/return", "accept")
    await staff.get(f"{path}/stamp")
    after = int((await staff.get(path)).headers["x-ratelimit-remaining"])
    assert before - after == 2
