"""Tests of the weekly and date hours pages and of who may use them."""

from __future__ import annotations

import html
import re
from datetime import date, timedelta
from functools import partial
from typing import Any

import anyio
import httpx
import pytest

from staffbooking_core.domain.companions.availability import DateOverride
from staffbooking_core.domain.shared.rate_limits import RateLimit
from tests.http.companions.test_calendars import BUSY, DAY_OFF, FEED
from tests.http.deployment import HttpDeployment, error_body, json_body
from tests.http.pages.test_account import SIGN_IN, link
from tests.http.pages.test_bookings import PEOPLE
from tests.support.builders import DAY, HOUR, add_companion, make_calendar
from tests.support.ics import GOOGLE_CALENDAR

pytestmark = pytest.mark.anyio

HOURS, DATES, CLEAR = "/staff/hours", "/staff/hours/dates", "/staff/hours/dates/clear"
CALENDARS, MAKE, TAKE = "/staff/calendars", "/staff/calendars/feed", "/staff/calendars/busy"
REVOKE, FORGET = f"{MAKE}/revoke", f"{TAKE}/forget"
FORMS = {
    HOURS: {"timezone": "Europe/Lisbon", "monday": "09:00-12:00"},
    DATES: {"date": "2027-03-04", "hours": "10:00-12:00"},
    CLEAR: {"date": "2027-03-03"},
    MAKE: {},
    REVOKE: {},
    TAKE: {},
    FORGET: {},
}
SET: dict[str, Any] = {
    "timezone": "Europe/Zurich",
    "weekly": [
        {"weekday": 0, "start": "09:00", "end": "12:00"},
        {"weekday": 6, "start": "20:00", "end": "24:00"},
        {"weekday": 0, "start": "13:00", "end": "18:30"},
    ],
    "overrides": [
        {"date": "2027-03-05", "slots": [{"start": "10:00", "end": "12:00"}]},
        {"date": "2027-03-03", "slots": []},
    ],
    "buffer_minutes": 30,
    "min_notice_hours": 2,
    "horizon_days": 400,
}


async def member(world: HttpDeployment) -> httpx.AsyncClient:
    return await world.signed_in_client(world.companion.id)


async def set_up(world: HttpDeployment, **given: Any) -> httpx.AsyncClient:
    """A signed-in client of a staff member whose hours were set through the API."""
    staff = await member(world)
    json_body(await staff.put("/staff/availability", json={**SET, **given}))
    return staff


async def send(client: httpx.AsyncClient, path: str, **given: Any) -> httpx.Response:
    """Submit a form by its CSRF token, without the API's header; with a file as multipart."""
    token = client.headers.pop("x-csrf-token")
    file = given.pop("file", None)
    files = None if file is None else {"file": ("mia.ics", file, "text/calendar")}
    answer = await client.post(path, data={"csrf": token, **given}, files=files)
    client.headers["x-csrf-token"] = token
    return answer


async def kept(client: httpx.AsyncClient) -> Any:
    """The hours as the API returns them."""
    return json_body(await client.get("/staff/availability"))["availability"]


async def days(client: httpx.AsyncClient) -> dict[str, list[str]]:
    """The dates that have hours of their own."""
    return {
        each["date"]: [f"{slot['start']}-{slot['end']}" for slot in each["slots"]]
        for each in (await kept(client))["overrides"]
    }


async def busy(client: httpx.AsyncClient) -> Any:
    return json_body(await client.get(BUSY))


def filled(text: str) -> dict[str, str]:
    """The values of a page's visible fields."""
    [zone] = re.findall("<option selected>([^<]*)<", text)
    fields = re.findall(r'<input name="(\w+)"[^>]* value="([^"]*)"', text)
    return {name: html.unescape(value) for name, value in [("timezone", zone), *fields]}


def alert(answer: httpx.Response) -> str:
    found = re.search('role="alert">([^<]*)<', answer.text)
    assert found, answer.text
    return html.unescape(found[1])


async def done(client: httpx.AsyncClient, answer: httpx.Response) -> str:
    """The success message of the page that a form redirects to."""
    assert answer.status_code == 303, answer.text
    return (await client.get(answer.headers["location"])).text


# Weekly hours ---------------------------------------------------------------------------


async def test_staff_see_their_hours(each_world: HttpDeployment) -> None:
    """Every page links to the hours page, which shows each day's hours as one text."""
    staff = await set_up(each_world)
    shown = (await staff.get(link(await staff.get("/"), HOURS))).text
    assert filled(shown) == {
        "timezone": "Europe/Zurich",
        "monday": "09:00-12:00, 13:00-18:30",
        **dict.fromkeys(("tuesday", "wednesday", "thursday", "friday", "saturday"), ""),
        "sunday": "20:00-24:00",
        "date": "",
        "hours": "",
    }
    assert "as you are now" not in shown


async def test_who_has_set_none_is_told_what_that_means(world: HttpDeployment) -> None:
    """Without weekly hours, the page says that every hour is free in the time zone."""
    shown = (await (await member(world)).get(HOURS)).text
    assert "free all day, every day</strong>, as you are now." in shown
    assert filled(shown)["timezone"] == "UTC"
    assert "No date has hours of its own." in shown


async def test_hours_are_saved_as_they_are_written(each_world: HttpDeployment) -> None:
    """Saved weekly hours are returned by the API; hours of single dates and booking limits stay."""
    staff = await set_up(each_world)
    given = {"timezone": "Asia/Tokyo", "tuesday": "09:00-12:00, 13:00-24:00", "sunday": ""}
    assert "Your hours are saved." in await done(staff, await send(staff, HOURS, **given))
    assert await kept(staff) == {
        **SET,
        "timezone": "Asia/Tokyo",
        "weekly": [
            {"weekday": 1, "start": "09:00", "end": "12:00"},
            {"weekday": 1, "start": "13:00", "end": "24:00"},
        ],
    }


async def test_what_is_shown_can_be_saved_again(world: HttpDeployment) -> None:
    """Submitting the shown form changes only the order of the days."""
    staff = await set_up(world)
    before = await kept(staff)
    fields = filled((await staff.get(HOURS)).text)
    assert (await send(staff, HOURS, **fields)).status_code == 303
    after = await kept(staff)
    assert sorted(map(str, after.pop("weekly"))) == sorted(map(str, before.pop("weekly")))
    assert after == before


@pytest.mark.parametrize(
    "text",
    [
        "9:00-12:00,13:00-18:00",
        " 09:00 - 12:00 ;; 13:00 to 18:00, ",
        "09:00\u201312:00, 13:00 \u2014 18:00",
        "09:00\u221212:00,\u00a013:00\u00a0\u2010\u00a018:00",
    ],
)
async def test_hours_are_read_as_people_write_them(world: HttpDeployment, text: str) -> None:
    """Blanks, all dashes, semicolons and one-digit hours are accepted."""
    staff = await member(world)
    assert (await send(staff, HOURS, timezone="UTC", friday=text)).status_code == 303
    assert (await kept(staff))["weekly"] == [
        {"weekday": 4, "start": "09:00", "end": "12:00"},
        {"weekday": 4, "start": "13:00", "end": "18:00"},
    ]


FORM = "must be a time of the form HH:MM"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("09:00-12:00, 18:00-9:00", "Thursday 18:00-9:00: start must be before end."),
        ("09:00-09:00", "Thursday 09:00-09:00: start must be before end."),
        ("9AM - 5pm", f"Thursday 9AM - 5pm: start {FORM}, 24-hour."),
        ("9.30-12.00", f"Thursday 9.30-12.00: start {FORM}, 24-hour."),
        ("off", f"Thursday off: start {FORM}, 24-hour."),
        ("09:00", f"Thursday 09:00: end {FORM}, at most 24:00."),
        ("09:00-12:00-13:00", f"Thursday 09:00-12:00-13:00: end {FORM}, at most 24:00."),
        ("\u0660\u0669:00-12:00", f"Thursday \u0660\u0669:00-12:00: start {FORM}, 24-hour."),
        ("<i>-</i>", f"Thursday <i>-</i>: start {FORM}, 24-hour."),
        ("00:00-01:00," * 101, "Weekly hours: Give 0 to 100 of them."),
    ],
)
async def test_what_is_wrong_with_hours_is_told_by_the_day(
    world: HttpDeployment, text: str, told: str
) -> None:
    """Invalid hours keep the submitted form and save nothing."""
    staff = await set_up(world)
    given = {"timezone": "Asia/Tokyo", "monday": "8:00-9:00", "thursday": text}
    answer = await send(staff, HOURS, **given)
    assert (answer.status_code, alert(answer)) == (422, told)
    assert given.items() <= filled(answer.text).items()
    assert filled(answer.text)["sunday"] == ""
    assert "<i>" not in answer.text
    assert await kept(staff) == SET


@pytest.mark.parametrize(
    ("timezone", "status", "told"),
    [
        ("", 400, "Time zone: Fill this in."),
        ("europe/zurich", 422, "Time zone: Choose a time zone from the list."),
    ],
)
async def test_a_zone_is_named_to_the_letter(
    world: HttpDeployment, timezone: str, status: int, told: str
) -> None:
    """An unknown time zone name is rejected and saves nothing."""
    staff = await set_up(world)
    answer = await send(staff, HOURS, timezone=timezone, monday="09:00-12:00")
    assert (answer.status_code, alert(answer)) == (status, told)
    assert filled(answer.text)["monday"] == "09:00-12:00"
    assert await kept(staff) == SET


# Single dates ---------------------------------------------------------------------------


async def test_dates_that_come_are_listed(each_world: HttpDeployment) -> None:
    """Dates from the staff member's local today are listed in order, with buttons."""
    more = [{"date": f"2027-03-0{number}", "slots": []} for number in (1, 2)]
    each_world.clock.advance(DAY)
    staff = await set_up(each_world, overrides=[*SET["overrides"], *more])
    shown = (await staff.get(HOURS)).text
    assert re.findall(r'name="date" value="2027-03-(\d+)"', shown) == ["02", "03", "05"]
    assert re.findall(r'<br><span class="small soft">([^<]*)<', shown) == [
        "day off",
        "day off",
        "10:00-12:00",
    ]
    assert "<strong>Wednesday</strong>" in shown


async def test_a_date_of_today_is_that_of_the_zone(world: HttpDeployment) -> None:
    """Today follows the staff member's time zone, not UTC."""
    staff = await set_up(world, timezone="Pacific/Kiritimati", overrides=[])
    answer = await send(staff, DATES, date="2027-03-01")
    assert (answer.status_code, alert(answer)) == (422, "Date lies in the past.")
    assert 'min="2027-03-02"' in answer.text
    assert (await send(staff, DATES, date="2027-03-02")).status_code == 303
    assert await days(staff) == {"2027-03-02": []}


async def test_a_date_is_added_replaced_and_taken_off(each_world: HttpDeployment) -> None:
    """Changing one date leaves other dates and the weekly hours unchanged."""
    staff = await set_up(each_world)
    sent = await send(staff, DATES, date="2027-03-04", hours="9:00 - 10:00, 11:00-12:00")
    assert "The hours of that date are saved." in await done(staff, sent)
    others = {"2027-03-05": ["10:00-12:00"], "2027-03-03": []}
    assert await days(staff) == {**others, "2027-03-04": ["09:00-10:00", "11:00-12:00"]}
    assert (await send(staff, DATES, date="2027-03-04", hours="")).status_code == 303
    assert await days(staff) == {**others, "2027-03-04": []}
    sent = await send(staff, CLEAR, date="2027-03-05")
    assert "Your weekly hours hold on that date again." in await done(staff, sent)
    assert await days(staff) == {"2027-03-03": [], "2027-03-04": []}
    assert (await kept(staff))["weekly"] == SET["weekly"]


async def test_two_dates_at_once_are_both_kept(each_world: HttpDeployment) -> None:
    """Two dates submitted concurrently are both saved."""
    staff = await set_up(each_world, overrides=[])
    token = {"csrf": staff.headers["x-csrf-token"]}
    async with anyio.create_task_group() as tasks:
        for number in range(2, 7):
            given = {"date": f"2027-03-0{number}", **token}
            tasks.start_soon(partial(staff.post, DATES, data=given))
    assert sorted(await days(staff)) == [f"2027-03-0{number}" for number in range(2, 7)]


@pytest.mark.parametrize(
    ("given", "status", "told"),
    [
        ({"date": "2027-03-09", "hours": "12:00-9:00"}, 422, "Hours 12:00-9:00: start must be"),
        ({"date": "2027-03-09", "hours": "noon"}, 422, f"Hours noon: start {FORM}"),
        ({"date": "2027-03-09", "hours": "00:00-01:00," * 51}, 422, "Hours: Give 0 to 50"),
        ({"date": "2027-02-28", "hours": "09:00-10:00"}, 422, "Date lies in the past."),
        ({"date": "9.3.2027", "hours": "09:00-10:00"}, 422, "Date: Choose a date."),
        ({"date": "", "hours": "09:00-10:00"}, 400, "Date: Fill this in."),
    ],
)
async def test_what_is_wrong_with_a_date_is_told(
    world: HttpDeployment, given: dict[str, str], status: int, told: str
) -> None:
    """An invalid date keeps the submitted form beside the saved hours."""
    staff = await set_up(world)
    answer = await send(staff, DATES, **given)
    assert (answer.status_code, alert(answer)[: len(told)]) == (status, told)
    shown = filled(answer.text)
    assert (shown["hours"], shown["sunday"]) == (given["hours"], "20:00-24:00")
    assert f'name="date" type="date" value="{given["date"]}"' in answer.text
    assert await kept(staff) == SET


async def test_passed_dates_are_not_kept(world: HttpDeployment) -> None:
    """Past dates are deleted when another date is set."""
    past = DateOverride(date(2027, 3, 1) - timedelta(1))
    other = await add_companion(world.store, calendar=make_calendar(overrides=(past,)))
    staff = await world.signed_in_client(other.id)
    assert list(await days(staff)) == ["2027-02-28"]
    await send(staff, DATES, date="2027-03-08")
    assert list(await days(staff)) == ["2027-03-08"]


# Access ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [HOURS])
async def test_fields_have_labels(world: HttpDeployment, path: str) -> None:
    """Every visible field has a label, and buttons with equal texts name their date."""
    staff = await set_up(world)
    await send(staff, MAKE)
    shown = (await staff.get(path)).text
    seen = re.findall(r"<input (?![^>]*hidden)[^>]*>", shown)
    assert seen
    assert len(re.findall(r"<label>[^<]+<input [^>]*>", shown)) == len(seen)
    assert 'aria-label="Take off 2027-03-05"' in shown
    assert shown.count("<h1>") == 1


@pytest.mark.parametrize("path", [HOURS, CALENDARS])
async def test_they_are_for_staff(world: HttpDeployment, path: str) -> None:
    """Customers get an error, and their forms change nothing."""
    customer = await world.signed_in_client(world.customer.id)
    assert (await customer.get(path, headers=PEOPLE)).status_code == 403
    for form, given in FORMS.items():
        error_body(await send(customer, form, **given), 403, "staff_only")
    assert f'href="{HOURS}"' not in (await customer.get("/")).text


@pytest.mark.parametrize(
    ("method", "path", "back"),
    [
        *(("GET", path, path) for path in (HOURS, CALENDARS)),
        *(("POST", path, HOURS) for path in (HOURS, DATES, CLEAR)),
        *(("POST", path, CALENDARS) for path in (MAKE, REVOKE, TAKE, FORGET)),
    ],
)
async def test_who_is_signed_out_is_led_back_by_the_sign_in(
    world: HttpDeployment, method: str, path: str, back: str
) -> None:
    """Signed-out requests, uploads included, lead to sign-in and back to the page."""
    file = {"files": {"file": bytes(100_000)}} if path == TAKE else {}
    answer = await world.client().request(method, path, **file)  # type: ignore[arg-type]
    assert answer.status_code == 303
    assert answer.headers["location"].startswith(SIGN_IN)
    assert httpx.URL(answer.headers["location"]).params["next"] == back


@pytest.mark.parametrize("path", FORMS)
async def test_a_form_of_somebody_else_does_nothing(world: HttpDeployment, path: str) -> None:
    """A form without the session's CSRF token is 403 and changes nothing."""
    staff = await set_up(world)
    await send(staff, MAKE)
    await send(staff, TAKE, file=DAY_OFF)
    before = [await kept(staff), json_body(await staff.get(FEED)), await busy(staff)]
    world.clock.advance(HOUR)
    more = {"file": GOOGLE_CALENDAR} if path == TAKE else {}
    for forged in ("x", ""):
        answer = await send(staff, path, csrf=forged, **FORMS[path], **more)
        error_body(answer, 403, "csrf_failed")
    assert [await kept(staff), json_body(await staff.get(FEED)), await busy(staff)] == before


async def test_forms_count_as_calls_do(world: HttpDeployment) -> None:
    """Forms count against the user's general rate limit and keep the submitted text."""
    world.raise_limits(general=RateLimit("general", 1, HOUR))
    staff = await set_up(world)
    for path, given in FORMS.items():
        more = {"file": GOOGLE_CALENDAR} if path == TAKE else {}
        answer = await send(staff, path, **given, **more)
        assert answer.status_code == 429
        if path == HOURS:
            assert filled(answer.text)["monday"] == given["monday"]
