"""Tests of the pages for registration, sign-in, sign-out, password reset and verification."""

from __future__ import annotations

import html
import re

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.usecases.notifications import notifications
from tests.http.deployment import BASE_URL, TEST_PASSWORD, HttpDeployment, json_body
from tests.support.html_pages import fault_labels, field_labels, page_text

pytestmark = pytest.mark.anyio

SIGN_IN = "/account/sign-in"
REGISTER = "/account/register"
ADA = {"email": "ada@example.com", "password": TEST_PASSWORD}
ZOE = {
    "email": "zoe@example.com",
    "password": TEST_PASSWORD,
    "first_name": "Zoë",
    "last_name": "Field",
    "role": "staff",
}
PAGES = (SIGN_IN, REGISTER, "/account/forgot-password", "/account/verify-email", "/")


async def signed_in(client: httpx.AsyncClient) -> bool:
    return (await client.get("/auth/session")).status_code == 200


def csrf(answer: httpx.Response) -> str:
    found = re.search(r'<input type="hidden" name="csrf" value="([^"]+)">', answer.text)
    assert found
    return found[1]


def link(answer: httpx.Response, path: str) -> str:
    """The target of a page's first link to a path, with its query."""
    found = re.search(f'href="({path}[^"]*)"', answer.text)
    assert found, answer.text
    return html.unescape(found[1])


async def test_users_sign_in_by_a_form(each_world: HttpDeployment) -> None:
    """The form sets the same cookie as the API and redirects to `next`."""
    client = each_world.client()
    answer = await client.post(f"{SIGN_IN}?next=/bookings/7/return", data=ADA)
    assert (answer.status_code, answer.headers["location"]) == (303, "/bookings/7/return")
    theirs = await each_world.client().post("/auth/login", json=ADA)
    told, known = (re.sub("sid=[^;]+", "", each.headers["set-cookie"]) for each in (answer, theirs))
    assert told == known
    assert await signed_in(client)


@pytest.mark.parametrize(
    "wanted",
    [
        "",
        "//evil.example",
        "/\\evil.example",
        "https://evil.example/",
        "evil",
        "/%09/evil",
        "/a\nb",
    ],
)
async def test_sign_in_redirects_to_no_other_site(world: HttpDeployment, wanted: str) -> None:
    """Sign-in redirects to the home page if `next` is no path of this service."""
    client = world.client()
    if "%" in wanted:
        answer = await client.post(f"{SIGN_IN}?next={wanted}", data=ADA)
    else:
        answer = await client.post(SIGN_IN, params={"next": wanted}, data=ADA)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


async def test_signed_in_users_are_redirected(world: HttpDeployment) -> None:
    """The sign-in page redirects a signed-in user to `next`."""
    client = await world.signed_in_client(world.customer.id)
    answer = await client.get(f"{SIGN_IN}?next=/staff/payouts")
    assert (answer.status_code, answer.headers["location"]) == (303, "/staff/payouts")


async def test_a_wrong_password_is_an_error_in_the_form(world: HttpDeployment) -> None:
    """A failed sign-in keeps the address, and has the same page for an unknown address."""
    said = set()
    for email in ("ada@example.com", "nobody@example.com"):
        answer = await world.client().post(SIGN_IN, data={"email": email, "password": "wrong"})
        assert answer.status_code == 401
        assert f'value="{email}"' in answer.text
        assert "wrong" not in answer.text.replace("password is wrong", "")
        said.add(answer.text.replace(email, ""))
    assert len(said) == 1


@pytest.mark.parametrize(
    ("path", "sent", "refused"),
    [
        (SIGN_IN, {}, {"email", "password"}),
        (SIGN_IN, {"email": "ada@example.com"}, {"password"}),
        (SIGN_IN, {"resumed": "text=x"}, {"email", "password"}),
        (REGISTER, {}, {"role", "first_name", "last_name", "email", "password"}),
        ("/account/forgot-password", {}, {"email"}),
    ],
)
async def test_empty_fields_are_to_be_filled_in(
    world: HttpDeployment, path: str, sent: dict[str, str], refused: set[str]
) -> None:
    """An empty field is told at the field, and above the form under the label of the field."""
    empty = dict.fromkeys(("role", "first_name", "last_name", "email", "password"), "")
    answer = await world.client().post(path, data={**empty, **sent})
    assert answer.status_code == 400
    assert field_labels(answer.text) == fault_labels(answer.text)
    assert set(field_labels(answer.text)) == refused
    assert page_text(answer.text).count("Fill this in.") == 2 * len(refused)


async def test_an_empty_sign_in_keeps_what_was_given(world: HttpDeployment) -> None:
    """The address stays in the form, and so does the form that is to be sent afterwards."""
    given = {"email": "ada@example.com", "password": "", "resumed": "text=x"}
    answer = await world.client().post(f"{SIGN_IN}?next=/contact-us", data=given)
    assert 'value="ada@example.com"' in answer.text
    assert 'name="resumed" value="text=x"' in answer.text


async def test_an_empty_sign_in_is_no_failure(world: HttpDeployment) -> None:
    """Empty forms spend nothing of the failures that an account may have."""
    client = world.client()
    for _ in range(11):
        await client.post(SIGN_IN, data={**ADA, "password": ""})
    assert (await client.post(SIGN_IN, data=ADA)).status_code == 303


async def test_failed_logins_by_form_and_api_are_limited(world: HttpDeployment) -> None:
    """After ten failures by form and API, the form is 429 and shows the retry time."""
    client, wrong = world.client(), {**ADA, "password": "wrong"}
    for _ in range(5):
        await client.post(SIGN_IN, data=wrong)
        await client.post("/auth/login", json=wrong)
    answer = await client.post(SIGN_IN, data=ADA)
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "900")
    assert "Try again in 15 minutes." in answer.text


@pytest.mark.parametrize("path", [SIGN_IN, "/account/forgot-password"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null"])
async def test_a_form_of_a_foreign_page_is_403(
    world: HttpDeployment, path: str, origin: str
) -> None:
    """A form with a foreign or null origin is 403 and signs nobody in; our own origin passes."""
    client = world.client()
    foreign = await client.post(path, data=ADA, headers={"origin": origin})
    assert foreign.status_code == 403
    assert not await signed_in(client)
    assert (await client.post(path, data=ADA, headers={"origin": BASE_URL})).status_code in (
        200,
        303,
    )


@pytest.mark.parametrize("path", [SIGN_IN, REGISTER, "/account/forgot-password"])
async def test_browsers_send_the_origin_of_these_forms(world: HttpDeployment, path: str) -> None:
    """These pages have the referrer policy `same-origin`, since `no-referrer` would send a null
    origin."""
    page = (await world.client().get(path)).text
    assert '<meta name="referrer" content="same-origin">' in page


async def test_users_sign_out_by_a_button(each_world: HttpDeployment) -> None:
    """Sign-out needs the CSRF token, ends the session, and can be repeated."""
    client = each_world.client()
    await client.post(SIGN_IN, data=ADA)
    cookie = client.cookies["connect.sid"]
    assert (await client.post("/account/sign-out", data={"csrf": "x"})).status_code == 403
    given = {"csrf": csrf(await client.get("/"))}
    answer = await client.post("/account/sign-out", data=given)
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert not await signed_in(each_world.client(cookie=f"connect.sid={cookie}"))
    assert (await client.post("/account/sign-out", data=given)).status_code == 303


async def test_nobody_is_signed_out_by_a_link(world: HttpDeployment) -> None:
    """A GET of the sign-out path is 405."""
    answer = await world.client().get("/account/sign-out")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST, OPTIONS")


async def test_a_password_reset_is_requested_by_a_form(world: HttpDeployment) -> None:
    """The page is the same for an unknown address, and only the known one gets an email."""
    client, pages = world.client(), set()
    for email in ("ada@example.com", "nobody@example.com"):
        answer = await client.post("/account/forgot-password", data={"email": email})
        assert answer.status_code == 200
        pages.add(answer.text)
    assert len(pages) == 1
    await notifications.send_notifications(world.ports)
    [letter] = world.notifier.emails
    assert (letter.kind, letter.to) == (NotificationKind.RESET_PASSWORD, "ada@example.com")


async def test_a_lifetime_is_in_the_visitors_language(world: HttpDeployment) -> None:
    """The page of a password reset has the lifetime of its link in the visitor's language."""
    page = await world.client().post(
        "/account/forgot-password",
        data={"email": "ada@example.com"},
        headers={"accept-language": "de"},
    )
    assert "1 Stunde lang" in page.text


async def test_a_password_reset_keeps_the_target(each_world: HttpDeployment) -> None:
    """Links, forms and the email of a password reset keep `next` until the sign-in."""
    client, way = each_world.client(), "/conversations?page=2&x=1"
    page = await client.get(SIGN_IN, params={"next": way})
    page = await client.get(link(page, "/account/forgot-password"))
    assert way == httpx.URL(link(page, SIGN_IN)).params["next"]
    await client.post(str(page.url), data={"email": "ada@example.com"})
    await notifications.send_notifications(each_world.ports)
    [letter] = each_world.notifier.emails
    mailed = (letter.url or "").removeprefix(BASE_URL)
    done = await client.post(mailed, data={"password": "battery staple"})
    given = {**ADA, "password": "battery staple"}
    answer = await client.post(link(done, SIGN_IN), data=given)
    assert (answer.status_code, answer.headers["location"]) == (303, way)
    used = await client.get(mailed)
    assert way == httpx.URL(link(used, "/account/forgot-password")).params["next"]


@pytest.mark.parametrize("way", ["//evil.example", "/\\evil.example", "https://evil.example/", "x"])
async def test_a_password_reset_drops_foreign_targets(world: HttpDeployment, way: str) -> None:
    """Pages and the email drop a `next` that is no path of this service."""
    client, path = world.client(), "/account/forgot-password"
    for start in (SIGN_IN, path, "/account/reset-password/x"):
        assert "evil" not in (await client.get(start, params={"next": way})).text
    await client.post(path, params={"next": way}, data={"email": "ada@example.com"})
    await notifications.send_notifications(world.ports)
    [letter] = world.notifier.emails
    assert "?" not in (letter.url or "?")


async def test_a_password_reset_error_is_in_the_form(world: HttpDeployment) -> None:
    """An invalid address is 422, and a fourth email is 429 with the form."""
    client, path = world.client(), "/account/forgot-password"
    assert (await client.post(path, data={"email": "ada"})).status_code == 422
    for _ in range(3):
        await client.post(path, data={"email": "ada@example.com"})
    answer = await client.post(path, data={"email": "ada@example.com"})
    assert answer.status_code == 429
    assert 'name="email"' in answer.text


async def test_the_verification_link_is_sent_again(world: HttpDeployment) -> None:
    """The verification link is sent after sign-in with a CSRF token, and not once verified."""
    path, client = "/account/verify-email", world.client()
    asked = await client.get(path)
    assert asked.status_code == 303
    onward = await client.post(asked.headers["location"], data=ADA)
    assert onward.headers["location"] == path
    token = csrf(await client.get(path))
    assert (await client.post(path, data={"csrf": "x"})).status_code == 403
    assert "on its way" in (await client.post(path, data={"csrf": token})).text
    await notifications.send_notifications(world.ports)
    [letter] = world.notifier.emails
    await client.post((letter.url or "").removeprefix(BASE_URL))
    assert "is confirmed" in (await client.get(path)).text
    assert (await client.post(path, data={"csrf": token})).status_code == 400


async def test_the_link_is_not_sent_too_often(world: HttpDeployment) -> None:
    """The fourth verification email within an hour is 429."""
    path, client = "/account/verify-email", await world.signed_in_client(world.customer.id)
    given = {"csrf": csrf(await client.get(path))}
    for _ in range(3):
        assert (await client.post(path, data=given)).status_code == 200
    assert (await client.post(path, data=given)).status_code == 429


@pytest.mark.parametrize("path", PAGES)
async def test_fields_are_labelled_and_pages_not_cached(world: HttpDeployment, path: str) -> None:
    """Every visible field has a label, text fields have `autocomplete`, and no page is cached but
    the one that looks the same to all signed-out visitors."""
    client = (
        await world.signed_in_client(world.customer.id) if path == "/account/verify-email" else None
    )
    answer = await (client or world.client()).get(path)
    kept = "public, no-cache" if path == "/" else "no-store"
    assert answer.headers["cache-control"] == kept
    assert '<html lang="en">' in answer.text
    seen = re.findall(r'<input (?![^>]*type="hidden")[^>]*>', answer.text)
    assert count_labelled(answer.text) == len(seen)
    assert all("autocomplete=" in each or 'type="radio"' in each for each in seen)


def count_labelled(text: str) -> int:
    """The number of inputs of a page that have a label, by its `for` or around them."""
    ids = set(re.findall(r'<label [^>]*for="([^"]+)"', text))
    inputs = re.findall(r"(<label>|<label [^>]*>)?<input (?![^>]*hidden)([^>]*)>", text)
    named = [re.search(r'\bid="([^"]+)"', attributes) for _, attributes in inputs]
    return sum(
        bool(label) or (found is not None and found[1] in ids)
        for (label, _), found in zip(inputs, named, strict=True)
    )


async def test_a_page_keeps_the_session_alive(world: HttpDeployment) -> None:
    """Page views extend the session beyond the idle limit."""
    client = world.client()
    await client.post(SIGN_IN, data=ADA)
    idle = world.ports.policy.session_idle
    for _ in range(3):
        world.clock.advance(idle * 0.6)
        await client.get("/")
    assert json_body(await client.get("/auth/session"))["user"]["email"] == "ada@example.com"


# Registration ---------------------------------------------------------------------------


async def test_users_register_by_a_form(each_world: HttpDeployment) -> None:
    """Registration signs in, leads to `next`, stores the fields, and sends a verification
    email."""
    client, way = each_world.client(), "/conversations?page=2&x=1"
    page = await client.get(SIGN_IN, params={"next": way})
    page = await client.get(link(page, REGISTER))
    assert httpx.URL(link(page, SIGN_IN)).params["next"] == way
    made = await client.post(str(page.url), data=ZOE)
    assert (made.status_code, made.headers["location"]) == (303, way)
    user = json_body(await client.get("/auth/session"))["user"]
    said = ("email", "first_name", "last_name", "role")
    assert [user[name] for name in said] == [ZOE[name] for name in said]
    await notifications.send_notifications(each_world.ports)
    [letter] = each_world.notifier.emails
    assert (letter.kind, letter.to) == (NotificationKind.VERIFY_EMAIL, "zoe@example.com")


@pytest.mark.parametrize(
    ("wrong", "status", "told"),
    [
        ({"password": "too short"}, 422, "Use 10 to 128 characters."),
        ({"email": "zoe"}, 422, "Enter an e-mail address such as name@example.com."),
        ({"email": "Ada@Example.com"}, 422, "It is registered already."),
        ({"first_name": " "}, 422, "Fill this in."),
        ({"first_name": " " * 101}, 422, "Fill this in."),
        ({"role": "admin"}, 422, "Choose one of these."),
        ({"role": None}, 400, "Fill this in."),
    ],
)
async def test_invalid_input_is_an_error_in_the_form(
    world: HttpDeployment, wrong: dict[str, str | None], status: int, told: str
) -> None:
    """Invalid input has the API's status and an error in the form, which keeps all but the
    password."""
    given = {name: value for name, value in {**ZOE, **wrong}.items() if value is not None}
    client = world.client()
    answer = await client.post(REGISTER, data=given)
    assert (answer.status_code, told in answer.text) == (status, True)
    assert (await client.post("/auth/register", json=given)).status_code == status
    for name in ("email", "first_name", "last_name"):
        assert f'value="{given[name]}"' in answer.text
    assert (given.get("role") == "staff") == ('value="staff" required checked' in answer.text)
    assert given["password"] not in answer.text


async def test_all_faults_of_a_registration_are_told_at_once(world: HttpDeployment) -> None:
    """Faults of filled fields are told with those of fields that are missing."""
    given = {**ZOE, "password": "short", "email": "zoe"}
    del given["role"]
    answer = await world.client().post(REGISTER, data=given)
    assert answer.status_code == 400
    for told in ("What brings you here?", "Password", "E-mail"):
        assert f"{told} : " in page_text(answer.text)
    assert "Please look at 3 things again." in answer.text


async def test_submitted_fields_are_escaped(world: HttpDeployment) -> None:
    """Submitted fields are escaped in the form."""
    given = {**ZOE, "first_name": '"><b>Zoë', "email": '"><i>'}
    answer = await world.client().post(REGISTER, data=given)
    assert answer.status_code == 422
    assert not re.search("<b>|<i>", answer.text)


async def test_nobody_registers_by_a_foreign_page(world: HttpDeployment) -> None:
    """Registration with a foreign or null origin is 403; our own origin passes."""
    client = world.client()
    for origin, status in (("https://evil.example", 403), ("null", 403), (BASE_URL, 303)):
        answer = await client.post(REGISTER, data=ZOE, headers={"origin": origin})
        assert answer.status_code == status


async def test_registration_shares_the_apis_rate_limit(world: HttpDeployment) -> None:
    """Forms and API share the address's rate limit; over it, the form keeps its fields."""
    limits = evolve(
        world.ports.policy.limits,
        general=RateLimit("general", 2, HOUR),
        register_address=RateLimit("register_address", 1, HOUR),
    )
    world.restart(policy=evolve(world.ports.policy, limits=limits))
    client = world.client()
    json_body(await client.post("/auth/register", json={**ZOE, "email": "first@example.com"}), 201)
    await client.post(REGISTER, data={**ZOE, "email": "second@example.com"})
    refused = await client.post(REGISTER, data=ZOE)
    assert (refused.status_code, "Try again in 60 minutes." in refused.text) == (429, True)
    assert 'value="zoe@example.com"' in refused.text
    await notifications.send_notifications(world.ports)
    assert [letter.to for letter in world.notifier.emails] == ["first@example.com"]


async def test_signed_in_users_skip_registration(world: HttpDeployment) -> None:
    """The registration page redirects a signed-in user to `next`."""
    client = await world.signed_in_client(world.customer.id)
    answer = await client.get(REGISTER, params={"next": "/conversations"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/conversations")


@pytest.mark.parametrize("way", ["//evil.example", "/\\evil.example", "https://evil.example/"])
async def test_registration_drops_foreign_targets(world: HttpDeployment, way: str) -> None:
    """Registration drops a `next` that is no path of this service."""
    client = world.client()
    assert "evil" not in (await client.get(REGISTER, params={"next": way})).text
    made = await client.post(REGISTER, params={"next": way}, data=ZOE)
    assert made.headers["location"] == "/?registered"
    assert "Your account is ready" in (await client.get("/?registered")).text
