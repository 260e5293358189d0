"""Every page in every state passes the audit in the wanted views."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from staffbooking_http.pages.app import page_handlers, page_methods
from tests.journeys.browser import View, open_page
from tests.journeys.marketplace import Marketplace
from tests.journeys.page_audit import PageAudit
from tests.journeys.pages import PAGE_STATES, PageState
from tests.journeys.people import Person, open_person

_NO_PAGES = {
    "/bookings/{number}/calendar.ics",
    "/bookings/{number}/stamp",
    "/conversations/unread",
    "/robots.txt",
    "/staff/payouts/earnings.csv",
    "/sitemap.xml",
    "/static/{name}",
}
"""Paths of the pages' routes whose answers are for programs."""

_SEEN_AS_OTHERS = {
    "/admin/bookings/{number}/payout/hold",
    "/admin/bookings/{number}/payout/retry",
    "/admin/bookings/{number}/refunds/retry",
}
"""Pages that need states which the sample lacks. They use the template of a payout's release,
which is audited."""


class Visitors:
    """One signed-in browser profile for each role and view, opened at the first use."""

    def __init__(self, browser: Browser, market: Marketplace, stack: ExitStack) -> None:
        self.browser, self.market, self.stack = browser, market, stack
        self.people: dict[tuple[str, View], Person] = {}

    def get(self, role: str, view: View) -> Person:
        if (role, view) not in self.people:
            opened = open_person(self.browser, self.market, view, role)
            self.people[role, view] = self.stack.enter_context(opened)
        return self.people[role, view]


@pytest.fixture(scope="session")
def visitors(browser: Browser, filled_market: Marketplace) -> Iterator[Visitors]:
    with ExitStack() as stack:
        yield Visitors(browser, filled_market, stack)


@pytest.mark.journeys
@pytest.mark.parametrize("state", PAGE_STATES, ids=lambda state: state.title)
def test_a_page_passes_the_audit(
    state: PageState, view: View, visitors: Visitors, npm_folder: Path
) -> None:
    """The page is accessible and light, keeps its layout, fits the window and reports nothing."""
    visitor = visitors.get(state.role, view)
    visitor.watch.take_faults()
    page = visitor.page.context.new_page()
    try:
        audit = PageAudit(page, npm_folder)
        open_page(page, visitors.market.path(state.path), state.status)
        if state.prepare is not None:
            audit.start()
            state.prepare(page)
        faults = [*audit.faults(), *visitor.watch.take_faults()]
    finally:
        page.close()
    assert faults == [], "\n".join((f"{state.title} at {view}:", *faults))


def test_every_page_has_a_row() -> None:
    """Each page of the service is in the table of the audit."""
    rows = [re.sub(r"{\w+}", "1", state.path).partition("?")[0] for state in PAGE_STATES]
    methods = page_methods(page_handlers(sandbox=True, testers=True))
    missed = [
        path
        for path in methods
        if "GET" in methods[path]
        and path not in _NO_PAGES | _SEEN_AS_OTHERS
        and not any(map(_pattern(path).fullmatch, rows))
    ]
    assert missed == []


def _pattern(path: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"{\w+}", "[^/]+", path))
