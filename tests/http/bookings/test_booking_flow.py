"""The main flow over HTTP, from search to payout."""

from __future__ import annotations

import re

import pytest

from staffbooking_core.domain.payments.processor import OutcomeUnknown
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.payments.inbox import VISIT_SYNC_INTERVAL
from staffbooking_http.api import query_string
from tests.http.deployment import HttpDeployment, json_body
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio


async def accepted(world: HttpDeployment, **given: object):
    """A booking that the companion has accepted: its path, and the parties' browsers."""
    customer = await world.signed_in_client(world.customer.id)
    staff = await world.signed_in_client(world.companion.id)
    booking = json_body(
        await world.client_with_key().post("/api/v1/bookings", json=world.request_body(**given)),
        201,
    )
    path = f"/bookings/{booking['booking']['id']}"
    json_body(await staff.post(f"{path}/accept"))
    return path, customer, staff


async def paid(world: HttpDeployment, **given: object):
    """An accepted booking that is paid on the hosted page: its path, and the parties' browsers."""
    path, customer, staff = await accepted(world, **given)
    page = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    assert json_body(await customer.post(page, json={"outcome": "succeed"}))["state"] == "paid"
    return path, customer, staff


async def set_clock(world: HttpDeployment, to: str) -> None:
    json_body(await world.client().post("/sandbox/clock", json={"set_to": to}))


async def test_a_booking_goes_from_search_to_payout(world: HttpDeployment) -> None:
    """A booking is found, requested, accepted, paid, checked in and confirmed, and its payout is
    paid."""
    program = world.client_with_key()
    found = json_body(await program.get("/api/v1/companions?location=lisbon&date=2027-03-03"))
    assert found["companions"][0]["id"] == world.companion.id
    path, customer, staff = await paid(world)
    booking = json_body(await customer.get(path))["booking"]
    assert (booking["status"], booking["payment_status"]) == ("paid", "succeeded")
    await set_clock(world, "2027-03-03T17:00:00Z")
    assert json_body(await staff.post(f"{path}/check-in"))["booking"]["checked_in_at"]
    await set_clock(world, "2027-03-03T22:00:00Z")
    assert json_body(await customer.post(f"{path}/confirm"))["booking"]["status"] == "completed"
    await set_clock(world, "2027-03-04T22:00:00Z")
    await due_work.run_all_due(world.ports)
    assert json_body(await staff.get(path))["booking"]["payout_status"] == "paid"
    code = booking["booking_code"]
    record = json_body(await program.get(f"/api/v1/bookings/{code}"))["booking"]
    assert [entry["to"] for entry in record["timeline"]] == [
        "pending",
        "accepted",
        "paid",
        "completed",
    ]


async def test_a_late_cancellation_refunds_half(world: HttpDeployment) -> None:
    """A cancellation by its quote 30 hours ahead refunds half of the price."""
    path, customer, _ = await paid(world)
    await set_clock(world, "2027-03-02T12:00:00Z")
    quote = json_body(await customer.get(f"{path}/cancellation-quote"))
    assert (quote["refund_percent"], quote["refund_amount"]) == (50, 200.0)
    booking = json_body(await customer.post(f"{path}/cancel", json={"quote": quote["quote"]}))[
        "booking"
    ]
    assert (booking["status"], booking["refunded_amount"]) == ("cancelled", 200.0)


async def test_cancelling_needs_no_body(world: HttpDeployment) -> None:
    """A cancellation without a body has no reason."""
    path, customer, _ = await accepted(world)
    booking = json_body(await customer.post(f"{path}/cancel"))["booking"]
    assert (booking["status"], booking["cancel_reason"]) == ("cancelled", None)


async def test_a_staff_cancellation_offers_a_rebooking(world: HttpDeployment) -> None:
    """A cancellation by staff offers the customer one priority rebooking, with an expiry."""
    path, customer, staff = await accepted(world)
    code = json_body(await staff.post(f"{path}/cancel", json={"reason": "ill"}))["booking"][
        "booking_code"
    ]
    offer = json_body(await customer.get(path))["rebooking"]
    assert offer["expires_at"] == "2027-03-31T12:00:00Z"
    body = world.request_body(rebooking_of=code)
    del body["customer_email"]
    assert (
        json_body(await customer.post("/bookings", json=body), 201)["booking"]["priority"] is True
    )
    assert (await customer.post("/bookings", json=body)).json()["code"] == "rebooking_not_available"


async def test_a_started_booking_can_be_disputed(world: HttpDeployment) -> None:
    """The customer can dispute a paid booking from its start."""
    path, customer, _ = await paid(world)
    await set_clock(world, "2027-03-03T18:00:00Z")
    booking = json_body(await customer.post(f"{path}/dispute", json={"reason": "nobody came"}))[
        "booking"
    ]
    assert booking["status"] == "disputed"


async def test_declining_cancels(world: HttpDeployment) -> None:
    """A declined booking is cancelled by staff."""
    made = json_body(
        await world.client_with_key().post("/api/v1/bookings", json=world.request_body()), 201
    )
    staff = await world.signed_in_client(world.companion.id)
    answer = json_body(await staff.post(f"/bookings/{made['booking']['id']}/decline"))
    assert answer["booking"]["cancelled_by"] == "staff"


async def test_only_staff_and_admins_see_the_fee(world: HttpDeployment) -> None:
    """The platform's fee is absent for the customer, and present for staff and admins."""
    path, customer, staff = await accepted(world)
    admin = await world.signed_in_client(world.admin.id)
    seen = [
        "platform_fee" in json_body(await one.get(path))["booking"]
        for one in (customer, staff, admin)
    ]
    assert seen == [False, True, True]


async def test_a_stranger_with_a_key_sees_a_glimpse(world: HttpDeployment) -> None:
    """A key of another user gets code, status and date of a booking only."""
    made = json_body(
        await world.client_with_key().post("/api/v1/bookings", json=world.request_body()), 201
    )
    code = made["booking"]["booking_code"]
    outsider = world.client_with_key(await world.add_api_key(world.outsider))
    glimpse = json_body(await outsider.get(f"/api/v1/bookings/{code}"))["booking"]
    assert set(glimpse) == {"booking_code", "status", "event_date"}


async def test_the_checkout_page_works_by_form(world: HttpDeployment) -> None:
    """The checkout page shows a declined card and accepts a valid one, by forms only."""
    path, customer, _ = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    visitor = world.client()
    page = await visitor.get(url)
    assert page.status_code == 200
    assert "400.00" in page.text
    declined = await visitor.post(url, data={"outcome": "pay", "card": "4000 0000 0000 0002"})
    assert 'role="alert"' in declined.text
    done = await visitor.post(url, data={"outcome": "pay", "card": "4242 4242 4242 4242"})
    assert (done.status_code, done.headers["location"]) == (
        303,
        url.removeprefix("http://127.0.0.1:8000"),
    )
    assert "held in escrow" in (await visitor.get(url)).text
    assert json_body(await customer.get(path))["booking"]["status"] == "paid"


async def test_the_checkout_page_shows_the_current_state(
    world: HttpDeployment, monkeypatch
) -> None:
    """A repeated checkout form leads to the current state, and form data is not parsed through the
    query cache."""
    path, customer, _ = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    monkeypatch.delattr(query_string, "_parse_cached")
    visitor, form = world.client(), {"outcome": "pay", "card": "4000 0025 0000 3155"}
    for _ in range(2):
        await visitor.post(url, data=form)
        page = await visitor.get(url)
        assert "Your bank asks" in page.text
        assert page.headers["cache-control"] == "no-store"
    await visitor.post(url, json={"outcome": "succeed"})
    await visitor.post(url, data=form)
    assert "Paid. The money is held in escrow" in (await visitor.get(url)).text


async def test_a_checkout_page_can_expire(world: HttpDeployment) -> None:
    """An expired checkout page shows that it is expired."""
    path, customer, _ = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    assert json_body(await customer.post(url, json={"outcome": "expire"}))["state"] == "expired"
    assert "expired" in (await customer.get(url)).text


async def test_the_csrf_token_stands_in_the_page(world: HttpDeployment) -> None:
    """A page has the session's CSRF token in a meta tag, which is empty without a session."""
    customer = await world.signed_in_client(world.customer.id)
    token = json_body(await customer.get("/auth/session"))["csrf_token"]
    found = re.search(r'<meta name="csrf-token" content="([^"]*)">', (await customer.get("/")).text)
    assert found
    assert found[1] == token
    assert 'name="csrf-token" content=""' in (await world.client().get("/")).text


async def test_the_return_page_shows_the_booking_to_its_party(world: HttpDeployment) -> None:
    """The return page shows the booking to its customer only, and is 404 for a stranger."""
    path, customer, _ = await paid(world)
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    assert code in (await customer.get(f"{path}/return")).text
    assert code not in (await world.client().get(f"{path}/return")).text
    stranger = await world.signed_in_client(world.stranger.id)
    assert (await stranger.get(f"{path}/return")).status_code == 404


async def test_the_return_page_syncs_the_payment(world: HttpDeployment) -> None:
    """A customer's visit to the return page, at most one per interval, syncs the payment; the
    staff's visit and an unavailable processor do not."""
    path, customer, staff = await accepted(world)
    url = json_body(await customer.post(f"{path}/checkout"))["checkout_url"]
    assert WAITING in (await customer.get(f"{path}/return?done")).text
    await world.processor.sandbox.simulate_checkout(url.rpartition("/")[2], "succeed")
    assert "once Ada has paid" in (await staff.get(f"{path}/return")).text
    assert (
        WAITING in (await customer.get(f"{path}/return?done")).text
    )  # Synced within the interval.
    world.clock.advance(VISIT_SYNC_INTERVAL)
    world.restart(payments=UnavailableProcessor())
    there = await world.signed_in_client(world.customer.id)
    assert WAITING in (await there.get(f"{path}/return?done")).text
    world.clock.advance(VISIT_SYNC_INTERVAL)
    assert "safe in escrow" in (await customer.get(f"{path}/return")).text
    assert json_body(await customer.get(path))["booking"]["status"] == "paid"


WAITING = "We wait for the payment processor"


class UnavailableProcessor:
    """A processor that does not answer."""

    name = "fake"
    checkout_origin = "https://pay.example"

    async def snapshot(self, *_: object) -> None:
        raise OutcomeUnknown("away")


async def test_an_abandoned_checkout_can_be_resumed(world: HttpDeployment) -> None:
    """The return page of an abandoned checkout gives the customer, not the staff member, the
    booking's deadline and the button to pay, also once the checkout has expired."""
    path, customer, staff = await accepted(world)
    json_body(await customer.post(f"{path}/checkout"))
    for at in ("2027-03-01T12:00:00Z", "2027-03-02T11:00:00Z"):
        await set_clock(world, at)
        left = (await customer.get(f"{path}/return?cancelled")).text
        assert "Pay by 3 Mar 2027, 18:00 (UTC)" in page_text(left)
        assert 'value="checkout"' in left
    assert 'value="checkout"' not in (await staff.get(f"{path}/return?cancelled")).text


async def test_the_return_page_shows_the_bookings_status(world: HttpDeployment) -> None:
    """The return page shows the booking's status, whatever the query says."""
    path, customer, _ = await paid(world)
    page = (await customer.get(f"{path}/return?cancelled")).text
    assert "safe in escrow" in page
    assert 'value="checkout"' not in page
    json_body(await customer.post(f"{path}/cancel"))
    page = (await customer.get(f"{path}/return")).text
    assert "You cancelled it" in page
    assert "escrow" not in page
