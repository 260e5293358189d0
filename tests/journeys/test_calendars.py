"""A staff member's other calendars in a real browser, with a real server that serves a calendar."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from attrs import define, field
from playwright.sync_api import expect

from tests.journeys.conftest import OpenPerson
from tests.journeys.marketplace import Marketplace
from tests.support.ics import make_ics_calendar, make_ics_hour

pytestmark = pytest.mark.journeys


@define
class CalendarServer:
    """A server on loopback whose calendar a test changes; without one, nothing is found."""

    content: bytes | None = None
    _server: ThreadingHTTPServer = field(init=False)

    def __attrs_post_init__(self) -> None:
        shown = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = shown.content
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/secret-7/basic.ics"

    def run(self) -> None:
        self._server.serve_forever()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def calendar() -> Iterator[CalendarServer]:
    server = CalendarServer()
    thread = threading.Thread(target=server.run)
    thread.start()
    yield server
    server.stop()
    thread.join()


def test_another_calendar_blocks_time(
    person: OpenPerson, market: Marketplace, calendar: CalendarServer
) -> None:
    """A staff member adds the address of a calendar: its day can't be booked any more. Removed
    after a question, it blocks nothing."""
    day = market.unused_day()
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
    record = market.client("customer").get(
        f"/companions/{market.user_id('staff')}/availability",
        params={"start_date": str(day), "end_date": str(day)},
    )
    if record.status_code == 200:
        assert not record.json()["availability"][0]["available"]
    row.locator("summary").click()
    row.get_by_role("button", name="Remove this calendar").click()
    expect(staff.main).to_contain_text("The calendar is removed.")
    expect(staff.main.locator(".calendar-row")).to_have_count(0)
