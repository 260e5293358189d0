"""Tests of the agenda of the week on the home page of staff members."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, add_booking
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from tests.http.bookings.test_booking_flow import paid, set_clock
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_bookings import AFTER
from tests.http.pages.test_home import rows, section
from tests.http.pages.test_hours import NIGHT_SLOTS, member, send, set_up
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio


def agenda_days(text: str) -> list[str]:
    """The text of each day of the agenda."""
    found = section(text, "agenda").split('<li class="agenda-day')[1:]
    return [page_text(f"<li{day.partition('>')[2]}") for day in found]


async def add_paid_booking(world: HttpDeployment, starts_at: datetime) -> Booking:
    people = (world.companion, world.customer)
    paid = BookingStatus.PAID
    return await add_booking(world.store, *people, status=paid, starts_at=starts_at, paid_at=NOW)


async def test_a_week_shows_hours_and_bookings(each_world: HttpDeployment) -> None:
    """Seven days from Monday have their hours, and their bookings with times, place and status."""
    world = each_world
    paid = await add_paid_booking(world, NOW + 4 * DAY)
    await add_booking(world.store, world.companion, world.customer, status=BookingStatus.CANCELLED)
    staff = await set_up(world, weekly=NIGHT_SLOTS)
    days = agenda_days((await staff.get("/")).text)
    assert len(days) == 7
    assert days[0].startswith("Mo 1 Today Closed")
    assert days[2].startswith("We 3 Closed Change")
    assert "Open 10:00–12:00 not your weekly hours" in days[4]
    assert "Paid" in days[4]
    assert "Ada Okoro" in days[4]
    assert paid.location in days[4]
    assert days[6].startswith("Su 7 Open 22:00–02:00 Change")
    assert sum("Ada Okoro" in day for day in days) == 1


async def test_weeks_are_turned(world: HttpDeployment) -> None:
    """Links lead to the weeks before and after; what comes after the shown week is listed."""
    later = await add_paid_booking(world, NOW + 8 * DAY)
    staff = await member(world)
    shown = (await staff.get("/")).text
    assert rows(section(shown, "later")) == [str(later.id)]
    assert re.findall(r'href="/\?week=([^#]+)#agenda"', shown) == ["2027-02-22", "2027-03-08"]
    after = (await staff.get("/?week=2027-03-08")).text
    assert 'href="/#agenda"' in after
    assert "Ada Okoro" in agenda_days(after)[1]
    assert section(after, "later") == ""


async def test_an_open_dispute_is_listed_once(world: HttpDeployment) -> None:
    """A dispute that the staff member has answered is among the open disputes alone, also after the
    shown week."""
    path, customer, staff = await paid(world)
    await set_clock(world, AFTER)
    json_body(await customer.post(f"{path}/dispute", json={"reason": "Closed early"}))
    json_body(await staff.post(f"{path}/dispute/statements", json={"text": "Asked to"}), 201)
    shown = (await staff.get("/?week=2027-02-22")).text
    assert rows(section(shown, "disputes")) == [path.rpartition("/")[2]]
    assert rows(section(shown, "later")) == []


@pytest.mark.parametrize(
    "week", ["", "x", "0001-01-01", "9999-12-31", "2027-02-30", "%00", "a" * 99]
)
async def test_any_week_is_a_page(world: HttpDeployment, week: str) -> None:
    """A week that does not exist or is too far shows another one."""
    await add_booking(world.store, world.companion, world.customer)
    answer = await (await member(world)).get(f"/?week={week}")
    assert answer.status_code == 200
    assert len(agenda_days(answer.text)) == 7


async def test_the_week_is_that_of_the_zone(world: HttpDeployment) -> None:
    """On Sunday in the service's zone, the week may have begun in that of the calendar."""
    await add_booking(world.store, world.companion, world.customer, starts_at=NOW + 20 * DAY)
    await set_up(world, timezone="Pacific/Kiritimati", overrides=[])
    world.clock.advance(timedelta(days=6))
    staff = await member(world)
    assert agenda_days((await staff.get("/")).text)[0].startswith("Mo 8 Today")


async def test_check_in_is_in_the_agenda(each_world: HttpDeployment) -> None:
    """From two hours before the start, the booking of the day has the button to check in, which
    leads to the booking; then the agenda says so."""
    world = each_world
    booking = await add_paid_booking(world, NOW + 3 * HOUR)
    staff = await member(world)
    assert "Check in" not in section((await staff.get("/")).text, "agenda")
    world.clock.advance(HOUR)
    shown = (await staff.get("/")).text
    assert 'value="check_in"' in section(shown, "agenda")
    sent = await send(staff, f"/bookings/{booking.id}/return", step="check_in")
    assert sent.headers["location"] == f"/bookings/{booking.id}/return"
    found = json_body(await staff.get(f"/bookings/{booking.id}"))["booking"]
    assert found["checked_in_at"] is not None
    shown = section((await staff.get("/")).text, "agenda")
    assert "You have checked in." in shown
    assert 'value="check_in"' not in shown


async def test_customers_have_no_agenda(world: HttpDeployment) -> None:
    """The home page of customers has no agenda."""
    await add_booking(world.store, world.companion, world.customer)
    shown = (await (await world.signed_in_client(world.customer.id)).get("/?week=2027-03-01")).text
    assert section(shown, "agenda") == ""
