"""The first steps of a new staff member in a real browser: from the registration to being found."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from uuid import uuid4

import pytest
from attrs import define, field
from playwright.sync_api import Page, expect

from tests.e2e.deployment import json_body
from tests.journeys.browser import View
from tests.journeys.conftest import OpenPerson
from tests.journeys.marketplace import Marketplace
from tests.journeys.people import Person

pytestmark = pytest.mark.journeys

_SECONDS_PER_KEY = 0.28
"""The time that a slow typist needs for one key."""
_SECONDS_PER_ACTION = 2.5
"""The time to find a field or a button, to think, and to point at it."""
_MAX_SECONDS = 300


@define
class _Effort:
    """Counts what a person does, and estimates how long it takes with pauses."""

    person: Person
    actions: int = 0
    keys: int = 0
    started_at: float = field(factory=time.monotonic)

    @property
    def page(self) -> Page:
        return self.person.page

    def fill(self, label: str | re.Pattern[str], text: str) -> None:
        self.actions += 1
        self.keys += len(text)
        self.person.fill(label, text)

    def check(self, name: str) -> None:
        self.actions += 1
        self.person.main.get_by_label(name, exact=True).check()

    def press(self, button: str) -> None:
        self.actions += 1
        self.person.press(button)

    def follow(self, link: str | re.Pattern[str]) -> None:
        self.actions += 1
        self.person.follow(link)

    @property
    def seconds(self) -> float:
        """The estimated time of a person's actions plus the time measured since the start."""
        waited = time.monotonic() - self.started_at
        return self.keys * _SECONDS_PER_KEY + self.actions * _SECONDS_PER_ACTION + waited


def test_a_new_member_is_bookable_in_minutes(
    person: OpenPerson,
    market: Marketplace,
    view: View,
    record_property: Callable[[str, object], None],
) -> None:
    """Somebody registers, confirms the address and fills in the profile by the checklist, and opens
    the payout account. Once an operator has approved the profile, the search finds it, and its
    page has free days."""
    city, email = f"Quinta {uuid4().hex[:6]}", f"{uuid4().hex[:8]}@new.test"
    newcomer = person("anybody")
    effort = _Effort(newcomer)
    _register(effort, market, email)
    newcomer.reads("1 of 4 done")
    _fill_in_profile(effort, city, has_script=view.has_script)
    newcomer.reads("2 of 4 done", "We are looking at it")
    newcomer.open("/staff/payouts")
    effort.press("Open a payout account")
    newcomer.page.wait_for_url(re.compile("/sandbox/payees/"))
    effort.follow("Back to the service")
    newcomer.reads("All is set")
    record_property("actions", effort.actions)
    record_property("seconds", round(effort.seconds))
    assert effort.seconds < _MAX_SECONDS

    _approve(market, city)
    newcomer.open("/")
    expect(newcomer.main.locator("#first-steps")).to_have_count(0)
    customer = person("customer")
    customer.open(f"/find?location={city}")
    customer.main.get_by_role("link", name=re.compile("Rita")).click()
    customer.reads("Bartender", "an hour")
    expect(customer.main.locator("#free-days [data-date]").first).to_be_visible()


def test_the_preview_follows_the_form(person: OpenPerson, view: View) -> None:
    """The tile of the search and the price follow what is typed, or without the script what is
    saved."""
    staff = person("staff")
    staff.open("/staff/me")
    staff.fill(re.compile("^Tagline"), "A toast to you")
    staff.fill(re.compile("^Hourly rate"), "50")
    staff.main.get_by_label("Sommelier", exact=True).check()
    if view.has_script:
        _expect_in_preview(staff)
    staff.press("Save")
    staff.reads("Your profile is saved.")
    _expect_in_preview(staff)


def _expect_in_preview(staff: Person) -> None:
    preview = staff.main.locator("[data-preview]")
    expect(preview).to_contain_text("A toast to you")
    expect(preview.locator(".tile-price")).to_contain_text("50.00")
    expect(preview.locator("[data-shows=services]")).to_contain_text("+1")
    expect(staff.main.locator("[data-shows=payout]")).to_contain_text("170.00")


def _register(effort: _Effort, market: Marketplace, email: str) -> None:
    """Register, which signs in, and confirm the address by the link of the mail."""
    newcomer = effort.person
    newcomer.open("/account/register")
    effort.check("I work as staff")
    for label, text in (("First name", "Rita"), ("Last name", "Moreira"), ("E-mail", email)):
        effort.fill(label, text)
    effort.fill("Password", "a long password")
    effort.press("Create the account")
    newcomer.reads("Your account is ready", "First steps", "0 of 4 done")
    _open_link_of_mail(newcomer, market, email)
    effort.actions += 2
    effort.press("Confirm my address")
    newcomer.reads("your address is confirmed")
    effort.follow("Go on")


def _fill_in_profile(effort: _Effort, city: str, *, has_script: bool) -> None:
    """Fill in what the approval needs, and return to the checklist. The script chooses the time
    zone."""
    newcomer = effort.person
    effort.follow("Fill it in")
    effort.check("Bartender")
    effort.fill("City", city)
    effort.fill("Country", "Portugal")
    effort.fill(re.compile("^Hourly rate"), "30")
    if not has_script:
        effort.actions += 1
        newcomer.choose("Time zone", "Europe/Lisbon")
    effort.press("Save")
    newcomer.reads("Your profile is saved.", "Waiting for approval", r"You get \S*102\.00")
    effort.follow("Your first steps")


def _open_link_of_mail(newcomer: Person, market: Marketplace, email: str) -> None:
    """Read the mails of the sandbox, and follow the link of the confirmation."""
    newcomer.open("/sandbox/mails")

    def look() -> bool | None:
        mail = newcomer.main.get_by_role("article").filter(has_text=email)
        if mail.count():
            mail.first.get_by_role("link", name="Confirm your address").click()
            return True
        newcomer.page.reload()
        return None

    market.deployment.wait_for(look, "the mail of the confirmation")


def _approve(market: Marketplace, city: str) -> None:
    """Approve the profile of this city as an operator, by the interface."""
    admin = market.client("admin")
    listed = json_body(admin.get("/api/admin/companions?status=pending"))["companions"]
    [wanted] = [each["id"] for each in listed if each["location_city"] == city]
    json_body(admin.post(f"/api/admin/companions/{wanted}/approve", json={"reason": "Checked"}))
