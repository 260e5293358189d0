"""Tests of the profile page of staff members."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases.accounts import administration
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_account import csrf
from tests.support.builders import HOUR, add_user

pytestmark = pytest.mark.anyio

ME, WORK = "/staff/me", "/staff/showcase"
FILLED = {
    "first_name": "Mia",
    "last_name": "Lind",
    "tagline": "Calm in every rush",
    "bio": "Ten years\r\nbehind bars.",
    "hourly_rate": "40.5",
    "daily_rate": "300",
    "location_city": "Zürich",
    "location_country": "Switzerland",
    "service_types": "Bartender\r\n Host , Mime\r\n\r\n",
    "languages": "German\r\nEnglish",
    "years_experience": "10",
    "timezone": "Europe/Zurich",
}
STORED: dict[str, Any] = {
    **FILLED,
    "bio": "Ten years\nbehind bars.",
    "hourly_rate": 40.5,
    "daily_rate": 300,
    "service_types": ["Bartender", "Host", "Mime"],
    "languages": ["German", "English"],
    "years_experience": 10,
}
OPTIONAL = ("tagline", "bio", "daily_rate", "languages", "years_experience")


async def member(world: HttpDeployment, user: User | None = None) -> httpx.AsyncClient:
    """A client of the companion or of another staff member without the API's header."""
    client = await world.signed_in_client(world.companion.id if user is None else user.id)
    del client.headers["x-csrf-token"]
    return client


async def newcomer(world: HttpDeployment) -> User:
    """A newly registered staff member."""
    return await add_user(world.store, role=Role.STAFF, first_name="Maja", last_name="Lind")


async def send(client: httpx.AsyncClient, path: str, **given: str) -> httpx.Response:
    """Submit a page's form."""
    return await client.post(path, data={"csrf": csrf(await client.get(ME)), **given})


async def stored(client: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = json_body(await client.get("/staff/profile"))["profile"]
    return found


def filled(answer: httpx.Response) -> dict[str, str]:
    """The values of a page's fields by name."""
    tags = re.findall(r'<input name="(\w+)"[^>]* value="([^"]*)"', answer.text)
    areas = re.findall(r'<textarea name="(\w+)"[^>]*>\n(.*?)</textarea>', answer.text, re.DOTALL)
    zones = re.findall(r"<option selected>([^<]*)</option>", answer.text)
    texts = [*tags, *areas, *(("timezone", zone) for zone in zones)]
    return {name: html.unescape(text) for name, text in texts}


def problem(answer: httpx.Response) -> str:
    found = re.findall(r'role="alert">([^<]*)</p>', answer.text)
    assert len(found) == 1, answer.text
    return html.unescape(found[0])


# Profile --------------------------------------------------------------------------------


async def test_a_profile_is_shown_as_it_is_stored(each_world: HttpDeployment) -> None:
    """The form shows the stored profile, and every staff page links to it."""
    client = await member(each_world)
    assert f'href="{ME}"' in (await client.get("/")).text
    assert filled(await client.get(ME)) == {
        "first_name": "Mia",
        "last_name": "Lindqvist",
        "tagline": "",
        "bio": "",
        "hourly_rate": "100.00",
        "daily_rate": "700.00",
        "location_city": "Lisbon",
        "location_country": "Portugal",
        "service_types": "Gala dinner\nTrade fair",
        "languages": "English\nPortuguese",
        "years_experience": "",
        "timezone": "UTC",
    }


async def test_a_profile_is_saved_by_the_form(each_world: HttpDeployment) -> None:
    """All fields are saved, and the page confirms and shows them."""
    client = await member(each_world)
    sent = await send(client, ME, **FILLED)
    assert (sent.status_code, sent.headers["location"]) == (303, f"{ME}?saved")
    profile = await stored(client)
    assert profile == {**profile, **STORED}
    page = await client.get(sent.headers["location"])
    assert "Your profile is saved." in page.text
    assert filled(page) == {
        **{name: text.replace("\r", "") for name, text in FILLED.items()},
        "hourly_rate": "40.50",
        "daily_rate": "300.00",
        "service_types": "Bartender\nHost\nMime",
    }


async def test_an_unchanged_form_changes_nothing(world: HttpDeployment) -> None:
    """Submitting the shown form changes nothing, even with a comma in a language."""
    client = await world.signed_in_client(world.companion.id)
    odd = {"languages": ["Portuguese, Brazilian"], "profile_photo": "photos/a.jpg", "bio": "\n a\n"}
    json_body(await client.put("/staff/profile", json=odd))
    before = await stored(client)
    assert (await send(client, ME, **filled(await client.get(ME)))).status_code == 303
    assert await stored(client) == before


async def test_what_is_emptied_is_empty(each_world: HttpDeployment) -> None:
    """Empty fields, as browsers send them, clear the stored values."""
    client = await member(each_world)
    await send(client, ME, **FILLED)
    assert (await send(client, ME, **{**FILLED, **dict.fromkeys(OPTIONAL, "")})).status_code == 303
    profile = await stored(client)
    assert [profile[name] for name in OPTIONAL] == ["", "", None, [], None]
    assert set(filled(await client.get(ME)).items()) >= {(name, "") for name in OPTIONAL}


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("first_name", "First name: Fill this in."),
        ("last_name", "Last name: Fill this in."),
        ("hourly_rate", "Hourly rate: Fill this in."),
        ("location_city", "City: Fill this in."),
        ("location_country", "Country: Fill this in."),
        ("service_types", "List of services: Fill this in."),
        ("timezone", "Time zone: Fill this in."),
    ],
)
async def test_what_an_approval_needs_is_not_emptied(
    world: HttpDeployment, field: str, told: str
) -> None:
    """Clearing a field that approval needs is an error and saves nothing."""
    client = await member(world)
    before = await stored(client)
    refused = await send(client, ME, **{**FILLED, field: ""})
    assert (refused.status_code, problem(refused)) == (400, told)
    assert await stored(client) == before


@pytest.mark.parametrize(
    ("field", "text", "told"),
    [
        ("first_name", "x" * 101, "First name: Use at most 100 characters."),
        ("hourly_rate", "a lot", "Hourly rate: Enter a number."),
        ("hourly_rate", "9" * 5000, "Hourly rate: Enter a number."),
        ("hourly_rate", "0", "Hourly rate: Enter a number above 0, at most 1000000."),
        ("daily_rate", "1e3", "Daily rate: Enter a number."),
        ("daily_rate", "-5.5", "Daily rate: Enter a number above 0, at most 1000000."),
        ("hourly_rate", "1.234", "Hourly rate has more than 2 decimals."),
        ("years_experience", "2.5", "Years of experience: Enter a whole number."),
        ("years_experience", "81", "Years of experience: Enter a number from 0 to 80."),
        ("service_types", " , \n,", "List of services: Fill this in."),
        ("service_types", "Host\nhost", "List of services: Name each only once."),
        ("languages", "Greek\n" + "x" * 101, "Languages: 2: Use at most 100 characters."),
        ("timezone", "Mars", "Time zone: Choose a time zone from the list."),
        ("bio", "x" * 5001, "Bio: Use at most 5000 characters."),
    ],
)
async def test_invalid_input_is_an_error_in_the_form(
    world: HttpDeployment, field: str, text: str, told: str
) -> None:
    """Invalid input keeps all submitted fields in the form and saves nothing."""
    client = await member(world)
    before = await stored(client)
    given = {**FILLED, "bio": '"<b>\nA', field: text}
    refused = await send(client, ME, **given)
    assert problem(refused) == told
    assert refused.status_code == (400 if "Fill this in" in told else 422)
    assert filled(refused) == {name: each.replace("\r", "") for name, each in given.items()}
    assert await stored(client) == before


async def test_texts_are_no_markup(world: HttpDeployment) -> None:
    """Profile texts are escaped."""
    client = await member(world)
    said = '</textarea>"><b>'
    await send(client, ME, **{**FILLED, "bio": said, "tagline": said, "service_types": said})
    page = await client.get(ME)
    assert {filled(page)[name] for name in ("bio", "tagline", "service_types")} == {said}
    assert said not in page.text


async def test_a_spent_window_loses_no_words(world: HttpDeployment) -> None:
    """Over the rate limit, the form shows the retry time and keeps the text."""
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    client = await member(world)
    assert (await send(client, ME, **FILLED)).status_code == 303
    refused = await send(client, ME, **{**FILLED, "bio": "Kind"})
    assert (refused.status_code, filled(refused)["bio"]) == (429, "Kind")
    assert "Try again in 60 minutes." in refused.text


async def test_the_page_shows_the_profiles_status(each_world: HttpDeployment) -> None:
    """The page shows whether a profile is incomplete, pending, approved or suspended."""
    maja = await newcomer(each_world)
    client = await member(each_world, maja)
    page = (await client.get(ME)).text
    assert "still needs: Hourly rate, City, Country, List of services." in page
    await send(client, ME, **FILLED)
    public = f"/companions/{maja.id}"
    page = (await client.get(ME)).text
    assert ("waits for an operator" in page, public in page) == (True, False)
    await administration.set_approval(each_world.ports, maja.id, Approval.APPROVED)
    page = (await client.get(ME)).text
    assert ("Customers find you." in page, f'href="{public}"' in page) == (True, True)
    assert (await client.get(public)).status_code == 200
    await administration.set_approval(each_world.ports, maja.id, Approval.SUSPENDED)
    page = (await client.get(ME)).text
    assert ("has suspended it" in page, public in page) == (True, False)


async def test_services_of_others_are_listed(world: HttpDeployment) -> None:
    """The services of approved companions are listed; without any there is no list."""
    client = await member(world, await newcomer(world))
    assert "Gala dinner, Trade fair" in (await client.get(ME)).text
    await administration.set_approval(world.ports, world.companion.id, Approval.SUSPENDED)
    assert "What others offer" not in (await client.get(ME)).text


async def test_rates_have_the_currencys_decimals(world: HttpDeployment) -> None:
    """A rate field names the currency and has its decimals as the step."""
    client = await member(world)
    assert re.search(r'Hourly rate, USD\s+<input [^>]*step="0.01"', (await client.get(ME)).text)


@pytest.mark.parametrize("path", [ME, WORK])
async def test_every_field_has_a_label(world: HttpDeployment, path: str) -> None:
    """A label encloses every field."""
    text = (await (await member(world)).get(path)).text
    main = text[text.index("<main") :]
    without = re.sub(r'<label.*?</label>|<input type="hidden"[^>]*>', "", main, flags=re.DOTALL)
    assert not re.search("<(input|textarea|select)", without)
    assert len(re.findall("<h1", text)) == 1


async def test_a_form_after_the_session_is_sent_after_signing_in(
    each_world: HttpDeployment,
) -> None:
    """A form submitted after the session ended is shown once its author has signed in again, and
    is sent by one button."""
    client, password = each_world.client(), "a long password"
    maja = {"email": "maja@example.com", "first_name": "Maja", "last_name": "Lind", "role": "staff"}
    await client.post("/auth/register", json={**maja, "password": password})
    sent = await client.post(ME, data={**FILLED, "csrf": "x"})
    assert sent.status_code == 401
    hidden = re.search(r'name="resumed" value="([^"]*)"', sent.text)
    assert hidden
    kept = html.unescape(hidden[1])
    assert "csrf" not in kept
    given = {"email": maja["email"], "password": password, "resumed": kept}
    wrong = await client.post(f"/account/sign-in?next={ME}", data={**given, "password": "x" * 10})
    assert (wrong.status_code, html.escape(kept) in wrong.text) == (401, True)
    shown = await client.post(f"/account/sign-in?next={ME}", data=given)
    assert (shown.status_code, "behind bars." in shown.text) == (200, True)
    fields = re.findall(
        r'<input type="hidden" name="([^"]+)" value="([^"]*)"',
        shown.text[shown.text.index("<main") :],
    )
    done = await client.post(ME, data={name: html.unescape(value) for name, value in fields})
    assert done.status_code == 303
    assert "behind bars." in (await client.get(ME)).text
