"""The account in a real browser: language, look, sessions and saved people."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.journeys.conftest import OpenPerson
from tests.journeys.marketplace import Marketplace

pytestmark = pytest.mark.journeys


def test_the_account_is_kept_in_the_persons_language(
    person: OpenPerson, market: Marketplace
) -> None:
    """A person chooses German and a theme, reads pages in German, ends another session, and saves
    somebody. No other test has a session of this person."""
    elsewhere, customer = person("newcomer"), person("newcomer")
    customer.open("/account/preferences")
    customer.choose("Language (optional)", "de")
    customer.main.get_by_label("Dark").check()
    customer.press("Save")
    customer.reads("Ihre Wahl ist gespeichert", "Sprache und Aussehen")
    page = customer.page.locator("html")
    expect(page).to_have_attribute("lang", "de")
    expect(page).to_have_attribute("data-theme", "dark")
    customer.follow("Sitzungen")
    customer.reads("Wo Sie angemeldet sind", "Chrome auf Linux", "dieses Gerät")
    elsewhere.page.goto("about:blank")  # A page that polls would report the end as a fault.
    customer.press("Überall sonst abmelden")
    customer.reads("Sie sind überall sonst abgemeldet")
    elsewhere.page.goto(f"{market.url}/account")
    expect(elsewhere.page).to_have_url(re.compile("/account/sign-in"))
    customer.open(f"/companions/{market.user_id('staff')}")
    customer.press("Für später merken")
    customer.open("/saved")
    customer.reads("Gemerkte Personen")
    customer.press("Entfernen")
    customer.reads("Von Ihrer Liste entfernt", "Noch niemand gemerkt")
    customer.open("/account/preferences")
    customer.choose("Sprache (optional)", "")
    customer.main.get_by_label("System").check()
    customer.press("Speichern")
    customer.reads("Your choice is saved")
