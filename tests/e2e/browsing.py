"""People with real browsers: Chromium, driven by Playwright, one context for each person."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

from tests.e2e.deployment import PASSWORD, ProcessDeployment
from tests.support.required_tools import skip_or_fail

DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"}
PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 780}, "color_scheme": "dark"}


@contextmanager
def open_browser() -> Iterator[Browser]:
    """The system's Chromium."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        skip_or_fail("chromium", "Browser", "there is no chromium on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Person:
    """Somebody who is signed in with a browser of their own. `complaints` has what its console
    said, which includes violations of the pages' policy."""

    def __init__(
        self, browser: Browser, deployment: ProcessDeployment, email: str, **device: Any
    ) -> None:
        options = {"locale": "en-GB", "timezone_id": "Europe/Lisbon", **device}
        self._url = deployment.url
        self.complaints: list[str] = []
        self.page: Page = browser.new_context(**options).new_page()
        self.page.set_default_timeout(10_000)
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.go("/account/sign-in")
        self.page.get_by_label("E-mail").fill(email)
        self.page.get_by_label("Password").fill(PASSWORD)
        self.page.locator("main").get_by_role("button", name="Sign in").click()
        self.page.wait_for_url(f"{deployment.url}/")

    def _note(self, message: ConsoleMessage) -> None:
        # Chromium logs each response with an error status; tests expect some.
        if message.type in ("error", "warning") and "status of 4" not in message.text:
            self.complaints.append(message.text)

    def go(self, path: str) -> None:
        self.page.goto(self._url + path)

    def press(self, name: str) -> None:
        """Press the button or follow the link with this name."""
        main = self.page.locator("main")
        button = main.get_by_role("button", name=name, exact=True)
        button.or_(main.get_by_role("link", name=name, exact=True)).first.click()

    def read(self) -> str:
        """The visible text of the page, which must fit the screen."""
        self.page.wait_for_load_state()  # A click has returned when the next page began to arrive.
        wide = self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert wide <= 0, (self.page.url, wide)
        return " ".join(self.page.locator("main").inner_text().split())

    def look_again(self) -> None:
        """Come back to the page's tab: its scripts look for changes at once."""
        self.page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
