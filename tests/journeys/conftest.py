"""Fixtures of the journeys: a browser, running marketplaces, people with profiles of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.journeys.browser import View, open_browser, wanted_views
from tests.journeys.marketplace import Marketplace, run_marketplace
from tests.journeys.page_states import fill_states
from tests.journeys.people import Person, open_person
from tests.support.npm_packages import install_npm_packages

OpenPerson = Callable[[str], Person]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "view" in metafunc.fixturenames:
        metafunc.parametrize("view", wanted_views(), ids=str, scope="session")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser of this test process."""
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def npm_folder(request: pytest.FixtureRequest) -> Path:
    """The folder in which axe is installed."""
    return install_npm_packages(request.config, Path(__file__).parent / "npm", "Accessibility")


@pytest.fixture(scope="session")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Marketplace]:
    """A marketplace for journeys, which may move its clock."""
    with run_marketplace(tmp_path_factory.mktemp("market")) as market:
        yield market


@pytest.fixture(scope="session")
def filled_market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Marketplace]:
    """A marketplace with bookings in every state, for tests that only look."""
    with run_marketplace(tmp_path_factory.mktemp("filled")) as market:
        fill_states(market)
        yield market


@pytest.fixture
def person(browser: Browser, market: Marketplace, view: View) -> Iterator[OpenPerson]:
    """Opens a new browser profile in which a role has signed in by the form. At the end, no page
    may have reported anything."""
    with ExitStack() as people:

        def open_one(role: str) -> Person:
            return people.enter_context(open_person(browser, market, view, role))

        yield open_one
