"""Login, sessions, CSRF tokens and API keys over HTTP (CONTRACT 2)."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE
from staffbooking_core.domain.accounts.api_keys import Permission, is_well_formed_api_key
from staffbooking_core.domain.accounts.users import Subscription
from staffbooking_core.usecases.accounts import administration
from staffbooking_core.usecases.bookings import disabling
from tests.http.deployment import BASE_URL, TEST_PASSWORD, HttpDeployment, error_body, json_body

pytestmark = pytest.mark.anyio

SIGN_IN = {"email": "ada@example.com", "password": TEST_PASSWORD}
SIGN_UP = {
    "email": "New@Example.com",
    "password": "hunter2hunter2",
    "first_name": "New",
    "last_name": "Person",
    "role": "customer",
}


def session_cookie_attributes(answer) -> dict[str, str]:
    """The attributes of a response's session cookie, by name."""
    parts = answer.headers["set-cookie"].split("; ")
    return dict(part.partition("=")[::2] for part in parts)


# Registration and login -----------------------------------------------------------------


async def test_signing_up_makes_an_account_and_no_session(world: HttpDeployment) -> None:
    """Registration returns 201 with the user, without a session cookie or a password."""
    answer = await world.client().post("/auth/register", json=SIGN_UP)
    user = json_body(answer, 201)["user"]
    assert (user["email"], user["role"]) == (SIGN_UP["email"], "customer")
    assert user["subscription"] == "none"
    assert "set-cookie" not in answer.headers
    assert "password" not in answer.text


async def test_a_withheld_email_is_logged(
    world: HttpDeployment, caplog: pytest.LogCaptureFixture
) -> None:
    """The 21st registration within an hour logs one line, with the user id and without an email
    address, that the user gets no mail."""
    client = world.client()
    for n in range(21):
        assert caplog.text == ""
        answer = await client.post("/auth/register", json={**SIGN_UP, "email": f"n{n}@example.com"})
    (line,) = caplog.messages
    assert f"user {json_body(answer, 201)['user']['id']} gets no mail" in line
    assert "@" not in line


async def test_a_taken_email_is_422(world: HttpDeployment) -> None:
    """Registering a taken email address in another case is 422."""
    taken = {**SIGN_UP, "email": "ADA@example.COM"}
    answer = await world.client().post("/auth/register", json=taken)
    error_body(answer, 422, "invalid_field")


async def test_a_login_sets_the_cookie(world: HttpDeployment) -> None:
    """Each login sets a new session cookie that is HttpOnly, SameSite=Lax and for the whole
    site."""
    client = world.client()
    first, second = [await client.post("/auth/login", json=SIGN_IN) for _ in range(2)]
    parts = session_cookie_attributes(first)
    assert {"HttpOnly", "SameSite", "Path"} <= set(parts)
    assert (parts["SameSite"], parts["Path"]) == ("Lax", "/")
    assert "Secure" not in parts
    assert len(parts["connect.sid"]) >= 43
    assert parts["connect.sid"] != session_cookie_attributes(second)["connect.sid"]
    assert json_body(first)["csrf_token"] != json_body(second)["csrf_token"]


async def test_the_cookie_is_secure_over_https(world: HttpDeployment) -> None:
    """With an https base URL the session cookie is Secure and HSTS is sent."""
    world.restart(policy=evolve(world.ports.policy, base_url="https://booking.example"))
    answer = await world.client().post("/auth/login", json=SIGN_IN)
    assert "Secure" in session_cookie_attributes(answer)
    assert "strict-transport-security" in answer.headers


async def test_a_session_lasts_until_the_logout(world: HttpDeployment) -> None:
    """A session is valid until the logout, which expires the cookie."""
    client = world.client()
    token = json_body(await client.post("/auth/login", json=SIGN_IN))["csrf_token"]
    seen = json_body(await client.get("/auth/session"))
    assert (seen["user"]["email"], seen["csrf_token"]) == ("ada@example.com", token)
    cookie = client.cookies["connect.sid"]
    gone = await client.post("/auth/logout", headers={"x-csrf-token": token})
    assert session_cookie_attributes(gone)["Max-Age"] == "0"
    answer = await world.client(cookie=f"connect.sid={cookie}").get("/auth/session")
    error_body(answer, 401, "unauthenticated")


async def test_an_idle_session_ends(world: HttpDeployment) -> None:
    """A session ends after twelve hours without a request; each request extends it."""
    customer = await world.signed_in_client(world.customer.id)
    for _ in range(3):
        world.clock.advance(11 * HOUR)
        json_body(await customer.get("/auth/session"))
    world.clock.advance(12 * HOUR)
    error_body(await customer.get("/auth/session"), 401, "unauthenticated")


async def test_unknown_wrong_and_disabled_look_the_same(world: HttpDeployment) -> None:
    """Logins with an unknown address, a wrong password and a disabled account get the same 401."""
    client = world.client()
    await disabling.disable_user(world.ports, "sam@example.com")
    answers = [
        await client.post("/auth/login", json={"email": email, "password": password})
        for email, password in (
            ("nobody@example.com", TEST_PASSWORD),
            ("ada@example.com", "wrong password"),
            ("sam@example.com", TEST_PASSWORD),
        )
    ]
    assert {(one.status_code, one.text) for one in answers} == {(401, answers[0].text)}


async def test_guessing_is_throttled(world: HttpDeployment) -> None:
    """After ten failed logins from one IP address the right password is 429 there for 15 minutes,
    and accepted from another address."""
    client = world.client()
    for _ in range(10):
        wrong = await client.post("/auth/login", json={**SIGN_IN, "password": "wrong"})
        error_body(wrong, 401, "bad_credentials")
    body = error_body(await client.post("/auth/login", json=SIGN_IN), 429, "rate_limited")
    assert body["retry_after"] == 15 * 60
    json_body(await world.client("198.51.100.7").post("/auth/login", json=SIGN_IN))
    world.clock.advance(15 * MINUTE)
    json_body(await client.post("/auth/login", json=SIGN_IN))


@pytest.mark.parametrize("path", ["/auth/login", "/auth/register"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", f"{BASE_URL}.evil.example"])
async def test_a_foreign_origin_is_403(world: HttpDeployment, path: str, origin: str) -> None:
    """Login and registration with a foreign Origin header are 403, with the service's address."""
    answer = await world.client(origin=origin).post(path, json=SIGN_IN)
    assert error_body(answer, 403, "foreign_origin")["error"].endswith(f"not from {BASE_URL}")


async def test_the_own_origin_passes(world: HttpDeployment) -> None:
    """A login with the service's own origin in upper case succeeds."""
    json_body(await world.client(origin=BASE_URL.upper()).post("/auth/login", json=SIGN_IN))


@pytest.mark.parametrize(
    "cookie",
    [
        "connect.sid=",
        "connect.sid",
        ";;;=;",
        "connect.sid=é",
        "connect.sid=" + "x" * 9000,
        "other=1; CONNECT.SID=abc",
        'connect.sid="abc"',
        "\x01",
    ],
)
async def test_a_malformed_cookie_is_401(world: HttpDeployment, cookie: str) -> None:
    """A malformed or unknown session cookie is 401 `unauthenticated`."""
    headers = [(b"cookie", cookie.encode())]
    error_body(await world.client().get("/auth/session", headers=headers), 401, "unauthenticated")


async def test_the_cookie_is_found_among_others(world: HttpDeployment) -> None:
    """The session cookie is found among other cookies and over several Cookie headers."""
    customer = await world.signed_in_client(world.customer.id)
    mine = customer.headers.pop("cookie")
    headers = [("cookie", "a=b; theme=dark"), ("cookie", f"x=y;  {mine} ; z")]
    json_body(await customer.get("/auth/session", headers=headers))


# CSRF -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [None, "", "é", "0" * 64, "twice"])
async def test_a_change_needs_the_csrf_token(world: HttpDeployment, shown: str | None) -> None:
    """A missing, wrong, non-ASCII or doubled CSRF token is 403."""
    customer = await world.signed_in_client(world.customer.id)
    token = customer.headers.pop("x-csrf-token").encode()
    values = {None: [], "twice": [token, token]}.get(shown, [(shown or "").encode()])
    answer = await customer.post("/auth/logout", headers=[(b"x-csrf-token", one) for one in values])
    error_body(answer, 403, "csrf_failed")


async def test_anothers_csrf_token_is_403(world: HttpDeployment) -> None:
    """The CSRF token of another user's session is 403."""
    customer, stranger = [
        await world.signed_in_client(one.id) for one in (world.customer, world.stranger)
    ]
    customer.headers["x-csrf-token"] = stranger.headers["x-csrf-token"]
    error_body(await customer.post("/auth/logout"), 403, "csrf_failed")


async def test_reading_needs_no_token(world: HttpDeployment) -> None:
    """A GET request needs no CSRF token."""
    customer = await world.signed_in_client(world.customer.id)
    del customer.headers["x-csrf-token"]
    json_body(await customer.get("/bookings"))


# Which credential is used ---------------------------------------------------------------


async def test_a_session_does_not_open_the_api(world: HttpDeployment) -> None:
    """A session without an API key is 401 under `/api/v1`."""
    subscriber = await world.signed_in_client(world.subscriber.id)
    error_body(await subscriber.get("/api/v1/companions"), 401, "unauthenticated")


@pytest.mark.parametrize("path", ["/api/keys", "/bookings", "/bookings/1", "/auth/session"])
async def test_a_key_does_not_open_a_session(world: HttpDeployment, path: str) -> None:
    """A request with an API key is 401 `session_required` on session endpoints, even with a session
    cookie."""
    customer = await world.signed_in_client(world.customer.id)
    customer.headers["authorization"] = f"Bearer {world.api_key}"
    error_body(await customer.get(path), 401, "session_required")


async def test_a_key_needs_no_csrf_token(world: HttpDeployment) -> None:
    """A call with an API key needs no CSRF token, and its cookie is ignored."""
    program = world.client_with_key()
    program.headers["cookie"] = "connect.sid=garbage"
    json_body(await program.post("/api/v1/bookings", json=world.request_body()), 201)


# Keys -----------------------------------------------------------------------------------


async def test_a_key_is_made_listed_and_revoked(world: HttpDeployment) -> None:
    """An API key is shown once, masked in lists, and invalid once revoked."""
    owner = await world.signed_in_client(world.subscriber.id)
    wanted = {"name": "Back office", "permissions": ["read"]}
    made = json_body(await owner.post("/api/keys", json=wanted), 201)
    key, record = made["key"], made["api_key"]
    assert is_well_formed_api_key(key)
    assert (record["masked_key"], record["permissions"]) == (f"{key[:7]}…{key[-4:]}", ["read"])
    json_body(await world.client_with_key(key).get("/api/v1/companions"))
    listed = await owner.get("/api/keys")
    assert key not in listed.text
    assert record["id"] in {one["id"] for one in json_body(listed)["keys"]}
    assert json_body(await owner.delete(f"/api/keys/{record['id']}")) == {"success": True}
    error_body(await world.client_with_key(key).get("/api/v1/companions"), 401, "invalid_api_key")


async def test_anothers_key_is_404(world: HttpDeployment) -> None:
    """Revoking another user's API key is 404."""
    owner, outsider = [
        await world.signed_in_client(p.id) for p in (world.subscriber, world.outsider)
    ]
    number = json_body(await owner.get("/api/keys"))["keys"][0]["id"]
    error_body(await outsider.delete(f"/api/keys/{number}"), 404, "not_found")


async def test_making_keys_needs_a_subscription(world: HttpDeployment) -> None:
    """Creating an API key without a subscription is 403 before the body is parsed; listing keys
    needs none."""
    customer = await world.signed_in_client(world.customer.id)
    error_body(await customer.post("/api/keys", content=b"{"), 403, "subscription_required")
    assert json_body(await customer.get("/api/keys")) == {"keys": []}


async def test_a_sixth_key_is_one_too_many(world: HttpDeployment) -> None:
    """A sixth active API key is refused until another one is revoked."""
    owner = await world.signed_in_client(world.subscriber.id)
    wanted = {"name": "Another", "permissions": ["read", "book"]}
    made = [json_body(await owner.post("/api/keys", json=wanted), 201) for _ in range(4)]
    error_body(await owner.post("/api/keys", json=wanted), 400, "too_many_keys")
    json_body(await owner.delete(f"/api/keys/{made[0]['api_key']['id']}"))
    json_body(await owner.post("/api/keys", json=wanted), 201)


async def test_an_expiry_may_have_any_offset(world: HttpDeployment) -> None:
    """A key's `expires_at` is taken with an offset, and returned in UTC."""
    owner = await world.signed_in_client(world.subscriber.id)
    wanted = {"name": "For a day", "permissions": ["read"]}
    for given, instant in (
        ("2027-03-02T12:00:00+00:00", "2027-03-02T12:00:00Z"),
        ("2027-03-02T12:00:00.5-05:30", "2027-03-02T17:30:00.500000Z"),
    ):
        answer = await owner.post("/api/keys", json={**wanted, "expires_at": given})
        assert json_body(answer, 201)["api_key"]["expires_at"] == instant
    odd = {**wanted, "expires_at": "0001-01-01T00:00:00+23:00"}
    error_body(await owner.post("/api/keys", json=odd), 422, "invalid_field")


@pytest.mark.parametrize("digits", ["1234567", "12345678", "123456789"])
async def test_an_expiry_finer_than_a_microsecond_is_cut(
    world: HttpDeployment, digits: str
) -> None:
    """A key's `expires_at` with 7 to 9 decimals of a second is cut to microseconds."""
    owner = await world.signed_in_client(world.subscriber.id)
    instant = f"2027-03-02T12:00:00.{digits}Z"
    wanted = {"name": "For a day", "permissions": ["read"], "expires_at": instant}
    made = json_body(await owner.post("/api/keys", json=wanted), 201)["api_key"]
    assert made["expires_at"] == "2027-03-02T12:00:00.123456Z"


async def test_an_expiry_with_ten_decimals_is_refused(world: HttpDeployment) -> None:
    """A key's `expires_at` with more than 9 decimals of a second is 422."""
    owner = await world.signed_in_client(world.subscriber.id)
    instant = "2027-03-02T12:00:00.1234567890Z"
    wanted = {"name": "For a day", "permissions": ["read"], "expires_at": instant}
    error_body(await owner.post("/api/keys", json=wanted), 422, "invalid_field")


async def test_a_key_expires(world: HttpDeployment) -> None:
    """A key's `expires_at` must be in the future, and ends the key."""
    owner = await world.signed_in_client(world.subscriber.id)
    wanted = {"name": "For a day", "permissions": ["read"], "expires_at": "2027-03-02T12:00:00Z"}
    past = {**wanted, "expires_at": "2027-03-01T12:00:00Z"}
    error_body(await owner.post("/api/keys", json=past), 422, "invalid_field")
    key = json_body(await owner.post("/api/keys", json=wanted), 201)["key"]
    json_body(await world.client_with_key(key).get("/api/v1/companions"))
    world.clock.advance(DAY)
    error_body(await world.client_with_key(key).get("/api/v1/companions"), 401, "invalid_api_key")


async def test_keys_follow_their_owner(world: HttpDeployment) -> None:
    """A key is 403 once its owner's subscription ends and 401 once the owner is disabled; an
    admin's key passes every check."""
    await administration.set_subscription(world.ports, world.subscriber.email, Subscription.BASIC)
    error_body(
        await world.client_with_key().get("/api/v1/companions"), 403, "subscription_required"
    )
    await disabling.disable_user(world.ports, world.subscriber.email)
    error_body(await world.client_with_key().get("/api/v1/companions"), 401, "invalid_api_key")
    of_admin = await world.add_api_key(world.admin, Permission.READ)
    json_body(
        await world.client_with_key(of_admin).post("/api/v1/bookings", json=world.request_body()),
        201,
    )
