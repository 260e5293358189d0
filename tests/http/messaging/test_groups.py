"""Group conversations of events over HTTP: members, and who can still read (CONTRACT 6)."""

from __future__ import annotations

from typing import Any

import anyio
import httpx
import pytest

from staffbooking_adapters.testing.builders import add_companion, add_user
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.usecases import due_work
from tests.http.bookings.test_booking_flow import set_clock
from tests.http.deployment import HttpDeployment, error_body, error_fields, json_body
from tests.http.docs.openapi_validation import document_of, hold_to_document
from tests.http.messaging.message_calls import (
    JsonRecord,
    get_conversation,
    list_conversations,
    message_texts,
    send_to_conversation,
)
from tests.support.message_doubles import BLOCKED_TERM, CONTACT_TEXT, SimpleContentFilter

pytestmark = pytest.mark.anyio

EVENT = "Gala 2027"
HELLO = {"content": "Hello"}


class Party:
    """A customer's event with three companions; messages pass a content filter."""

    def __init__(self, world: HttpDeployment) -> None:
        self.world = world
        self.staff: list[Companion] = []
        self.browsers: dict[int, httpx.AsyncClient] = {}

    async def settle(self) -> Party:
        world = self.world
        world.restart(content_filter=SimpleContentFilter())
        world.raise_limits()
        self.staff = [world.companion]
        for name in ("Noa", "Sol"):
            self.staff.append(await add_companion(world.store, first_name=name))
        for user_id in (world.customer.id, *(one.id for one in self.staff)):
            self.browsers[user_id] = await world.signed_in_client(user_id)
        return self

    @property
    def customer(self) -> httpx.AsyncClient:
        return self.browsers[self.world.customer.id]

    def of(self, place: int) -> httpx.AsyncClient:
        """The browser of a companion."""
        return self.browsers[self.staff[place].id]

    async def request(self, place: int, event_ref: str | None = EVENT, **given: Any) -> str:
        """Request a companion for an event; returns the booking's path."""
        wanted = {"companion_id": self.staff[place].id, "event_ref": event_ref, **given}
        body = self.world.request_body(**wanted)
        booking = json_body(await self.customer.post("/bookings", json=body), 201)["booking"]
        assert booking["event_ref"] == event_ref
        return f"/bookings/{booking['id']}"

    async def accept(self, place: int, event_ref: str | None = EVENT, **given: Any) -> str:
        """Request a companion, who accepts; returns the booking's path."""
        path = await self.request(place, event_ref, **given)
        json_body(await self.of(place).post(f"{path}/accept"))
        return path

    async def cancel(self, path: str) -> None:
        json_body(await self.customer.post(f"{path}/cancel"))

    async def pay(self, path: str) -> None:
        page = json_body(await self.customer.post(f"{path}/checkout"))["checkout_url"]
        json_body(await self.customer.post(page, json={"outcome": "succeed"}))

    async def group(self, *places: int) -> int:
        """Book these companions; returns the id of their group."""
        for place in places:
            await self.accept(place)
        [found] = await groups(self.customer)
        number: int = found["id"]
        return number

    def members(self, *places: int) -> list[int]:
        """The ids of the customer and of these companions."""
        return sorted([self.world.customer.id, *(self.staff[place].id for place in places)])


async def groups(client: httpx.AsyncClient) -> list[JsonRecord]:
    """The group conversations of the client's user."""
    return [one for one in await list_conversations(client) if one["type"] == "group"]


async def participants(client: httpx.AsyncClient, number: int) -> list[int]:
    found = (await get_conversation(client, number))["conversation"]
    return [one["user_id"] for one in found["participants"]]


@pytest.fixture
async def party(world: HttpDeployment, monkeypatch: pytest.MonkeyPatch) -> Party:
    """A party on the memory store; every response is validated against the document."""
    hold_to_document(world, await document_of(world), monkeypatch)
    return await Party(world).settle()


# Opening --------------------------------------------------------------------------------


async def test_the_second_accept_opens_the_group(each_world: HttpDeployment) -> None:
    """The group opens at the second accepted booking; all booked companions can write in it."""
    party = await Party(each_world).settle()
    for place in range(3):
        await party.request(place)
    await party.accept(0)
    assert await groups(party.customer) == []
    await party.accept(1)
    [group] = await groups(party.customer)
    names = [(each_world.customer.id, "Ada Okoro")]
    names += [(one.id, f"{one.first_name} {one.last_name}") for one in party.staff[:2]]
    assert group == {
        "id": group["id"],
        "type": "group",
        "title": EVENT,
        "booking_code": None,
        "participants": [
            {"user_id": number, "name": name, "online": False} for number, name in sorted(names)
        ],
        "last_message": None,
        "unread_count": 0,
        "updated_at": "2027-03-01T12:00:00Z",
    }
    for place in (0, 1):
        assert await groups(party.of(place)) == [group]
    assert await groups(party.of(2)) == []

    said = await send_to_conversation(party.of(0), group["id"], "Who has the keys?")
    assert (said["sender_id"], said["sender_name"]) == (party.staff[0].id, "Mia Lindqvist")
    [unread] = await groups(party.of(1))
    assert (unread["last_message"], unread["unread_count"]) == (said, 1)
    for client in (party.customer, party.of(0), party.of(1)):
        assert await message_texts(client, group["id"]) == ["Who has the keys?"]
    assert [one["unread_count"] for one in await groups(party.of(1))] == [0]


async def test_concurrent_accepts_open_the_group(each_world: HttpDeployment) -> None:
    """Concurrent accepts add every companion to the group."""
    party = await Party(each_world).settle()
    for number in range(5):
        event = f"{EVENT} {number}"
        start = f"{8 + 2 * number:02}:00"
        paths = [
            await party.request(place, event, start_time=start, duration_hours=2)
            for place in range(3)
        ]

        async def accept(place: int, path: str) -> None:
            json_body(await party.of(place).post(f"{path}/accept"))

        async with anyio.create_task_group() as tasks:
            for place, path in enumerate(paths):
                tasks.start_soon(accept, place, path)
        [group] = [one for one in await groups(party.customer) if one["title"] == event]
        members = [one["user_id"] for one in group["participants"]]
        assert members == party.members(0, 1, 2)


async def test_an_event_belongs_to_one_customer(party: Party) -> None:
    """Bookings of other customers with the same reference, or without one, are not in the group."""
    other = await add_user(party.world.store)
    browser = await party.world.signed_in_client(other.id)
    await party.accept(0)
    for place, event_ref, client in ((1, EVENT, browser), (2, None, party.customer)):
        wanted = {"companion_id": party.staff[place].id, "event_ref": event_ref}
        body = party.world.request_body(**wanted)
        number = json_body(await client.post("/bookings", json=body), 201)["booking"]["id"]
        json_body(await party.of(place).post(f"/bookings/{number}/accept"))
    await party.accept(1, EVENT.lower(), start_time="08:00")
    for client in (party.customer, browser, *(party.of(place) for place in range(3))):
        assert await groups(client) == []


async def test_each_event_has_its_group(party: Party) -> None:
    """The same people can share several groups, besides their direct conversations."""
    for event, start in (("One", "08:00"), ("Two", "18:00")):
        for place in (0, 1):
            await party.accept(place, event, start_time=start)
    assert sorted(one["title"] for one in await groups(party.customer)) == ["One", "Two"]
    assert len(await list_conversations(party.customer)) == 4
    assert len(await list_conversations(party.of(0))) == 3


async def test_a_declined_request_does_not_count(party: Party) -> None:
    """A declined or cancelled booking does not count towards the group."""
    declined = await party.request(1)
    json_body(await party.of(1).post(f"{declined}/decline"))
    first = await party.accept(0)
    await party.cancel(first)
    await party.accept(2)
    assert await groups(party.customer) == []
    await party.accept(0)
    [group] = await groups(party.customer)
    assert [one["user_id"] for one in group["participants"]] == party.members(0, 2)


async def test_a_booking_through_the_api_counts(party: Party) -> None:
    """The customer of an API booking joins the group; the user who made the booking does not."""
    await party.accept(0)
    body = party.world.request_body(companion_id=party.staff[1].id, event_ref=EVENT)
    made = json_body(await party.world.client_with_key().post("/api/v1/bookings", json=body), 201)
    json_body(await party.of(1).post(f"/bookings/{made['booking']['id']}/accept"))
    [group] = await groups(party.customer)
    assert [one["user_id"] for one in group["participants"]] == party.members(0, 1)
    agent = await party.world.signed_in_client(party.world.subscriber.id)
    assert await list_conversations(agent) == []
    error_body(await agent.get(f"/messages/conversation/{group['id']}"), 404, "not_found")


# Joining and leaving ---------------------------------------------------------------------


async def test_a_later_companion_joins(party: Party) -> None:
    """A companion who joins later can read all earlier messages."""
    number = await party.group(0, 1)
    await send_to_conversation(party.customer, number, "Before")
    error_body(await party.of(2).get(f"/messages/conversation/{number}"), 404, "not_found")
    await party.accept(2)
    assert await participants(party.of(2), number) == party.members(0, 1, 2)
    await send_to_conversation(party.of(2), number, "After")
    assert await message_texts(party.of(2), number) == ["Before", "After"]
    assert await message_texts(party.of(0), number) == ["Before", "After"]


async def test_a_cancelled_companion_reads_earlier_messages(party: Party) -> None:
    """A companion whose booking is cancelled leaves the group, reads the earlier messages, and
    cannot send."""
    await party.accept(0)
    path = await party.accept(1)
    [group] = await groups(party.customer)
    number = group["id"]
    before = await send_to_conversation(party.of(0), number, "Before")
    await party.cancel(path)
    after = await send_to_conversation(party.customer, number, "After")

    assert await participants(party.customer, number) == party.members(0)
    [left] = await groups(party.of(1))
    assert (left["last_message"], left["unread_count"]) == (before, 1)
    assert left["title"] == EVENT
    there = f"/messages/conversation/{number}"
    found = await get_conversation(party.of(1), number)
    assert found["messages"] == [before]
    assert found["conversation"]["unread_count"] == 0
    assert found["conversation"]["participants"] == []
    assert found["conversation"]["updated_at"] == before["created_at"]
    for query in (f"?after={before['id']}", f"?before={after['id']}&after={before['id']}"):
        assert (await get_conversation(party.of(1), number, query))["messages"] == []
    for body in (HELLO, {}, {"content": ""}, {"content": BLOCKED_TERM}):
        error_body(await party.of(1).post(there, json=body), 403, "conversation_left")
    error_body(await party.of(1).post(there, content=b"{"), 403, "conversation_left")
    assert await message_texts(party.customer, number) == ["Before", "After"]


async def test_a_member_has_a_direct_conversation_too(party: Party) -> None:
    """A member of a group can also write to the customer in their direct conversation."""
    number = await party.group(0, 1)
    [booking] = [one for one in await list_conversations(party.of(1)) if one["type"] == "direct"]
    json_body(await party.of(1).post(f"/messages/send/{party.world.customer.id}", json=HELLO), 201)
    assert booking["id"] != number


async def test_a_rebooked_companion_joins_again(party: Party) -> None:
    """A new booking adds the companion again, with the messages sent in between."""
    await party.accept(0)
    path = await party.accept(1)
    [group] = await groups(party.customer)
    number = group["id"]
    for said, change in (("One", party.cancel(path)), ("Two", party.accept(1)), ("Three", None)):
        await send_to_conversation(party.customer, number, said)
        if change is not None:
            await change
    assert await participants(party.of(1), number) == party.members(0, 1)
    assert await message_texts(party.of(1), number) == ["One", "Two", "Three"]
    await send_to_conversation(party.of(1), number, "Four")
    assert [one["id"] for one in await groups(party.of(1))] == [number]


async def test_one_of_two_bookings_is_enough_to_stay(party: Party) -> None:
    """A companion with two bookings for an event leaves the group with the last of them."""
    number = await party.group(0, 1)
    second = await party.accept(1, start_time="08:00")
    [first] = [
        f"/bookings/{one['id']}"
        for one in json_body(await party.of(1).get("/bookings"))["bookings"]
        if f"/bookings/{one['id']}" != second
    ]
    await party.cancel(first)
    await send_to_conversation(party.of(1), number)
    await party.cancel(second)
    error_body(
        await party.of(1).post(f"/messages/conversation/{number}", json=HELLO),
        403,
        "conversation_left",
    )


async def test_the_group_stays_when_all_have_left(party: Party) -> None:
    """The customer stays in a group that all companions have left, and the next companion joins it
    and reads all messages."""
    paths = [await party.accept(place) for place in (0, 1)]
    [group] = await groups(party.customer)
    await send_to_conversation(party.customer, group["id"], "Hello")
    for path in paths:
        await party.cancel(path)
    assert await participants(party.customer, group["id"]) == party.members()
    await send_to_conversation(party.customer, group["id"], "Anybody?")
    there = f"/messages/conversation/{group['id']}"
    alone = await party.customer.post(there, json={"content": CONTACT_TEXT})
    error_body(alone, 422, "content_blocked")
    await party.accept(2)
    assert await participants(party.of(2), group["id"]) == party.members(2)
    assert await message_texts(party.of(2), group["id"]) == ["Hello", "Anybody?"]
    assert await message_texts(party.of(0), group["id"]) == ["Hello"]


async def test_an_expired_booking_ends_membership(party: Party) -> None:
    """A companion whose unpaid booking expires leaves the group, and companions with completed or
    disputed bookings stay."""
    kept = await party.accept(0)
    disputed = await party.accept(1)
    for path in (kept, disputed):
        await party.pay(path)
    await party.accept(2)
    [group] = await groups(party.customer)
    assert len(group["participants"]) == 4
    await set_clock(party.world, "2027-03-03T22:00:00Z")
    await due_work.run_all_due(party.world.ports)
    json_body(await party.customer.post(f"{kept}/confirm"))
    json_body(await party.customer.post(f"{disputed}/dispute", json={"reason": "nobody came"}))
    assert await participants(party.customer, group["id"]) == party.members(0, 1)
    there = f"/messages/conversation/{group['id']}"
    error_body(await party.of(2).post(there, json=HELLO), 403, "conversation_left")
    for place in (0, 1):
        await send_to_conversation(party.of(place), group["id"])


# Content ---------------------------------------------------------------------------------


async def test_contacts_pass_once_everybody_is_paid(party: Party) -> None:
    """Contact details are blocked for everyone until the customer has paid every member of the
    group; blocked words are always blocked."""
    paths = [await party.accept(place) for place in (0, 1)]
    [group] = await groups(party.customer)
    there = f"/messages/conversation/{group['id']}"

    async def answer_codes(content: str = CONTACT_TEXT) -> set[str]:
        codes = set()
        for client in (party.customer, party.of(0), party.of(1)):
            answer = await client.post(there, json={"content": content})
            codes.add(answer.json().get("code", "said"))
            assert answer.status_code == 201 or error_fields(answer) == {"content"}
        return codes

    assert await answer_codes() == {"content_blocked"}
    await party.pay(paths[0])
    assert await answer_codes() == {"content_blocked"}
    await party.pay(paths[1])
    assert await answer_codes() == {"said"}
    assert await answer_codes(BLOCKED_TERM) == {"content_blocked"}
    third = await party.accept(2)
    assert await answer_codes() == {"content_blocked"}
    await party.cancel(third)
    assert await answer_codes() == {"said"}


async def test_a_stranger_finds_no_group(party: Party) -> None:
    """A group is 404 to read and to write for strangers, admins and other staff, and for its
    customer before it opens."""
    await party.request(2)
    await party.accept(0)
    first = [one["id"] for one in await list_conversations(party.customer)]
    for number in range(1, max(first) + 3):
        if number not in first:
            there = f"/messages/conversation/{number}"
            error_body(await party.customer.get(there), 404, "not_found")
            error_body(await party.customer.post(there, json=HELLO), 404, "not_found")
    number = await party.group(1)
    there = f"/messages/conversation/{number}"
    admin = await party.world.signed_in_client(party.world.admin.id)
    for client in (party.of(2), admin, await party.world.signed_in_client(party.world.stranger.id)):
        error_body(await client.get(there), 404, "not_found")
        error_body(await client.post(there, json=HELLO), 404, "not_found")


@pytest.mark.parametrize("event_ref", ["Gala", "\N{PARTY POPPER} Fête <b>", "x" * 64])
async def test_the_title_is_the_reference(party: Party, event_ref: str) -> None:
    """The group title equals the booking reference."""
    for place in (0, 1):
        await party.accept(place, event_ref)
    for client in (party.customer, party.of(0), party.of(1)):
        assert [one["title"] for one in await groups(client)] == [event_ref]
