"""Messages of a conversation that do not go out at once, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, WebSocketRoute, expect

from tests.journeys.browser import DESKTOP, WAIT_TIMEOUT_MS
from tests.journeys.marketplace import Marketplace
from tests.journeys.people import Person, open_person

pytestmark = pytest.mark.journeys


@pytest.fixture
def customer(browser: Browser, market: Marketplace) -> Iterator[Person]:
    """The customer, whose pages may watch their channel."""
    with open_person(browser, market, DESKTOP, "customer") as customer:
        yield customer


def open_conversation(customer: Person) -> None:
    customer.open(f"/conversations/with/{customer.market.user_id('staff')}")
    expect(customer.page.locator("html")).to_have_attribute("data-channel", "open")


def send(customer: Person, text: str) -> None:
    customer.fill("Your message", text)
    customer.page.keyboard.press("Enter")


def test_a_message_goes_out_without_the_channel_that_lost_it(customer: Person) -> None:
    """The channel takes a message, ends without acknowledging it, and does not come back: the
    message goes by a request."""
    lost: list[str | bytes] = []

    def follow(route: WebSocketRoute) -> None:
        if lost:
            route.close()
            return
        server = route.connect_to_server()

        def take(frame: str | bytes) -> None:
            if "send_message" not in str(frame):
                server.send(frame)
                return
            lost.append(frame)
            route.close()
            server.close()

        route.on_message(take)

    customer.page.route_web_socket(re.compile(r"/ws\b"), follow)
    open_conversation(customer)
    send(customer, "Is parking possible?")
    shown = customer.main.locator("[data-messages]")
    expect(shown).to_contain_text("Is parking possible?", timeout=WAIT_TIMEOUT_MS)
    expect(customer.main.locator("[data-outbox] li")).to_have_count(0)
    assert lost


def test_a_refused_message_is_announced(customer: Person) -> None:
    """Why a message was refused is told in an alert; another try keeps the focus on the page, and
    an edit takes the alert back."""
    open_conversation(customer)
    send(customer, "You are an asshole")
    alert = customer.main.locator("[data-problem]")
    state = customer.main.locator("[data-outbox] [data-state]")
    expect(alert).to_have_attribute("role", "alert")
    expect(alert).not_to_be_empty()
    expect(alert).to_have_text(state.inner_text())
    again = customer.main.get_by_role("button", name="Try again")
    again.press("Enter")
    expect(customer.main.get_by_label("Your message", exact=True)).to_be_focused()
    expect(alert).not_to_be_empty()
    customer.press("Edit")
    expect(alert).to_be_empty()
