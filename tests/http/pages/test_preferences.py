"""Tests of language, theme and time zone, and of the devices of sessions."""

from __future__ import annotations

import httpx
import pytest

from staffbooking_adapters.testing.builders import add_booking
from staffbooking_http.pages.locales import find_locale
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_bookings import PEOPLE
from tests.http.pages.test_settings import PREFERENCES, SESSIONS, send, sign_in

pytestmark = pytest.mark.anyio

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0"


async def test_the_account_keeps_the_choice(each_world: HttpDeployment) -> None:
    """Theme, language and time zone hold on every page, in each browser of the person, until they
    are chosen otherwise; the export has them."""
    client = await sign_in(each_world)
    sent = await send(client, PREFERENCES, theme="dark", language="en", timezone="Europe/Lisbon")
    assert (sent.status_code, sent.headers["location"]) == (303, f"{PREFERENCES}?saved")
    elsewhere = await sign_in(each_world)
    assert 'data-theme="dark"' in (await elsewhere.get("/")).text
    assert "(Lisbon)" in (await elsewhere.get(SESSIONS)).text
    kept = json_body(await elsewhere.get("/account/export"))["settings"]
    assert kept == {"language": "en", "theme": "dark", "timezone": "Europe/Lisbon"}
    await send(client, PREFERENCES)
    assert "data-theme" not in (await elsewhere.get("/")).text
    assert "(UTC)" in (await elsewhere.get(SESSIONS)).text


async def test_a_choice_in_the_footer_keeps_the_place(world: HttpDeployment) -> None:
    """The language and the look that are chosen on a page of a list lead back to that page."""
    client = await sign_in(world)
    shown = (await client.get("/history?status=paid&page=2")).text
    for choice in ("language", "theme"):
        assert f"/preferences/{choice}?next=/history%3Fstatus%3Dpaid%26page%3D2" in shown


async def test_messages_have_the_chosen_zone(world: HttpDeployment) -> None:
    """Messages stand under days of the account's time zone, else of that of the booking."""
    await add_booking(world.store, world.companion, world.customer, timezone="Europe/Lisbon")
    client = await sign_in(world)
    answer = await client.get(f"/conversations/with/{world.companion.id}")
    chat = answer.headers["location"].partition("#")[0]
    await send(client, chat, content="Good day")
    assert "(Lisbon)</time>" in (await client.get(chat)).text
    await send(client, PREFERENCES, timezone="Asia/Tokyo")
    assert "(Tokyo)</time>" in (await client.get(chat)).text


async def test_a_choice_in_the_footer_is_the_accounts(world: HttpDeployment) -> None:
    """Who is signed in chooses for the account, wherever it is chosen."""
    client = await sign_in(world)
    await client.post("/preferences/theme?next=/find", data={"theme": "light"})
    assert 'data-theme="light"' in (await (await sign_in(world)).get("/")).text


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"timezone": "Mars/Olympus"}, "timezone"),
        ({"language": "xx"}, "language"),
        ({"theme": "\u202epink"}, "theme"),
        ({"timezone": "a" * 5000}, "timezone"),
    ],
)
async def test_what_is_no_choice_is_told_at_its_field(
    world: HttpDeployment, given: dict[str, str], field: str
) -> None:
    """A forged choice is 422 with the fault at its field, and nothing changes."""
    client = await sign_in(world)
    sent = await client.post(
        PREFERENCES, data={"csrf": await csrf_of(client), "theme": "dark", **given}, headers=PEOPLE
    )
    assert (sent.status_code, f'href="#f-{field}"' in sent.text) == (422, True)
    assert "data-theme" not in (await client.get("/")).text


async def csrf_of(client: httpx.AsyncClient) -> str:
    return str(json_body(await client.get("/auth/session"))["csrf_token"])


async def test_sessions_name_their_device(each_world: HttpDeployment) -> None:
    """A session is told by its browser and its system."""
    here, there = await sign_in(each_world), each_world.client()
    there.headers["user-agent"] = FIREFOX
    signed_in = await there.post(
        "/auth/login", json={"email": "ada@example.com", "password": "correct horse"}
    )
    assert signed_in.status_code == 200
    shown = (await here.get(SESSIONS)).text
    assert "Firefox on Linux" in shown
    exported = json_body(await here.get("/account/export"))["sessions"]
    assert {"Firefox", "Python"} == {each["browser"] for each in exported}
    assert "browser" not in json_body(await here.get("/auth/sessions"))["sessions"][0]


def test_a_chosen_language_keeps_the_formats_of_the_browser() -> None:
    """The language is the visitor's choice; its formats are those that the browser wants."""
    assert find_locale("en-US, de", "en").formats.territory == "US"
    assert find_locale("fr, en-GB;q=0.5", "").formats.territory == "GB"
    assert find_locale("de", "xx").language == find_locale("de", "").language
