"""A staff member's other calendars in a real browser, served by an HTTP server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from attrs import define
from playwright.sync_api import expect

from tests.journeys.conftest import OpenPerson
from tests.journeys.http_server import run_http_server
from tests.journeys.marketplace import Marketplace
from tests.support.ics import make_ics_calendar, make_ics_hour

pytestmark = pytest.mark.journeys


@define
class Calendar:
    """The calendar that the server has at `url`; 404 while there is no content."""

    url: str
    content: bytes | None = None


@pytest.fixture
def calendar() -> Iterator[Calendar]:
    def respond(*_: object) -> tuple[int, bytes]:
        return (404, b"") if served.content is None else (200, served.content)

    with run_http_server(respond) as server_url:
        served = Calendar(f"{server_url}/secret-7/basic.ics")
        yield served


def test_another_calendar_blocks_time(
    person: OpenPerson, market: Marketplace, calendar: Calendar
) -> None:
    """A staff member adds the address of a calendar: its busy day can't be booked any more. After
    the calendar is removed, the day can be booked again."""
    day = market.available_day()
    staff = person("staff")
    staff.open("/staff/calendars")
    staff.fill("Address of the calendar", calendar.url)
    staff.press("Add the calendar")
    expect(staff.main.get_by_role("alert")).to_contain_text("leads to no calendar")
    expect(staff.main.get_by_label("Address of the calendar")).to_have_value(calendar.url)
    hour = day - timedelta(days=1)
    calendar.content = make_ics_calendar(
        make_ics_hour(f"{hour:%Y%m%d}T060000Z"),
        f"DTSTART;VALUE=DATE:{day:%Y%m%d}",
    )
    staff.fill("Name (optional)", "Family")
    staff.press("Add the calendar")
    row = staff.main.locator(".calendar-row", has_text="Family")
    expect(row).to_contain_text("Up to date")
    expect(row).to_contain_text("2 busy times")
    expect(staff.main).not_to_contain_text("secret-7")
    assert not market.is_available(day)
    row.locator("summary").click()
    row.get_by_role("button", name="Remove this calendar").click()
    expect(staff.main).to_contain_text("The calendar is removed.")
    expect(staff.main.locator(".calendar-row")).to_have_count(0)
    assert market.is_available(day)
