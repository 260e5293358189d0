"""Conversations in a real browser: two people write to each other over the channel."""

from __future__ import annotations

import itertools
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from attrs import define, field
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect, sync_playwright

from tests.e2e.deployment import PASSWORD, ProcessDeployment, json_body
from tests.e2e.staff_bookings import STAFF, booking_body, import_staff
from tests.support.required_tools import skip_or_fail

pytestmark = pytest.mark.journeys

STAFF_EMAIL = str(STAFF[0]["email"])
FIELD = "Your message"
_days = itertools.count(7)
"""Each conversation is about a booking of another day."""


@define(slots=False)
class Person:
    """A signed-in person: an API client, and browser pages, whose console is noted."""

    api: httpx.Client
    context: BrowserContext
    user_id: int
    reports: list[str] = field(factory=list)

    def open(self, path: str) -> Page:
        page = self.context.new_page()
        page.on("console", lambda message: self.reports.append(message.text))
        page.on("pageerror", lambda error: self.reports.append(str(error)))
        page.goto(path)
        return page

    def say(self, conversation_id: int, text: str) -> None:
        """Send a message by the API."""
        body = {"content": text}
        json_body(self.api.post(f"/messages/conversation/{conversation_id}", json=body), 201)

    def policy_reports(self) -> list[str]:
        """What the console shows, without requests that failed for lack of a server."""
        return [text for text in self.reports if "ERR_CONNECTION" not in text]


@define(slots=False)
class Chat:
    """A conversation of a customer and a staff member."""

    deployment: ProcessDeployment
    browser: Browser
    customer: Person
    staff: Person
    id: int
    email: str
    """The customer's."""

    @property
    def path(self) -> str:
        return f"/conversations/{self.id}"

    def texts(self) -> list[str]:
        """The messages as they are stored."""
        answer = json_body(self.staff.api.get(f"/messages/conversation/{self.id}"))
        return [message["content"] for message in answer["messages"]]


def bubbles(page: Page) -> Locator:
    return page.locator(".bubble .text")


def write(page: Page, text: str) -> None:
    page.get_by_label(FIELD).fill(text)
    page.get_by_label(FIELD).press("Enter")


def expect_live(page: Page) -> None:
    """The page has a connection: the other person's presence is asked over it."""
    expect(page.locator("html[data-channel=open]")).to_be_attached()


@pytest.fixture(scope="module")
def stage(
    filled_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[ProcessDeployment, Browser]]:
    """A running server with staff members, and a browser."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        skip_or_fail("chromium", "Browser", "there is no chromium on the path")
    folder = tmp_path_factory.mktemp("chat")
    file = shutil.copy(filled_file, folder)
    deployment = ProcessDeployment(folder, f"sqlite+aiosqlite:///{file}")
    try:
        import_staff(deployment)
        deployment.start_server()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            yield deployment, browser
            browser.close()
    finally:
        deployment.close()


@pytest.fixture
def chat(stage: tuple[ProcessDeployment, Browser]) -> Iterator[Chat]:
    """A new customer's conversation with a staff member."""
    deployment, browser = stage
    email = f"{secrets.token_hex(4)}@example.test"
    names = {"first_name": "Grace", "last_name": "Client", "role": "customer"}
    json_body(
        httpx.post(
            f"{deployment.url}/auth/register",
            json={"email": email, "password": PASSWORD, **names},
        ),
        201,
    )
    customer = _person(deployment, browser, email)
    staff = _person(deployment, browser, STAFF_EMAIL)
    wanted = booking_body(staff.user_id, next(_days))
    del wanted["customer_email"]
    json_body(customer.api.post("/bookings", json=wanted), 201)
    [conversation] = json_body(customer.api.get("/messages"))["conversations"]
    yield Chat(deployment, browser, customer, staff, conversation["id"], email)
    for person in (customer, staff):
        person.context.close()


def _person(deployment: ProcessDeployment, browser: Browser, email: str) -> Person:
    api = deployment.sign_in(email, PASSWORD)
    context = browser.new_context(base_url=deployment.url, locale="en-GB")
    cookie = api.cookies["connect.sid"]
    context.add_cookies([{"name": "connect.sid", "value": cookie, "url": deployment.url}])
    return Person(api, context, json_body(api.get("/auth/session"))["user"]["id"])


@contextmanager
def stopped_server(deployment: ProcessDeployment) -> Iterator[None]:
    deployment.stop_process("server")
    yield
    deployment.start_server()


def test_two_people_write_to_each_other(chat: Chat) -> None:
    """A message appears at once on both sides, with who is there, who types and what is read."""
    ada, grace = chat.staff.open(chat.path), chat.customer.open(chat.path)
    expect_live(ada)
    expect(grace.get_by_text("Online", exact=True)).to_be_visible()
    grace.get_by_label(FIELD).press_sequentially("Hello")
    expect(ada.get_by_text("Grace is typing…")).to_be_visible()
    grace.get_by_label(FIELD).press("Enter")
    expect(bubbles(ada)).to_have_text(["Hello"])
    expect(ada.get_by_text("Grace is typing…")).to_be_hidden()
    expect(grace.get_by_text("Read", exact=True)).to_be_visible()
    write(ada, "Hi <b>Grace</b>!")
    expect(bubbles(grace)).to_have_text(["Hello", "Hi <b>Grace</b>!"])
    grace.get_by_label(FIELD).fill("One")
    grace.get_by_label(FIELD).press("Shift+Enter")
    grace.get_by_label(FIELD).press_sequentially("two")
    grace.get_by_label(FIELD).press("Enter")
    expect(bubbles(ada).last).to_have_text("One\ntwo")
    assert chat.texts() == ["Hello", "Hi <b>Grace</b>!", "One\ntwo"]
    assert chat.customer.policy_reports() + chat.staff.policy_reports() == []


def test_a_cut_connection_leaves_no_gap_and_no_double(chat: Chat) -> None:
    """What is written while the server is away is sent once it is back, and what was missed comes
    then: each message once, in one order on both sides."""
    ada, grace = chat.staff.open(chat.path), chat.customer.open(chat.path)
    expect_live(ada)
    expect_live(grace)
    write(grace, "Before")
    expect(bubbles(ada)).to_have_text(["Before"])
    with stopped_server(chat.deployment):
        write(grace, "Meanwhile")
        expect(grace.get_by_text("Goes out when the connection is back")).to_be_visible()
        expect(grace.get_by_text("No connection. Trying again…")).to_be_visible()
    chat.staff.say(chat.id, "Missed")
    for page in (ada, grace):
        expect_live(page)
        expect(bubbles(page)).to_have_count(3)
    write(ada, "After")
    expect(bubbles(grace)).to_have_count(4)
    for page in (ada, grace):
        assert bubbles(page).all_inner_texts() == chat.texts()
    assert sorted(chat.texts()) == ["After", "Before", "Meanwhile", "Missed"]


def test_unsent_words_outlive_the_page(chat: Chat) -> None:
    """A draft and a message without an acknowledgement are there when the page is loaded again."""
    grace = chat.customer.open(chat.path)
    expect_live(grace)
    with stopped_server(chat.deployment):
        write(grace, "Sent late")
        expect(grace.get_by_text("Goes out when the connection is back")).to_be_visible()
        grace.get_by_label(FIELD).fill("A draft")
    grace.reload()
    expect(grace.get_by_label(FIELD)).to_have_value("A draft")
    expect(bubbles(grace)).to_have_text(["Sent late"])
    chat.deployment.wait_for(lambda: chat.texts() == ["Sent late"] or None, "it is sent")


def test_messages_go_out_where_no_channel_opens(chat: Chat) -> None:
    """Where WebSockets are blocked, a message whose request failed is sent by another one some
    seconds later, also from a page that is loaded meanwhile."""
    context = chat.customer.context
    context.route_web_socket(re.compile("/ws"), lambda socket: socket.close())
    context.clock.install()
    grace = chat.customer.open(chat.path)
    sent: list[str] = []
    for text, is_reloaded in (("Once more", False), ("After loading", True)):
        context.route(f"**/messages/conversation/{chat.id}", lambda each: each.abort(), times=1)
        write(grace, text)
        expect(grace.get_by_text("Goes out when the connection is back")).to_be_visible()
        assert chat.texts() == sent
        if is_reloaded:
            grace.reload()
            expect(bubbles(grace).last).to_have_text(text)
        grace.clock.fast_forward(6000)
        sent.append(text)
        chat.deployment.wait_for(lambda: chat.texts() == sent or None, "it is sent")


def test_a_refused_message_says_why_and_is_kept(chat: Chat) -> None:
    """Contact details before the payment are refused at the message; its text can be edited."""
    ada, grace = chat.staff.open(chat.path), chat.customer.open(chat.path)
    write(grace, "Write to ada@example.com")
    refused = grace.locator(".bubble.refused")
    expect(refused).to_contain_text("once the booking is paid")
    grace.reload()
    expect(refused).to_contain_text("ada@example.com")
    refused.get_by_role("button", name="Edit").click()
    expect(grace.get_by_label(FIELD)).to_have_value("Write to ada@example.com")
    write(grace, "See you there")
    expect(bubbles(ada)).to_have_text(["See you there"])
    expect(refused).to_have_count(0)


def test_characters_are_counted_as_people_count_them(chat: Chat) -> None:
    """5,000 emoji are sent; one more is told before it is sent, and stays in the field."""
    grace = chat.customer.open(chat.path)
    expect_live(grace)
    write(grace, "🎉" * 5001)
    expect(grace.get_by_text("Use at most 5,000 characters.")).to_be_visible()
    expect(grace.get_by_label(FIELD)).to_have_value("🎉" * 5001)
    write(grace, "🎉" * 5000)
    chat.deployment.wait_for(lambda: chat.texts() == ["🎉" * 5000] or None, "it is stored")


def test_every_page_shows_the_number_of_unread_messages(chat: Chat) -> None:
    """The navigation and the list count what comes, until it is read on another page."""
    account, listed = chat.customer.open("/account"), chat.customer.open("/conversations")
    for page in (account, listed):
        expect_live(page)
    chat.staff.say(chat.id, "One")
    chat.staff.say(chat.id, "Two")
    for page in (account, listed):
        expect(page.get_by_role("link", name="Messages 2 new")).to_be_visible()
    expect(listed.get_by_role("listitem")).to_contain_text("Two")
    chat.customer.open(chat.path)
    for page in (account, listed):
        expect(page.get_by_role("link", name="Messages", exact=True)).to_be_visible()
    assert chat.customer.policy_reports() == []


def test_older_messages_come_by_scrolling(chat: Chat) -> None:
    """A page shows the newest messages; scrolling up loads the ones before."""
    for number in range(60):
        chat.staff.say(chat.id, f"No. {number}")
    grace = chat.customer.open(chat.path)
    expect(bubbles(grace)).to_have_count(50)
    expect(bubbles(grace).last).to_be_in_viewport()
    grace.get_by_role("region", name="Conversation").press("Home")
    expect(bubbles(grace)).to_have_text([f"No. {number}" for number in range(60)])
    chat.staff.say(chat.id, "News")
    grace.get_by_role("button", name="New messages").click()
    expect(bubbles(grace).last).to_be_in_viewport()


def test_an_ended_session_says_so(chat: Chat) -> None:
    """After a sign-out elsewhere the page leads to the sign-in, and what was written is kept."""
    grace = chat.customer.open(chat.path)
    expect_live(grace)
    cookie = chat.customer.api.cookies["connect.sid"]
    json_body(chat.customer.api.post("/auth/logout"))
    expect(grace.get_by_text("Your session has ended.")).to_be_visible()
    write(grace, "Still here?")
    grace.get_by_role("link", name="Sign in again").click()
    grace.get_by_label("Email").or_(grace.get_by_label("E-mail")).fill(chat.email)
    grace.get_by_label(re.compile("Password")).first.fill(PASSWORD)
    grace.locator("main form button.main").click()
    expect(bubbles(grace)).to_have_text(["Still here?"])
    chat.deployment.wait_for(lambda: chat.texts() == ["Still here?"] or None, "it is sent")
    assert cookie not in [each["value"] for each in chat.customer.context.cookies()]


def test_nobody_else_sends_what_was_written(chat: Chat) -> None:
    """Once somebody else has signed in at the browser, an open page neither shows them the
    conversation's news nor sends in their name."""
    grace = chat.customer.open(chat.path)
    expect_live(grace)
    session = chat.staff.api.cookies["connect.sid"]
    chat.customer.context.add_cookies(
        [{"name": "connect.sid", "value": session, "url": chat.deployment.url}]
    )
    grace.evaluate("dispatchEvent(new Event('online'))")
    expect(grace.get_by_text("Your session has ended.")).to_be_visible()
    write(grace, "Whose words?")
    expect(grace.locator(".bubble.refused")).to_contain_text("Whose words?")
    assert chat.texts() == []


def test_a_conversation_works_without_script(chat: Chat) -> None:
    """Without scripts, messages are sent by a form, and the newest one is in view."""
    for number in range(30):
        chat.staff.say(chat.id, f"No. {number}")
    session = chat.customer.api.cookies["connect.sid"]
    context = chat.browser.new_context(
        base_url=chat.deployment.url,
        java_script_enabled=False,
        viewport={"width": 360, "height": 780},
    )
    context.add_cookies([{"name": "connect.sid", "value": session, "url": chat.deployment.url}])
    grace = context.new_page()
    grace.goto(chat.path)
    expect(bubbles(grace).last).to_be_in_viewport()
    grace.get_by_label(FIELD).fill("By a form")
    grace.get_by_role("button", name="Send").click()
    expect(bubbles(grace).last).to_have_text("By a form")
    expect(bubbles(grace).last).to_be_in_viewport()
    assert chat.texts()[-1] == "By a form"
