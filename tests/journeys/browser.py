"""Chromium, the views of a page, and the watch over what a page reports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Literal

from attrs import define, field, frozen
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Response,
    WebError,
    sync_playwright,
)

from tests.support.required_tools import skip_or_fail

ColorScheme = Literal["light", "dark"]
_FLAGS = ("--no-sandbox", "--disable-dev-shm-usage")
WAIT_TIMEOUT_MS = 15_000
VIEWS_VARIABLE = "JOURNEY_VIEWS"


@frozen
class View:
    """How a person looks at the pages: width in CSS pixels, color scheme, scripts on or off."""

    width: int
    scheme: ColorScheme
    has_script: bool

    def __str__(self) -> str:
        return f"{self.width}-{self.scheme}{'' if self.has_script else '-no-script'}"

    @property
    def height(self) -> int:
        return 780 if self.width < 600 else 900


PHONE, DESKTOP = View(360, "dark", False), View(1280, "light", True)
_SCHEMES: tuple[ColorScheme, ...] = ("light", "dark")
ALL_VIEWS = tuple(
    View(width, scheme, has_script)
    for width, scheme, has_script in product((360, 768, 1280), _SCHEMES, (True, False))
)


def wanted_views() -> tuple[View, ...]:
    """The views of this run: two, or all if the environment says JOURNEY_VIEWS=all."""
    return ALL_VIEWS if os.environ.get(VIEWS_VARIABLE) == "all" else (PHONE, DESKTOP)


@contextmanager
def open_browser() -> Iterator[Browser]:
    """The system's Chromium. Skips the test, or fails it by `REQUIRE`, where there is none.

    While it is open, no event loop can run in this thread: Playwright's own does.
    """
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        skip_or_fail("chromium", "Browser", "there is no chromium on the path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_FLAGS))
        yield browser
        browser.close()


@define(slots=False)  # Playwright notes its handlers on their object.
class BrowserWatch:
    """Everything that the pages of a context report and no page should: console messages, errors
    of scripts, violations of the policy (the browser writes them to the console), statuses 5xx."""

    reports: list[tuple[str, str]] = field(factory=list)
    """Pairs of a page's address and a report."""
    _refused_pages: set[str] = field(factory=set)
    """Addresses of pages that answered 4xx, which the browser writes to the console as well."""

    def follow(self, context: BrowserContext) -> None:
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("response", self._on_response)

    def take_faults(self) -> list[str]:
        """The reports since the last call."""
        faults = [
            f"{url}: {text}"
            for url, text in self.reports
            if not (text.startswith("Failed to load resource") and url in self._refused_pages)
        ]
        self.reports.clear()
        return faults

    def _on_console(self, message: ConsoleMessage) -> None:
        self.reports.append((message.location["url"], message.text))

    def _on_error(self, error: WebError) -> None:
        page = error.page
        self.reports.append((page.url if page else "", f"script error: {error.error}"))

    def _on_response(self, response: Response) -> None:
        if response.status >= 500:
            self.reports.append((response.url, f"status {response.status}"))
        elif response.status >= 400 and response.request.is_navigation_request():
            self._refused_pages.add(response.url)


def open_context(browser: Browser, view: View, base_url: str) -> BrowserContext:
    """A new browser profile: no cookies, nothing cached."""
    context = browser.new_context(
        base_url=base_url,
        viewport={"width": view.width, "height": view.height},
        color_scheme=view.scheme,
        java_script_enabled=view.has_script,
        is_mobile=view.width < 600,
        has_touch=view.width < 600,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="Europe/Lisbon",
    )
    context.set_default_timeout(WAIT_TIMEOUT_MS)
    return context


def open_page(page: Page, path: str, status: int = 200) -> None:
    """Load a page of the service, which must answer with the status."""
    response = page.goto(path)
    assert response is not None, path
    assert response.status == status, f"{path}: {response.status} instead of {status}"
