"""Tests of the calendar feed and busy times pages."""

from __future__ import annotations

import re

import pytest

from staffbooking_adapters.testing.builders import NOW, POLICY
from staffbooking_http.api import upload_limits
from tests.http.companions.test_calendars import BUSY, DAY_OFF, FEED
from tests.http.deployment import BASE_URL, HttpDeployment, error_body, json_body
from tests.http.pages.test_account import link
from tests.http.pages.test_hours import (
    CALENDARS,
    FORGET,
    HOURS,
    MAKE,
    REVOKE,
    TAKE,
    busy,
    done,
    member,
    send,
    set_up,
)
from tests.support.html_pages import page_text
from tests.support.ics import GOOGLE_CALENDAR, make_ics_calendar, make_ics_hour

pytestmark = pytest.mark.anyio


def shown_feed(markup: str) -> str:
    """The path of the feed's address, as the page shows it once."""
    found = re.search(f'<code id="feed-url"[^>]*>{BASE_URL}(/calendars/[^<]+)<', markup)
    assert found
    return found[1]


# The feed -------------------------------------------------------------------------------


async def test_a_feed_is_made_shown_once_and_revoked(each_world: HttpDeployment) -> None:
    """The feed URL is shown once and works until it is revoked."""
    staff = await member(each_world)
    shown = await staff.get(link(await staff.get(HOURS), CALENDARS))
    assert f'action="{REVOKE}"' not in shown.text
    made = await send(staff, MAKE)
    assert (made.status_code, made.headers["cache-control"]) == (200, "no-store")
    path = shown_feed(made.text)
    assert f"webcal://{BASE_URL.partition('://')[2]}{path}" in made.text
    nobody = each_world.client()
    assert (await nobody.get(path)).content.startswith(b"BEGIN:VCALENDAR")
    shown = await staff.get(CALENDARS)
    assert "You have a feed since 1 Mar 2027, 12:00 (" in page_text(shown.text)
    assert "/calendars/" not in shown.text.replace("/staff/calendars/", "")
    assert "The feed is revoked" in await done(staff, await send(staff, REVOKE))
    error_body(await nobody.get(path), 404, "not_found")
    assert json_body(await staff.get(FEED)) == {"feed": None}


async def test_a_new_feed_takes_the_place_of_the_old(world: HttpDeployment) -> None:
    """Creating a feed again invalidates the previous URL."""
    staff, nobody = await member(world), world.client()
    old, new = [shown_feed((await send(staff, MAKE)).text) for _ in range(2)]
    error_body(await nobody.get(old), 404, "not_found")
    assert (await nobody.get(new)).status_code == 200


# Busy times -----------------------------------------------------------------------------


async def test_busy_times_are_taken_from_a_file(each_world: HttpDeployment) -> None:
    """Imported busy times are counted, apply as through the API, and can be deleted."""
    staff = await member(each_world)
    shown = await done(staff, await send(staff, TAKE, file=DAY_OFF))
    assert "The file is imported. 1 event was read. 1 blocks your time." in page_text(shown)
    assert "1 busy time · looked for until 2 Mar 2029" in page_text(shown)
    path = f"/api/v1/companions/{each_world.companion.id}/availability"
    span = {"start_date": "2027-03-03", "end_date": "2027-03-04"}
    found = json_body(await each_world.client_with_key().get(path, params=span))["availability"]
    assert [day["available"] for day in found] == [False, True]
    shown = await done(staff, await send(staff, FORGET))
    assert "The busy times of the file are removed." in shown
    assert "looked for until" not in shown
    assert await busy(staff) == {"busy_times": [], "until": None}


async def test_the_next_busy_times_are_listed(world: HttpDeployment) -> None:
    """At most ten busy times of all calendars are listed from the current one on, in local time."""
    events = [make_ics_hour(f"202703{number:02}T113000Z") for number in range(1, 13)]
    past = make_ics_hour("20270301T090000Z")
    staff = await set_up(world)
    shown = await done(staff, await send(staff, TAKE, file=make_ics_calendar(past, *events)))
    text = page_text(shown)
    assert "12 busy times" in text
    assert "In the local time of Zurich." in text
    listed = re.findall(r"12:30\s(?:PM )?to 13:30|12:30.{0,4} to 1:30.{0,4}", text)
    assert len(listed) == 10
    assert "and 2 more" in text


async def test_what_was_left_out_of_a_file_is_told_with_the_reasons(world: HttpDeployment) -> None:
    """After an import, the page tells how many events were read, and why others block nothing."""
    content = make_ics_calendar(
        make_ics_hour("20270303T090000Z"),
        make_ics_hour("20270304T090000Z", "TRANSP:TRANSPARENT"),
        make_ics_hour("20270305T090000Z", "STATUS:CANCELLED"),
        make_ics_hour("20260301T090000Z"),
        make_ics_hour("20260302T090000Z"),
        make_ics_hour("20310302T090000Z"),
        "DTSTART:20270310T090000Z",
    )
    staff = await member(world)
    text = page_text(await done(staff, await send(staff, TAKE, file=content)))
    assert "7 events were read. 1 blocks your time. 6 were left out:" in text
    for told in (
        *("2 are in the past", "1 is marked as free in your calendar", "1 is cancelled"),
        *("1 is after 2 Mar 2029", "1 ends when it starts"),
    ):
        assert told in text, text
    text = page_text(await done(staff, await send(staff, TAKE, file=make_ics_calendar())))
    assert "The file is imported. It has no events." in text


@pytest.mark.parametrize(
    "query", ["taken&events=x", "taken&past=-1", "taken&events=9" + "9" * 5000, "taken=&events=1"]
)
async def test_wrong_counts_in_the_address_are_not_shown(world: HttpDeployment, query: str) -> None:
    """A changed address of the page shows no message about an import."""
    staff = await member(world)
    shown = await staff.get(f"{CALENDARS}?{query}")
    assert (shown.status_code, "The file is imported" in shown.text) == (200, False)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("DTSTART;VALUE=DATE:20270303", "3 Mar 2027 All day"),
        ("DTSTART;VALUE=DATE:20270303\nDTEND;VALUE=DATE:20270306", "All day, until Fri, 5 Mar"),
        ("DTSTART:20270303T220000Z\nDURATION:PT3H", "22:00 to 01:00 on Thu, 4 Mar"),
    ],
)
async def test_a_busy_time_tells_when_it_ends(world: HttpDeployment, lines: str, told: str) -> None:
    """A busy time over several days shows its last day, and whole days show no time."""
    staff = await member(world)
    shown = await done(staff, await send(staff, TAKE, file=make_ics_calendar(lines)))
    text = page_text(shown)
    assert told in text, text


BOMB = make_ics_calendar(make_ics_hour("20270303T090000Z", "RRULE:FREQ=SECONDLY"))


@pytest.mark.parametrize(
    ("content", "status", "told"),
    [
        (b"hello", 422, "It is not an iCalendar file."),
        (b"", 422, "Calendar file (.ics)"),
        (b"\xff", 422, "It is not in UTF-8."),
        (BOMB, 422, "Calendar file (.ics) : "),
        (None, 415, "The body must be multipart/form-data."),
        (bytes(POLICY.max_calendar_bytes + 1), 413, "Choose a smaller file, of at most 1 MB."),
        (bytes(2 * POLICY.max_calendar_bytes), 413, "Choose a smaller file, of at most 1 MB."),
    ],
)
async def test_a_file_that_is_refused_is_told_on_the_page(
    world: HttpDeployment, content: bytes | None, status: int, told: str
) -> None:
    """A rejected file is an error and keeps the previous busy times."""
    staff = await member(world)
    await send(staff, TAKE, file=DAY_OFF)
    before = await busy(staff)
    answer = await send(staff, TAKE, file=content)
    text = page_text(answer.text)
    assert (answer.status_code, told in text) == (status, True), text
    assert "1 busy time ·" in text
    assert await busy(staff) == before


async def test_what_is_too_large_ends_the_connection(world: HttpDeployment) -> None:
    """An oversized upload is 413 and closes the connection with its unread rest."""
    answer = await send(await member(world), TAKE, file=bytes(2 * POLICY.max_calendar_bytes))
    assert (answer.status_code, answer.headers["connection"]) == (413, "close")


async def test_a_part_without_a_name_proves_nothing(world: HttpDeployment) -> None:
    """A CSRF token in a form part without a name is rejected."""
    staff = await member(world)
    boundary = {"content-type": "multipart/form-data; boundary=line"}
    token = f"--line\r\ncontent-disposition: form-data\r\n\r\n{staff.headers['x-csrf-token']}\r\n"
    named = '--line\r\ncontent-disposition: form-data; name="csrf"\r\n\r\nx\r\n'
    file = '--line\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nx'
    for parts in (token, token + named):
        form = f"{parts}{file}\r\n--line--\r\n".encode()
        answer = await staff.post(TAKE, content=form, headers=boundary)
        error_body(answer, 403, "csrf_failed")


async def test_a_form_without_a_file_is_told(world: HttpDeployment) -> None:
    """A file part with an empty name, as browsers send it, counts as missing."""
    staff = await member(world)
    boundary = {"content-type": "multipart/form-data; boundary=line"}
    part = '--line\r\ncontent-disposition: form-data; name="file"; filename=""\r\n\r\n\r\n'
    answer = await staff.post(TAKE, content=f"{part}--line--\r\n".encode(), headers=boundary)
    assert answer.status_code == 400
    assert "Calendar file (.ics) : Fill this in." in page_text(answer.text)


async def test_files_of_pages_and_programs_take_the_same_turns(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages share the API's upload limiter; a timeout is 429 and can be retried."""
    monkeypatch.setattr(upload_limits, "SLOT_TIMEOUT_SECONDS", 0.05)
    world.app.site.upload_limiters[BUSY] = upload_limits.UploadLimiter(1)
    staff = await member(world)
    async with world.app.site.upload_limiters[BUSY].hold_work_slot(NOW):
        answer = await send(staff, TAKE, file=GOOGLE_CALENDAR)
    assert (answer.status_code, "That was too often." in answer.text) == (429, True)
    assert (await send(staff, TAKE, file=GOOGLE_CALENDAR)).status_code == 303


async def test_a_page_tells_what_happened_there_alone(world: HttpDeployment) -> None:
    """A page ignores the flash codes of the other page."""
    staff = await member(world)
    for path, word in ((HOURS, "forgotten"), (CALENDARS, "cleared")):
        assert 'role="status"' not in (await staff.get(f"{path}?{word}")).text
