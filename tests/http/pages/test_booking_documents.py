"""Tests of the receipt and of the calendar file of a booking."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from icalendar import Calendar

from staffbooking_adapters.testing.builders import add_booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.usecases import due_work
from tests.http.bookings.test_booking_flow import accepted, paid
from tests.http.deployment import HttpDeployment, json_body
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio


async def test_a_receipt_has_what_was_paid_and_refunded(each_world: HttpDeployment) -> None:
    """Amounts, dates, parties and the code; for the staff member, fee and payout."""
    path, customer, staff = await paid(each_world)
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    bought = page_text((await customer.get(f"{path}/receipt")).text)
    for said in ("Receipt", code, "Mia Lindqvist", "Ada", "Rua Augusta 1", "Total US$400.00"):
        assert said in bought
    assert "Service fee" not in bought
    sold = page_text((await staff.get(f"{path}/receipt")).text)
    assert "Service fee -US$60.00 You get US$340.00" in sold
    json_body(await staff.post(f"{path}/cancel"))
    await due_work.run_all_due(each_world.ports)
    refunded = page_text((await customer.get(f"{path}/receipt")).text)
    assert "Arrived 1 Mar 2027" in refunded
    assert "Paid in all US$0.00" in refunded


async def test_a_receipt_has_the_days_of_the_event(world: HttpDeployment) -> None:
    """Its date is that of the payment in the event's time zone, and an end after midnight is told
    as that of the next day."""
    booking = await add_booking(
        world.store,
        world.companion,
        world.customer,
        starts_at=datetime(2027, 3, 5, 9, tzinfo=UTC),
        timezone="Pacific/Auckland",
        event_date=date(2027, 3, 5),
        start_time="22:00",
        status=BookingStatus.PAID,
        paid_at=datetime(2027, 3, 1, 13, tzinfo=UTC),
    )
    client = await world.signed_in_client(world.customer.id)
    shown = page_text((await client.get(f"/bookings/{booking.id}/receipt")).text)
    assert "Staffbooking 2 Mar 2027" in shown
    assert "Fri, 5 Mar 2027, 22:00–02:00 the next day (Auckland)" in shown


async def test_there_is_no_receipt_before_the_payment(world: HttpDeployment) -> None:
    """An unpaid booking has no receipt and no link to one."""
    path, customer, _ = await accepted(world)
    assert (await customer.get(f"{path}/receipt")).status_code == 404
    assert "/receipt" not in (await customer.get(f"{path}/return")).text


async def test_each_side_keeps_the_booking_in_its_calendar(world: HttpDeployment) -> None:
    """The file has one event, named by the other side; after a cancellation it says so."""
    path, customer, staff = await paid(world)
    code = json_body(await customer.get(path))["booking"]["booking_code"]
    for side, other in ((customer, "Mia Lindqvist"), (staff, "Ada")):
        answer = await side.get(f"{path}/calendar.ics")
        assert answer.headers["content-type"] == "text/calendar; charset=utf-8"
        assert f'filename="{code}.ics"' in answer.headers["content-disposition"]
        [event] = Calendar.from_ical(answer.content).walk("VEVENT")
        assert str(event["SUMMARY"]).startswith(f"Gala dinner: {other}")
        assert (str(event["UID"]).partition("@")[0], event["STATUS"]) == (code, "CONFIRMED")
        assert event.decoded("DTSTART").isoformat() == "2027-03-03T18:00:00+00:00"
    json_body(await customer.post(f"{path}/cancel"))
    [event] = Calendar.from_ical((await staff.get(f"{path}/calendar.ics")).content).walk("VEVENT")
    assert event["STATUS"] == "CANCELLED"


async def test_signed_out_requests_lead_to_sign_in(world: HttpDeployment) -> None:
    """Signed-out visitors are led to sign-in and back."""
    path, _, _ = await paid(world)
    for page in ("receipt", "calendar.ics", "cancellation", "problem"):
        assert (await world.client().get(f"{path}/{page}")).status_code == 303
