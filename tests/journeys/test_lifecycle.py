"""Each transition of a booking by two people at two browsers, and what both read after it."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

import pytest
from attrs import frozen
from playwright.sync_api import Browser

from tests.journeys import booking_steps as steps
from tests.journeys.booking_steps import both_read
from tests.journeys.browser import DESKTOP
from tests.journeys.conftest import OpenPerson
from tests.journeys.marketplace import Marketplace
from tests.journeys.people import Person, open_person

pytestmark = pytest.mark.journeys

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


@frozen
class Sides:
    """The customer and the staff member of a booking."""

    customer: Person
    staff: Person
    market: Marketplace

    def read(self, booking_id: int, situation: str) -> None:
        both_read(self.customer, self.staff, booking_id, situation)

    def paid(self) -> dict[str, Any]:
        """A paid booking, which both sides have open."""
        booking = self.market.paid_booking()
        self.read(booking["id"], "confirmed")
        return booking

    def move_to(self, booking: dict[str, Any], edge: str, by: timedelta = timedelta()) -> None:
        """Move the clock to an edge of the event, and load the booking on both sides."""
        self.market.move_clock(datetime.fromisoformat(booking[edge]) + by)
        for person in (self.customer, self.staff):
            steps.open_booking(person, booking["id"])


@pytest.fixture
def sides(person: OpenPerson, market: Marketplace) -> Sides:
    return Sides(person("customer"), person("staff"), market)


def test_a_booking_is_requested_accepted_paid_attended_and_reviewed(sides: Sides) -> None:
    """A booking goes from the request to the reviews of both sides."""
    customer, staff, market = sides.customer, sides.staff, sides.market
    booking_id = steps.request_booking(customer, market.unused_day())
    sides.read(booking_id, "requested")
    steps.accept(staff)
    sides.read(booking_id, "to pay")
    steps.open_checkout(customer)
    steps.pay(customer)
    steps.return_to_booking(customer)
    customer.waits_to_read(steps.READ_BY_CUSTOMER["confirmed"])
    sides.read(booking_id, "confirmed")
    booking = market.booking(booking_id)
    sides.move_to(booking, "starts_at", -_HOUR)
    sides.read(booking_id, "check-in open")
    staff.press("Check in")
    sides.read(booking_id, "checked in")
    sides.move_to(booking, "ends_at")
    sides.read(booking_id, "to confirm")
    customer.press("Confirm that it took place")
    sides.read(booking_id, "completed")
    for person in (customer, staff):
        steps.review(person, 5, "Everything was as agreed.")
        steps.open_booking(person, booking_id)
        person.reads("Your review")


def test_a_request_is_declined(sides: Sides) -> None:
    """The staff member declines, and both read it."""
    booking_id = sides.market.request_booking()["id"]
    sides.read(booking_id, "requested")
    steps.decline(sides.staff)
    sides.read(booking_id, "declined")


def test_a_request_is_taken_back(sides: Sides) -> None:
    """The customer cancels before an answer, and both read it."""
    booking_id = sides.market.request_booking()["id"]
    sides.read(booking_id, "requested")
    steps.cancel(sides.customer)
    sides.read(booking_id, "cancelled by customer")


def test_a_request_lapses(sides: Sides) -> None:
    """A request that nobody answers until the start lapses."""
    booking = sides.market.request_booking()
    sides.move_to(booking, "starts_at")
    sides.market.wait_for_status(booking["id"], "cancelled")
    sides.read(booking["id"], "unanswered")


def test_a_declined_card_is_reported_and_another_one_pays(sides: Sides) -> None:
    """The processor's page reports the declined card, and a second card pays."""
    booking_id = sides.market.request_booking()["id"]
    sides.market.act("staff", booking_id, "accept")
    steps.open_booking(sides.customer, booking_id)
    steps.open_checkout(sides.customer)
    steps.pay(sides.customer, "4000 0000 0000 0002")
    sides.customer.page.get_by_role("alert").wait_for()
    steps.pay(sides.customer)
    steps.return_to_booking(sides.customer)
    sides.customer.waits_to_read(steps.READ_BY_CUSTOMER["confirmed"])


def test_a_change_does_not_stop_a_form_on_its_way(browser: Browser, market: Marketplace) -> None:
    """The page finds a change while the checkout is being opened: it leads there all the same."""
    booking_id = market.request_booking()["id"]
    market.act("staff", booking_id, "accept")
    with open_person(browser, market, DESKTOP, "customer") as customer:
        page, sent = customer.page, []
        steps.open_booking(customer, booking_id)
        page.route("**/return", lambda each: sent.append(each), times=1)
        page.route("**/stamp", lambda each: each.fulfill(body="another"))
        # A page that is being left runs no more scripts of a test: it looks by itself.
        look = "document.dispatchEvent(new Event('visibilitychange'))"
        page.evaluate(f"() => {{ setTimeout(() => {look}, 1000) }}")
        with page.expect_response("**/stamp"):
            customer.main.get_by_role("button", name=re.compile("^Pay ")).click(no_wait_after=True)
        page.wait_for_timeout(500)
        sent[0].continue_()
        page.wait_for_url(re.compile("/checkout/"))


def test_an_accepted_booking_lapses_unpaid(sides: Sides) -> None:
    """A booking that is not paid until the start lapses."""
    booking = sides.market.request_booking()
    sides.market.act("staff", booking["id"], "accept")
    sides.read(booking["id"], "to pay")
    sides.move_to(booking, "starts_at")
    sides.market.wait_for_status(booking["id"], "cancelled")
    sides.read(booking["id"], "unpaid")


@pytest.mark.parametrize("role", ["customer", "staff"])
def test_a_paid_booking_is_cancelled(sides: Sides, role: str) -> None:
    """Each side can cancel a paid booking days before it, and everything goes back."""
    booking = sides.paid()
    canceller = sides.customer if role == "customer" else sides.staff
    steps.cancel(canceller)
    sides.read(booking["id"], f"cancelled by {role}")
    sides.customer.waits_to_read("[Aa]ll of it")


def test_a_dispute_is_opened_and_withdrawn(sides: Sides) -> None:
    """The customer opens a dispute during the event and withdraws it."""
    booking = sides.paid()
    sides.move_to(booking, "starts_at", _HOUR)
    steps.dispute(sides.customer, "The bar is closed.")
    sides.read(booking["id"], "disputed by customer")
    steps.withdraw_dispute(sides.customer)
    sides.read(booking["id"], "not checked in")


def test_the_staff_member_opens_a_dispute(sides: Sides) -> None:
    """The staff member opens a dispute, which the customer can't withdraw."""
    booking = sides.paid()
    sides.move_to(booking, "starts_at", _HOUR)
    steps.dispute(sides.staff, "Nobody let me in.")
    sides.read(booking["id"], "disputed by staff")
    assert sides.customer.main.get_by_text("Withdraw the dispute").count() == 0


def test_an_absence_is_reported(sides: Sides) -> None:
    """The customer reports that the staff member did not come."""
    booking = sides.paid()
    sides.move_to(booking, "starts_at", 20 * _MINUTE)
    steps.report_absence(sides.customer)
    sides.read(booking["id"], "no-show")


def test_a_booking_completes_by_itself(sides: Sides) -> None:
    """A booking that nobody confirms completes some time after its end."""
    booking = sides.paid()
    sides.move_to(booking, "ends_at", 3 * _DAY)
    sides.market.wait_for_status(booking["id"], "completed")
    sides.read(booking["id"], "completed")
