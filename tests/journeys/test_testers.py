"""The tools of testers in a real browser: the tour from its start to its end, and a mail."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import Browser, expect

from tests.journeys import booking_steps as steps
from tests.journeys.browser import View
from tests.journeys.marketplace import Marketplace
from tests.journeys.people import Person, open_person

pytestmark = pytest.mark.journeys


@pytest.fixture
def tester(browser: Browser, market: Marketplace, view: View) -> Iterator[Person]:
    """A person who tries the sandbox, signed out at first."""
    with open_person(browser, market, view, "anybody") as person:
        yield person


def take_step(tester: Person, title: str, button: str) -> None:
    """Return to the tour by the bar, and press the button of its current step."""
    bar = tester.page.get_by_role("region", name="Demo")
    bar.get_by_role("link", name="Tour", exact=True).click()
    step = tester.main.locator("[aria-current=step]")
    expect(step.get_by_role("heading")).to_contain_text(title)
    step.get_by_role("button", name=re.compile(button)).click()


def test_the_tour_is_taken_from_its_start_to_its_end(tester: Person) -> None:
    """The buttons of the tour and those of the pages that they lead to take one booking from the
    search to the payout."""
    tester.open("/")
    take_step(tester, "Search", "^Search as ")
    tester.reads("Beatriz|Bartender")
    take_step(tester, "Request", "^Fill in the request as ")
    tester.press("Send the request")
    tester.page.wait_for_url(re.compile(r"/bookings/\d+/return"))
    tester.reads(steps.READ_BY_CUSTOMER["requested"])
    take_step(tester, "Accept", "^Answer as ")
    steps.accept(tester)
    tester.reads(steps.READ_BY_STAFF["to pay"])
    take_step(tester, "Pay", "^Pay as ")
    steps.open_checkout(tester)
    steps.pay(tester)
    steps.return_to_booking(tester)
    tester.waits_to_read(steps.READ_BY_CUSTOMER["confirmed"])
    take_step(tester, "Message", "^Write as ")
    tester.main.get_by_role("textbox").last.fill("See you at seven!")
    tester.press("Send")
    expect(tester.main.get_by_text("See you at seven!").last).to_be_visible()
    take_step(tester, "Event", "^Move the clock, and check in")
    tester.press(re.compile("^Check in"))
    tester.reads(steps.READ_BY_STAFF["checked in"])
    take_step(tester, "Review", "^Move the clock, and review")
    tester.press(re.compile("^(Confirm|It went well|Yes)"))
    steps.review(tester, 5, "The best evening of the year, thank you.")
    take_step(tester, "Payout", "^Move the clock, and see the payout")
    expect(tester.page).to_have_url(re.compile("/staff/payouts"))
    tester.open("/sandbox/tour")
    tester.waits_to_read("8 of 8 steps done")


def test_the_mail_of_a_registration_is_found_and_works(tester: Person, view: View) -> None:
    """The page after a registration links to the sent mail, whose link confirms the address."""
    email = f"walker.{view}@example.com"
    tester.open("/account/register")
    tester.main.get_by_label("I book staff").check(force=True)
    for label, text in (("First name", "Wanda"), ("Last name", "Walker"), ("E-mail", email)):
        tester.fill(label, text)
    tester.main.get_by_label("Password", exact=True).fill("correct horse battery")
    tester.press("Create the account")
    tester.follow("Read the mails sent")
    tester.waits_to_read(re.escape(email))
    mail = tester.main.get_by_role("article").filter(has_text=email)
    mail.get_by_role("link", name="Confirm your address").click()
    tester.press("Confirm my address")
    tester.reads("your address is confirmed")


def test_a_move_of_the_clock_lists_what_happened(tester: Person, market: Marketplace) -> None:
    """The clock is moved from the bar's page, which lists what happened since."""
    # Other tests may have moved the clock beyond all bookings of the sample.
    booking = market.request_booking()
    market.move_clock(datetime.fromisoformat(booking["starts_at"]) - timedelta(days=2))
    tester.open("/")
    bar = tester.page.get_by_role("region", name="Demo")
    bar.get_by_role("button", name=re.compile("^Marcus")).click()
    tester.open("/sandbox/clock")
    tester.press("A week ahead")
    tester.reads("What happened since")
    tester.waits_to_read("Cancelled or lapsed|Completed|Payout made")
