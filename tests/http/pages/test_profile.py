"""Tests of the profile page of staff members."""

from __future__ import annotations

import html
import re
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, add_user
from staffbooking_core.domain.accounts.users import Role, User
from staffbooking_core.domain.companions.companion import Approval
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases.companions import approvals
from tests.http.deployment import HttpDeployment, json_body
from tests.http.pages.test_account import csrf
from tests.support.html_pages import page_text

pytestmark = pytest.mark.anyio

ME, WORK, PREVIEW = "/staff/me", "/staff/showcase", "/staff/me/preview"
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


async def send(client: httpx.AsyncClient, path: str, **given: Any) -> httpx.Response:
    """Submit a page's form."""
    return await client.post(path, data={"csrf": csrf(await client.get(ME)), **given})


async def stored(client: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = json_body(await client.get("/staff/profile"))["profile"]
    return found


def filled(answer: httpx.Response) -> dict[str, Any]:
    """The values of a page's fields by name; of checked boxes, the list of their values."""
    found: dict[str, Any] = {}
    for tag in re.findall(r"<input[^>]*>", answer.text[answer.text.index("<main") :]):
        given = dict(re.findall(r'(\w+)="([^"]*)"', tag))
        if given.get("type") == "checkbox" and " checked" in tag:
            found.setdefault(given["name"], []).append(html.unescape(given["value"]))
        elif given.get("type") not in ("checkbox", "hidden", "file"):
            found[given["name"]] = html.unescape(given["value"])
    areas = re.findall(
        r'<textarea [^>]*name="(\w+)"[^>]*>\n(.*?)</textarea>', answer.text, re.DOTALL
    )
    zones = re.findall(r'<option value="([^"]*)" selected>', answer.text)
    texts = [*areas, *(("timezone", zone) for zone in zones)]
    return {**found, **{name: html.unescape(text) for name, text in texts}}


def problem(answer: httpx.Response) -> str:
    """What a page says of a refused form, with all faults."""
    [notice] = re.findall(
        r'<div class="notice fault" role="alert".*?</div>', answer.text, re.DOTALL
    )
    told = re.findall(r"<li>(.*?)</li>", notice) or re.findall(r"<p>(.*?)</p>", notice)
    return html.unescape(re.sub("<[^>]*>", "", " ".join(told)))


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
        "service_types": "",
        "service": ["Gala dinner", "Trade fair"],
        "languages": "",
        "language": ["English", "Portuguese"],
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
        "service_types": "",
        "service": ["Bartender", "Host", "Mime"],
        "languages": "",
        "language": ["German", "English"],
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
    shown = filled(await client.get(ME))
    assert [shown[name] for name in OPTIONAL] == [""] * len(OPTIONAL)
    assert "language" not in shown


@pytest.mark.parametrize(
    ("field", "told"),
    [
        ("first_name", "First name: Fill this in."),
        ("last_name", "Last name: Fill this in."),
        ("hourly_rate", "Hourly rate: Fill this in."),
        ("location_city", "City: Fill this in."),
        ("location_country", "Country: Fill this in."),
        ("service_types", "Services: Fill this in."),
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
        ("hourly_rate", "1.234", "Hourly rate: It has more than 2 decimals."),
        ("years_experience", "2.5", "Years of experience: Enter a whole number."),
        ("years_experience", "81", "Years of experience: Enter a number from 0 to 80."),
        ("service_types", " , \n,", "Services: Fill this in."),
        ("service_types", "Host\nhost", "Services: Name each only once."),
        ("languages", "Greek\n" + "x" * 101, "Languages: 2: Use at most 100 characters."),
        ("timezone", "Mars", "Time zone: Choose a time zone from the list."),
        ("bio", "x" * 5001, "About you: Use at most 5000 characters."),
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
    shown = filled(page)
    assert (shown["bio"], shown["tagline"], shown["service"]) == (said, said, [said])
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
    assert "still needs: Hourly rate, City, Country, Services." in page_text(page)
    await send(client, ME, **FILLED)
    public = f"/companions/{maja.id}"
    page = (await client.get(ME)).text
    assert ("Waiting for approval" in page, public in page) == (True, False)
    await approvals.set_approval(each_world.ports, maja.id, Approval.APPROVED)
    page = (await client.get(ME)).text
    assert "Customers find you" in page
    assert (await client.get(public)).status_code == 200
    await approvals.set_approval(each_world.ports, maja.id, Approval.SUSPENDED)
    page = (await client.get(ME)).text
    assert ("have suspended your profile" in page, public in page) == (True, False)


async def test_known_services_are_boxes(world: HttpDeployment) -> None:
    """The services of approved companions are boxes; without any, names are typed."""
    client = await member(world, await newcomer(world))
    boxes = 'name="service" value="([^"]*)"'
    assert re.findall(boxes, (await client.get(ME)).text) == ["Gala dinner", "Trade fair"]
    await approvals.set_approval(world.ports, world.companion.id, Approval.SUSPENDED)
    assert re.findall(boxes, (await client.get(ME)).text) == []


async def test_boxes_and_typed_names_are_one_list(each_world: HttpDeployment) -> None:
    """Checked names come before typed ones; one that is typed again is not meant twice."""
    client = await member(each_world)
    names = {"service": ["Host", "Mime"], "service_types": "host, Juggler"}
    tongues = {"language": ["English"], "languages": "Basque\r\nenglish"}
    sent = await send(client, ME, **{**FILLED, **names, **tongues})
    assert sent.status_code == 303
    profile = await stored(client)
    assert profile["service_types"] == ["Host", "Mime", "Juggler"]
    assert profile["languages"] == ["English", "Basque"]


async def test_refused_boxes_stay_checked(world: HttpDeployment) -> None:
    """Checked names of a refused form stay, also those that nobody offers."""
    client = await member(world)
    given = {**FILLED, "service": ["Mime"], "service_types": "", "first_name": ""}
    refused = await send(client, ME, **given)
    assert (refused.status_code, filled(refused)["service"]) == (400, ["Mime"])


async def test_the_form_tells_what_the_member_gets(world: HttpDeployment) -> None:
    """The price of four hours is shown with the fee and the rest, also of a refused form."""
    client = await member(world)
    assert "pay US$400.00 . We keep 15%: US$60.00 . You get US$340.00 ." in page_text(
        (await client.get(ME)).text
    )
    refused = await send(client, ME, **{**FILLED, "first_name": ""})
    assert "You get US$137.70 ." in page_text(refused.text)


@pytest.mark.parametrize("rate", ["", "x", "-5", "1.234", "9" * 30])
async def test_a_rate_that_is_none_breaks_no_preview(world: HttpDeployment, rate: str) -> None:
    """The preview of an invalid rate shows nothing to pay."""
    refused = await send(await member(world), ME, **{**FILLED, "hourly_rate": rate})
    assert refused.status_code in (400, 422)
    assert 'class="tile-price"' in refused.text


async def test_missing_parts_lead_to_where_they_are(world: HttpDeployment) -> None:
    """The page counts the filled parts, and each missing one is a link."""
    client = await member(world)
    page = (await client.get(ME)).text
    chips = re.findall(r'<a class="chip button" href="([^"]*)"', page)
    assert chips == [
        *("#f-file", "#f-tagline", "#f-bio", "/staff/hours", "#f-years_experience"),
        "/staff/showcase",
    ]
    assert ('value="4"' in page, "4 of 10 parts" in page_text(page)) == (True, True)
    for anchor in (chip for chip in chips if chip.startswith("#")):
        assert f'id="{anchor[1:]}"' in page


# Preview --------------------------------------------------------------------------------


async def test_a_listed_member_sees_the_public_page(world: HttpDeployment) -> None:
    """The preview of a public profile is its page."""
    client = await member(world)
    seen = await client.get(PREVIEW)
    assert seen.headers["location"] == f"/companions/{world.companion.id}"


async def test_a_new_member_sees_the_page_to_come(each_world: HttpDeployment) -> None:
    """The preview has the texts, the price and the free days, and turns its months; before there is
    anything to see, it leads to the form."""
    client = await member(each_world, await newcomer(each_world))
    assert (await client.get(PREVIEW)).headers["location"] == ME
    assert PREVIEW not in (await client.get(ME)).text
    await send(client, ME, **FILLED)
    page = (await client.get(PREVIEW)).text
    text = page_text(page)
    for there in ("once you are approved", "Calm in every rush", "US$40.50 an hour", "Zürich"):
        assert there in text
    days = re.findall(r'href="(/staff/me/preview\?date=[^"#]*)', page)
    assert days
    assert "2027" in page_text((await client.get(html.unescape(days[0]))).text)
    months = re.findall(r'href="(/staff/me/preview\?month=[^"#]*)', page)
    assert (await client.get(html.unescape(months[0]))).status_code == 200


@pytest.mark.parametrize("query", ["month=x", "date=x", "month=2027-13"])
async def test_odd_days_of_the_preview_are_refused(world: HttpDeployment, query: str) -> None:
    """A day or month that is none is 422."""
    client = await member(world, await newcomer(world))
    await send(client, ME, **FILLED)
    assert (await client.get(f"{PREVIEW}?{query}")).status_code == 422


async def test_rates_have_the_currencys_decimals(world: HttpDeployment) -> None:
    """A rate field names the currency and has its decimals as the step."""
    client = await member(world)
    pattern = r'Hourly rate, USD</label>\s+<input [^>]*step="0.01"'
    assert re.search(pattern, (await client.get(ME)).text)


@pytest.mark.parametrize(("code", "decimals"), [("isk", 2), ("jpy", 0), ("kwd", 3)])
async def test_the_example_has_the_decimals_of_the_service(
    world: HttpDeployment, code: str, decimals: int
) -> None:
    """The script of the form gets the decimals in which the currency is charged."""
    world.restart(policy=evolve(world.ports.policy, currency=Currency(code)))
    shown = (await (await member(world)).get(ME)).text
    assert f'data-decimals="{decimals}"' in shown


@pytest.mark.parametrize("path", [ME, WORK])
async def test_every_field_has_a_label(world: HttpDeployment, path: str) -> None:
    """A label encloses every field or names its id."""
    text = (await (await member(world)).get(path)).text
    main = text[text.index("<main") :]
    labelled = set(re.findall(r'<label[^>]* for="([^"]*)"', main))
    without = re.sub(r'<label(?! for).*?</label>|<input type="hidden"[^>]*>', "", main, flags=re.S)
    fields = re.findall(r'<(?:input|textarea|select) id="([^"]*)"', without)
    assert len(fields) == len(re.findall("<(?:input|textarea|select) ", without))
    assert set(fields) <= labelled
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
    assert (">Sign out<" in shown.text, ">Register<" in shown.text) == (True, False)
    fields = re.findall(
        r'<input type="hidden" name="([^"]+)" value="([^"]*)"',
        shown.text[shown.text.index("<main") :],
    )
    done = await client.post(ME, data={name: html.unescape(value) for name, value in fields})
    assert done.status_code == 303
    assert "behind bars." in (await client.get(ME)).text
