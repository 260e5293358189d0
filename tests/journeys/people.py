"""People at their browsers: what they read, fill in and press, by role and label."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from attrs import define
from playwright.sync_api import Browser, Locator, Page, expect

from staffbooking_cli.sample.companions import PASSWORD
from tests.journeys.browser import BrowserWatch, View, open_context, open_page
from tests.journeys.marketplace import EMAILS, Marketplace

Words = str | re.Pattern[str]


@define
class Person:
    """One person with a browser profile of their own."""

    role: str
    page: Page
    market: Marketplace
    watch: BrowserWatch

    @property
    def main(self) -> Locator:
        """The page without its navigation."""
        return self.page.get_by_role("main")

    def open(self, path: str, status: int = 200) -> None:
        open_page(self.page, path, status)

    def sign_in(self) -> None:
        self.open("/account/sign-in")
        self.fill("E-mail", EMAILS[self.role])
        self.fill("Password", PASSWORD)
        self.press("Sign in")
        self.page.wait_for_url(f"{self.market.url}/")

    def fill(self, label: Words, value: str) -> None:
        self.main.get_by_label(label, exact=True).fill(value)

    def choose(self, label: Words, value: str) -> None:
        self.main.get_by_label(label, exact=True).select_option(value)

    def press(self, button: Words, behind: str | None = None) -> None:
        """Press a button of the page, after opening the summary `behind` which it is hidden."""
        if behind is not None:
            self.main.locator("summary", has_text=behind).click()
        self.main.get_by_role("button", name=button, exact=True).click()

    def follow(self, link: Words) -> None:
        self.main.get_by_role("link", name=link, exact=True).click()

    def reads(self, *words: str) -> None:
        """The page has each of the words, which are patterns."""
        for each in words:
            expect(self.main).to_contain_text(re.compile(each))

    def waits_to_read(self, words: str) -> None:
        """Reload the page until it has the words (a pattern): the worker changes it meanwhile."""
        pattern = re.compile(words)

        def look() -> bool | None:
            if pattern.search(self.main.inner_text()):
                return True
            self.page.reload()
            return None

        self.market.deployment.wait_for(look, f"the {self.role} reads {words}")

    def assert_clean(self) -> None:
        faults = self.watch.take_faults()
        assert faults == [], "\n".join((f"the pages of the {self.role} report:", *faults))


@contextmanager
def open_person(browser: Browser, market: Marketplace, view: View, role: str) -> Iterator[Person]:
    """A new browser profile; signed in unless the role is `anybody`."""
    with open_context(browser, view, market.url) as context:
        watch = BrowserWatch()
        watch.follow(context)
        person = Person(role, context.new_page(), market, watch)
        if role != "anybody":
            person.sign_in()
        yield person
        person.assert_clean()
