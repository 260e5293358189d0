"""Tests of the month page: hours of single days, bookings and limits."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, add_booking
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.shared.rate_limits import RateLimit
from tests.http.deployment import HttpDeployment
from tests.http.pages.test_bookings import PEOPLE
from tests.http.pages.test_hours import (
    DATES,
    LIMITS,
    NIGHT_SLOTS,
    SET,
    TAKE,
    days,
    done,
    faults,
    filled,
    kept,
    member,
    rows,
    send,
    set_up,
)
from tests.support.html_pages import page_text
from tests.support.ics import make_ics_calendar, make_ics_hour

pytestmark = pytest.mark.anyio


def cells(answer: httpx.Response) -> dict[str, str]:
    """What is said of each day of the month table."""
    pattern = r'data-date="([^"]+)"[^>]*>.*?<span class="hidden-text">([^<]*)<'
    found = re.findall(pattern, answer.text)
    return {day: html.unescape(label) for day, label in found}


def chosen(text: str) -> str:
    [kind] = re.findall(r'name="kind" value="(\w+)" required checked', text)
    return str(kind)


async def set_days(staff: httpx.AsyncClient, first: str, kind: str, **given: Any) -> httpx.Response:
    return await send(staff, DATES, **{"first": first, "last": first, "kind": kind, **given})


# The month ------------------------------------------------------------------------------


async def test_a_month_shows_hours_and_bookings(each_world: HttpDeployment) -> None:
    """Each day tells its hours, whether they are special, its bookings and its busy times."""
    await add_booking(
        each_world.store,
        each_world.companion,
        each_world.customer,
        status=BookingStatus.PAID,
        starts_at=NOW + 7 * DAY,
    )
    staff = await set_up(each_world, weekly=NIGHT_SLOTS)
    await send(staff, TAKE, file=make_ics_calendar(make_ics_hour("20270309T113000Z")))
    found = cells(await staff.get(f"{DATES}?month=2027-03"))
    assert len(found) == 31
    assert found["2027-03-03"] == "Wed 3 Mar: Closed"
    assert found["2027-03-05"] == "Fri 5 Mar: 10:00–12:00, not your weekly hours"
    assert found["2027-03-07"] == "Sun 7 Mar: 22:00–02:00"
    assert found["2027-03-08"] == "Mon 8 Mar: Closed, 1 booking"
    assert found["2027-03-09"] == "Tue 9 Mar: Closed, busy in your other calendar"
    shown = (await staff.get(f"{DATES}?date=2027-03-08")).text
    assert "Ada Okoro" in page_text(shown)
    assert "Busy in your other calendar" not in shown
    shown = (await staff.get(f"{DATES}?date=2027-03-09")).text
    assert "Busy in your other calendar: 12:30 to 13:30" in shown


async def test_a_whole_busy_day_has_no_hours(world: HttpDeployment) -> None:
    """A day in the middle of a longer busy time is busy all day."""
    staff = await set_up(world)
    away = "DTSTART;VALUE=DATE:20270309\nDTEND;VALUE=DATE:20270312"
    await send(staff, TAKE, file=make_ics_calendar(away))
    shown = (await staff.get(f"{DATES}?date=2027-03-10")).text
    assert "Busy in your other calendar: all day" in shown


@pytest.mark.parametrize(
    ("day", "lines"),
    [
        ("2027-10-31", "DTSTART:20271031T003000Z\nDTEND:20271031T013000Z"),
        ("2027-11-03", "DTSTART:20271103T100000Z\nDTEND:20271103T100030Z"),
    ],
)
async def test_equal_clock_times_are_not_all_day(
    world: HttpDeployment, day: str, lines: str
) -> None:
    """A busy time with one clock time at both ends, as where the clock goes back, is not all
    day."""
    staff = await set_up(world, timezone="Europe/Berlin")
    await send(staff, TAKE, file=make_ics_calendar(lines))
    shown = (await staff.get(f"{DATES}?date={day}")).text
    assert "Busy in your other calendar: " in shown
    assert "Busy in your other calendar: all day" not in shown


async def test_days_that_cannot_be_booked_yet_say_so(world: HttpDeployment) -> None:
    """Days within the notice and beyond the horizon tell it, and the limits are in words."""
    staff = await set_up(world, weekly=[], overrides=[], min_notice_hours=72, horizon_days=14)
    answer = await staff.get(DATES)
    found = cells(answer)
    assert found["2027-03-02"].endswith("too soon to be booked")
    assert found["2027-03-05"] == "Fri 5 Mar: All day"
    assert found["2027-03-15"] == "Mon 15 Mar: All day"
    assert found["2027-03-16"].endswith("further ahead than you take bookings")
    text = page_text(answer.text)
    assert "Customers can book you until Mon, 15 Mar 2027." in text
    assert "They ask at least 3 days before the start." in text
    assert "30 minutes stay free before and after each booking." in text


@pytest.mark.parametrize(
    "query",
    [
        "month=2027-13",
        "month=0001-01",
        "month=9999-12",
        "date=2027-02-30",
        "date=1900-01-01",
        "date=<b>",
        "kind=x&first=%00&from-d-0=%ff",
        "month=2027-03&month=2027-04",
    ],
)
async def test_any_address_of_a_month_is_a_page(world: HttpDeployment, query: str) -> None:
    """A month or a day that does not exist or is too far shows another one."""
    staff = await set_up(world)
    answer = await staff.get(f"{DATES}?{query}")
    assert answer.status_code == 200
    assert "<b>" not in answer.text


# Days -----------------------------------------------------------------------------------


async def test_days_are_closed_and_restored(each_world: HttpDeployment) -> None:
    """Several days are closed at once; the nights around them stay whole; their weekly hours can be
    restored by one button of the list."""
    staff = await set_up(each_world, weekly=NIGHT_SLOTS, overrides=[])
    sent = await send(staff, DATES, first="2027-03-05", last="2027-03-06", kind="closed")
    shown = await done(staff, sent)
    assert "Those days are saved." in shown
    assert "Fri, 5 Mar 2027" in shown
    assert await days(staff) == {"2027-03-05": [], "2027-03-06": []}
    assert chosen(shown) == "closed"
    sent = await send(staff, DATES, first="2027-03-05", last="2027-03-06", kind="weekly")
    shown = await done(staff, sent)
    assert "Your weekly hours hold on those days again." in shown
    assert "Days that differ from your week" not in shown
    assert await kept(staff) == {**SET, "weekly": NIGHT_SLOTS, "overrides": []}


async def test_a_long_absence_is_restored_by_its_buttons(world: HttpDeployment) -> None:
    """The buttons of closed days that are more than can be changed at once are taken."""
    staff = await set_up(world, weekly=[], overrides=[])
    for first, last in (("2027-03-10", "2028-03-09"), ("2028-03-10", "2028-05-31")):
        await send(staff, DATES, first=first, last=last, kind="closed")
    pattern = r'special-line.*?name="first" value="([^"]+)".*?name="last" value="([^"]+)"'
    listed = re.findall(pattern, (await staff.get(DATES)).text, re.DOTALL)
    for first, last in listed:
        sent = await send(staff, DATES, first=first, last=last, kind="weekly")
        assert sent.status_code == 303
    assert (len(listed), await days(staff)) == (2, {})


async def test_a_day_without_hours_of_its_own_has_no_button(world: HttpDeployment) -> None:
    """A day that differs only by the hours of the next day is listed without the button for the
    weekly hours, which would change nothing."""
    staff = await set_up(world, weekly=NIGHT_SLOTS, overrides=[])
    shown = await done(
        staff, await set_days(staff, "2027-03-08", "special", **rows(dd="00:00-00:00"))
    )
    listed = page_text(shown.partition('id="special"')[2].partition("</section>")[0])
    assert "Sun, 7 Mar 2027 22:00–00:00 Mon, 8 Mar 2027" in listed
    assert re.findall('Weekly hours again from ([^"]*)', shown) == ["Mon, 8 Mar 2027"]


async def test_a_special_night_is_one_row(each_world: HttpDeployment) -> None:
    """Special hours over midnight are stored on two dates and shown on the day they start."""
    staff = await set_up(each_world, overrides=[])
    sent = await set_days(staff, "2027-03-04", "special", **rows(dd="22:00-02:00 10:00-11:00"))
    shown = await done(staff, sent)
    assert filled(shown) == rows(dd="10:00-11:00 22:00-02:00")
    assert chosen(shown) == "special"
    assert await days(staff) == {
        "2027-03-04": ["10:00-11:00", "22:00-24:00"],
        "2027-03-05": ["00:00-02:00"],
    }
    found = cells(await staff.get(f"{DATES}?month=2027-03"))
    assert found["2027-03-04"] == "Thu 4 Mar: 10:00–11:00, 22:00–02:00, not your weekly hours"
    assert found["2027-03-05"] == "Fri 5 Mar: Closed"
    assert (await kept(staff))["weekly"] == SET["weekly"]


SPECIAL = {"first": "2027-03-09", "last": "2027-03-09", "kind": "special"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"first": ""}, {"From day": "Fill this in."}),
        ({"first": "9.3.2027"}, {"From day": "Choose a date."}),
        ({"last": "2027-03-08"}, {"To day": "It must not be before the first day."}),
        ({"last": "2029-03-09"}, {"To day": "It is too far: at most 366 days at once."}),
        ({"first": "2027-02-28"}, {"From day": "It lies in the past."}),
        (
            {"first": "2031-03-09", "last": "2031-03-09"},
            {"To day": "It lies more than three years ahead."},
        ),
        ({"kind": "odd"}, {"On these days": "Choose one of these."}),
        ({"kind": ""}, {"On these days": "Choose one of these."}),
        ({}, {"From": "Fill this in."}),
        (rows(dd="10:00-10:00"), {"To": "It must differ from the start."}),
        (rows(dd="9-10:00"), {"From": "Enter a time such as 18:30."}),
        (rows(dd="09:00-11:00 10:00-12:00"), {"From": "It must not overlap other hours."}),
    ],
)
async def test_what_is_wrong_with_days_is_told_at_the_field(
    world: HttpDeployment, given: dict[str, str], told: dict[str, str]
) -> None:
    """Invalid days keep the submitted form and save nothing."""
    staff = await set_up(world)
    hours = rows(dd="09:00-10:00") if set(given) & set(SPECIAL) else {}
    answer = await send(staff, DATES, **{**SPECIAL, **hours, **given})
    assert answer.status_code in (400, 422)
    assert faults(answer) == told
    assert await kept(staff) == SET


async def test_rows_of_days_change_without_a_script(world: HttpDeployment) -> None:
    """A row is added to the special hours of days, which are saved by their own button alone."""
    staff = await set_up(world)
    sent = await send(staff, DATES, step="add-d", **{**SPECIAL, **rows(dd="09:00-10:00")})
    shown = await done(staff, sent)
    assert filled(shown) == {**rows(dd="09:00-10:00"), "from-d-1": "", "to-d-1": ""}
    assert chosen(shown) == "special"
    assert 'name="first" type="date" value="2027-03-09"' in shown
    assert await kept(staff) == SET


async def test_a_form_that_came_too_often_is_kept(world: HttpDeployment) -> None:
    """Over the rate limit, the form is shown again with its days and hours."""
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    staff, given = await member(world), rows(dd="09:00-12:00 22:00-02:00")
    assert (await set_days(staff, "2027-03-03", "special", **given)).status_code == 303
    answer = await set_days(staff, "2027-03-04", "special", **given)
    assert (answer.status_code, filled(answer.text)) == (429, given)
    assert 'value="2027-03-04"' in answer.text


# Limits ---------------------------------------------------------------------------------


async def test_limits_are_saved(each_world: HttpDeployment) -> None:
    """Buffer, notice and horizon are chosen in words; hours stay."""
    staff = await set_up(each_world)
    shown = (await staff.get(DATES)).text
    assert '<option value="30" selected>30 minutes before and after</option>' in shown
    assert '<option value="400" selected>400 days ahead</option>' in shown
    given = {"buffer_minutes": "60", "min_notice_hours": "0", "horizon_days": "90"}
    assert "Your limits are saved." in await done(staff, await send(staff, LIMITS, **given))
    assert await kept(staff) == {**SET, **{name: int(value) for name, value in given.items()}}


async def test_limits_that_came_too_often_are_kept(world: HttpDeployment) -> None:
    """Over the rate limit, the choices of the form are shown again, and the stored limits stay."""
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    staff = await set_up(world)
    given = {"buffer_minutes": "60", "min_notice_hours": "4", "horizon_days": "90"}
    answer = await send(staff, LIMITS, **given)
    assert answer.status_code == 429
    selected = re.findall(r'<option value="(\d+)" selected', answer.text)
    assert selected == list(given.values())
    assert "30 minutes stay free" in answer.text


@pytest.mark.parametrize("value", ["", "-1", "1e9", "9" * 30, "\u0669", "<b>", "0.5", "9" * 5_000])
async def test_limits_are_numbers_within_bounds(world: HttpDeployment, value: str) -> None:
    """An invalid limit is told at its field and saves nothing."""
    staff = await set_up(world)
    given = {"buffer_minutes": "60", "min_notice_hours": "0", "horizon_days": value}
    answer = await send(staff, LIMITS, **given)
    if answer.status_code != 303:
        assert answer.status_code in (400, 422)
        assert list(faults(answer)) == ["How far ahead"]
    assert (await kept(staff))["horizon_days"] in (9, SET["horizon_days"])


async def test_the_address_of_the_limits_leads_to_the_page(world: HttpDeployment) -> None:
    """The address that takes the limits leads a browser to the hours."""
    answer = await (await member(world)).get(LIMITS, headers=PEOPLE)
    assert answer.headers["location"] == "/staff/hours"
