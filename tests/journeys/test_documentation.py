"""The page for developers in a real browser: search, and calls that are tried."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.journeys.browser import View
from tests.journeys.conftest import OpenPerson

pytestmark = pytest.mark.journeys


def test_a_developer_finds_a_call_and_tries_it(person: OpenPerson, view: View) -> None:
    """A subscriber makes a key, finds a call by words of it, and sends it from the page; without
    the script its curl and Python are there to read."""
    developer = person("enterprise")
    if not view.has_script:
        developer.open("/docs")
        developer.main.locator("summary", has_text="/api/v1/companions/{id}/availability").click()
        developer.reads("client.get_availability", "curl")
        return
    developer.open("/dashboard/keys")
    developer.fill("Name", "docs")
    developer.press("Make the key")
    key = developer.main.locator("#key").inner_text()
    developer.open("/docs")
    developer.fill("Search the calls", "companions location")
    expect(developer.main.get_by_role("status").first).to_have_text(re.compile(r"^\d+ calls$"))
    call = developer.main.locator("details", has=developer.page.locator("#searchCompanions"))
    expect(developer.main.locator("#createWebhook")).to_be_hidden()
    call.locator("summary").click()
    call.get_by_label("API key").fill(key)
    call.get_by_label("location", exact=True).fill("Lisbon")
    call.get_by_role("button", name="Send", exact=True).click()
    expect(call.locator(".docs-result")).to_contain_text("200")
    expect(call.locator(".docs-result")).to_contain_text('"companions": [')
    developer.open("/dashboard/keys")
    developer.main.get_by_role("link", name="Revoke docs").first.click()
    developer.press("Revoke the key")
