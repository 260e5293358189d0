"""Signing in, sessions, CSRF and keys over HTTP (CONTRACT 2)."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_core.domain.accounts.api_keys import Permission, is_well_formed
from staffbooking_core.domain.accounts.users import Subscription
from staffbooking_core.usecases.accounts import administration
from tests.http.deployment import BASE, PASSWORD, World, ok, refused
from tests.support.builders import DAY, HOUR, MINUTE

pytestmark = pytest.mark.anyio

SIGN_IN = {"email": "ada@example.com", "password": PASSWORD}
SIGN_UP = {
    "email": "New@Example.com",
    "password": "hunter2hunter2",
    "first_name": "New",
    "last_name": "Person",
    "role": "customer",
}


def crumbs(answer) -> dict[str, str]:
    """The session cookie of an answer, by its parts."""
    parts = answer.headers["set-cookie"].split("; ")
    return dict(part.partition("=")[::2] for part in parts)


# Signing up and in ----------------------------------------------------------------------


async def test_signing_up_makes_an_account_and_no_session(world: World) -> None:
    """201 with the user; the cookie comes with the login only."""
    answer = await world.client().post("/auth/register", json=SIGN_UP)
    user = ok(answer, 201)["user"]
    assert (user["email"], user["role"]) == (SIGN_UP["email"], "customer")
    assert user["subscription"] == "none"
    assert "set-cookie" not in answer.headers
    assert "password" not in answer.text


async def test_a_mail_that_is_held_back_is_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """From the 21st account in an hour on; by the number of the account alone."""
    client = world.client()
    for n in range(21):
        assert caplog.text == ""
        answer = await client.post("/auth/register", json={**SIGN_UP, "email": f"n{n}@example.com"})
    (line,) = caplog.messages
    assert f"user {ok(answer, 201)['user']['id']} gets no mail" in line
    assert "@" not in line


async def test_a_taken_email_is_422(world: World) -> None:
    """Addresses compare without case."""
    taken = {**SIGN_UP, "email": "ADA@example.COM"}
    answer = await world.client().post("/auth/register", json=taken)
    refused(answer, 422, "invalid_field")


async def test_a_login_sets_the_cookie(world: World) -> None:
    """HttpOnly, SameSite=Lax, for the whole site; a fresh one each time."""
    client = world.client()
    first, second = [await client.post("/auth/login", json=SIGN_IN) for _ in range(2)]
    parts = crumbs(first)
    assert {"HttpOnly", "SameSite", "Path"} <= set(parts)
    assert (parts["SameSite"], parts["Path"]) == ("Lax", "/")
    assert "Secure" not in parts
    assert len(parts["connect.sid"]) >= 43
    assert parts["connect.sid"] != crumbs(second)["connect.sid"]
    assert ok(first)["csrf_token"] != ok(second)["csrf_token"]


async def test_the_cookie_is_secure_over_https(world: World) -> None:
    """With an https base URL the cookie is Secure, and HSTS is told."""
    world.restart(policy=evolve(world.ports.policy, base_url="https://booking.example"))
    answer = await world.client().post("/auth/login", json=SIGN_IN)
    assert "Secure" in crumbs(answer)
    assert "strict-transport-security" in answer.headers


async def test_a_session_lasts_until_the_logout(world: World) -> None:
    """The cookie signs in, and no more once the session has ended."""
    client = world.client()
    token = ok(await client.post("/auth/login", json=SIGN_IN))["csrf_token"]
    seen = ok(await client.get("/auth/session"))
    assert (seen["user"]["email"], seen["csrf_token"]) == ("ada@example.com", token)
    cookie = client.cookies["connect.sid"]
    gone = await client.post("/auth/logout", headers={"x-csrf-token": token})
    assert crumbs(gone)["Max-Age"] == "0"
    answer = await world.client(cookie=f"connect.sid={cookie}").get("/auth/session")
    refused(answer, 401, "unauthenticated")


async def test_a_session_idles_out(world: World) -> None:
    """Twelve hours without a request end it; each request keeps it alive."""
    customer = await world.browser(world.customer.id)
    for _ in range(3):
        world.clock.advance(11 * HOUR)
        ok(await customer.get("/auth/session"))
    world.clock.advance(12 * HOUR)
    refused(await customer.get("/auth/session"), 401, "unauthenticated")


async def test_unknown_wrong_and_disabled_look_the_same(world: World) -> None:
    """Nothing tells whether an address has an account."""
    client = world.client()
    await administration.disable(world.ports, "sam@example.com")
    answers = [
        await client.post("/auth/login", json={"email": email, "password": password})
        for email, password in (
            ("nobody@example.com", PASSWORD),
            ("ada@example.com", "wrong password"),
            ("sam@example.com", PASSWORD),
        )
    ]
    assert {(one.status_code, one.text) for one in answers} == {(401, answers[0].text)}


async def test_guessing_is_throttled(world: World) -> None:
    """The eleventh failure of an account from an address is 429, the right password too."""
    client = world.client()
    for _ in range(10):
        wrong = await client.post("/auth/login", json={**SIGN_IN, "password": "wrong"})
        refused(wrong, 401, "bad_credentials")
    body = refused(await client.post("/auth/login", json=SIGN_IN), 429, "rate_limited")
    assert body["retry_after"] == 15 * 60
    ok(await world.client("198.51.100.7").post("/auth/login", json=SIGN_IN))
    world.clock.advance(15 * MINUTE)
    ok(await client.post("/auth/login", json=SIGN_IN))


@pytest.mark.parametrize("path", ["/auth/login", "/auth/register"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", f"{BASE}.evil.example"])
async def test_a_foreign_origin_is_403(world: World, path: str, origin: str) -> None:
    """Nobody is signed in or up by a foreign page."""
    answer = await world.client(origin=origin).post(path, json=SIGN_IN)
    refused(answer, 403, "foreign_origin")


async def test_the_own_origin_passes(world: World) -> None:
    """Our own pages may sign in; their origin has no case."""
    ok(await world.client(origin=BASE.upper()).post("/auth/login", json=SIGN_IN))


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
async def test_a_garbled_cookie_is_no_session(world: World, cookie: str) -> None:
    """Whatever the header holds, the answer is 401."""
    headers = [(b"cookie", cookie.encode())]
    refused(await world.client().get("/auth/session", headers=headers), 401, "unauthenticated")


async def test_the_cookie_is_found_among_others(world: World) -> None:
    """Cookies of others beside it, and over several headers, don't hide it."""
    customer = await world.browser(world.customer.id)
    mine = customer.headers.pop("cookie")
    headers = [("cookie", "a=b; theme=dark"), ("cookie", f"x=y;  {mine} ; z")]
    ok(await customer.get("/auth/session", headers=headers))


# CSRF -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [None, "", "é", "0" * 64, "twice"])
async def test_a_change_needs_the_csrf_token(world: World, shown: str | None) -> None:
    """Missing, wrong, foreign, non-ASCII and doubled tokens are 403, never 500."""
    customer = await world.browser(world.customer.id)
    token = customer.headers.pop("x-csrf-token").encode()
    values = {None: [], "twice": [token, token]}.get(shown, [(shown or "").encode()])
    answer = await customer.post("/auth/logout", headers=[(b"x-csrf-token", one) for one in values])
    refused(answer, 403, "csrf_failed")


async def test_anothers_token_does_not_fit(world: World) -> None:
    """A token belongs to its session."""
    customer, stranger = [await world.browser(one.id) for one in (world.customer, world.stranger)]
    customer.headers["x-csrf-token"] = stranger.headers["x-csrf-token"]
    refused(await customer.post("/auth/logout"), 403, "csrf_failed")


async def test_reading_needs_no_token(world: World) -> None:
    """GET changes nothing."""
    customer = await world.browser(world.customer.id)
    del customer.headers["x-csrf-token"]
    ok(await customer.get("/bookings"))


# Which credential counts ----------------------------------------------------------------


async def test_a_session_does_not_open_the_api(world: World) -> None:
    """`/api/v1` takes keys alone."""
    subscriber = await world.browser(world.subscriber.id)
    refused(await subscriber.get("/api/v1/companions"), 401, "unauthenticated")


@pytest.mark.parametrize("path", ["/api/keys", "/bookings", "/bookings/1", "/auth/session"])
async def test_a_key_does_not_open_a_session(world: World, path: str) -> None:
    """With an Authorization header the cookie is not looked at."""
    customer = await world.browser(world.customer.id)
    customer.headers["authorization"] = f"Bearer {world.key}"
    refused(await customer.get(path), 401, "session_required")


async def test_a_key_needs_no_csrf_token(world: World) -> None:
    """A program has no page to take it from; a cookie beside the key is not looked at."""
    program = world.by_key()
    program.headers["cookie"] = "connect.sid=garbage"
    ok(await program.post("/api/v1/bookings", json=world.request_body()), 201)


# Keys -----------------------------------------------------------------------------------


async def test_a_key_is_made_listed_and_revoked(world: World) -> None:
    """Shown once, masked in lists, of no use once revoked."""
    owner = await world.browser(world.subscriber.id)
    wanted = {"name": "Back office", "permissions": ["read"]}
    made = ok(await owner.post("/api/keys", json=wanted), 201)
    key, record = made["key"], made["api_key"]
    assert is_well_formed(key)
    assert (record["masked_key"], record["permissions"]) == (f"{key[:7]}…{key[-4:]}", ["read"])
    ok(await world.by_key(key).get("/api/v1/companions"))
    listed = await owner.get("/api/keys")
    assert key not in listed.text
    assert record["id"] in {one["id"] for one in ok(listed)["keys"]}
    assert ok(await owner.delete(f"/api/keys/{record['id']}")) == {"success": True}
    refused(await world.by_key(key).get("/api/v1/companions"), 401, "invalid_api_key")


async def test_anothers_key_is_404(world: World) -> None:
    """Nobody can revoke, or tell of, a key of somebody else's."""
    owner, outsider = [await world.browser(p.id) for p in (world.subscriber, world.outsider)]
    number = ok(await owner.get("/api/keys"))["keys"][0]["id"]
    refused(await outsider.delete(f"/api/keys/{number}"), 404, "not_found")


async def test_making_keys_needs_a_subscription(world: World) -> None:
    """The tier goes before the body; listing and revoking need none."""
    customer = await world.browser(world.customer.id)
    refused(await customer.post("/api/keys", content=b"{"), 403, "subscription_required")
    assert ok(await customer.get("/api/keys")) == {"keys": []}


async def test_a_sixth_key_is_one_too_many(world: World) -> None:
    """Five active ones; a revoked one makes room."""
    owner = await world.browser(world.subscriber.id)
    wanted = {"name": "Another", "permissions": ["read", "book"]}
    made = [ok(await owner.post("/api/keys", json=wanted), 201) for _ in range(4)]
    refused(await owner.post("/api/keys", json=wanted), 400, "too_many_keys")
    ok(await owner.delete(f"/api/keys/{made[0]['api_key']['id']}"))
    ok(await owner.post("/api/keys", json=wanted), 201)


async def test_a_key_expires(world: World) -> None:
    """`expires_at` must lie ahead, and ends the key."""
    owner = await world.browser(world.subscriber.id)
    wanted = {"name": "For a day", "permissions": ["read"], "expires_at": "2027-03-02T12:00:00Z"}
    past = {**wanted, "expires_at": "2027-03-01T12:00:00Z"}
    refused(await owner.post("/api/keys", json=past), 422, "invalid_field")
    key = ok(await owner.post("/api/keys", json=wanted), 201)["key"]
    ok(await world.by_key(key).get("/api/v1/companions"))
    world.clock.advance(DAY)
    refused(await world.by_key(key).get("/api/v1/companions"), 401, "invalid_api_key")


async def test_keys_follow_their_owner(world: World) -> None:
    """A lost subscription is 403, a disabled owner 401, an admin passes every check."""
    await administration.subscribe(world.ports, world.subscriber.email, Subscription.BASIC)
    refused(await world.by_key().get("/api/v1/companions"), 403, "subscription_required")
    await administration.disable(world.ports, world.subscriber.email)
    refused(await world.by_key().get("/api/v1/companions"), 401, "invalid_api_key")
    of_admin = await world.new_key(world.admin, Permission.READ)
    ok(await world.by_key(of_admin).post("/api/v1/bookings", json=world.request_body()), 201)
