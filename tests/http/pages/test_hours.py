"""Tests of the weekly and date hours pages and of who may use them."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest

from staffbooking_adapters.testing.builders import HOUR
from staffbooking_core.domain.shared.rate_limits import RateLimit
from tests.http.companions.test_calendars import BUSY, DAY_OFF, FEED
from tests.http.deployment import HttpDeployment, error_body, json_body
from tests.http.pages.test_account import SIGN_IN, link
from tests.http.pages.test_bookings import PEOPLE
from tests.support.ics import GOOGLE_CALENDAR

pytestmark = pytest.mark.anyio

HOURS, DATES, LIMITS = "/staff/hours", "/staff/hours/dates", "/staff/hours/limits"
CALENDARS, MAKE, TAKE = "/staff/calendars", "/staff/calendars/feed", "/staff/calendars/busy"
REVOKE, FORGET = f"{MAKE}/revoke", f"{TAKE}/forget"
FORMS = {
    HOURS: {"timezone": "Europe/Lisbon", "from-0-0": "09:00", "to-0-0": "12:00"},
    DATES: {"first": "2027-03-04", "last": "2027-03-04", "kind": "closed"},
    LIMITS: {"buffer_minutes": "60", "min_notice_hours": "4", "horizon_days": "90"},
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
    """The times that a page's rows of hours show, by the names of their fields."""
    shown = text.partition("<template")[0]
    return dict(re.findall(r'name="((?:from|to)-[^"]+)" type="time" value="([^"]*)"', shown))


def rows(**days: str) -> dict[str, str]:
    """The fields of rows such as `d0="09:00-12:00 22:00-02:00"`: Monday is 0."""
    fields: dict[str, str] = {}
    for key, text in days.items():
        for number, part in enumerate(text.split()):
            start, _, end = part.partition("-")
            place = f"{key[1:]}-{number}"
            fields |= {f"from-{place}": start, f"to-{place}": end}
    return fields


def alert(answer: httpx.Response) -> str:
    found = re.search('role="alert">([^<]*)<', answer.text)
    assert found, answer.text
    return html.unescape(found[1])


def faults(answer: httpx.Response) -> dict[str, str]:
    """The faults in a page's summary, by label, which all stand at their fields too."""
    found = re.findall(r'<li><a href="#f-([^"]+)">([^<]*)</a>: ([^<]*)</li>', answer.text)
    for name, _, _ in found:
        assert f'id="f-{name}"' in answer.text
        assert f'id="e-{name}"' in answer.text
    return {html.unescape(label): html.unescape(message) for _, label, message in found}


async def done(client: httpx.AsyncClient, answer: httpx.Response) -> str:
    """The success message of the page that a form redirects to."""
    assert answer.status_code == 303, answer.text
    return (await client.get(answer.headers["location"])).text


# Weekly hours ---------------------------------------------------------------------------

NIGHT_SLOTS = [
    {"weekday": 0, "start": "00:00", "end": "02:00"},
    {"weekday": 4, "start": "22:00", "end": "24:00"},
    {"weekday": 5, "start": "00:00", "end": "02:00"},
    {"weekday": 6, "start": "22:00", "end": "24:00"},
]


async def test_staff_see_their_hours(each_world: HttpDeployment) -> None:
    """Every page links to the hours page, which shows each day's hours as rows in order."""
    staff = await set_up(each_world)
    shown = (await staff.get(link(await staff.get("/"), HOURS))).text
    assert filled(shown) == rows(d0="09:00-12:00 13:00-18:30", d6="20:00-00:00")
    assert '<option value="Europe/Zurich" selected>Zurich (UTC+1)</option>' in shown
    assert 'value="weekly" checked' in shown


async def test_a_night_is_one_row(each_world: HttpDeployment) -> None:
    """Slots that meet at midnight are shown as one row, also from Sunday to Monday, and saved as
    slots of days again."""
    staff = await set_up(each_world, weekly=NIGHT_SLOTS)
    shown = (await staff.get(HOURS)).text
    assert filled(shown) == rows(d4="22:00-02:00", d6="22:00-02:00")
    assert len(re.findall(r'next-day">ends the next day<', shown)) == 2
    sent = await send(staff, HOURS, timezone="Europe/Zurich", **filled(shown))
    assert "Your hours are saved." in await done(staff, sent)
    assert await kept(staff) == {**SET, "weekly": NIGHT_SLOTS}


async def test_hours_are_saved(each_world: HttpDeployment) -> None:
    """Saved weekly hours are returned by the API; hours of single dates and booking limits stay."""
    staff = await set_up(each_world)
    given = {"timezone": "Asia/Tokyo", **rows(d1="09:00-12:00 13:00-00:00", d2="00:00-00:00")}
    assert (await send(staff, HOURS, **given)).status_code == 303
    assert await kept(staff) == {
        **SET,
        "timezone": "Asia/Tokyo",
        "weekly": [
            {"weekday": 1, "start": "09:00", "end": "12:00"},
            {"weekday": 1, "start": "13:00", "end": "24:00"},
            {"weekday": 2, "start": "00:00", "end": "24:00"},
        ],
    }


async def test_who_is_free_at_any_time_says_so(world: HttpDeployment) -> None:
    """Any time is a choice of its own, which wins over rows; a week without hours is refused."""
    staff = await member(world)
    shown = (await staff.get(HOURS)).text
    assert 'value="always" checked' in shown
    refused = await send(staff, HOURS, timezone="UTC", when="weekly")
    assert refused.status_code == 422
    assert faults(refused) == {"Your week": "It needs hours on at least one day."}
    staff = await set_up(world)
    sent = await send(staff, HOURS, timezone="UTC", when="always", **rows(d1="09:00-12:00"))
    assert sent.status_code == 303
    assert (await kept(staff))["weekly"] == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (rows(d3="09:00-09:00"), {"Thursday, to": "It must differ from the start."}),
        (rows(d3="09:00-"), {"Thursday, to": "Fill this in."}),
        (
            rows(d3="-12:00 13:00-"),
            {"Thursday, from": "Fill this in.", "Thursday, to": "Fill this in."},
        ),
        (rows(d3="9AM-17:00"), {"Thursday, from": "Enter a time such as 18:30."}),
        (rows(d3="09:00-24:00"), {"Thursday, to": "Enter a time such as 18:30."}),
        (rows(d3="<i>-\u202e1:00"), None),
        (
            rows(d3="09:00-12:00 11:00-13:00"),
            {"Thursday, from": "It must not overlap other hours."},
        ),
        (
            rows(d3="22:00-03:00", d4="02:00-05:00"),
            {"Friday, from": "It must not overlap other hours."},
        ),
        (
            rows(d6="22:00-03:00", d0="02:00-05:00"),
            {"Sunday, from": "It must not overlap other hours."},
        ),
        (rows(d3=" ".join(["00:00-01:00"] * 51)), {"Your week": "Give 0 to 50 of them."}),
        (rows(d3=" ".join(["00:00-01:00"] * 900)), {"Your week": "It has too many hours."}),
    ],
)
async def test_what_is_wrong_with_hours_is_told_at_the_field(
    world: HttpDeployment, given: dict[str, str], told: dict[str, str] | None
) -> None:
    """Invalid hours keep the submitted form and save nothing."""
    staff = await set_up(world)
    answer = await send(staff, HOURS, timezone="Asia/Tokyo", **given)
    assert answer.status_code in (400, 422)
    if told is None:
        assert len(faults(answer)) == 2
    else:
        assert faults(answer) == told
    if len(given) < 400:
        assert {name: value for name, value in given.items() if value}.items() <= {
            name: html.unescape(value) for name, value in filled(answer.text).items()
        }.items()
    assert "<i>" not in answer.text
    assert await kept(staff) == SET


@pytest.mark.parametrize(
    ("timezone", "told"),
    [
        ("", "Fill this in."),
        ("europe/zurich", "Choose a time zone from the list."),
        ("../etc/passwd", "Choose a time zone from the list."),
    ],
)
async def test_a_zone_is_one_of_the_list(world: HttpDeployment, timezone: str, told: str) -> None:
    """An unknown time zone name is rejected and saves nothing."""
    staff = await set_up(world)
    answer = await send(staff, HOURS, timezone=timezone, **rows(d0="09:00-12:00"))
    assert answer.status_code in (400, 422)
    assert faults(answer) == {"Time zone": told}
    assert filled(answer.text) == rows(d0="09:00-12:00")
    assert await kept(staff) == SET


@pytest.mark.parametrize(
    ("step", "left"),
    [
        ("add-1", rows(d0="09:00-12:00 22:00-02:00", d1="09:00-17:00")),
        ("add-0", {**rows(d0="09:00-12:00 22:00-02:00 -"), "from-0-2": "", "to-0-2": ""}),
        ("remove-0-0", rows(d0="22:00-02:00")),
        ("remove-0-9", rows(d0="09:00-12:00 22:00-02:00")),
        ("copy", rows(**{f"d{key}": "09:00-12:00 22:00-02:00" for key in range(5)})),
        ("<b>", rows(d0="09:00-12:00 22:00-02:00")),
    ],
)
async def test_rows_change_without_a_script(
    world: HttpDeployment, step: str, left: dict[str, str]
) -> None:
    """Buttons add, remove and copy rows of the form, which is saved by its own button alone."""
    staff = await set_up(world)
    given = {"timezone": "Asia/Tokyo", **rows(d0="09:00-12:00 22:00-02:00")}
    shown = await done(staff, await send(staff, HOURS, step=step, **given))
    assert filled(shown) == left
    assert "Not saved yet." in shown
    assert '<option value="Asia/Tokyo" selected>' in shown
    assert await kept(staff) == SET


# Access ---------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [HOURS, DATES, CALENDARS])
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
        *(("GET", path, path) for path in (HOURS, DATES, CALENDARS)),
        ("POST", HOURS, HOURS),
        *(("POST", path, DATES) for path in (DATES, LIMITS)),
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
            assert filled(answer.text) == rows(d0="09:00-12:00")
