"""One's own account over HTTP: passwords, sessions, the address, what one is told; and the
contact form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.policy import Policy
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.notifications import notifications
from tests.http.deployment import (
    BASE_URL,
    TEST_PASSWORD,
    HttpDeployment,
    error_body,
    error_fields,
    json_body,
)
from tests.support.builders import HOUR, POLICY, add_booking

pytestmark = pytest.mark.anyio

NEW = "battery staple"
CHANGE = {"current_password": TEST_PASSWORD, "new_password": NEW}
QUESTION = {"name": "Sam", "email": "sam@example.com", "message": "How much?\nFor ten people."}


async def sign_in(world: HttpDeployment, password: str = TEST_PASSWORD) -> httpx.AsyncClient:
    """Ada's browser."""
    client = world.client()
    given = {"email": "ada@example.com", "password": password}
    client.headers["x-csrf-token"] = json_body(await client.post("/auth/login", json=given))[
        "csrf_token"
    ]
    return client


async def link_of(world: HttpDeployment, kind: NotificationKind) -> str:
    """The path of the link in the last mail of a kind."""
    await notifications.send_notifications(world.ports)
    [*_, last] = [each for each in world.notifier.emails if each.kind is kind]
    return (last.url or "").removeprefix(BASE_URL)


async def token_of(world: HttpDeployment, kind: NotificationKind) -> str:
    return (await link_of(world, kind)).rpartition("/")[2]


# Passwords --------------------------------------------------------------------------------


async def test_a_password_is_changed(each_world: HttpDeployment) -> None:
    """This browser stays signed in, another one does not; the new password counts."""
    here, there = await sign_in(each_world), await sign_in(each_world)
    assert json_body(await here.post("/auth/password", json=CHANGE)) == {"success": True}
    json_body(await here.get("/auth/session"))
    error_body(await there.get("/auth/session"), 401, "unauthenticated")
    await sign_in(each_world, NEW)


async def test_a_wrong_password_is_401(world: HttpDeployment) -> None:
    """As at the login, with the same code; bad new ones are 422, and a CSRF token is needed."""
    here = await sign_in(world)
    wrong = await here.post("/auth/password", json={**CHANGE, "current_password": "wrong"})
    error_body(wrong, 401, "bad_credentials")
    assert wrong.headers["www-authenticate"] == "Bearer"
    short = await here.post("/auth/password", json={**CHANGE, "new_password": "short"})
    error_body(short, 422, "invalid_field")
    assert error_fields(short) == {"new_password"}
    del here.headers["x-csrf-token"]
    error_body(await here.post("/auth/password", json=CHANGE), 403, "csrf_failed")


async def test_wrong_passwords_are_throttled(world: HttpDeployment) -> None:
    """Ten in fifteen minutes, then 429."""
    here = await sign_in(world)
    for _ in range(10):
        await here.post("/auth/password", json={**CHANGE, "current_password": "wrong"})
    answer = await here.post("/auth/password", json=CHANGE)
    error_body(answer, 429, "rate_limited")
    assert int(answer.headers["retry-after"]) == 900


async def test_a_forgotten_password_is_set_by_a_mail(each_world: HttpDeployment) -> None:
    """By the token of the mail, once; and nobody is signed in any more."""
    world, client = each_world, each_world.client()
    there = await sign_in(world)
    asked = await client.post("/auth/forgot-password", json={"email": "ADA@example.com"})
    assert json_body(asked) == {"success": True}
    wanted = {"token": await token_of(world, NotificationKind.RESET_PASSWORD), "password": NEW}
    assert json_body(await client.post("/auth/reset-password", json=wanted)) == {"success": True}
    error_body(await there.get("/auth/session"), 401, "unauthenticated")
    error_body(await client.post("/auth/reset-password", json=wanted), 400, "token_invalid")
    assert json_body(await (await sign_in(world, NEW)).get("/auth/session"))["user"][
        "email_verified"
    ]


async def test_a_forgotten_password_tells_nobody_who_is_here(world: HttpDeployment) -> None:
    """An unknown address gets the identical answer, and no mail is sent."""
    client = world.client()
    answers = [
        await client.post("/auth/forgot-password", json={"email": email})
        for email in ("ada@example.com", "nobody@example.com")
    ]
    assert answers[0].status_code == answers[1].status_code == 200
    assert answers[0].content == answers[1].content
    await notifications.send_notifications(world.ports)
    assert [letter.to for letter in world.notifier.emails] == ["ada@example.com"]


async def test_links_are_throttled(world: HttpDeployment) -> None:
    """The fourth mail in an hour for one account is 429."""
    client, given = world.client(), {"email": "ada@example.com"}
    for _ in range(3):
        json_body(await client.post("/auth/forgot-password", json=given))
    error_body(await client.post("/auth/forgot-password", json=given), 429, "rate_limited")


@pytest.mark.parametrize("token", ["x", "1.2.3", "1" * 1000, "\N{DIGIT ONE}"])
async def test_a_wrong_token_is_400(world: HttpDeployment, token: str) -> None:
    """Whatever is wrong with it; an overlong one is 422."""
    client = world.client()
    wanted = {"token": token, "password": NEW}
    error_body(await client.post("/auth/reset-password", json=wanted), 400, "token_invalid")
    error_body(await client.post("/auth/verify-email", json={"token": token}), 400, "token_invalid")
    longer = await client.post("/auth/verify-email", json={"token": "x" * 1001})
    error_body(longer, 422, "invalid_field")


async def test_a_token_of_no_number_is_400(each_world: HttpDeployment) -> None:
    """No store is asked for a number that it can't have."""
    token = f"{2**63}.1.{'A' * 43}"
    answer = await each_world.client().post("/auth/verify-email", json={"token": token})
    error_body(answer, 400, "token_invalid")


# Sessions ---------------------------------------------------------------------------------


async def test_sessions_are_listed_and_ended(each_world: HttpDeployment) -> None:
    """One knows which is this one; the others end one by one, or all at once."""
    here = await sign_in(each_world)
    there = [await sign_in(each_world) for _ in range(3)]
    listed = json_body(await here.get("/auth/sessions"))["sessions"]
    assert [each["current"] for each in listed].count(True) == 1
    assert {*listed[0]} == {"id", "created_at", "last_seen_at", "current"}
    [current] = [each["id"] for each in listed if each["current"]]
    [mine] = [
        each["id"]
        for each in json_body(await there[0].get("/auth/sessions"))["sessions"]
        if each["current"]
    ]
    assert json_body(await here.delete(f"/auth/sessions/{mine}")) == {"success": True}
    error_body(await there[0].get("/auth/session"), 401, "unauthenticated")
    json_body(await there[1].get("/auth/session"))
    json_body(await here.delete("/auth/sessions"))
    for each in there[1:]:
        error_body(await each.get("/auth/session"), 401, "unauthenticated")
    [left] = json_body(await here.get("/auth/sessions"))["sessions"]
    assert left["id"] == current


async def test_a_session_of_somebody_else_is_404(world: HttpDeployment) -> None:
    """A session of another user is 404, like an unknown one, and remains."""
    here, other = await sign_in(world), await world.signed_in_client(world.stranger.id)
    [theirs] = json_body(await other.get("/auth/sessions"))["sessions"]
    for name in (theirs["id"], "nothing", "0"):
        error_body(await here.delete(f"/auth/sessions/{name}"), 404, "not_found")
    json_body(await other.get("/auth/session"))


# The address ------------------------------------------------------------------------------


async def test_an_address_is_confirmed(each_world: HttpDeployment) -> None:
    """By the token that registering sends."""
    world, client = each_world, each_world.client()
    person = {"first_name": "New", "last_name": "Person", "role": "staff"}
    given = {"email": "new@example.com", "password": NEW, **person}
    user = json_body(await client.post("/auth/register", json=given), 201)["user"]
    assert user["email_verified"] is False
    token = {"token": await token_of(world, NotificationKind.VERIFY_EMAIL)}
    verified = json_body(await client.post("/auth/verify-email", json=token))["user"]
    assert verified == {**user, "email_verified": True}
    error_body(await client.post("/auth/verify-email", json=token), 400, "token_invalid")
    here = await world.signed_in_client(user["id"])
    assert json_body(await here.get("/auth/session"))["user"] == verified
    error_body(await here.post("/auth/verification"), 400, "already_verified")


async def test_the_link_is_sent_again(world: HttpDeployment) -> None:
    """The confirmation link can be sent again three times an hour."""
    here = await sign_in(world)
    for _ in range(3):
        json_body(await here.post("/auth/verification"))
    error_body(await here.post("/auth/verification"), 429, "rate_limited")
    assert (await link_of(world, NotificationKind.VERIFY_EMAIL)).startswith(
        "/account/verify-email/"
    )


# What one is told -------------------------------------------------------------------------


async def test_one_chooses_what_to_be_told(each_world: HttpDeployment) -> None:
    """Of the kinds that may be refused; what is left out stays."""
    here = await sign_in(each_world)
    all_on = {"accepted": True, "payout": True, "new_message": True}
    assert json_body(await here.get("/account/notifications")) == {"notifications": all_on}
    for given in ({"payout": False}, {"payout": False, "accepted": True}, {}):
        wanted = {"notifications": given}
        answer = json_body(await here.put("/account/notifications", json=wanted))
        assert answer == {"notifications": {**all_on, "payout": False}}
    wanted = {"notifications": {"payout": True, "paid": False}}
    assert json_body(await here.put("/account/notifications", json=wanted)) == {
        "notifications": all_on
    }
    other = await each_world.signed_in_client(each_world.stranger.id)
    assert json_body(await other.get("/account/notifications")) == {"notifications": all_on}


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
    world: HttpDeployment, given: dict[str, Any], status: int, code: str
) -> None:
    """And changes nothing."""
    here = await sign_in(world)
    error_body(await here.put("/account/notifications", json=given), status, code)


# One's data -------------------------------------------------------------------------------


async def test_one_sees_all_that_is_kept(each_world: HttpDeployment) -> None:
    """As one JSON document, of oneself alone."""
    here = await sign_in(each_world)
    found = json_body(await here.get("/account/export"))
    assert found["user"]["email"] == "ada@example.com"
    assert len(found["sessions"]) == 1
    assert (found["profile"], found["bookings"]) == (None, [])
    staff = await each_world.signed_in_client(each_world.companion.id)
    assert json_body(await staff.get("/account/export"))["profile"]["id"] == each_world.companion.id


async def test_much_that_is_kept_comes_in_pieces(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read a page at a time, and sent as it is read; its length is not told."""
    monkeypatch.setattr(privacy, "EXPORT_PAGE_SIZE", 2)
    bookings = [await add_booking(world.store, world.companion, world.customer) for _ in range(5)]
    here = await world.signed_in_client(world.customer.id)
    answer = await here.get("/account/export")
    found = json_body(answer)["bookings"]
    assert [each["booking_code"] for each in found] == [booking.code for booking in bookings]
    assert "content-length" not in answer.headers
    monkeypatch.setattr(privacy, "_read_pages", unread)
    head = await here.head("/account/export")
    assert (head.status_code, head.content) == (200, b"")


async def unread(*_: object) -> AsyncIterator[list[Any]]:
    """Pages that nobody may ask for."""
    yield pytest.fail("a page was read")


async def test_what_is_kept_is_asked_for_seldom(each_world: HttpDeployment) -> None:
    """The export is limited to ten an hour, separately from other requests."""
    here = await sign_in(each_world)
    for left in range(9, -1, -1):
        answer = await here.get("/account/export")
        assert answer.headers["x-ratelimit-remaining"] == str(left)
        json_body(answer)
    error_body(await here.get("/account/export"), 429, "rate_limited")
    json_body(await here.get("/auth/session"))


async def test_one_is_forgotten(each_world: HttpDeployment) -> None:
    """By the password; one is signed out, and the address is free."""
    here = await sign_in(each_world)
    wrong = await here.post("/account/erase", json={"password": "wrong"})
    error_body(wrong, 401, "bad_credentials")
    assert json_body(await here.post("/account/erase", json={"password": TEST_PASSWORD})) == {
        "success": True
    }
    error_body(await here.get("/auth/session"), 401, "unauthenticated")
    given = {"email": "ada@example.com", "password": TEST_PASSWORD}
    error_body(await each_world.client().post("/auth/login", json=given), 401, "bad_credentials")
    person = {"first_name": "Ada", "last_name": "Okoro", "role": "customer"}
    json_body(await each_world.client().post("/auth/register", json={**given, **person}), 201)


async def test_who_has_open_bookings_stays(each_world: HttpDeployment) -> None:
    """400, and nothing changes."""
    await add_booking(each_world.store, each_world.companion, each_world.customer)
    here = await sign_in(each_world)
    answer = await here.post("/account/erase", json={"password": TEST_PASSWORD})
    error_body(answer, 400, "open_bookings")
    json_body(await here.get("/auth/session"))


# The contact form -------------------------------------------------------------------------


async def test_a_question_reaches_the_operators(each_world: HttpDeployment) -> None:
    """Kept, and told with the address that the answer goes to."""
    answer = await each_world.client().post("/contact", json={**QUESTION, "subject": "A party"})
    assert json_body(answer, 201) == {"success": True}
    await notifications.send_notifications(each_world.ports)
    [letter] = each_world.notifier.emails
    assert (letter.to, letter.reply_to) == (POLICY.contact_email, "sam@example.com")
    assert letter.subject == "Inquiry 1: A party"


async def test_a_field_left_empty_is_no_subject(world: HttpDeployment) -> None:
    """Browsers send fields that nobody filled in."""
    json_body(await world.client().post("/contact", json={**QUESTION, "subject": ""}), 201)
    await notifications.send_notifications(world.ports)
    [letter] = world.notifier.emails
    assert letter.subject == "Inquiry 1: no subject"


async def test_five_questions_an_hour(world: HttpDeployment) -> None:
    """From an address, whoever is signed in there; the headers tell of this window."""
    client = world.client()
    for left in range(4, -1, -1):
        answer = await client.post("/contact", json=QUESTION)
        json_body(answer, 201)
        assert answer.headers["x-ratelimit-limit"] == "5"
        assert answer.headers["x-ratelimit-remaining"] == str(left)
    error_body(await client.post("/contact", json=QUESTION), 429, "rate_limited")
    json_body(await world.client("198.51.100.7").post("/contact", json=QUESTION), 201)


async def test_a_question_spends_the_general_window_too(world: HttpDeployment) -> None:
    """That of its address."""
    limits = evolve(POLICY.limits, general=RateLimit("general", 1, HOUR))
    world.restart(policy=evolve(Policy(), limits=limits))
    json_body(await world.client().post("/contact", json=QUESTION), 201)
    error_body(await world.client().post("/contact", json=QUESTION), 429, "rate_limited")


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
    world: HttpDeployment, given: dict[str, Any], status: int, named: set[str] | None
) -> None:
    """All faults are reported together; nothing is stored or sent."""
    answer = await world.client().post("/contact", json={**QUESTION, **given})
    assert answer.status_code == status
    assert error_fields(answer) == (named or set(given))
    assert await notifications.send_notifications(world.ports) == 0


async def test_a_foreign_page_asks_nothing(world: HttpDeployment) -> None:
    """Nor does it have links sent."""
    client = world.client(origin="https://evil.example")
    error_body(await client.post("/contact", json=QUESTION), 403, "foreign_origin")
    given = {"email": "ada@example.com"}
    error_body(await client.post("/auth/forgot-password", json=given), 403, "foreign_origin")
