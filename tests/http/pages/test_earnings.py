"""Tests of the earnings page of staff members, and of its file."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import httpx
import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, add_booking, add_companion
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from tests.http.deployment import HttpDeployment, error_body
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio

PAGE, FILE = "/staff/payouts", "/staff/payouts/earnings.csv"


async def add(world: HttpDeployment, payout: PayoutStatus, **given: Any) -> Booking:
    """A completed booking of the companion; each is a day after the one before."""
    defaults = {"status": BookingStatus.COMPLETED, "payout_status": payout}
    people = (world.companion, world.customer)
    return await add_booking(world.store, *people, **{**defaults, **given})


async def add_all(world: HttpDeployment) -> dict[str, Booking]:
    """A paid, a scheduled and an expected earning of 340 each, and one on hold."""
    paid, scheduled = PayoutStatus.PAID, PayoutStatus.SCHEDULED
    due, none = NOW + 12 * HOUR, PayoutStatus.NONE
    return {
        "paid": await add(world, paid, starts_at=NOW - 40 * DAY, payout_released_at=NOW - 38 * DAY),
        "scheduled": await add(world, scheduled, starts_at=NOW - DAY, payout_due_at=due),
        "expected": await add(
            world, none, status=BookingStatus.PAID, starts_at=NOW + 9 * DAY, paid_at=NOW
        ),
        "held": await add(
            world, PayoutStatus.FROZEN, status=BookingStatus.DISPUTED, starts_at=NOW - 9 * DAY
        ),
    }


async def visit(world: HttpDeployment, path: str = PAGE) -> httpx.Response:
    return await (await world.signed_in_client(world.companion.id)).get(path)


async def read_file(world: HttpDeployment, query: str = "") -> list[list[str]]:
    answer = await visit(world, FILE + query)
    assert answer.status_code == 200
    return list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))


async def test_the_page_tells_what_comes_next(each_world: HttpDeployment) -> None:
    """The next payout has its amount and day; what is scheduled, in escrow, on hold and paid is
    told with the fees."""
    await add_all(each_world)
    text = page_text((await visit(each_world)).text)
    assert "Next payout US$340.00 Tue, 2 Mar 2027 · 1 booking" in text
    for figure in ("Scheduled", "In escrow", "On hold", "Paid out of 2027"):
        assert f"{figure} US$340.00" in text
    assert "Our fee of 2027 US$240.00" in text


async def test_each_booking_has_its_row(each_world: HttpDeployment) -> None:
    """Rows are links to the bookings, the newest first, with price, fee, state and day."""
    made = await add_all(each_world)
    shown = await visit(each_world)
    order = [made[name].id for name in ("expected", "scheduled", "held", "paid")]
    assert re.findall(r'href="/bookings/(\d+)/return"', shown.text) == [str(i) for i in order]
    text = page_text(shown.text)
    assert "US$400.00 − US$60.00 fee · paid out on 22 Jan 2027" in text
    assert "payout on 2 Mar 2027" in text
    assert "payout by 14 Mar 2027" in text


async def test_the_chart_has_its_figures_in_a_table(world: HttpDeployment) -> None:
    """Each month with money has a bar, and a row of the table beside it."""
    await add_all(world)
    shown = (await visit(world)).text
    assert (shown.count('class="bar-paid"'), shown.count('class="bar-ahead"')) == (1, 2)
    assert "Mar US$0.00 US$340.00 US$60.00" in page_text(shown)
    assert 'role="img"' in shown


async def test_years_are_apart(world: HttpDeployment) -> None:
    """Another year shows its own bookings; the next payout stays, and every year is a link."""
    await add_all(world)
    old = await add(world, PayoutStatus.PAID, starts_at=NOW - 400 * DAY)
    shown = await visit(world, f"{PAGE}?year=2026")
    assert re.findall(r'href="/bookings/(\d+)/return"', shown.text) == [str(old.id)]
    assert "Tue, 2 Mar 2027" in shown.text
    empty = await visit(world, f"{PAGE}?year=2025")
    assert "Nothing earned in 2025" in empty.text
    assert re.findall(r'href="\?year=(\d+)"', empty.text)[-1] == "2025"


async def test_a_new_member_is_told_how_it_works(world: HttpDeployment) -> None:
    """Without earnings the page says so, has no chart and no file."""
    text = (await visit(world)).text
    assert "Nothing earned in 2027" in text
    assert ("<svg viewBox" in text, "Download CSV" in text) == (False, False)


async def visit_without_account(world: HttpDeployment) -> str:
    """The page of who has money ahead and no payout account."""
    companion = await add_companion(world.store, payout_account=None)
    await add_booking(
        world.store, companion, status=BookingStatus.COMPLETED, payout_status="scheduled"
    )
    return (await (await world.signed_in_client(companion.id)).get(PAGE)).text


async def test_a_missing_account_is_told_where_money_waits(world: HttpDeployment) -> None:
    """Who has money ahead and no payout account is told that payouts wait for it."""
    world.require_payout_accounts()
    assert "Your payouts wait for your payout account." in await visit_without_account(world)


async def test_simulated_payouts_wait_for_no_account(world: HttpDeployment) -> None:
    """Where payouts are made without an account, the page does not say that they wait for it."""
    shown = await visit_without_account(world)
    assert "wait for your payout account" not in shown
    assert "made without an account too" in shown


@pytest.mark.parametrize(
    "query", ["year=1999", "year=x", "year=2101", "page=0", "year=" + "9" * 99]
)
async def test_odd_queries_are_refused(world: HttpDeployment, query: str) -> None:
    """Years and pages out of range are 422 for the page and for the file."""
    for path in (PAGE, FILE):
        assert (await visit(world, f"{path}?{query}")).status_code == 422


async def test_rows_come_in_pages(world: HttpDeployment) -> None:
    """Of more than 25 rows the next page has the others, of the same year."""
    for number in range(27):
        await add(world, PayoutStatus.PAID, starts_at=NOW - number * DAY)
    first, second = await visit(world), await visit(world, f"{PAGE}?year=2027&page=2")
    rows = [len(re.findall(r"/bookings/\d+/return", each.text)) for each in (first, second)]
    assert rows == [25, 2]
    assert 'href="?year=2027&amp;page=2"' in first.text


# The file -------------------------------------------------------------------------------


async def test_the_file_has_all_rows(each_world: HttpDeployment) -> None:
    """The file has a row for each booking with decimals and a currency, named by its year."""
    made = await add_all(each_world)
    head, *rows = await read_file(each_world)
    assert head[:2] == ["Booking", "Event date"]
    assert [row[0] for row in rows] == [
        made[name].code for name in ("expected", "scheduled", "held", "paid")
    ]
    assert rows[3][1:] == [
        *("2027-01-20", "Gala dinner", "Ada Okoro", "Paid out"),
        *("400.00", "0.00", "60.00", "340.00", "USD", "2027-01-22"),
    ]
    answer = await visit(each_world, FILE)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert answer.headers["content-disposition"] == 'attachment; filename="earnings-2027.csv"'


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
async def test_no_cell_is_a_formula(world: HttpDeployment, name: str) -> None:
    """A text that a spreadsheet would compute is marked as text."""
    await add(world, PayoutStatus.PAID, customer_name=name, service_type=f'{name}",2')
    _, row = await read_file(world)
    assert (row[2], row[3]) == (f"'{name}\",2", f"'{name}")


async def test_the_file_is_for_its_staff_member(world: HttpDeployment) -> None:
    """The file is 403 for customers; signed-out visitors sign in, and have its page."""
    client = await world.signed_in_client(world.customer.id)
    error_body(await client.get(FILE), 403, "staff_only")
    asked = await world.client().get(FILE)
    assert asked.headers["location"] == "/account/sign-in?next=%2Fstaff%2Fpayouts"
