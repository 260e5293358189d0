"""Messages over HTTP: conversations, history, read marks (SPECIFICATION 4.8, CONTRACT 6)."""

from __future__ import annotations

import httpx
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import SECOND, add_booking, add_companion
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.inputs import MarkReadUpTo
from staffbooking_core.representations.channel import Broadcast, ServerEvent
from staffbooking_core.usecases.messaging import channel
from tests.http.bookings.test_booking_flow import set_clock
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body
from tests.http.docs.openapi_validation import document_of, hold_to_document
from tests.http.messaging.message_calls import (
    JsonRecord,
    get_conversation,
    list_conversations,
    message_texts,
    send_message,
    send_to_conversation,
    sign_in_parties,
)
from tests.support.message_doubles import RecordingSubscriber

pytestmark = pytest.mark.anyio


@pytest.fixture
async def talk(world: HttpDeployment, monkeypatch: pytest.MonkeyPatch) -> HttpDeployment:
    """The customer has booked the companion; every response is validated against the document."""
    hold_to_document(world, await document_of(world), monkeypatch)
    await add_booking(world.store, world.companion, world.customer)
    return world


async def send_interleaved(world: HttpDeployment, count: int) -> list[JsonRecord]:
    """Send so many messages from the customer to the companion, interleaved with another
    conversation; returns the former."""
    customer, _ = await sign_in_parties(world)
    other = await add_companion(world.store)
    await add_booking(world.store, other, world.customer)
    said = []
    for number in range(count):
        said.append(await send_message(customer, world.companion.id, f"No. {number}"))
        await send_message(customer, other.id, "Elsewhere")
    return said


# The main flow --------------------------------------------------------------------------


async def test_a_request_opens_a_conversation(each_world: HttpDeployment) -> None:
    """A booking request opens a conversation in which both parties send and read messages."""
    customer, staff = await sign_in_parties(each_world)
    body = each_world.request_body()
    booking = json_body(
        await each_world.client_with_key().post("/api/v1/bookings", json=body), 201
    )["booking"]
    [empty] = await list_conversations(customer)
    people = {each_world.companion.id: "Mia Lindqvist", each_world.customer.id: "Ada Okoro"}
    assert empty == {
        "id": empty["id"],
        "type": "direct",
        "title": "Mia Lindqvist",
        "booking_code": booking["booking_code"],
        "participants": [
            {"user_id": number, "name": people[number], "online": False}
            for number in sorted(people)
        ],
        "last_message": None,
        "unread_count": 0,
        "updated_at": "2027-03-01T12:00:00Z",
    }

    each_world.clock.advance(SECOND)
    sent = await customer.post(
        f"/messages/send/{each_world.companion.id}", json={"content": "Is the door at the back?"}
    )
    message = json_body(sent, 201)["message"]
    assert json_body(sent, 201) == {"success": True, "message": message}
    assert message == {
        "id": message["id"],
        "conversation_id": empty["id"],
        "sender_id": each_world.customer.id,
        "sender_name": "Ada Okoro",
        "content": "Is the door at the back?",
        "created_at": "2027-03-01T12:00:01Z",
    }
    said = {"last_message": message, "updated_at": message["created_at"]}
    assert await list_conversations(customer) == [{**empty, **said}]
    mine = {**empty, **said, "title": "Ada Okoro"}
    assert await list_conversations(staff) == [{**mine, "unread_count": 1}]
    shown = {"conversation": mine, "messages": [message], "has_more": False}
    assert await get_conversation(staff, empty["id"]) == shown

    answer = await send_to_conversation(staff, empty["id"], "It is.")
    assert answer["id"] > message["id"]
    assert (await get_conversation(customer, empty["id"]))["messages"] == [message, answer]


# Conversations --------------------------------------------------------------------------


async def test_without_a_booking_there_is_no_conversation(talk: HttpDeployment) -> None:
    """A user without bookings, or an admin, has an empty list of conversations."""
    for user in (talk.stranger, talk.admin):
        answer = await (await talk.signed_in_client(user.id)).get("/messages")
        assert json_body(answer) == {"conversations": [], "has_more": False}


@pytest.mark.parametrize("status", BookingStatus)
async def test_any_booking_status_permits_messages(
    talk: HttpDeployment, status: BookingStatus
) -> None:
    """Customer and companion can message each other in every booking status."""
    other = await add_companion(talk.store)
    await add_booking(talk.store, other, talk.customer, status=status)
    customer = await talk.signed_in_client(talk.customer.id)
    await send_message(customer, other.id)
    await send_message(await talk.signed_in_client(other.id), talk.customer.id)
    assert len(await list_conversations(customer)) == 2


async def test_a_pair_has_one_conversation(talk: HttpDeployment) -> None:
    """A pair has one conversation, with the code of their newest booking."""
    customer, staff = await sign_in_parties(talk)
    first = (await list_conversations(customer))[0]
    newest = await add_booking(talk.store, talk.companion, talk.customer)
    assert await list_conversations(customer) == [{**first, "booking_code": newest.code}]
    assert (await get_conversation(staff, first["id"]))["conversation"][
        "booking_code"
    ] == newest.code


async def test_both_ways_of_sending_share_a_conversation(talk: HttpDeployment) -> None:
    """Messages to the user from either party, and to the conversation, are in one conversation."""
    customer, staff = await sign_in_parties(talk)
    one = await send_message(staff, talk.customer.id, "one")
    two = await send_message(customer, talk.companion.id, "two")
    three = await send_to_conversation(customer, one["conversation_id"], "three")
    assert {one["conversation_id"], two["conversation_id"]} == {three["conversation_id"]}
    assert await message_texts(staff, one["conversation_id"]) == ["one", "two", "three"]


async def test_the_title_is_the_others_current_name(talk: HttpDeployment) -> None:
    """The title and participants have the current name, and a message the sender's name when it was
    sent."""
    customer, staff = await sign_in_parties(talk)
    said = await send_message(customer, talk.companion.id)
    renamed = evolve(talk.customer, first_name="Adaeze")
    await talk.store.run_transaction(lambda unit: unit.accounts.save_user(renamed))
    [found] = await list_conversations(staff)
    assert found["title"] == "Adaeze Okoro"
    assert "Adaeze Okoro" in [one["name"] for one in found["participants"]]
    assert found["last_message"] == said


async def test_a_connected_user_is_online(talk: HttpDeployment) -> None:
    """A user is online in the list and the history while connected."""
    customer, staff = await sign_in_parties(talk)
    await channel.heartbeat(talk.ports, "node", {}, is_recount=True)
    await channel.connect(talk.ports, talk.customer.id, "node")

    async def online() -> list[int]:
        [found] = await list_conversations(staff)
        shown = (await get_conversation(customer, found["id"]))["conversation"]
        assert shown["participants"] == found["participants"]
        return [one["user_id"] for one in found["participants"] if one["online"]]

    assert await online() == [talk.customer.id]
    await channel.disconnect(talk.ports, talk.customer.id, "node")
    assert await online() == []


async def test_the_conversation_updated_last_is_first(talk: HttpDeployment) -> None:
    """Conversations are listed by their newest message in business time, newest first."""
    others = [await add_companion(talk.store) for _ in range(2)]
    for other in others:
        await add_booking(talk.store, other, talk.customer)
    customer = await talk.signed_in_client(talk.customer.id)
    order = [others[0].id, talk.companion.id, others[1].id]
    for number, to in enumerate(order):
        await set_clock(talk, f"2027-03-01T13:00:0{number}Z")
        await send_message(customer, to)
    found = await list_conversations(customer)
    assert [one["updated_at"] for one in found] == [f"2027-03-01T13:00:0{n}Z" for n in (2, 1, 0)]
    members = [{one["user_id"] for one in each["participants"]} for each in found]
    assert members == [{talk.customer.id, other} for other in order[::-1]]


async def test_conversations_come_by_pages(talk: HttpDeployment) -> None:
    """A page has 100 conversations or the given limit, and has_more is true if a later page has
    any."""
    for _ in range(100):
        await add_booking(talk.store, await add_companion(talk.store), talk.customer)
    customer = await talk.signed_in_client(talk.customer.id)
    whole = await list_conversations(customer) + await list_conversations(customer, "?page=2")
    assert len({one["id"] for one in whole}) == 101
    for query, start, count, has_more in (
        ("", 0, 100, True),
        ("?page=2", 100, 1, False),
        ("?page=3", 0, 0, False),
        ("?limit=50&page=2", 50, 50, True),
        ("?limit=50&page=3", 100, 1, False),
        ("?limit=1&page=100", 99, 1, True),
        ("?limit=1&page=101", 100, 1, False),
        ("?limit=100&page=100000", 0, 0, False),
    ):
        found = json_body(await customer.get(f"/messages{query}"))
        wanted = {"conversations": whole[start : start + count], "has_more": has_more}
        assert found == wanted, query


# History --------------------------------------------------------------------------------


PAGES = [
    ("", "01234", False),
    ("?limit=5", "01234", False),
    ("?limit=4", "1234", True),
    ("?limit=1", "4", True),
    ("?before={4}", "0123", False),
    ("?before={4}&limit=4", "0123", False),
    ("?before={4}&limit=3", "123", True),
    ("?before={0}", "", False),
    ("?before={1}&limit=1", "0", False),
    ("?before=9223372036854775807", "01234", False),
    ("?after=0", "01234", False),
    ("?after=0&limit=5", "01234", False),
    ("?after=0&limit=4", "0123", True),
    ("?after={0}&limit=4", "1234", False),
    ("?after={0}&limit=3", "123", True),
    ("?after={4}", "", False),
    ("?after=9223372036854775807", "", False),
    ("?after={0}&before={4}", "123", False),
    ("?after={0}&before={4}&limit=3", "123", False),
    ("?after={0}&before={4}&limit=2", "12", True),
    ("?after={0}&before=9223372036854775807&limit=4", "1234", False),
    ("?after={3}&before={4}", "", False),
    ("?after={3}&before={1}", "", False),
]
"""Query with message numbers for their ids, the numbers of the expected messages, and the expected
has_more."""


async def test_history_is_paged_both_ways(talk: HttpDeployment) -> None:
    """History is paged by before and after, always oldest first, also with ids of other
    conversations between."""
    said = await send_interleaved(talk, 5)
    _, staff = await sign_in_parties(talk)
    for query, places, has_more in PAGES:
        asked = query.format(*(message["id"] for message in said))
        found = await get_conversation(staff, said[0]["conversation_id"], asked)
        wanted = [said[int(place)] for place in places]
        assert (found["messages"], found["has_more"]) == (wanted, has_more), query


async def test_a_page_of_history_has_fifty(talk: HttpDeployment) -> None:
    """A page of history has the newest 50 messages, or up to 100 by a limit."""
    said = await send_interleaved(talk, 102)
    _, staff = await sign_in_parties(talk)
    number = said[0]["conversation_id"]
    for query, count in (("", 50), ("?limit=100", 100)):
        found = await get_conversation(staff, number, query)
        assert (found["messages"], found["has_more"]) == (said[-count:], True)


TEXTS = [
    "x",
    "  leading, trailing and\nnew lines\t\r\n ",
    "<script>alert('é')</script> & \"so\" \\n",
    "\N{GRINNING FACE}" * 5000,
    "é" * 5000,
    "\u2067right to left\u2069 \u202bagain\u202c \ufeff\u200b\u200e\u200d",
    "e\u0301 is not \xe9",
]


async def test_content_is_returned_unchanged(talk: HttpDeployment) -> None:
    """Text of 1 to 5,000 code points is returned unchanged, whichever way it was sent."""
    customer, staff = await sign_in_parties(talk)
    number = 0
    for text in TEXTS:
        said = await send_message(customer, talk.companion.id, text)
        number = said["conversation_id"]
        again = await send_to_conversation(customer, number, text)
        assert (said["content"], again["content"]) == (text, text)
    assert await message_texts(staff, number) == [text for text in TEXTS for _ in "ab"]


async def test_unknown_fields_are_ignored(talk: HttpDeployment) -> None:
    """All fields of the body but its content and client id are ignored."""
    customer, _ = await sign_in_parties(talk)
    body = {
        "content": "Hello",
        "sender_id": talk.companion.id,
        "sender_name": "Mia",
        "id": 77,
        "conversation_id": 99,
        "created_at": "2020-01-01T00:00:00Z",
    }
    said = json_body(await customer.post(f"/messages/send/{talk.companion.id}", json=body), 201)[
        "message"
    ]
    assert (said["sender_id"], said["sender_name"]) == (talk.customer.id, "Ada Okoro")
    assert (said["id"], said["created_at"][:4]) == (1, "2027")


async def test_a_client_message_id_is_stored_once(each_world: HttpDeployment) -> None:
    """A repeated `client_message_id` gets the stored message; with other content it is 400."""
    await add_booking(each_world.store, each_world.companion, each_world.customer)
    customer, staff = await sign_in_parties(each_world)
    path = f"/messages/send/{each_world.companion.id}"
    body = {"content": "Hello", "client_message_id": "a1"}
    first = json_body(await customer.post(path, json=body), 201)["message"]
    number = first["conversation_id"]
    for where in (path, f"/messages/conversation/{number}"):
        assert json_body(await customer.post(where, json=body), 201)["message"] == first
        other = await customer.post(where, json={**body, "content": "Bye"})
        error_body(other, 400, "idempotency_mismatch")
    assert await message_texts(staff, number) == ["Hello"]


@pytest.mark.parametrize("name", ["", "x" * 101, 7])
async def test_a_bad_client_message_id_is_422(talk: HttpDeployment, name: object) -> None:
    """A `client_message_id` that is no text of 1 to 100 characters is 422."""
    customer, _ = await sign_in_parties(talk)
    body = {"content": "Hello", "client_message_id": name}
    answer = await customer.post(f"/messages/send/{talk.companion.id}", json=body)
    error_body(answer, 422, "invalid_field")
    assert error_fields(answer) == {"client_message_id"}


# Read marks -----------------------------------------------------------------------------


async def unread_count(client: httpx.AsyncClient) -> int:
    """The unread count of the user's only conversation."""
    [found] = await list_conversations(client)
    count: int = found["unread_count"]
    return count


async def test_reading_marks_what_was_shown(talk: HttpDeployment) -> None:
    """Reading marks messages up to the last one shown as read, and never moves the mark back."""
    said = await send_interleaved(talk, 5)
    _, staff = await sign_in_parties(talk)
    number = said[0]["conversation_id"]
    for query, left in (
        ("?after=0&limit=2", 3),
        ("?after=0&limit=1", 3),
        (f"?before={said[0]['id']}", 3),
        (f"?before={said[3]['id']}&limit=1", 2),
        (f"?after={said[4]['id']}", 2),
        ("?limit=1", 0),
        ("", 0),
    ):
        found = await get_conversation(staff, number, query)
        assert found["conversation"]["unread_count"] == left, query
        assert await unread_count(staff) == left, query


async def test_sending_does_not_mark_as_read(talk: HttpDeployment) -> None:
    """A user's own messages are never unread, and sending does not mark the other's messages as
    read."""
    customer, staff = await sign_in_parties(talk)
    number = (await send_message(customer, talk.companion.id))["conversation_id"]
    await send_to_conversation(staff, number, "Later")
    assert (await unread_count(customer), await unread_count(staff)) == (1, 1)
    await get_conversation(customer, number)
    assert (await unread_count(customer), await unread_count(staff)) == (0, 1)


async def test_a_read_mark_is_broadcast_once(talk: HttpDeployment) -> None:
    """Reading the other's message is broadcast once; repeated reads, and reads of own messages, are
    not."""
    customer, staff = await sign_in_parties(talk)
    said = await send_message(customer, talk.companion.id)
    heard = RecordingSubscriber()
    async with talk.ports.pubsub.subscribe(heard):
        for client in (customer, staff, staff):
            await get_conversation(client, said["conversation_id"])
    everybody = tuple(sorted((talk.customer.id, talk.companion.id)))
    data = {"conversation_id": said["conversation_id"], "message_id": said["id"]}
    read = {**data, "user_id": talk.companion.id}
    assert heard.broadcasts == [Broadcast(everybody, ServerEvent.READ, read)]


async def test_sent_messages_reach_the_channel(talk: HttpDeployment) -> None:
    """A message sent either way is published to subscribers, and readable as missed by the
    recipient."""
    customer, _ = await sign_in_parties(talk)
    heard = RecordingSubscriber()
    async with talk.ports.pubsub.subscribe(heard):
        number = (await send_message(customer, talk.companion.id))["conversation_id"]
        await send_to_conversation(customer, number)
    assert heard.stored_count == 2
    found, _ = await channel.missed_messages(talk.ports, talk.companion.id, 0)
    assert [message.content for message in found] == ["Hello", "Hello"]


async def test_a_read_mark_of_the_channel_counts(talk: HttpDeployment) -> None:
    """A read mark set over the channel reduces the unread count over HTTP."""
    said = await send_interleaved(talk, 3)
    _, staff = await sign_in_parties(talk)
    number = said[0]["conversation_id"]
    upto = MarkReadUpTo(conversation_id=number, message_id=said[1]["id"])
    await channel.mark_read(talk.ports, talk.companion.id, upto)
    assert await unread_count(staff) == 1


async def test_head_is_get_without_a_body(talk: HttpDeployment) -> None:
    """HEAD of the list and of a history has a length and no body."""
    customer, _ = await sign_in_parties(talk)
    number = (await send_message(customer, talk.companion.id))["conversation_id"]
    for path in ("/messages", f"/messages/conversation/{number}"):
        answer = await customer.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
        assert int(answer.headers["content-length"]) > 0
