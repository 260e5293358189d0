"""An operator's day with people, in a real browser: one is disabled, another one is approved."""

from __future__ import annotations

import re
from itertools import count

import httpx
import pytest
from attrs import frozen
from playwright.sync_api import expect

from staffbooking_cli.sample.companions import PASSWORD
from tests.e2e.deployment import json_body
from tests.journeys.conftest import OpenPerson
from tests.journeys.marketplace import LOCATION, SERVICE, Marketplace
from tests.journeys.people import Person

pytestmark = pytest.mark.journeys

REASON = "The card was reported as stolen"
NEW_SERVICE = "Fire juggling"
_numbers = count(1)


@frozen
class Account:
    """A new account of this test alone, and a client that is signed in with it."""

    user_id: int
    email: str
    client: httpx.Client


def register(market: Marketplace, role: str, first_name: str) -> Account:
    email = f"{first_name}{next(_numbers)}@people.test".lower()
    given = {"email": email, "password": PASSWORD, "first_name": first_name, "role": role}
    answer = httpx.post(f"{market.url}/auth/register", json={**given, "last_name": "Quill"})
    user_id = json_body(answer, 201)["user"]["id"]
    return Account(user_id, email, market.deployment.sign_in(email, PASSWORD))


def try_to_sign_in(visitor: Person, account: Account) -> None:
    visitor.open("/account/sign-in")
    visitor.fill("E-mail", account.email)
    visitor.fill("Password", PASSWORD)
    visitor.press("Sign in")


def test_a_person_is_found_looked_at_and_disabled(person: OpenPerson, market: Marketplace) -> None:
    """An operator finds a person by a booking's code, sees what hangs on the account and disables
    it with a reason: the request ends, and nobody can sign in with it until it is enabled."""
    account = register(market, "customer", "Vera")
    wanted = {
        "companion_id": market.user_id("staff"),
        "event_date": market.unused_day().isoformat(),
        "start_time": "18:00",
        "duration_hours": 4,
        "service_type": SERVICE,
        "location": LOCATION,
    }
    booking = json_body(account.client.post("/bookings", json=wanted), 201)["booking"]
    visitor, admin = person("anybody"), person("admin")
    admin.open("/admin/people")
    admin.fill("Name, e-mail, number or booking code", booking["booking_code"])
    admin.press("Find")
    admin.reads("The two sides of booking")
    admin.main.get_by_role("link", name=re.compile(re.escape(account.email))).click()
    admin.reads(booking["booking_code"], "Upcoming")
    admin.follow("Disable…")
    admin.reads(booking["booking_code"], "The request ends")
    admin.fill("Reason", REASON)
    admin.press("Disable the account")
    admin.reads("The account is disabled", REASON)
    assert market.booking(booking["id"], "staff")["status"] == "cancelled"
    try_to_sign_in(visitor, account)
    expect(visitor.page.get_by_role("alert")).to_be_visible()
    visitor.watch.take_faults()  # The browser reports the refused form.
    admin.follow("Enable…")
    admin.fill("Reason", "It was a mistake")
    admin.press("Enable the account")
    admin.reads("The account works again")
    try_to_sign_in(visitor, account)
    visitor.page.wait_for_url(f"{market.url}/")


def test_an_approved_profile_is_found(person: OpenPerson, market: Marketplace) -> None:
    """A profile that waits for approval is 404 for others. The search finds it after an operator
    has approved it."""
    account = register(market, "staff", "Iris")
    profile = {
        "hourly_rate": 40,
        "location_city": "Lisbon",
        "location_country": "Portugal",
        "service_types": [NEW_SERVICE],
    }
    json_body(account.client.put("/staff/profile", json=profile))
    visitor, admin = person("anybody"), person("admin")
    visitor.open(f"/companions/{account.user_id}", status=404)
    visitor.watch.take_faults()  # The browser reports the 404.
    admin.open(f"/admin/people/{account.user_id}")
    admin.follow("Look at the profile")
    admin.reads(NEW_SERVICE, "Waits for approval")
    admin.fill("Reason", "Papers and pictures checked")
    admin.press("Approve")
    admin.reads("Approved")
    visitor.open(f"/find?service={NEW_SERVICE.replace(' ', '+')}&location=Lisbon")
    visitor.reads("Iris")
    entries = json_body(market.client("admin").get("/api/admin/audit?limit=1"))["audit"]
    assert [(each["act"], each["subject"], each["subject_id"]) for each in entries] == [
        ("approve", "companion", account.user_id)
    ]
