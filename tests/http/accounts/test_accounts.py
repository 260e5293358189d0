"""One's own account over HTTP: passwords, sessions, the address, what one is told; and the
contact form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_core.domain.notifications.notifications import NoticeKind
from staffbooking_core.domain.shared.rate_limits import Rule
from staffbooking_core.policy import Policy
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.notifications import notifications
from tests.http.deployment import BASE, PASSWORD, World, fields, ok, refused
from tests.support.builders import HOUR, POLICY, add_booking

pytestmark = pytest.mark.anyio

NEW = "battery staple"
CHANGE = {"current_password": PASSWORD, "new_password": NEW}
QUESTION = {"name": "Sam", "email": "sam@example.com", "message": "How much?\nFor ten people."}


async def sign_in(world: World, password: str = PASSWORD) -> httpx.AsyncClient:
    """Ada's browser."""
    client = world.client()
    given = {"email": "ada@example.com", "password": password}
    client.headers["x-csrf-token"] = ok(await client.post("/auth/login", json=given))["csrf_token"]
    return client


async def link_of(world: World, kind: NoticeKind) -> str:
    """The path of the link in the last mail of a kind."""
    await notifications.tell_notices(world.ports)
    [*_, last] = [each for each in world.notifier.letters if each.kind is kind]
    return (last.url or "").removeprefix(BASE)


async def token_of(world: World, kind: NoticeKind) -> str:
    return (await link_of(world, kind)).rpartition("/")[2]


# Passwords --------------------------------------------------------------------------------


async def test_a_password_is_changed(each_world: World) -> None:
    """This browser stays signed in, another one does not; the new password counts."""
    here, there = await sign_in(each_world), await sign_in(each_world)
    assert ok(await here.post("/auth/password", json=CHANGE)) == {"success": True}
    ok(await here.get("/auth/session"))
    refused(await there.get("/auth/session"), 401, "unauthenticated")
    await sign_in(each_world, NEW)


async def test_a_wrong_password_is_401(world: World) -> None:
    """As at the login, with the same code; bad new ones are 422, and a CSRF token is needed."""
    here = await sign_in(world)
    wrong = await here.post("/auth/password", json={**CHANGE, "current_password": "wrong"})
    refused(wrong, 401, "bad_credentials")
    assert wrong.headers["www-authenticate"] == "Bearer"
    short = await here.post("/auth/password", json={**CHANGE, "new_password": "short"})
    refused(short, 422, "invalid_field")
    assert fields(short) == {"new_password"}
    del here.headers["x-csrf-token"]
    refused(await here.post("/auth/password", json=CHANGE), 403, "csrf_failed")


async def test_wrong_passwords_are_throttled(world: World) -> None:
    """Ten in fifteen minutes, then 429."""
    here = await sign_in(world)
    for _ in range(10):
        await here.post("/auth/password", json={**CHANGE, "current_password": "wrong"})
    answer = await here.post("/auth/password", json=CHANGE)
    refused(answer, 429, "rate_limited")
    assert int(answer.headers["retry-after"]) == 900


async def test_a_forgotten_password_is_set_by_a_mail(each_world: World) -> None:
    """By the token of the mail, once; and nobody is signed in any more."""
    world, client = each_world, each_world.client()
    there = await sign_in(world)
    asked = await client.post("/auth/forgot-password", json={"email": "ADA@example.com"})
    assert ok(asked) == {"success": True}
    wanted = {"token": await token_of(world, NoticeKind.RESET_PASSWORD), "password": NEW}
    assert ok(await client.post("/auth/reset-password", json=wanted)) == {"success": True}
    refused(await there.get("/auth/session"), 401, "unauthenticated")
    refused(await client.post("/auth/reset-password", json=wanted), 400, "token_invalid")
    assert ok(await (await sign_in(world, NEW)).get("/auth/session"))["user"]["email_verified"]


async def test_a_forgotten_password_tells_nobody_who_is_here(world: World) -> None:
    """The answer for an unknown address is the same to the letter, and no mail goes out."""
    client = world.client()
    answers = [
        await client.post("/auth/forgot-password", json={"email": email})
        for email in ("ada@example.com", "nobody@example.com")
    ]
    assert answers[0].status_code == answers[1].status_code == 200
    assert answers[0].content == answers[1].content
    await notifications.tell_notices(world.ports)
    assert [letter.to for letter in world.notifier.letters] == ["ada@example.com"]


async def test_links_are_throttled(world: World) -> None:
    """The fourth in an hour for one account is 429."""
    client, given = world.client(), {"email": "ada@example.com"}
    for _ in range(3):
        ok(await client.post("/auth/forgot-password", json=given))
    refused(await client.post("/auth/forgot-password", json=given), 429, "rate_limited")


@pytest.mark.parametrize("token", ["x", "1.2.3", "1" * 1000, "\N{DIGIT ONE}"])
async def test_a_wrong_token_is_400(world: World, token: str) -> None:
    """Whatever is wrong with it; an overlong one is 422."""
    client = world.client()
    wanted = {"token": token, "password": NEW}
    refused(await client.post("/auth/reset-password", json=wanted), 400, "token_invalid")
    refused(await client.post("/auth/verify-email", json={"token": token}), 400, "token_invalid")
    longer = await client.post("/auth/verify-email", json={"token": "x" * 1001})
    refused(longer, 422, "invalid_field")


async def test_a_token_of_no_number_is_400(each_world: World) -> None:
    """No store is asked for a number that it can't have."""
    token = f"{2**63}.1.{'A' * 43}"
    answer = await each_world.client().post("/auth/verify-email", json={"token": token})
    refused(answer, 400, "token_invalid")


# Sessions ---------------------------------------------------------------------------------


async def test_sessions_are_listed_and_ended(each_world: World) -> None:
    """One knows which is this one; the others end one by one, or all at once."""
    here = await sign_in(each_world)
    there = [await sign_in(each_world) for _ in range(3)]
    listed = ok(await here.get("/auth/sessions"))["sessions"]
    assert [each["current"] for each in listed].count(True) == 1
    assert {*listed[0]} == {"id", "created_at", "last_seen_at", "current"}
    [current] = [each["id"] for each in listed if each["current"]]
    [mine] = [
        each["id"]
        for each in ok(await there[0].get("/auth/sessions"))["sessions"]
        if each["current"]
    ]
    assert ok(await here.delete(f"/auth/sessions/{mine}")) == {"success": True}
    refused(await there[0].get("/auth/session"), 401, "unauthenticated")
    ok(await there[1].get("/auth/session"))
    ok(await here.delete("/auth/sessions"))
    for each in there[1:]:
        refused(await each.get("/auth/session"), 401, "unauthenticated")
    [left] = ok(await here.get("/auth/sessions"))["sessions"]
    assert left["id"] == current


async def test_a_session_of_somebody_else_is_404(world: World) -> None:
    """Like one that never was; it stays."""
    here, other = await sign_in(world), await world.browser(world.stranger.id)
    [theirs] = ok(await other.get("/auth/sessions"))["sessions"]
    for name in (theirs["id"], "nothing", "0"):
        refused(await here.delete(f"/auth/sessions/{name}"), 404, "not_found")
    ok(await other.get("/auth/session"))


# The address ------------------------------------------------------------------------------


async def test_an_address_is_confirmed(each_world: World) -> None:
    """By the token that registering sends."""
    world, client = each_world, each_world.client()
    person = {"first_name": "New", "last_name": "Person", "role": "staff"}
    given = {"email": "new@example.com", "password": NEW, **person}
    user = ok(await client.post("/auth/register", json=given), 201)["user"]
    assert user["email_verified"] is False
    token = {"token": await token_of(world, NoticeKind.VERIFY_EMAIL)}
    verified = ok(await client.post("/auth/verify-email", json=token))["user"]
    assert verified == {**user, "email_verified": True}
    refused(await client.post("/auth/verify-email", json=token), 400, "token_invalid")
    here = await world.browser(user["id"])
    assert ok(await here.get("/auth/session"))["user"] == verified
    refused(await here.post("/auth/verification"), 400, "already_verified")


async def test_the_link_is_sent_again(world: World) -> None:
    """Three times an hour."""
    here = await sign_in(world)
    for _ in range(3):
        ok(await here.post("/auth/verification"))
    refused(await here.post("/auth/verification"), 429, "rate_limited")
    assert (await link_of(world, NoticeKind.VERIFY_EMAIL)).startswith("/account/verify-email/")


# What one is told -------------------------------------------------------------------------


async def test_one_chooses_what_to_be_told(each_world: World) -> None:
    """Of the kinds that may be refused; what is left out stays."""
    here = await sign_in(each_world)
    all_on = {"accepted": True, "payout": True, "new_message": True}
    assert ok(await here.get("/account/notifications")) == {"notifications": all_on}
    for given in ({"payout": False}, {"payout": False, "accepted": True}, {}):
        wanted = {"notifications": given}
        answer = ok(await here.put("/account/notifications", json=wanted))
        assert answer == {"notifications": {**all_on, "payout": False}}
    wanted = {"notifications": {"payout": True, "paid": False}}
    assert ok(await here.put("/account/notifications", json=wanted)) == {"notifications": all_on}
    other = await each_world.browser(each_world.stranger.id)
    assert ok(await other.get("/account/notifications")) == {"notifications": all_on}


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({}, 400, "missing_field"),
        ({"notifications": []}, 422, "invalid_field"),
        ({"notifications": {"payout": 1}}, 422, "invalid_field"),
        ({"notifications": {"payout": "no"}}, 422, "invalid_field"),
    ],
)
async def test_a_wrong_choice_is_refused(
    world: World, given: dict[str, Any], status: int, code: str
) -> None:
    """And changes nothing."""
    here = await sign_in(world)
    refused(await here.put("/account/notifications", json=given), status, code)


# One's data -------------------------------------------------------------------------------


async def test_one_sees_all_that_is_kept(each_world: World) -> None:
    """As one JSON document, of oneself alone."""
    here = await sign_in(each_world)
    found = ok(await here.get("/account/export"))
    assert found["user"]["email"] == "ada@example.com"
    assert len(found["sessions"]) == 1
    assert (found["profile"], found["bookings"]) == (None, [])
    staff = await each_world.browser(each_world.companion.id)
    assert ok(await staff.get("/account/export"))["profile"]["id"] == each_world.companion.id


async def test_much_that_is_kept_comes_in_pieces(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read a page at a time, and sent as it is read; its length is not told."""
    monkeypatch.setattr(privacy, "PAGE", 2)
    bookings = [await add_booking(world.store, world.companion, world.customer) for _ in range(5)]
    here = await world.browser(world.customer.id)
    answer = await here.get("/account/export")
    found = ok(answer)["bookings"]
    assert [each["booking_code"] for each in found] == [booking.code for booking in bookings]
    assert "content-length" not in answer.headers
    monkeypatch.setattr(privacy, "_pages", unread)
    head = await here.head("/account/export")
    assert (head.status_code, head.content) == (200, b"")


async def unread(*_: object) -> AsyncIterator[list[Any]]:
    """Pages that nobody may ask for."""
    yield pytest.fail("a page was read")


async def test_what_is_kept_is_asked_for_seldom(each_world: World) -> None:
    """Ten times an hour, whatever else one asks."""
    here = await sign_in(each_world)
    for left in range(9, -1, -1):
        answer = await here.get("/account/export")
        assert answer.headers["x-ratelimit-remaining"] == str(left)
        ok(answer)
    refused(await here.get("/account/export"), 429, "rate_limited")
    ok(await here.get("/auth/session"))


async def test_one_is_forgotten(each_world: World) -> None:
    """By the password; one is signed out, and the address is free."""
    here = await sign_in(each_world)
    wrong = await here.post("/account/erase", json={"password": "wrong"})
    refused(wrong, 401, "bad_credentials")
    assert ok(await here.post("/account/erase", json={"password": PASSWORD})) == {"success": True}
    refused(await here.get("/auth/session"), 401, "unauthenticated")
    given = {"email": "ada@example.com", "password": PASSWORD}
    refused(await each_world.client().post("/auth/login", json=given), 401, "bad_credentials")
    person = {"first_name": "Ada", "last_name": "Okoro", "role": "customer"}
    ok(await each_world.client().post("/auth/register", json={**given, **person}), 201)


async def test_who_has_open_bookings_stays(each_world: World) -> None:
    """400, and nothing changes."""
    await add_booking(each_world.store, each_world.companion, each_world.customer)
    here = await sign_in(each_world)
    answer = await here.post("/account/erase", json={"password": PASSWORD})
    refused(answer, 400, "open_bookings")
    ok(await here.get("/auth/session"))


# The contact form -------------------------------------------------------------------------


async def test_a_question_reaches_the_operators(each_world: World) -> None:
    """Kept, and told with the address that the answer goes to."""
    answer = await each_world.client().post("/contact", json={**QUESTION, "subject": "A party"})
    assert ok(answer, 201) == {"success": True}
    await notifications.tell_notices(each_world.ports)
    [letter] = each_world.notifier.letters
    assert (letter.to, letter.reply_to) == (POLICY.contact_email, "sam@example.com")
    assert letter.subject == "Inquiry 1: A party"


async def test_a_field_left_empty_is_no_subject(world: World) -> None:
    """Browsers send fields that nobody filled in."""
    ok(await world.client().post("/contact", json={**QUESTION, "subject": ""}), 201)
    await notifications.tell_notices(world.ports)
    [letter] = world.notifier.letters
    assert letter.subject == "Inquiry 1: no subject"


async def test_five_questions_an_hour(world: World) -> None:
    """From an address, whoever is signed in there; the headers tell of this window."""
    client = world.client()
    for left in range(4, -1, -1):
        answer = await client.post("/contact", json=QUESTION)
        ok(answer, 201)
        assert answer.headers["x-ratelimit-limit"] == "5"
        assert answer.headers["x-ratelimit-remaining"] == str(left)
    refused(await client.post("/contact", json=QUESTION), 429, "rate_limited")
    ok(await world.client("198.51.100.7").post("/contact", json=QUESTION), 201)


async def test_a_question_spends_the_general_window_too(world: World) -> None:
    """That of its address."""
    limits = evolve(POLICY.limits, general=Rule("general", 1, HOUR))
    world.restart(policy=evolve(Policy(), limits=limits))
    ok(await world.client().post("/contact", json=QUESTION), 201)
    refused(await world.client().post("/contact", json=QUESTION), 429, "rate_limited")


@pytest.mark.parametrize(
    ("given", "status", "named"),
    [
        ({"email": None, "message": None}, 400, {"email", "message"}),
        ({"email": "sam"}, 422, {"email"}),
        ({"email": "sam@example.com>"}, 422, {"email"}),
        ({"email": "sam@exam\u200bple.com"}, 422, {"email"}),
        ({"email": "sam@example.com\r\nBcc: eve@example.com"}, 422, {"email"}),
        ({"name": "Sam\nBcc: eve@example.com", "message": " "}, 422, {"name", "message"}),
        ({"name": "x" * 101, "subject": "x" * 301, "message": "x" * 5001}, 422, None),
    ],
)
async def test_a_wrong_question_is_refused(
    world: World, given: dict[str, Any], status: int, named: set[str] | None
) -> None:
    """Every fault at once; nothing is kept or sent."""
    answer = await world.client().post("/contact", json={**QUESTION, **given})
    assert answer.status_code == status
    assert fields(answer) == (named or set(given))
    assert await notifications.tell_notices(world.ports) == 0


async def test_a_foreign_page_asks_nothing(world: World) -> None:
    """Nor does it have links sent."""
    client = world.client(origin="https://evil.example")
    refused(await client.post("/contact", json=QUESTION), 403, "foreign_origin")
    given = {"email": "ada@example.com"}
    refused(await client.post("/auth/forgot-password", json=given), 403, "foreign_origin")
