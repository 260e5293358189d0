"""The user's own account over HTTP: passwords, sessions, email address, notification settings,
export and erasure; and the contact form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, POLICY, add_booking
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

pytestmark = pytest.mark.anyio

NEW = "battery staple"
CHANGE = {"current_password": TEST_PASSWORD, "new_password": NEW}
QUESTION = {"name": "Sam", "email": "sam@example.com", "message": "How much?\nFor ten people."}


async def sign_in(world: HttpDeployment, password: str = TEST_PASSWORD) -> httpx.AsyncClient:
    """A client signed in as Ada."""
    client = world.client()
    given = {"email": "ada@example.com", "password": password}
    client.headers["x-csrf-token"] = json_body(await client.post("/auth/login", json=given))[
        "csrf_token"
    ]
    return client


async def link_of(world: HttpDeployment, kind: NotificationKind) -> str:
    """The path of the link in the last email of a kind."""
    await notifications.send_notifications(world.ports)
    [*_, last] = [each for each in world.notifier.emails if each.kind is kind]
    return (last.url or "").removeprefix(BASE_URL)


async def token_of(world: HttpDeployment, kind: NotificationKind) -> str:
    return (await link_of(world, kind)).rpartition("/")[2]


# Passwords --------------------------------------------------------------------------------


async def test_a_password_is_changed(each_world: HttpDeployment) -> None:
    """A password change keeps this session, ends the others, and makes the new password valid."""
    here, there = await sign_in(each_world), await sign_in(each_world)
    assert json_body(await here.post("/auth/password", json=CHANGE)) == {"success": True}
    json_body(await here.get("/auth/session"))
    error_body(await there.get("/auth/session"), 401, "unauthenticated")
    await sign_in(each_world, NEW)


async def test_a_wrong_password_is_401(world: HttpDeployment) -> None:
    """A wrong current password is 401, a short new one 422, and a missing CSRF token 403."""
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
    """After ten wrong passwords a password change is 429 with a Retry-After of 15 minutes."""
    here = await sign_in(world)
    for _ in range(10):
        await here.post("/auth/password", json={**CHANGE, "current_password": "wrong"})
    answer = await here.post("/auth/password", json=CHANGE)
    error_body(answer, 429, "rate_limited")
    assert int(answer.headers["retry-after"]) == 900


async def test_a_forgotten_password_is_reset_by_email(each_world: HttpDeployment) -> None:
    """A reset token sets the password once, ends all sessions and verifies the email address."""
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


async def test_a_reset_request_does_not_reveal_users(world: HttpDeployment) -> None:
    """An unknown address gets the identical response, and no email is sent."""
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
    """The fourth reset email in an hour for one account is 429."""
    client, given = world.client(), {"email": "ada@example.com"}
    for _ in range(3):
        json_body(await client.post("/auth/forgot-password", json=given))
    error_body(await client.post("/auth/forgot-password", json=given), 429, "rate_limited")


@pytest.mark.parametrize("token", ["x", "1.2.3", "1" * 1000, "\N{DIGIT ONE}"])
async def test_a_wrong_token_is_400(world: HttpDeployment, token: str) -> None:
    """An invalid token is 400 `token_invalid`, and an overlong one 422."""
    client = world.client()
    wanted = {"token": token, "password": NEW}
    error_body(await client.post("/auth/reset-password", json=wanted), 400, "token_invalid")
    error_body(await client.post("/auth/verify-email", json={"token": token}), 400, "token_invalid")
    longer = await client.post("/auth/verify-email", json={"token": "x" * 1001})
    error_body(longer, 422, "invalid_field")


async def test_a_token_with_an_id_out_of_range_is_400(each_world: HttpDeployment) -> None:
    """A token whose id exceeds 2^63 - 1 is 400 on every store."""
    token = f"{2**63}.1.{'A' * 43}"
    answer = await each_world.client().post("/auth/verify-email", json={"token": token})
    error_body(answer, 400, "token_invalid")


# Sessions ---------------------------------------------------------------------------------


async def test_sessions_are_listed_and_ended(each_world: HttpDeployment) -> None:
    """Sessions are listed with the current one marked, and ended one by one or all but the current
    one."""
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


# Email verification -----------------------------------------------------------------------


async def test_an_address_is_confirmed(each_world: HttpDeployment) -> None:
    """The token sent at registration verifies the email address once."""
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


# Notification settings --------------------------------------------------------------------


async def test_optional_notifications_are_switched(each_world: HttpDeployment) -> None:
    """A user's notification settings change only the given optional kinds."""
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
    """Malformed notification settings are refused."""
    here = await sign_in(world)
    error_body(await here.put("/account/notifications", json=given), status, code)


# Export and erasure -----------------------------------------------------------------------


async def test_the_export_holds_the_users_data(each_world: HttpDeployment) -> None:
    """The export is one JSON document of the user's own data."""
    here = await sign_in(each_world)
    found = json_body(await here.get("/account/export"))
    assert found["user"]["email"] == "ada@example.com"
    assert len(found["sessions"]) == 1
    assert (found["profile"], found["bookings"]) == (None, [])
    staff = await each_world.signed_in_client(each_world.companion.id)
    assert json_body(await staff.get("/account/export"))["profile"]["id"] == each_world.companion.id


async def test_a_large_export_is_streamed(
    world: HttpDeployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large export is sent without Content-Length, and HEAD reads none of its pages."""
    monkeypatch.setattr(privacy, "EXPORT_PAGE_SIZE", 2)
    bookings = [await add_booking(world.store, world.companion, world.customer) for _ in range(5)]
    here = await world.signed_in_client(world.customer.id)
    answer = await here.get("/account/export")
    found = json_body(answer)["bookings"]
    assert [each["booking_code"] for each in found] == [booking.code for booking in bookings]
    assert "content-length" not in answer.headers
    monkeypatch.setattr(privacy, "_read_pages", unread_pages)
    head = await here.head("/account/export")
    assert (head.status_code, head.content) == (200, b"")


async def unread_pages(*_: object) -> AsyncIterator[list[Any]]:
    """Pages that fail the test when they are read."""
    yield pytest.fail("a page was read")


async def test_exports_are_limited(each_world: HttpDeployment) -> None:
    """The export is limited to ten an hour, separately from other requests."""
    here = await sign_in(each_world)
    for left in range(9, -1, -1):
        answer = await here.get("/account/export")
        assert answer.headers["x-ratelimit-remaining"] == str(left)
        json_body(answer)
    error_body(await here.get("/account/export"), 429, "rate_limited")
    json_body(await here.get("/auth/session"))


async def test_an_account_is_erased(each_world: HttpDeployment) -> None:
    """Erasure needs the password, ends the session and frees the email address."""
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


async def test_an_account_with_open_bookings_is_not_erased(each_world: HttpDeployment) -> None:
    """Erasure with open bookings is 400, and the session remains."""
    await add_booking(each_world.store, each_world.companion, each_world.customer)
    here = await sign_in(each_world)
    answer = await here.post("/account/erase", json={"password": TEST_PASSWORD})
    error_body(answer, 400, "open_bookings")
    json_body(await here.get("/auth/session"))


# The contact form -------------------------------------------------------------------------


async def test_a_question_reaches_the_operators(each_world: HttpDeployment) -> None:
    """A contact message is emailed to the operators with the sender's address as reply-to."""
    answer = await each_world.client().post("/contact", json={**QUESTION, "subject": "A party"})
    assert json_body(answer, 201) == {"success": True}
    await notifications.send_notifications(each_world.ports)
    [letter] = each_world.notifier.emails
    assert (letter.to, letter.reply_to) == (POLICY.contact_email, "sam@example.com")
    assert letter.subject == "Inquiry 1: A party"


async def test_an_empty_subject_is_no_subject(world: HttpDeployment) -> None:
    """An empty subject counts as none."""
    json_body(await world.client().post("/contact", json={**QUESTION, "subject": ""}), 201)
    await notifications.send_notifications(world.ports)
    [letter] = world.notifier.emails
    assert letter.subject == "Inquiry 1: no subject"


async def test_five_questions_an_hour(world: HttpDeployment) -> None:
    """An IP address may send five contact messages an hour, as its headers show."""
    client = world.client()
    for left in range(4, -1, -1):
        answer = await client.post("/contact", json=QUESTION)
        json_body(answer, 201)
        assert answer.headers["x-ratelimit-limit"] == "5"
        assert answer.headers["x-ratelimit-remaining"] == str(left)
    error_body(await client.post("/contact", json=QUESTION), 429, "rate_limited")
    json_body(await world.client("198.51.100.7").post("/contact", json=QUESTION), 201)


async def test_a_question_spends_the_general_window_too(world: HttpDeployment) -> None:
    """A contact message also counts in the general window of its IP address."""
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
    """All invalid fields of a contact message are reported together, and nothing is sent."""
    answer = await world.client().post("/contact", json={**QUESTION, **given})
    assert answer.status_code == status
    assert error_fields(answer) == (named or set(given))
    assert await notifications.send_notifications(world.ports) == 0


async def test_a_foreign_origin_is_403(world: HttpDeployment) -> None:
    """Contact messages and reset requests with a foreign Origin header are 403."""
    client = world.client(origin="https://evil.example")
    error_body(await client.post("/contact", json=QUESTION), 403, "foreign_origin")
    given = {"email": "ada@example.com"}
    error_body(await client.post("/auth/forgot-password", json=given), 403, "foreign_origin")
