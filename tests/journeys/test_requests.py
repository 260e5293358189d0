"""The request of a booking in a real browser: the calendar of free days, and Back."""

from __future__ import annotations

import re
from datetime import timedelta
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, expect

from tests.journeys.browser import DESKTOP, View
from tests.journeys.conftest import OpenPerson
from tests.journeys.marketplace import LOCATION, SERVICE, Marketplace
from tests.journeys.people import open_person

pytestmark = pytest.mark.journeys


def test_a_day_of_the_calendar_keeps_what_is_typed(
    person: OpenPerson, market: Marketplace, view: View
) -> None:
    """A day is chosen in the calendar of the half-filled form, which keeps its other fields."""
    day = market.unused_day()
    customer = person("customer")
    customer.open(f"/companions/{market.user_id('staff')}/request")
    customer.fill("Place", LOCATION)
    customer.fill("Date", day.replace(day=28).isoformat())
    if not view.has_script:
        customer.press("Show the price")
    customer.main.locator(f"#free-days [data-date='{day}']").click()
    expect(customer.main.get_by_label("Date", exact=True)).to_have_value(day.isoformat())
    expect(customer.main.get_by_label("Place", exact=True)).to_have_value(LOCATION)
    expect(customer.main.locator("#free-days [aria-current]")).to_have_text(str(day.day))


def test_the_calendar_is_used_by_keyboard(browser: Browser, market: Marketplace) -> None:
    """Arrow keys move from day to day, Page Down turns the month, and Enter chooses the day, all
    without leaving the page."""
    next_month = market.now().date().replace(day=1) + timedelta(days=32)  # This one may be over.
    with open_person(browser, market, DESKTOP, "anybody") as visitor:
        visitor.open(f"/companions/{market.user_id('staff')}?month={next_month:%Y-%m}")
        visitor.page.evaluate("() => { window.isSamePage = true }")
        days, month = (
            visitor.main.locator("#free-days [data-date]"),
            visitor.main.locator("h3.month-name"),
        )
        days.first.focus()
        visitor.page.keyboard.press("ArrowRight")
        expect(days.nth(1)).to_be_focused()
        shown = month.inner_text()
        visitor.page.keyboard.press("PageDown")
        expect(month).not_to_have_text(shown)
        expect(days.first).to_be_focused()
        visitor.page.keyboard.press("ArrowDown")
        visitor.page.keyboard.press("Enter")
        expect(visitor.page).to_have_url(re.compile(r"date=\d{4}-\d\d-\d\d"))
        expect(visitor.main.locator("#free-days [aria-current]")).to_be_focused()
        assert visitor.page.evaluate("() => window.isSamePage")


def test_the_calendar_leaves_the_focus_where_somebody_types(
    browser: Browser, market: Marketplace
) -> None:
    """A day is clicked and the next field filled in at once: the calendar that comes with the day
    takes no focus away."""
    with open_person(browser, market, DESKTOP, "customer") as customer:
        customer.open(f"/companions/{market.user_id('staff')}/request")
        month = customer.main.locator(".month-name")
        shown = month.inner_text()
        customer.main.locator("#free-days [data-month]").last.click()
        expect(month).not_to_have_text(shown)
        customer.main.locator("#free-days [data-date]").nth(2).click()
        place = customer.main.get_by_label("Place", exact=True)
        place.press_sequentially("Rua do ")
        expect(customer.main.locator("#free-days [aria-current]")).to_be_visible()
        expect(place).to_be_focused()
        customer.page.keyboard.type("Alecrim 12")
        expect(place).to_have_value("Rua do Alecrim 12")


def test_a_taken_time_stays_marked_until_it_is_changed(
    browser: Browser, market: Marketplace
) -> None:
    """A change of another field updates the price and keeps the error at the refused time; a
    change of the time removes it."""
    taken = market.request_booking()
    market.act("staff", taken["id"], "accept")
    fields = ("event_date", "start_time", "duration_hours", "service_type")
    sent = {name: taken[name] for name in fields}
    address = urlencode({**sent, "refused": "companion_unavailable"})
    with open_person(browser, market, DESKTOP, "customer") as customer:
        customer.open(f"/companions/{market.user_id('staff')}/request?{address}", 400)
        start = customer.main.get_by_label("Start", exact=True)
        price = customer.main.locator("#price")
        expect(start).to_have_attribute("aria-describedby", "refusal")
        for label, text, marks in (("Place", LOCATION, 1), ("Start", "00:30", 0)):
            price.evaluate("(part) => part.setAttribute('data-old', '')")
            customer.fill(label, text)
            expect(price).not_to_have_attribute("data-old", "")
            expect(customer.main.locator("[aria-invalid]")).to_have_count(2 * marks)


def test_a_price_that_does_not_come_is_not_the_old_one(
    browser: Browser, market: Marketplace
) -> None:
    """Where another page comes in place of the new price, that of earlier input goes, and the
    button to ask for it comes; the next change brings it."""
    sent = {"event_date": market.unused_day().isoformat(), "start_time": "12:00"}
    sent |= {"duration_hours": "2", "service_type": SERVICE}
    with open_person(browser, market, DESKTOP, "customer") as customer:
        customer.open(f"/companions/{market.user_id('staff')}/request?{urlencode(sent)}")
        price = customer.main.locator("#price")
        button = customer.main.get_by_role("button", name="Show the price")
        expect(price).to_contain_text("2 hours ×")
        expect(button).to_be_hidden()
        other = {"body": "<p>Later</p>", "content_type": "text/html"}
        customer.page.route("**/request?**", lambda each: each.fulfill(**other), times=1)
        customer.fill("Hours", "3")
        expect(price).to_have_text("")
        expect(button).to_be_visible()
        customer.fill("Hours", "4")
        expect(price).to_contain_text("4 hours ×")
        expect(button).to_be_hidden()


def test_a_form_whose_page_stays_can_be_sent_again(browser: Browser, market: Marketplace) -> None:
    """Where no other page comes, as after Stop, the button works again after some seconds."""
    with open_person(browser, market, DESKTOP, "anybody") as visitor:
        visitor.open("/account/forgot-password")
        visitor.fill("The e-mail of your account", "ada@example.com")
        address = "**/account/forgot-password"
        visitor.page.route(address, lambda each: each.fulfill(status=204), times=1)
        visitor.press("Send the link")
        button = visitor.main.get_by_role("button", name="Send the link")
        expect(button).to_have_attribute("aria-busy", "true")
        expect(button).not_to_have_attribute("aria-busy", "true", timeout=10_000)
        visitor.press("Send the link")
        expect(visitor.main.get_by_text("If there is an account")).to_be_visible()


def test_back_leads_to_a_refused_form(person: OpenPerson) -> None:
    """Going back to the page of a refused form shows it again with its input, and sends nothing."""
    visitor = person("anybody")
    visitor.open("/account/register")
    for label, text in (
        ("First name", "Ada"),
        ("Last name", "Lovelace"),
        ("E-mail", "ada@localhost"),
    ):
        visitor.fill(label, text)
    visitor.fill("Password", "a long password")
    visitor.main.get_by_role("radio").first.check()
    visitor.press("Create the account")
    expect(visitor.page.get_by_role("alert")).to_be_visible()
    visitor.page.goto("/how-it-works")
    visitor.page.go_back()
    expect(visitor.main.get_by_label("First name", exact=True)).to_have_value("Ada")
