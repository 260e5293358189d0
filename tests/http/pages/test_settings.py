"""Tests of the account settings pages."""

from __future__ import annotations

import re

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, add_booking, add_user
from staffbooking_core.domain.accounts.users import Role
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.notifications.notifications import OPTIONAL_NOTIFICATION_KINDS
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.notifications import notifications
from tests.http.deployment import BASE_URL, HttpDeployment, json_body
from tests.http.pages.test_account import ADA, SIGN_IN, count_labelled, csrf, link
from tests.http.pages.test_bookings import PEOPLE

pytestmark = pytest.mark.anyio

ACCOUNT = "/account"
MAILS = "/account/mails"
SESSIONS = "/account/sessions"
PASSWORD = "/account/password"
ERASURE = "/account/erasure"
PREFERENCES = "/account/preferences"
DATA = "/account/data"
NEW = "battery staple"


async def sign_in(world: HttpDeployment, password: str = ADA["password"]) -> httpx.AsyncClient:
    """A signed-in client of the user Ada."""
    client = world.client()
    answer = await client.post(SIGN_IN, data={**ADA, "password": password})
    assert answer.status_code == 303
    return client


async def is_in(client: httpx.AsyncClient) -> bool:
    return (await client.get("/auth/session")).status_code == 200


async def send(client: httpx.AsyncClient, path: str, **given: str) -> httpx.Response:
    """Submit a page's form as a signed-in user."""
    return await client.post(path, data={"csrf": csrf(await client.get(ACCOUNT)), **given})


def elsewhere(text: str) -> list[str]:
    """The session ids that a page has a button for."""
    return re.findall(r'name="session" value="([0-9a-f]{16})"', text)


# Account page ---------------------------------------------------------------------------


async def test_people_see_their_account(each_world: HttpDeployment) -> None:
    """The user's name on each page links to the account page."""
    client = await sign_in(each_world)
    page, name = await client.get(link(await client.get("/"), ACCOUNT)), each_world.customer.name
    assert re.search(rf'aria-current="page"><span[^>]*>AO</span><span[^>]*>{name}<', page.text)
    assert f">{name}</h2>" in page.text
    assert f"<dd>{each_world.customer.email}<br>" in page.text


async def test_an_address_is_confirmed_from_there(world: HttpDeployment) -> None:
    """An unverified address has a button that sends the verification link."""
    client = await sign_in(world)
    form = f'action="{(where := "/account/verify-email")}"'
    assert form in (await client.get(ACCOUNT)).text
    assert "on its way" in (await send(client, where)).text
    await notifications.send_notifications(world.ports)
    [letter] = world.notifier.emails
    await client.post((letter.url or "").removeprefix(BASE_URL))
    shown = (await client.get(ACCOUNT)).text
    assert (form in shown, ">confirmed<" in shown) == (False, True)


async def test_people_take_their_data_along(world: HttpDeployment) -> None:
    """The page links to the API's data export."""
    client = await sign_in(world)
    answer = await client.get(link(await client.get(DATA), "/account/export"))
    assert json_body(answer)["user"]["email"] == ADA["email"]


async def test_a_name_is_text_there(world: HttpDeployment) -> None:
    """User names are escaped."""
    marked = await add_user(world.store, first_name="<i>Ada</i>")
    shown = (await (await world.signed_in_client(marked.id)).get(ACCOUNT)).text
    assert "&lt;i&gt;Ada" in shown
    assert "<i>" not in shown


@pytest.mark.parametrize("path", [MAILS, PREFERENCES, PASSWORD, ERASURE])
async def test_fields_have_labels(world: HttpDeployment, path: str) -> None:
    """Every visible field has a label, and text fields have an autocomplete hint."""
    shown = (await (await sign_in(world)).get(path)).text
    seen = re.findall(r"<input (?![^>]*hidden)[^>]*>", shown)
    assert seen
    assert count_labelled(shown) == len(seen)
    assert all(re.search(r'autocomplete=|type="(checkbox|radio)"', each) for each in seen)


# Access ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "back"),
    [
        ("GET", ACCOUNT, ACCOUNT),
        ("GET", DATA, DATA),
        *(
            (method, path, path)
            for path in (MAILS, SESSIONS, PASSWORD, ERASURE)
            for method in ("GET", "POST")
        ),
    ],
)
async def test_who_is_signed_out_is_led_back_by_the_sign_in(
    world: HttpDeployment, method: str, path: str, back: str
) -> None:
    """Signed-out requests, forms included, lead to sign-in and back to the page."""
    answer = await world.client().request(method, path)
    assert answer.status_code == 303
    assert httpx.URL(answer.headers["location"]).params["next"] == back


@pytest.mark.parametrize(
    ("path", "given"),
    [
        (MAILS, {}),
        (SESSIONS, {"session": "others"}),
        (PASSWORD, {"current_password": ADA["password"], "new_password": NEW}),
        (ERASURE, {"password": ADA["password"]}),
    ],
)
async def test_a_form_of_somebody_else_does_nothing(
    world: HttpDeployment, path: str, given: dict[str, str]
) -> None:
    """A form without the session's CSRF token is 403 and changes nothing."""
    here, there = await sign_in(world), await sign_in(world)
    for forged in ("x", ""):
        answer = await here.post(path, data={"csrf": forged, **given})
        assert (answer.status_code, answer.json()["code"]) == (403, "csrf_failed")
    assert await is_in(there)
    assert await is_in(await sign_in(world))
    assert all((await notifications.get_preferences(world.ports, world.customer.id)).values())


async def test_the_interface_keeps_its_paths(world: HttpDeployment) -> None:
    """API paths return JSON to browsers too."""
    client = await sign_in(world)
    for path in ("/account/notifications", "/auth/sessions"):
        answer = await client.get(path, headers=PEOPLE)
        assert answer.headers["content-type"] == "application/json"


# Mails ----------------------------------------------------------------------------------


KINDS = {
    Role.CUSTOMER: {"accepted", "new_message"},
    Role.STAFF: {"payout", "new_message"},
    Role.ADMIN: {"accepted", "new_message"},
}
BOX = r'type="checkbox" name="(\w+)"'


async def test_mails_are_chosen_by_boxes(each_world: HttpDeployment) -> None:
    """Only checked kinds are sent, and the page confirms and shows the choice."""
    client = await sign_in(each_world)
    for ticked in ({"accepted"}, {"new_message"}, KINDS[Role.CUSTOMER]):
        sent = await send(client, MAILS, **dict.fromkeys(ticked, "yes"))
        assert sent.status_code == 303
        chosen = await notifications.get_preferences(each_world.ports, each_world.customer.id)
        assert {str(kind) for kind, wanted in chosen.items() if wanted} == ticked | {"payout"}
        shown = (await client.get(sent.headers["location"])).text
        assert set(re.findall(r'name="(\w+)" value="yes" checked', shown)) == ticked
        assert "Your choice is saved." in shown


@pytest.mark.parametrize("role", Role)
async def test_people_choose_among_the_mails_that_reach_them(
    world: HttpDeployment, role: Role
) -> None:
    """Every optional kind that reaches the role has a checkbox, and no other: customers are not
    asked about payouts. With none checked, none is sent."""
    user = await add_user(world.store, role=role)
    client = await world.signed_in_client(user.id)
    assert set(re.findall(BOX, (await client.get(MAILS)).text)) == KINDS[role]
    await send(client, MAILS)
    chosen = await notifications.get_preferences(world.ports, user.id)
    assert {str(kind) for kind, wanted in chosen.items() if not wanted} == KINDS[role]


def test_all_that_may_be_refused_reaches_somebody() -> None:
    """Each optional kind has a box on the page of a role."""
    assert set().union(*KINDS.values()) == set(OPTIONAL_NOTIFICATION_KINDS)


# Sessions -------------------------------------------------------------------------------


async def test_a_session_is_ended_by_its_button(each_world: HttpDeployment) -> None:
    """A button ends one other session; the current session has none."""
    here = await sign_in(each_world)
    there = await sign_in(each_world)
    [name] = elsewhere((await here.get(SESSIONS)).text)
    third = await sign_in(each_world)
    sent = await send(here, SESSIONS, session=name)
    assert sent.status_code == 303
    assert "You are signed out there." in (await here.get(sent.headers["location"])).text
    assert [await is_in(each) for each in (here, there, third)] == [True, False, True]


async def test_all_other_sessions_are_ended_by_one_button(each_world: HttpDeployment) -> None:
    """One button ends all other sessions and is shown only while there are any."""
    clients = [await sign_in(each_world) for _ in range(3)]
    shown = (await clients[0].get(SESSIONS)).text
    assert len(elsewhere(shown)) == 2
    sent = await send(clients[0], SESSIONS, session="others")
    shown = (await clients[0].get(sent.headers["location"])).text
    assert "You are signed out everywhere else." in shown
    assert 'name="session"' not in shown
    assert [await is_in(each) for each in clients] == [True, False, False]


async def test_a_session_that_is_not_ones_own_is_told_on_the_page(world: HttpDeployment) -> None:
    """The session of another user is 404, as an ended one is, and stays."""
    stranger = await world.signed_in_client(world.stranger.id)
    await world.signed_in_client(world.stranger.id)
    [theirs] = elsewhere((await stranger.get(SESSIONS)).text)
    here = await sign_in(world)
    for name in (theirs, "x"):
        answer = await send(here, SESSIONS, session=name)
        assert (answer.status_code, "Session not found." in answer.text) == (404, True)
        assert "<h1>Your account</h1>" in answer.text
    assert elsewhere((await stranger.get(SESSIONS)).text) == [theirs]
    assert (await send(here, SESSIONS)).status_code == 400


# The password ---------------------------------------------------------------------------


async def test_a_password_is_changed_by_a_form(each_world: HttpDeployment) -> None:
    """A password change ends all other sessions and says so."""
    here, there = await sign_in(each_world), await sign_in(each_world)
    given = {"current_password": ADA["password"], "new_password": NEW}
    path = link(await here.get(SESSIONS), PASSWORD)
    sent = await send(here, path, **given)
    assert sent.status_code == 303
    assert "Your new password is set" in (await here.get(sent.headers["location"])).text
    assert [await is_in(each) for each in (here, there)] == [True, False]
    await sign_in(each_world, NEW)


@pytest.mark.parametrize(
    ("current", "new", "status", "told"),
    [
        ("wrong", NEW, 401, "The current password is wrong."),
        (ADA["password"], "short", 422, "Use 10 to 128 characters."),
        ("", NEW, 400, "Fill this in."),
    ],
)
async def test_what_is_wrong_with_a_password_is_told_in_the_form(
    world: HttpDeployment, current: str, new: str, status: int, told: str
) -> None:
    """An error empties the form and keeps the old password."""
    client = await sign_in(world)
    answer = await send(client, PASSWORD, current_password=current, new_password=new)
    assert (answer.status_code, told in answer.text) == (status, True)
    assert 'name="current_password"' in answer.text
    assert new not in answer.text
    await sign_in(world)


async def test_guessing_the_password_is_throttled(world: HttpDeployment) -> None:
    """Wrong passwords on either page count as failed logins; then the right one is 429 too."""
    client, right = await sign_in(world), ADA["password"]
    for _ in range(5):
        await send(client, PASSWORD, current_password="wrong", new_password=NEW)
        await send(client, ERASURE, password="wrong")
    for path, given in (
        (PASSWORD, {"current_password": right, "new_password": NEW}),
        (ERASURE, {"password": right}),
    ):
        answer = await send(client, path, **given)
        assert (answer.status_code, "Try again in 15 minutes." in answer.text) == (429, True)


async def test_forms_count_as_calls_do(world: HttpDeployment) -> None:
    """Forms count against the user's general rate limit."""
    limits = evolve(world.ports.policy.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    client = await world.signed_in_client(world.customer.id)
    assert (await send(client, MAILS, payout="yes")).status_code == 303
    for path in (MAILS, SESSIONS, PASSWORD, ERASURE):
        given = {"session": "others", "current_password": "x", "new_password": NEW}
        assert (await send(client, path, **given, password="x")).status_code == 429
    assert await notifications.get_preferences(world.ports, world.customer.id) == {
        "accepted": False,
        "payout": True,
        "new_message": False,
    }


# Erasure --------------------------------------------------------------------------------


async def test_people_are_forgotten_by_a_form(each_world: HttpDeployment) -> None:
    """Erasure by password signs the user out and prevents sign-in."""
    client = await sign_in(each_world)
    path = link(await client.get(DATA), ERASURE)
    assert "can't be undone" in (await client.get(path)).text
    done = await send(client, path, password=ADA["password"])
    assert (done.status_code, "Your account is erased" in done.text) == (200, True)
    assert "Max-Age=0" in done.headers["set-cookie"]
    assert "<header>" not in done.text
    assert (await each_world.client().post(SIGN_IN, data=ADA)).status_code == 401


async def test_nobody_writes_to_an_erased_person(world: HttpDeployment) -> None:
    """The conversation with a person whose account was erased has no form, and says why."""
    await add_booking(world.store, world.companion, world.customer, status=BookingStatus.COMPLETED)
    client = await sign_in(world)
    answer = await client.get(f"/conversations/with/{world.companion.id}")
    chat = answer.headers["location"].partition("#")[0]
    assert "<textarea" in (await client.get(chat)).text
    await privacy.erase_person(world.ports, world.companion.id)
    shown = (await client.get(chat)).text
    assert "The account of the other participant was erased." in shown
    assert "<textarea" not in shown


@pytest.mark.parametrize(
    ("password", "status", "told"),
    [("wrong", 401, "The password is wrong."), ("", 400, "Fill this in.")],
)
async def test_nobody_is_forgotten_without_the_password(
    world: HttpDeployment, password: str, status: int, told: str
) -> None:
    """Without the right password, the form shows an error and erases nothing."""
    client = await sign_in(world)
    answer = await send(client, ERASURE, password=password)
    assert (answer.status_code, told in answer.text) == (status, True)
    assert 'name="password"' in answer.text
    await sign_in(world)


async def test_open_bookings_come_first(world: HttpDeployment) -> None:
    """Open bookings prevent erasure, and the page says so."""
    await add_booking(world.store, world.companion, world.customer)
    client = await sign_in(world)
    answer = await send(client, ERASURE, password=ADA["password"])
    assert (answer.status_code, "Bookings are open" in answer.text) == (400, True)
    assert await is_in(client)
