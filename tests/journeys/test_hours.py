"""A staff member's hours in a real browser: a night over midnight, a closed day, the week as a
grid, and the agenda on the day of an event."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta

import pytest
from playwright.sync_api import Browser, expect

from tests.e2e.deployment import json_body
from tests.journeys.browser import DESKTOP, View
from tests.journeys.conftest import OpenPerson
from tests.journeys.marketplace import Marketplace
from tests.journeys.people import Person, open_person

pytestmark = pytest.mark.journeys

FREE = {"timezone": "Europe/Lisbon", "weekly": [], "overrides": []}


def _set_free(market: Marketplace) -> None:
    json_body(market.client("staff").put("/staff/availability", json=FREE))


def _weekly(market: Marketplace) -> list[tuple[int, str, str]]:
    found = json_body(market.client("staff").get("/staff/availability"))["availability"]
    return sorted((each["weekday"], each["start"], each["end"]) for each in found["weekly"])


def _add_hours(staff: Person, name: str) -> None:
    """Add the first hours of a day of the week."""
    group = staff.main.get_by_role("group", name=name, exact=True)
    group.get_by_role("button", name="Add hours").click()
    expect(group.get_by_label("From")).to_have_count(1)


def _fill(staff: Person, name: str, start: str, end: str) -> None:
    group = staff.main.get_by_role("group", name=name, exact=True)
    group.get_by_label("From").fill(start)
    group.get_by_label("To").fill(end)


def test_a_night_and_a_closed_day(person: OpenPerson, market: Marketplace, view: View) -> None:
    """Sunday's night is one row that ends on Monday, a day is closed in the month, and the agenda
    shows both. A booking of the day is checked in from the agenda."""
    _set_free(market)
    booking = market.paid_booking()
    starts_at = datetime.fromisoformat(booking["starts_at"])
    staff = person("staff")
    staff.open("/staff/hours")
    staff.main.get_by_label("At these hours").check()
    for name in ("Monday", "Sunday"):
        _add_hours(staff, name)
    _fill(staff, "Sunday", "22:00", "02:00")
    staff.press("Copy Monday's hours to the other weekdays")
    staff.main.get_by_role("button", name="Save", exact=True).last.click()
    staff.reads("Your hours are saved.")
    assert _weekly(market) == [
        (0, "00:00", "02:00"),
        *((weekday, "09:00", "17:00") for weekday in range(5)),
        (6, "22:00", "24:00"),
    ]
    sunday = staff.main.get_by_role("group", name="Sunday", exact=True)
    expect(sunday.get_by_label("To")).to_have_value("02:00")
    expect(sunday).to_contain_text("ends the next day")

    closed = _next_weekday(market.now().date() + timedelta(days=1))
    staff.open(f"/staff/hours/dates?date={closed}")
    staff.main.get_by_label("Closed", exact=True).check()
    staff.press("Save these days")
    staff.reads("Those days are saved.", "not your weekly hours")

    staff.open(f"/?week={closed}")
    staff.reads("22:00.02:00", "Closed.*not your weekly hours")
    market.move_clock(starts_at - timedelta(hours=1))
    staff.open("/")
    agenda = staff.main.locator("section", has=staff.page.locator("#agenda"))
    agenda.get_by_role("button", name=re.compile("^Check in")).click()
    staff.reads("You have checked in|Checked in")
    staff.open("/")
    expect(agenda).to_contain_text("You have checked in.")
    _set_free(market)


def _next_weekday(day: date) -> date:
    while day.weekday() > 4:
        day += timedelta(days=1)
    return day


def test_the_week_is_painted(browser: Browser, market: Marketplace) -> None:
    """Hours are painted by pointer over several days and by keyboard over midnight from Sunday to
    Monday; the rows of the form follow, and each change is announced."""
    _set_free(market)
    with open_person(browser, market, DESKTOP, "staff") as staff:
        staff.open("/staff/hours")
        staff.main.get_by_label("At these hours").check()
        cell = staff.main.locator("[data-grid] tbody tr")

        def at(hour: int, column: int) -> str:
            return f"[data-grid] tbody tr:nth-child({2 * hour + 1}) td:nth-of-type({column + 1})"

        expect(cell).to_have_count(48)
        staff.page.drag_and_drop(at(10, 0), at(11, 2))
        for name in ("Monday", "Tuesday", "Wednesday"):
            group = staff.main.get_by_role("group", name=name, exact=True)
            expect(group.get_by_label("From")).to_have_value("10:00")
            expect(group.get_by_label("To")).to_have_value("11:30")
        staff.main.locator(at(23, 6)).focus()
        staff.page.keyboard.press("Space")
        staff.page.keyboard.press("Shift+ArrowDown")
        expect(staff.main.locator("[data-said]")).to_have_text("Sunday 23:30: open")
        staff.main.locator(at(0, 0)).focus()
        staff.page.keyboard.press("Enter")
        sunday = staff.main.get_by_role("group", name="Sunday", exact=True)
        expect(sunday.get_by_label("From")).to_have_value("23:00")
        expect(sunday.get_by_label("To")).to_have_value("00:30")
        expect(sunday).to_contain_text("ends the next day")
        staff.main.get_by_role("button", name="Save", exact=True).last.click()
        staff.reads("Your hours are saved.")
        assert (0, "00:00", "00:30") in _weekly(market)
        assert (6, "23:00", "24:00") in _weekly(market)
        staff.page.wait_for_url(re.compile(r"/staff/hours\?hours$"))
    _set_free(market)
