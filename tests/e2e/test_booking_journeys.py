"""Bookings of two people with browsers of their own: what both read at each step."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.browsing import DESKTOP, PHONE, Person, open_browser
from tests.e2e.deployment import CUSTOMER_EMAIL, PASSWORD, ProcessDeployment, json_body
from tests.e2e.staff_bookings import STAFF, booking_body, import_staff
from tests.support.pictures import make_image_bytes

pytestmark = pytest.mark.journeys

STAFF_EMAIL = str(STAFF[0]["email"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


@pytest.fixture
def running(deployment: ProcessDeployment) -> ProcessDeployment:
    """A server, a worker and two staff members."""
    import_staff(deployment)
    deployment.start_server()
    deployment.start_worker()
    return deployment


def request_booking(deployment: ProcessDeployment) -> dict[str, Any]:
    """A pending booking of the first staff member, in five days."""
    customer = deployment.sign_in(CUSTOMER_EMAIL, PASSWORD)
    staff = deployment.sign_in(STAFF_EMAIL, PASSWORD)
    wanted = booking_body(json_body(staff.get("/auth/session"))["user"]["id"], 5)
    del wanted["customer_email"]
    booking: dict[str, Any] = json_body(customer.post("/bookings", json=wanted), 201)["booking"]
    return booking


def instant(booking: dict[str, Any], name: str) -> datetime:
    return datetime.fromisoformat(booking[name])


def meet(browser: Browser, deployment: ProcessDeployment) -> tuple[Person, Person, dict[str, Any]]:
    """The customer at a desk and the staff member with a phone, both at a pending booking."""
    booking = request_booking(deployment)
    customer = Person(browser, deployment, CUSTOMER_EMAIL, **DESKTOP)
    staff = Person(browser, deployment, STAFF_EMAIL, **PHONE)
    for person in (customer, staff):
        person.go(f"/bookings/{booking['id']}/return")
    return customer, staff, booking


def headline(person: Person, text: str) -> None:
    """Look again until the page's headline has this text."""
    person.look_again()
    expect(person.page.locator("#next")).to_contain_text(text)
    person.read()


def pay(customer: Person, staff: Person) -> None:
    """Pay an accepted booking: one click to the checkout, one in it."""
    headline(customer, "said yes. Pay")
    customer.page.get_by_role("button", name="Pay").click()
    assert "/sandbox/checkout/" in customer.page.url
    customer.page.get_by_role("button", name="Pay").click()
    customer.press("Back to the booking")
    headline(customer, "You are all set")
    headline(staff, "You are booked")


def dispute(customer: Person, staff: Person, picture: Path) -> None:
    """Open a dispute with a picture, answer it, and withdraw it."""
    customer.press("Something went wrong")
    customer.page.get_by_label("Tell what happened").fill("The bar closed early")
    customer.page.get_by_label("A picture or a document").set_input_files(picture)
    customer.press("Open a dispute")
    headline(customer, "You have told your side.")
    headline(staff, "There is a dispute.")
    assert "The bar closed early" in staff.read()
    evidence = staff.page.locator("img.evidence")
    evidence.scroll_into_view_if_needed()  # It is loaded lazily, so decoding waits for it.
    assert evidence.evaluate("image => image.decode().then(() => image.naturalWidth)") > 0
    staff.page.get_by_label("Your answer").fill("The host asked me to")
    staff.press("Send")
    customer.look_again()
    expect(customer.page.get_by_text("The host asked me to")).to_be_visible()
    customer.page.get_by_text("Withdraw the dispute…").click()
    customer.press("Withdraw the dispute")


@pytest.mark.parametrize("deployment", ["sqlite"], indirect=True)
def test_two_people_take_a_booking_to_its_review(
    browser: Browser, running: ProcessDeployment, tmp_path: Path
) -> None:
    """Accepted, paid in one click, checked in, disputed with a picture, withdrawn, confirmed and
    reviewed: each page shows by itself what the other side did."""
    customer, staff, booking = meet(browser, running)
    assert "would like to book you" in staff.read()
    staff.press("Accept the request")
    headline(staff, "You said yes.")
    pay(customer, staff)

    running.set_clock(instant(booking, "starts_at") - timedelta(minutes=30))
    headline(staff, "Check in when you are there")
    staff.press("Check in")
    headline(staff, "You have checked in.")
    headline(customer, "has checked in.")
    assert "Checked in by Ada 1 Byron" in customer.read()

    running.set_clock(instant(booking, "ends_at") + timedelta(minutes=1))
    headline(customer, "The event is over.")
    assert "escrow" not in customer.read()
    picture = tmp_path / "bar.png"
    picture.write_bytes(make_image_bytes())
    dispute(customer, staff, picture)
    headline(customer, "The event is over.")
    customer.press("Confirm that it took place")
    headline(customer, "It took place")
    headline(staff, "It took place")

    customer.press("Write a review")
    customer.page.locator("label", has_text="4 stars").click()
    customer.page.get_by_label("Your words").fill("Calm and kind")
    customer.press("Give the review")
    assert "Your review Calm and kind" in customer.read()
    assert customer.complaints + staff.complaints == []


@pytest.mark.parametrize("deployment", ["sqlite"], indirect=True)
def test_a_cancellation_is_asked_and_told_to_both(
    browser: Browser, running: ProcessDeployment
) -> None:
    """The staff member cancels a paid booking: both read who did it, how long before, and what goes
    back, and the customer is led to others. A form of a second tab is refused without a trap at
    Back."""
    customer, staff, booking = meet(browser, running)
    second = staff.page.context.new_page()
    second.goto(staff.page.url)
    staff.press("Accept the request")
    second.get_by_role("button", name="Accept the request").click()
    expect(second.locator("#next")).to_contain_text("You said yes.")
    pay(customer, staff)

    running.set_clock(instant(booking, "starts_at") - timedelta(days=4, hours=1))
    staff.press("Cancel the booking")
    assert "gets everything back" in staff.read()
    staff.press("Keep the booking")
    headline(staff, "You are booked")
    staff.press("Cancel the booking")
    staff.page.get_by_label("A word to").fill("I am ill")
    staff.press("Cancel the booking")
    headline(staff, "You cancelled it 4 days before the start.")
    staff.page.go_back()
    staff.page.go_back()
    assert staff.page.url.endswith("/return")
    expect(staff.page.locator("#next")).to_contain_text("You cancelled it")
    headline(customer, "cancelled it 4 days before the start.")
    running.wait_for(
        lambda: (
            "has gone back to you" in ((customer.page.reload() and customer.read()) or "") or None
        ),
        "the refund arrives",
    )
    assert "I am ill" in customer.read()
    assert customer.page.get_by_role("link", name="Find somebody else").is_visible()
    assert customer.complaints + staff.complaints == []
