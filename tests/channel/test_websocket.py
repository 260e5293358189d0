"""Events over a WebSocket, and how it ends."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.chat.local import LocalChat
from staffbooking_core.domain.accounts.users import session_digest
from staffbooking_core.ports import Store
from staffbooking_core.usecases.accounts import administration, sessions
from tests.contract.stores import STORES, address, opened
from tests.http.deployment import World
from tests.support.builders import SECOND
from tests.support.channel_deployment import Served, converse, relax, served

pytestmark = pytest.mark.anyio


# Events ---------------------------------------------------------------------------------


async def test_what_is_said_reaches_all(each_world: World) -> None:
    """A message is acknowledged with its `ref`, and told to every connection of both, on every
    store and from every server, once."""
    world = each_world
    relax(world)
    conversation = await converse(world)
    async with (
        served(world.ports) as site,
        served(world.ports) as other,
        site.client(world.customer) as ada,
        other.client(world.customer) as ada_too,
        other.client(world.companion) as mia,
        site.client(world.stranger) as sam,
    ):
        for number in range(3):
            data = {"conversation_id": conversation.id, "content": f"Word {number}"}
            await ada.send("send_message", data, ref=number)
        for client in (ada, ada_too, mia):
            told = [await client.next("new_message") for _ in range(3)]
            assert [each["content"] for each in told] == ["Word 0", "Word 1", "Word 2"]
            assert {each["sender_name"] for each in told} == {world.customer.name}
        acks = [await ada.next_frame("ack") for _ in range(3)]
        assert [ack["ref"] for ack in acks] == [0, 1, 2]
        assert [ack["data"]["message"] for ack in acks] == ada.told("new_message")
        await sam.send("nothing", {})
        await sam.next("error")
        assert sam.told("new_message") == []


async def test_a_message_is_stored_once_under_its_name(world: World, site: Served) -> None:
    """Sent again with the same `client_message_id` it is acknowledged again, and told once."""
    conversation = await converse(world)
    async with site.client(world.customer) as ada, site.client(world.companion) as mia:
        first = await ada.say(conversation, "Hello", client_message_id="a")
        assert await ada.say(conversation, "Hello", client_message_id="a") == first
        last = await ada.say(conversation, "Bye", client_message_id="b")
        assert [await mia.next("new_message") for _ in range(2)] == [first, last]


async def test_typing_is_told_to_the_other(world: World, site: Served) -> None:
    """As it begins, as it ends, and by itself after a while."""
    conversation = await converse(world)
    typing = {"conversation_id": conversation.id, "is_typing": True}
    told = {"user_id": world.customer.id, "sender_name": world.customer.name, **typing}
    async with site.client(world.customer) as ada, site.client(world.companion) as mia:
        await ada.send("typing", typing)
        assert await mia.next("typing") == told
        await ada.send("typing", {**typing, "is_typing": False})
        assert await mia.next("typing") == {**told, "is_typing": False}
        await ada.send("typing", typing)
        assert await mia.next("typing") == told
        world.clock.advance(6 * SECOND)
        assert await mia.next("typing") == {**told, "is_typing": False}
        assert ada.told("typing") == []


async def test_reading_is_told_to_both(world: World, site: Served) -> None:
    """With the message up to which it was read."""
    conversation = await converse(world)
    async with site.client(world.customer) as ada, site.client(world.companion) as mia:
        said = await ada.say(conversation, "Hello")
        read = {"conversation_id": conversation.id, "message_id": said["id"]}
        await mia.send("read", read)
        for client in (ada, mia):
            assert await client.next("read") == {**read, "user_id": world.companion.id}


async def test_presence_is_told(world: World, site: Served) -> None:
    """Of whoever comes and goes to those who are there, and of each who is asked for."""
    await converse(world)
    mia_is = {"user_id": world.companion.id, "online": True, "last_seen": None}
    async with site.client(world.customer) as ada:
        await ada.send("presence", {"user_ids": [world.companion.id]})
        assert await ada.next("presence") == {**mia_is, "online": False}
        async with site.client(world.companion):
            assert await ada.next("presence") == mia_is
        await ada.send("presence", {"user_ids": [world.companion.id]})
        gone = {**mia_is, "online": False, "last_seen": "2027-03-01T12:00:00Z"}
        while await ada.next("presence") != gone:
            await ada.send("presence", {"user_ids": [world.companion.id]})


async def test_what_was_missed_is_told_on_demand(world: World, site: Served) -> None:
    """All messages after the one that is named, oldest first, none twice, and then what comes."""
    conversation = await converse(world)
    async with site.client(world.customer) as ada:
        said = [await ada.say(conversation, f"Word {number}") for number in range(5)]
        async with site.client(world.companion) as mia:
            assert mia.ready["last_message_id"] == said[-1]["id"]
            await mia.send("resume", {"after": said[1]["id"]})
            assert [await mia.next("new_message") for _ in range(3)] == said[2:]
            await mia.send("resume", {"after": 0})
            assert [await mia.next("new_message") for _ in range(5)] == said
            last = await ada.say(conversation, "Now")
            assert await mia.next("new_message") == last


# The end --------------------------------------------------------------------------------


async def test_signing_out_closes_it(each_world: World) -> None:
    """All connections of the session, on every server, and none of another one."""
    world = each_world
    relax(world)
    async with served(world.ports) as site, served(world.ports) as other:
        browser = await world.browser(world.customer.id)
        token = browser.headers["cookie"].removeprefix("connect.sid=")
        async with (
            site.client(world.customer, token) as first,
            other.client(world.customer, token) as second,
            site.client(world.customer) as elsewhere,
        ):
            await browser.post("/auth/logout")
            assert (await first.closed(), await second.closed()) == (1008, 1008)
            await elsewhere.say(await converse(world), "Still here")


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
async def test_disabling_somebody_closes_theirs(request: pytest.FixtureRequest, name: str) -> None:
    """By an operator, whose process has the database in common with the server, and no more."""
    async with (
        STORES[name](request) as store,
        opened(address(request, name)) as apart,
    ):
        world = World(store)
        await world.settle()
        relax(world)
        conversation = await converse(world)
        operator = evolve(world.ports, store=apart, chat=LocalChat())
        async with (
            served(world.ports) as site,
            site.client(world.customer) as ada,
            site.client(world.companion) as mia,
        ):
            await administration.disable(operator, world.customer.email)
            assert await ada.closed() == 1008
            answer, _ = await site.refusal(f"connect.sid={ada.token}")
            assert answer.status_code == 401
            await mia.say(conversation, "Still here")


class Gated:
    """A store whose units of work wait while it is shut."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_waited_for = anyio.Event()
        self.gate: anyio.Event | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def write(self, unit: Any) -> Any:
        if self.gate is not None:
            self.is_waited_for.set()
            await self.gate.wait()
        return await self._store.write(unit)


async def test_nothing_is_done_once_it_is_closed(world: World) -> None:
    """What a client had sent when it was cut off, and what was not begun yet."""
    gated = Gated(world.store)
    world.restart(store=gated)
    relax(world)
    conversation = await converse(world)
    async with served(world.ports) as site, site.client(world.companion) as mia:
        async with site.client(world.customer) as ada:
            gated.gate = anyio.Event()
            for number in range(5):
                data = {"conversation_id": conversation.id, "content": f"Word {number}"}
                await ada.send("send_message", data)
            await gated.is_waited_for.wait()
            await sessions.logout(evolve(world.ports, store=world.store), session_digest(ada.token))
            assert await ada.closed() == 1008
            gated.gate.set()
            gated.gate = None
        last = await mia.say(conversation, "Hello?")
        assert (await mia.next("new_message"))["content"] == "Word 0"
        assert await mia.next("new_message") == last


async def test_a_session_that_idles_out_closes_it(world: World, site: Served) -> None:
    """It ends as it does for requests; what is sent keeps it alive."""
    idle = world.ports.policy.session_idle
    conversation = await converse(world)
    async with site.client(world.customer) as ada, site.client(world.companion) as mia:
        world.clock.advance(idle - SECOND)
        await ada.say(conversation, "Still here")
        world.clock.advance(SECOND)
        assert await mia.closed() == 1008
        await ada.say(conversation, "Still here")


async def test_a_restart_closes_it_with_1012(world: World, site: Served) -> None:
    """Everybody is told to come again."""
    async with site.client(world.customer) as ada, site.client(world.companion) as mia:
        site.stop.set()
        assert (await ada.closed(), await mia.closed()) == (1012, 1012)
        assert ada.socket.close_reason == "restarting"


async def test_whoever_closes_is_answered(world: World, site: Served) -> None:
    """With the same code, and what was sent before counts."""
    conversation = await converse(world)
    async with site.client(world.customer) as ada, site.client(world.companion) as mia:
        asked = {"conversation_id": conversation.id, "content": "Bye"}
        await ada.send("send_message", asked)
        await ada.socket.close(4000)
        assert ada.socket.close_code == 4000
        assert (await mia.next("new_message"))["content"] == "Bye"


# Figures --------------------------------------------------------------------------------


async def test_the_channel_is_counted(world: World, site: Served) -> None:
    """How many connections there are, and how much they were told."""
    conversation = await converse(world)
    async with site.client(world.customer) as ada:
        async with site.client(world.companion) as mia:
            await ada.say(conversation, "Hello")
            await ada.next("new_message")
            await mia.next("new_message")
            assert await site.figure("connections") == 2
            assert await site.figure("messages_total") == 2
        while await site.figure("connections") != 1:
            pass
