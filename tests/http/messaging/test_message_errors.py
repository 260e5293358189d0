"""Errors of messages over HTTP, their order, and the content filter (CONTRACT 1, 6)."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import httpx
import pytest

from staffbooking_adapters.content.filter import DefaultContentFilter
from staffbooking_adapters.testing.builders import HOUR, add_booking, add_companion, add_user
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.usecases import privacy
from tests.http.api.test_errors import JSON, Failing
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body
from tests.http.docs.openapi_validation import document_of, hold_to_document
from tests.http.messaging.message_calls import (
    list_conversations,
    message_texts,
    send_message,
    sign_in_parties,
)
from tests.support.message_doubles import BLOCKED_TERM, CONTACT_TEXT, SimpleContentFilter

pytestmark = pytest.mark.anyio

HELLO = {"content": "Hello"}
LARGE = b'{"content":"' + b"x" * 70_000 + b'"}'
TO_USER, TO_CONVERSATION = "/messages/send/{user}", "/messages/conversation/{conversation}"
SENDING = pytest.mark.parametrize("path", [TO_USER, TO_CONVERSATION])
BROKEN: tuple[dict[str, Any], ...] = (
    {"content": b"{", "headers": JSON},
    {"content": LARGE, "headers": JSON},
    {"content": b"hello", "headers": {"content-type": "text/plain"}},
    {"json": {}},
    {"json": {"content": ""}},
    {"json": {"content": BLOCKED_TERM}},
    {"json": HELLO},
)
"""Invalid requests, and a valid one."""


@pytest.fixture
async def talk(world: HttpDeployment, monkeypatch: pytest.MonkeyPatch) -> HttpDeployment:
    """The subscriber has booked the companion for the customer, and a content filter is set; every
    response is validated against the document."""
    world.restart(content_filter=SimpleContentFilter())
    hold_to_document(world, await document_of(world), monkeypatch)
    booked_by = world.subscriber.id
    await add_booking(world.store, world.companion, world.customer, booked_by=booked_by)
    return world


async def place(world: HttpDeployment, path: str) -> str:
    """A path that the customer may send to."""
    customer, _ = await sign_in_parties(world)
    [found] = await list_conversations(customer)
    return path.format(user=world.companion.id, conversation=found["id"])


# Access ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method, path",
    [
        ("GET", "/messages"),
        ("GET", "/messages/conversation/1"),
        ("POST", "/messages/conversation/1"),
        ("POST", "/messages/send/1"),
    ],
)
async def test_messages_take_a_session(talk: HttpDeployment, method: str, path: str) -> None:
    """Messages are 401 without credentials and for keys, also with a session, and changes without
    the CSRF token are 403 first."""
    error_body(await talk.client().request(method, path), 401, "unauthenticated")
    error_body(await talk.client_with_key().request(method, path), 401, "session_required")
    stranger = await talk.signed_in_client(talk.stranger.id)
    token = stranger.headers.pop("x-csrf-token")
    if method == "POST":
        error_body(await stranger.post(path, content=b"{"), 403, "csrf_failed")
    else:
        assert (await stranger.get(path)).status_code in (200, 404)
    stranger.headers.update({"x-csrf-token": token, "authorization": f"Bearer {talk.api_key}"})
    error_body(await stranger.request(method, path), 401, "session_required")


async def test_messages_are_counted_by_user(talk: HttpDeployment) -> None:
    """Message requests, refused ones included, share the user's general window."""
    path = TO_USER.format(user=talk.companion.id)
    talk.raise_limits(general=RateLimit("general", 3, HOUR))
    one, two = (
        await talk.signed_in_client(talk.customer.id),
        await talk.signed_in_client(talk.customer.id),
    )
    left = [
        (await one.get("/messages")).headers["x-ratelimit-remaining"],
        (await two.post(path, json={})).headers["x-ratelimit-remaining"],
        (await one.post("/messages/send/999", json=HELLO)).headers["x-ratelimit-remaining"],
    ]
    assert left == ["2", "1", "0"]
    assert error_body(await two.post(path, json=HELLO), 429, "rate_limited")["retry_after"] == 3600


async def test_conversations_of_others_are_404(talk: HttpDeployment) -> None:
    """A conversation of other users is 404 for reading and writing, whatever else is wrong."""
    known = await place(talk, TO_CONVERSATION)
    customer, _ = await sign_in_parties(talk)
    strange = [
        await talk.signed_in_client(one.id) for one in (talk.stranger, talk.admin, talk.subscriber)
    ]
    numbers = ("999", "0", "01", "-1", "x", "1.0", "%20", "\u0661", str(2**63 - 1), str(2**63))
    paths = [TO_CONVERSATION.format(conversation=number) for number in numbers]
    for client, path in [(one, known) for one in strange] + [(customer, path) for path in paths]:
        for asked in BROKEN:
            error_body(await client.post(path, **asked), 404, "not_found")
        for query in ("", "?limit=0", "?before=x&after=x"):
            error_body(await client.get(path + query), 404, "not_found")
    assert (await customer.get(known)).json()["messages"] == []


async def test_an_unknown_user_is_404(talk: HttpDeployment) -> None:
    """An unknown user is 404, whatever else is wrong."""
    customer, _ = await sign_in_parties(talk)
    for number in ("999", "0", "01", "-1", "x", str(2**63 - 1), str(2**63)):
        for asked in BROKEN:
            answer = await customer.post(TO_USER.format(user=number), **asked)
            error_body(answer, 404, "not_found")


@SENDING
async def test_an_erased_person_is_not_written_to(world: HttpDeployment, path: str) -> None:
    """A message to an erased person is 403 `conversation_left`, whatever else is wrong."""
    await add_booking(world.store, world.companion, world.customer, status=BookingStatus.COMPLETED)
    path = await place(world, path)
    await privacy.erase_person(world.ports, world.companion.id)
    customer = await world.signed_in_client(world.customer.id)
    for asked in BROKEN:
        error_body(await customer.post(path, **asked), 403, "conversation_left")


async def test_messages_need_a_shared_booking(talk: HttpDeployment) -> None:
    """A message to a user without a shared booking is 403 before the body is checked, also from
    agencies and admins."""
    staff = await add_companion(talk.store)
    await add_booking(talk.store, staff, await add_user(talk.store))
    for one, other in (
        (talk.customer, talk.stranger),
        (talk.stranger, talk.companion),
        (talk.customer, staff),
        (talk.companion, staff),
        (talk.subscriber, talk.customer),
        (talk.subscriber, talk.companion),
        (talk.admin, talk.customer),
        (talk.companion, talk.admin),
    ):
        browser = await talk.signed_in_client(one.id)
        for asked in BROKEN:
            answer = await browser.post(TO_USER.format(user=other.id), **asked)
            error_body(answer, 403, "no_shared_booking")
        assert all(each["last_message"] is None for each in await list_conversations(browser))


# Content ---------------------------------------------------------------------------------


async def test_nobody_writes_to_oneself(talk: HttpDeployment) -> None:
    """A message to oneself is 400, after the checks of the body and before the content filter."""
    customer, _ = await sign_in_parties(talk)
    path = TO_USER.format(user=talk.customer.id)
    error_body(await customer.post(path, json=HELLO), 400, "message_to_oneself")
    error_body(await customer.post(path, json={"content": BLOCKED_TERM}), 400, "message_to_oneself")
    error_body(await customer.post(path, json={}), 400, "missing_field")
    error_body(await customer.post(path, json={"content": ""}), 422, "invalid_field")
    error_body(await customer.post(path, content=b"{}"), 415, "unsupported_media_type")
    error_body(await customer.post(path, content=LARGE, headers=JSON), 413, "body_too_large")


@SENDING
async def test_the_checks_have_their_order(talk: HttpDeployment, path: str) -> None:
    """The order of checks is 413, 415, 400 for invalid JSON, 400 for missing fields, 422."""
    customer, _ = await sign_in_parties(talk)
    path = await place(talk, path)
    plain = {"content-type": "text/plain"}
    error_body(await customer.post(path, content=LARGE, headers=plain), 413, "body_too_large")
    error_body(
        await customer.post(path, content=b"{", headers=plain), 415, "unsupported_media_type"
    )
    for raw in (b"{", b"[]", b"", b'{"content":NaN}', b'{"content":"a","content":"b"}', b"\xff"):
        answer = await customer.post(path, content=raw, headers=JSON)
        error_body(answer, 400, "malformed_json")
    for body in ({}, {"content": None}, {"message": "Hello"}):
        answer = await customer.post(path, json=body)
        error_body(answer, 400, "missing_field")
        assert error_fields(answer) == {"content"}


WRONG: tuple[Any, ...] = (
    "",
    " ",
    "\n\t\u2003\u00a0",
    "x" * 5001,
    "\N{GRINNING FACE}" * 5001,
    "a\0b",
    "\ud83d",
    "\ude00\ud83d",
    "\x1b[31mred",
    "a\rb",
    "a\x7f",
    "a\x85",
    "\u202eeht",
    "\u202dthe",
    7,
    4.5,
    True,
    ["Hello"],
    {"text": "Hello"},
)


@SENDING
async def test_content_has_its_bounds(talk: HttpDeployment, path: str) -> None:
    """Content that is blank, too long, no text, or has control characters, bidi overrides or lone
    surrogates is 422 and not stored."""
    customer, _ = await sign_in_parties(talk)
    path = await place(talk, path)
    for content in WRONG:
        raw = json.dumps({"content": content})
        answer = await customer.post(path, content=raw, headers=JSON)
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == {"content"}
    [found] = await list_conversations(customer)
    assert found["last_message"] is None


async def test_a_page_of_conversations_has_its_bounds(talk: HttpDeployment) -> None:
    """All faults of the query are reported together."""
    customer, _ = await sign_in_parties(talk)
    for query, wrong in (
        ("page=0", {"page"}),
        ("page=100001", {"page"}),
        ("limit=0", {"limit"}),
        ("limit=101", {"limit"}),
        ("limit=1.0&page=", {"limit", "page"}),
        ("limit=5&limit=5", {"limit"}),
    ):
        answer = await customer.get(f"/messages?{query}")
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == wrong, query


async def test_a_page_of_history_has_its_bounds(talk: HttpDeployment) -> None:
    """All faults of the query are reported together, and no message is marked as read."""
    customer, staff = await sign_in_parties(talk)
    number = (await send_message(staff, talk.customer.id))["conversation_id"]
    for query, wrong in (
        ("limit=0", {"limit"}),
        ("limit=101", {"limit"}),
        ("limit=%31%30%31", {"limit"}),
        ("before=0", {"before"}),
        ("before=x&after=-1&limit=x", {"before", "after", "limit"}),
        ("after=9223372036854775808", {"after"}),
        ("before=9223372036854775808", {"before"}),
        (f"after={'9' * 5000}", {"after"}),
        ("after=", {"after"}),
        ("after=null", {"after"}),
        ("after=+1", {"after"}),
        ("after=01", {"after"}),
        ("after=%D9%A1", {"after"}),
        ("after=%FF", {"after"}),
        ("after=1&after=1", {"after"}),
        ("%61fter=1&after=1&limit=1&limit=0", {"after", "limit"}),
    ):
        answer = await customer.get(f"/messages/conversation/{number}?{query}")
        error_body(answer, 422, "invalid_field")
        assert error_fields(answer) == wrong, query
    assert [found["unread_count"] for found in await list_conversations(customer)] == [1]


# The content filter ----------------------------------------------------------------------


async def blocked(client: httpx.AsyncClient, path: str, content: str) -> None:
    answer = await client.post(path, json={"content": content})
    error_body(answer, 422, "content_blocked")
    assert error_fields(answer) == {"content"}
    assert content not in answer.text


@SENDING
async def test_blocked_words_are_always_refused(talk: HttpDeployment, path: str) -> None:
    """Blocked words are refused before and after payment; the answer omits them and nothing is
    stored."""
    customer, staff = await sign_in_parties(talk)
    path = await place(talk, path)
    await blocked(customer, path, f"Oh {BLOCKED_TERM}")
    await add_booking(talk.store, talk.companion, talk.customer, status=BookingStatus.PAID)
    await blocked(customer, path, f"Oh {BLOCKED_TERM}")
    [found] = await list_conversations(staff)
    assert (found["last_message"], found["unread_count"]) == (None, 0)


@pytest.mark.parametrize("status", BookingStatus)
async def test_contacts_pass_once_a_booking_is_paid(
    talk: HttpDeployment, status: BookingStatus
) -> None:
    """One paid, disputed or completed booking of the pair permits contact details in both
    directions."""
    await add_booking(talk.store, talk.companion, talk.customer, status=status)
    await add_booking(talk.store, talk.companion, talk.customer, status=BookingStatus.CANCELLED)
    customer, staff = await sign_in_parties(talk)
    passes = status in (BookingStatus.PAID, BookingStatus.DISPUTED, BookingStatus.COMPLETED)
    for path in (await place(talk, TO_USER), await place(talk, TO_CONVERSATION)):
        if passes:
            json_body(await customer.post(path, json={"content": CONTACT_TEXT}), 201)
        else:
            await blocked(customer, path, CONTACT_TEXT)
    back = TO_USER.format(user=talk.customer.id)
    if passes:
        json_body(await staff.post(back, json={"content": CONTACT_TEXT}), 201)
    else:
        await blocked(staff, back, CONTACT_TEXT)
    [found] = await list_conversations(customer)
    assert await message_texts(customer, found["id"]) == [CONTACT_TEXT] * 3 * passes


async def test_contacts_pass_by_pair(talk: HttpDeployment) -> None:
    """A payment to one companion permits no contact details to another."""
    other, another = await add_companion(talk.store), await add_user(talk.store)
    await add_booking(talk.store, other, talk.customer, status=BookingStatus.PAID)
    await add_booking(talk.store, talk.companion, another, status=BookingStatus.PAID)
    customer, staff = await sign_in_parties(talk)
    await send_message(customer, other.id, CONTACT_TEXT)
    await send_message(staff, another.id, CONTACT_TEXT)
    await blocked(customer, TO_USER.format(user=talk.companion.id), CONTACT_TEXT)
    await blocked(staff, TO_USER.format(user=talk.customer.id), CONTACT_TEXT)


async def test_the_default_filter_is_used(talk: HttpDeployment) -> None:
    """The default filter blocks a telephone number before payment and a deployment's own words, and
    accepts times."""
    talk.restart(content_filter=DefaultContentFilter(["Hôtel Lux"]))
    customer, _ = await sign_in_parties(talk)
    path = TO_USER.format(user=talk.companion.id)
    for content in ("Call me: +351 912 345 678", "Come to the HOTEL  LUX"):
        await blocked(customer, path, content)
    json_body(
        await customer.post(path, json={"content": "Could we begin at 18:30 on 3 March?"}), 201
    )


# Other errors ----------------------------------------------------------------------------


async def test_other_methods_are_405(talk: HttpDeployment) -> None:
    """PUT, PATCH and DELETE of messages are 405 with an Allow header."""
    customer, _ = await sign_in_parties(talk)
    for path, allow in (
        ("/messages", "GET, HEAD, OPTIONS"),
        ("/messages/conversation/1", "GET, POST, HEAD, OPTIONS"),
        ("/messages/send/1", "POST, OPTIONS"),
    ):
        for method in ("PUT", "PATCH", "DELETE"):
            answer = await customer.request(method, path)
            error_body(answer, 405, "method_not_allowed")
            assert answer.headers["allow"] == allow


async def test_other_paths_are_404(talk: HttpDeployment) -> None:
    """A path with an additional slash or a missing segment is 404."""
    customer, _ = await sign_in_parties(talk)
    for tail in ("", "send", "send/", "conversation", "1", "conversation/1/", "send/1/2"):
        for method in ("GET", "POST"):
            error_body(await customer.request(method, f"/messages/{tail}"), 404, "not_found")


async def test_an_unavailable_store_is_503(talk: HttpDeployment) -> None:
    """An unavailable store is 503."""
    customer, _ = await sign_in_parties(talk)
    talk.restart(store=Failing(StoreUnavailable("gone")))
    there = talk.client(**dict(customer.headers))
    error_body(await there.get("/messages"), 503, "unavailable")
    error_body(await there.post("/messages/send/1", json=HELLO), 503, "unavailable")


async def test_the_page_has_the_sentence_of_each_refusal(world: HttpDeployment) -> None:
    """The chat's script finds the sentence of a refusal by the beginning of its message."""
    await add_booking(world.store, world.companion, world.customer)
    customer, _ = await sign_in_parties(world)
    [found] = await list_conversations(customer)
    shown = (await customer.get(f"/conversations/{found['id']}")).text
    sentences = dict(re.findall(r'<data value="([^"]+)">(.*?)</data>', shown))
    path = TO_CONVERSATION.format(conversation=found["id"])
    refused = await customer.post(path, json={"content": "Ada \u202e abc"})
    assert refused.status_code == 422
    [fault] = refused.json()["errors"]
    [told] = [each for start, each in sentences.items() if fault["message"].startswith(start)]
    assert html.unescape(told) == "It contains a character that can't be used here."
