"""Calendar feeds and busy times over HTTP (CONTRACT 3)."""

from __future__ import annotations

from typing import Any

import httpx
import icalendar
import pytest
from attrs import evolve
from vobject.base import readOne

from staffbooking_adapters.testing.builders import HOUR, NOW, POLICY
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases.bookings import disabling
from staffbooking_http.api import upload_limits
from tests.http.deployment import BASE_URL, HttpDeployment, error_body, error_fields, json_body
from tests.support.ics import GOOGLE_CALENDAR, make_ics_calendar, make_ics_hour

pytestmark = pytest.mark.anyio

FEED, BUSY = "/staff/calendar-feed", "/staff/busy-times"
ICS = {"content-type": "text/calendar; charset=utf-8"}
NOBODY = {"feed": None}
DAY_OFF = make_ics_calendar("DTSTART;VALUE=DATE:20270303")


async def staff(world: HttpDeployment) -> httpx.AsyncClient:
    return await world.signed_in_client(world.companion.id)


async def make(client: httpx.AsyncClient) -> str:
    """The path of a new feed."""
    answer = json_body(await client.post(FEED), 201)
    assert answer["success"] is True
    path: str = answer["url"].removeprefix(BASE_URL)
    return path


async def take(client: httpx.AsyncClient, content: bytes) -> Any:
    return json_body(await client.post(BUSY, content=content, headers=ICS))


# Feeds ----------------------------------------------------------------------------------


async def test_a_booking_is_read_back_by_parsers(each_world: HttpDeployment) -> None:
    """Two iCalendar libraries read an accepted booking from the feed, without the customer's email
    address."""
    async with await staff(each_world) as browser, each_world.client_with_key() as program:
        path = await make(browser)
        asked = json_body(
            await program.post("/api/v1/bookings", json=each_world.request_body()), 201
        )
        booking = asked["booking"]
        json_body(await browser.post(f"/bookings/{booking['id']}/accept"))
        async with each_world.client() as calendars:
            answer = await calendars.get(path)
    event: Any = icalendar.Calendar.from_ical(answer.content).walk("VEVENT")[0]
    other = readOne(answer.text).vevent
    assert f"{event['DTSTART'].dt:%Y-%m-%dT%H:%M:%SZ}" == booking["starts_at"]
    assert (str(event["SUMMARY"]), str(event["STATUS"])) == ("Gala dinner: Ada Okoro", "CONFIRMED")
    assert other.location.value == "Rua Augusta 1, Lisbon"
    assert other.uid.value == f"{booking['booking_code']}@127.0.0.1"
    assert "ada@example.com" not in answer.text


async def test_a_feed_is_created_shown_and_revoked(each_world: HttpDeployment) -> None:
    """A feed's address is only in the response that creates it, and is 404 once revoked."""
    async with await staff(each_world) as browser:
        assert json_body(await browser.get(FEED)) == NOBODY
        made = json_body(await browser.post(FEED), 201)
        assert made["feed"] == {"created_at": "2027-03-01T12:00:00Z"}
        assert made["url"].startswith(f"{BASE_URL}/calendars/")
        assert made["url"].endswith(".ics")
        assert json_body(await browser.get(FEED)) == {"feed": made["feed"]}
        path = made["url"].removeprefix(BASE_URL)
        assert (await browser.get(path)).status_code == 200
        assert json_body(await browser.delete(FEED)) == {"success": True}
        assert json_body(await browser.get(FEED)) == NOBODY
        error_body(await browser.get(path), 404, "not_found")


async def test_a_new_feed_ends_the_old(each_world: HttpDeployment) -> None:
    """A new feed makes the old address 404."""
    async with await staff(each_world) as browser:
        old, new = await make(browser), await make(browser)
        error_body(await browser.get(old), 404, "not_found")
        assert (await browser.get(new)).status_code == 200


async def test_a_feed_has_its_headers(world: HttpDeployment) -> None:
    """A feed has the media type text/calendar, is cached privately for five minutes, and supports
    HEAD."""
    async with await staff(world) as browser, world.client() as program:
        path = await make(browser)
        answer = await program.get(path)
        head = await program.head(path)
    assert answer.headers["content-type"] == "text/calendar; charset=utf-8"
    assert answer.headers.get_list("cache-control") == ["private, max-age=300"]
    assert answer.content.startswith(b"BEGIN:VCALENDAR\r\n")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(answer.content))


async def test_an_unchanged_feed_is_304(world: HttpDeployment) -> None:
    """A feed is 304 for its known tag, and 200 with another tag after a change."""
    async with await staff(world) as browser, world.client() as program:
        path = await make(browser)
        tag = (await program.get(path)).headers["etag"]
        for tags in (tag, f'"x", W/{tag}', "*"):
            known = await program.get(path, headers={"if-none-match": tags})
            assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", tag)
            assert known.headers["cache-control"] == "private, max-age=300"
        async with world.client_with_key() as agency:
            json_body(await agency.post("/api/v1/bookings", json=world.request_body()), 201)
        changed = await program.get(path, headers={"if-none-match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


async def test_a_wrong_feed_address_is_404(world: HttpDeployment) -> None:
    """Unknown addresses, and altered ones of a feed, are 404."""
    async with await staff(world) as browser, world.client() as program:
        path = await make(browser)
        secret = path.removeprefix("/calendars/").removesuffix(".ics")
        wrong = [secret, f"{secret}.ICS", f"{secret}.ics.ics", f"{secret[:-1]}.ics", ".ics"]
        for name in [*wrong, f"{secret}.txt", "unknown.ics", "%00.ics", "%ff.ics"]:
            error_body(await program.get(f"/calendars/{name}"), 404, "not_found")


async def test_a_disabled_users_feed_is_404(each_world: HttpDeployment) -> None:
    """The feed of a disabled user is 404."""
    async with await staff(each_world) as browser, each_world.client() as program:
        path = await make(browser)
        async with each_world.store.read_view() as view:
            user = await view.accounts.user(each_world.companion.id)
        assert user is not None
        await disabling.disable_user(each_world.ports, user.email)
        error_body(await program.get(path), 404, "not_found")


async def test_guessing_is_counted_by_address(world: HttpDeployment) -> None:
    """A request for an unknown feed counts in the general window of its IP address."""
    world.raise_limits(general=RateLimit("general", 3, HOUR))
    async with world.client() as guesser, world.client("203.0.113.10") as other:
        left = [
            (await guesser.get(f"/calendars/{number}.ics")).headers["x-ratelimit-remaining"]
            for number in range(3)
        ]
        assert left == ["2", "1", "0"]
        error_body(await guesser.get("/calendars/4.ics"), 429, "rate_limited")
        error_body(await other.get("/calendars/4.ics"), 404, "not_found")


async def test_the_secret_is_in_no_log_and_no_metric(
    world: HttpDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    """A feed's secret is in no log and no metric, also after an internal error."""
    async with await staff(world) as browser, world.client() as program:
        path = await make(browser)
        secret = path.removeprefix("/calendars/").removesuffix(".ics")
        assert (await program.get(path)).status_code == 200
        world.restart(calendars=None)
        async with world.client() as again:
            error_body(await again.get(path), 500, "internal")
            metrics = (await again.get("/metrics")).text
    assert "/calendars/{secret}.ics" in metrics
    assert "failed" in caplog.text
    assert secret not in metrics + caplog.text


# Busy times -----------------------------------------------------------------------------


async def test_busy_times_are_taken_listed_and_cleared(each_world: HttpDeployment) -> None:
    """An uploaded calendar replaces the busy times of the previous one, and they can be cleared."""
    async with await staff(each_world) as browser:
        assert json_body(await browser.get(BUSY)) == {"busy_times": [], "until": None}
        taken = await take(browser, GOOGLE_CALENDAR)
        assert taken == {"success": True, "busy_times": 6, "until": "2029-03-02"}
        await take(
            browser,
            make_ics_calendar(make_ics_hour("20270310T090000Z"), make_ics_hour("20270311T090000Z")),
        )
        assert json_body(await browser.get(BUSY)) == {
            "busy_times": [
                {"starts_at": "2027-03-10T09:00:00Z", "ends_at": "2027-03-10T10:00:00Z"},
                {"starts_at": "2027-03-11T09:00:00Z", "ends_at": "2027-03-11T10:00:00Z"},
            ],
            "until": "2029-03-02",
        }
        assert json_body(await browser.delete(BUSY)) == {"success": True}
        assert json_body(await browser.get(BUSY)) == {"busy_times": [], "until": None}


async def test_a_busy_day_is_not_found_and_not_booked(each_world: HttpDeployment) -> None:
    """A busy day is unavailable for search, availability and booking, and the next day is not."""
    async with await staff(each_world) as browser, each_world.client_with_key() as program:
        await take(browser, DAY_OFF)
        for day, found in (("2027-03-03", 0), ("2027-03-04", 1)):
            listed = json_body(await program.get("/api/v1/companions", params={"date": day}))
            assert len(listed["companions"]) == found
            path = f"/api/v1/companions/{each_world.companion.id}/availability"
            span = {"start_date": day, "end_date": day}
            shown = json_body(await program.get(path, params=span))["availability"]
            assert shown[0]["available"] is bool(found)
            body = each_world.request_body(event_date=day)
            answer = await program.post("/api/v1/bookings", json=body)
            assert answer.status_code == (201 if found else 400), answer.text


@pytest.mark.parametrize(
    "media", [None, "text/plain", "application/json", "text/calendar; charset=latin-1"]
)
async def test_other_media_types_are_refused(world: HttpDeployment, media: str | None) -> None:
    """A calendar of another media type, or of none, is 415."""
    async with await staff(world) as browser:
        headers = {} if media is None else {"content-type": media}
        answer = await browser.post(BUSY, content=DAY_OFF, headers=headers)
    error_body(answer, 415, "unsupported_media_type")


async def test_a_calendar_over_the_size_limit_is_413(world: HttpDeployment) -> None:
    """A calendar over the policy's size limit is 413 before its media type is checked."""
    world.restart(policy=evolve(POLICY, max_calendar_bytes=len(DAY_OFF)))
    async with await staff(world) as browser:
        await take(browser, DAY_OFF)
        answer = await browser.post(BUSY, content=DAY_OFF + b"\n")
    error_body(answer, 413, "body_too_large")


async def test_a_calendar_without_a_free_slot_is_429(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A calendar is 429 with a Retry-After header if no work slot becomes free in time."""
    monkeypatch.setattr(upload_limits, "SLOT_TIMEOUT_SECONDS", 0.05)
    world.app.site.upload_limiters[BUSY] = upload_limits.UploadLimiter(1)
    async with await staff(world) as browser:
        async with world.app.site.upload_limiters[BUSY].hold_work_slot(NOW):
            answer = await browser.post(BUSY, content=DAY_OFF, headers=ICS)
        error_body(answer, 429, "rate_limited")
        assert int(answer.headers["retry-after"]) > 0
        await take(browser, DAY_OFF)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"\xff",
        b"\x00",
        make_ics_calendar(make_ics_hour("20270303T090000Z", "RRULE:FREQ=SECONDLY")),
    ],
)
async def test_a_file_that_is_refused_changes_nothing(
    world: HttpDeployment, content: bytes
) -> None:
    """An invalid calendar is 422 on `file` and leaves the busy times unchanged."""
    async with await staff(world) as browser:
        await take(browser, DAY_OFF)
        before = json_body(await browser.get(BUSY))
        answer = await browser.post(BUSY, content=content, headers=ICS)
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == {"file"}
        assert json_body(await browser.get(BUSY)) == before


# Access -----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [FEED, BUSY])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
async def test_calendars_are_for_staff_with_a_session(
    world: HttpDeployment, method: str, path: str
) -> None:
    """Calendars are 403 for customers, 401 for keys and without credentials, and changes need the
    CSRF token."""
    given: dict[str, Any] = {"content": DAY_OFF, "headers": ICS} if method == "POST" else {}
    async with await world.signed_in_client(world.customer.id) as customer:
        error_body(await customer.request(method, path, **given), 403, "staff_only")
    async with world.client_with_key() as program:
        error_body(await program.request(method, path, **given), 401, "session_required")
    async with world.client() as nobody:
        error_body(await nobody.request(method, path, **given), 401, "unauthenticated")
    async with await staff(world) as forged:
        forged.headers["x-csrf-token"] = "x"
        answer = await forged.request(method, path, **given)
        if method == "GET":
            json_body(answer)
        else:
            error_body(answer, 403, "csrf_failed")


async def test_calendar_endpoints_are_documented(world: HttpDeployment) -> None:
    """The document has text/calendar for uploads and feeds, and feeds as public."""
    async with world.client() as client:
        paths = json_body(await client.get("/openapi.json"))["paths"]
    post = paths[BUSY]["post"]
    assert list(post["requestBody"]["content"]) == ["text/calendar"]
    feed = paths["/calendars/{secret}.ics"]["get"]
    assert feed["security"] == []
    assert list(feed["responses"]["200"]["content"]) == ["text/calendar"]
