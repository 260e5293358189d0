"""Events over a WebSocket, and how it ends."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.chat.local import LocalChat
from staffbooking_core.domain.accounts.users import hash_session_token
from staffbooking_core.ports import Store
from staffbooking_core.usecases.accounts import administration, sessions
from tests.contract.stores import STORES, open_sql_store, store_url
from tests.http.deployment import HttpDeployment
from tests.support.builders import SECOND
from tests.support.channel_deployment import (
    ChannelServer,
    add_shared_conversation,
    relax_limits,
    serve_channel,
)

pytestmark = pytest.mark.anyio


# Events ---------------------------------------------------------------------------------


async def test_what_is_said_reaches_all(each_world: HttpDeployment) -> None:
    """A message is acknowledged with its `ref`, and told to every connection of both, on every
    store and from every server, once."""
    world = each_world
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    async with (
        serve_channel(world.ports) as site,
        serve_channel(world.ports) as other,
        site.connect_client(world.customer) as ada,
        other.connect_client(world.customer) as ada_too,
        other.connect_client(world.companion) as mia,
        site.connect_client(world.stranger) as sam,
    ):
        for number in range(3):
            data = {"conversation_id": conversation.id, "content": f"Word {number}"}
            await ada.send("send_message", data, ref=number)
        for client in (ada, ada_too, mia):
            told = [await client.next_data("new_message") for _ in range(3)]
            assert [each["content"] for each in told] == ["Word 0", "Word 1", "Word 2"]
            assert {each["sender_name"] for each in told} == {world.customer.name}
        acks = [await ada.next_frame("ack") for _ in range(3)]
        assert [ack["ref"] for ack in acks] == [0, 1, 2]
        assert [ack["data"]["message"] for ack in acks] == ada.received_data("new_message")
        await sam.send("nothing", {})
        await sam.next_data("error")
        assert sam.received_data("new_message") == []


async def test_a_message_is_stored_once_under_its_name(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """Sent again with the same `client_message_id` it is acknowledged again, and told once."""
    conversation = await add_shared_conversation(world)
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        first = await ada.send_message(conversation, "Hello", client_message_id="a")
        assert await ada.send_message(conversation, "Hello", client_message_id="a") == first
        last = await ada.send_message(conversation, "Bye", client_message_id="b")
        assert [await mia.next_data("new_message") for _ in range(2)] == [first, last]


async def test_typing_is_told_to_the_other(world: HttpDeployment, site: ChannelServer) -> None:
    """As it begins, as it ends, and by itself after a while."""
    conversation = await add_shared_conversation(world)
    typing = {"conversation_id": conversation.id, "is_typing": True}
    told = {"user_id": world.customer.id, "sender_name": world.customer.name, **typing}
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        await ada.send("typing", typing)
        assert await mia.next_data("typing") == told
        await ada.send("typing", {**typing, "is_typing": False})
        assert await mia.next_data("typing") == {**told, "is_typing": False}
        await ada.send("typing", typing)
        assert await mia.next_data("typing") == told
        world.clock.advance(6 * SECOND)
        assert await mia.next_data("typing") == {**told, "is_typing": False}
        assert ada.received_data("typing") == []


async def test_reading_is_told_to_both(world: HttpDeployment, site: ChannelServer) -> None:
    """With the message up to which it was read."""
    conversation = await add_shared_conversation(world)
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        said = await ada.send_message(conversation, "Hello")
        read = {"conversation_id": conversation.id, "message_id": said["id"]}
        await mia.send("read", read)
        for client in (ada, mia):
            assert await client.next_data("read") == {**read, "user_id": world.companion.id}


async def test_presence_is_told(world: HttpDeployment, site: ChannelServer) -> None:
    """Of whoever comes and goes to those who are there, and of each who is asked for."""
    await add_shared_conversation(world)
    mia_is = {"user_id": world.companion.id, "online": True, "last_seen": None}
    async with site.connect_client(world.customer) as ada:
        await ada.send("presence", {"user_ids": [world.companion.id]})
        assert await ada.next_data("presence") == {**mia_is, "online": False}
        async with site.connect_client(world.companion):
            assert await ada.next_data("presence") == mia_is
        await ada.send("presence", {"user_ids": [world.companion.id]})
        gone = {**mia_is, "online": False, "last_seen": "2027-03-01T12:00:00Z"}
        while await ada.next_data("presence") != gone:
            await ada.send("presence", {"user_ids": [world.companion.id]})


async def test_what_was_missed_is_told_on_demand(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """All messages after the one that is named, oldest first, none twice, and then what comes."""
    conversation = await add_shared_conversation(world)
    async with site.connect_client(world.customer) as ada:
        said = [await ada.send_message(conversation, f"Word {number}") for number in range(5)]
        async with site.connect_client(world.companion) as mia:
            assert mia.ready["last_message_id"] == said[-1]["id"]
            await mia.send("resume", {"after": said[1]["id"]})
            assert [await mia.next_data("new_message") for _ in range(3)] == said[2:]
            await mia.send("resume", {"after": 0})
            assert [await mia.next_data("new_message") for _ in range(5)] == said
            last = await ada.send_message(conversation, "Now")
            assert await mia.next_data("new_message") == last


# The end --------------------------------------------------------------------------------


async def test_signing_out_closes_it(each_world: HttpDeployment) -> None:
    """All connections of the session, on every server, and none of another one."""
    world = each_world
    relax_limits(world)
    async with serve_channel(world.ports) as site, serve_channel(world.ports) as other:
        browser = await world.signed_in_client(world.customer.id)
        token = browser.headers["cookie"].removeprefix("connect.sid=")
        async with (
            site.connect_client(world.customer, token) as first,
            other.connect_client(world.customer, token) as second,
            site.connect_client(world.customer) as elsewhere,
        ):
            await browser.post("/auth/logout")
            assert (await first.wait_closed(), await second.wait_closed()) == (1008, 1008)
            await elsewhere.send_message(await add_shared_conversation(world), "Still here")


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
async def test_disabling_somebody_closes_theirs(request: pytest.FixtureRequest, name: str) -> None:
    """By an operator, whose process has the database in common with the server, and no more."""
    async with (
        STORES[name](request) as store,
        open_sql_store(store_url(request, name)) as apart,
    ):
        world = HttpDeployment(store)
        await world.add_people()
        relax_limits(world)
        conversation = await add_shared_conversation(world)
        operator = evolve(world.ports, store=apart, pubsub=LocalChat())
        async with (
            serve_channel(world.ports) as site,
            site.connect_client(world.customer) as ada,
            site.connect_client(world.companion) as mia,
        ):
            await administration.disable_user(operator, world.customer.email)
            assert await ada.wait_closed() == 1008
            answer, _ = await site.rejected_handshake(f"connect.sid={ada.token}")
            assert answer.status_code == 401
            await mia.send_message(conversation, "Still here")


class Gated:
    """A store whose units of work wait while it is shut."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_waited_for = anyio.Event()
        self.gate: anyio.Event | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def run_transaction(self, unit: Any) -> Any:
        if self.gate is not None:
            self.is_waited_for.set()
            await self.gate.wait()
        return await self._store.run_transaction(unit)


async def test_nothing_is_done_once_it_is_closed(world: HttpDeployment) -> None:
    """What a client had sent when it was cut off, and what was not begun yet."""
    gated = Gated(world.store)
    world.restart(store=gated)
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as site, site.connect_client(world.companion) as mia:
        async with site.connect_client(world.customer) as ada:
            gated.gate = anyio.Event()
            for number in range(5):
                data = {"conversation_id": conversation.id, "content": f"Word {number}"}
                await ada.send("send_message", data)
            await gated.is_waited_for.wait()
            await sessions.logout(
                evolve(world.ports, store=world.store), hash_session_token(ada.token)
            )
            assert await ada.wait_closed() == 1008
            gated.gate.set()
            gated.gate = None
        last = await mia.send_message(conversation, "Hello?")
        assert (await mia.next_data("new_message"))["content"] == "Word 0"
        assert await mia.next_data("new_message") == last


async def test_a_session_that_idles_out_closes_it(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """It ends as it does for requests; what is sent keeps it alive."""
    idle = world.ports.policy.session_idle
    conversation = await add_shared_conversation(world)
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        world.clock.advance(idle - SECOND)
        await ada.send_message(conversation, "Still here")
        world.clock.advance(SECOND)
        assert await mia.wait_closed() == 1008
        await ada.send_message(conversation, "Still here")


async def test_a_restart_closes_it_with_1012(world: HttpDeployment, site: ChannelServer) -> None:
    """Everybody is told to come again."""
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        site.stop.set()
        assert (await ada.wait_closed(), await mia.wait_closed()) == (1012, 1012)
        assert ada.socket.close_reason == "restarting"


async def test_whoever_closes_is_answered(world: HttpDeployment, site: ChannelServer) -> None:
    """With the same code, and what was sent before counts."""
    conversation = await add_shared_conversation(world)
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        asked = {"conversation_id": conversation.id, "content": "Bye"}
        await ada.send("send_message", asked)
        await ada.socket.close(4000)
        assert ada.socket.close_code == 4000
        assert (await mia.next_data("new_message"))["content"] == "Bye"


# Figures --------------------------------------------------------------------------------


async def test_the_channel_is_counted(world: HttpDeployment, site: ChannelServer) -> None:
    """How many connections there are, and how much they were told."""
    conversation = await add_shared_conversation(world)
    async with site.connect_client(world.customer) as ada:
        async with site.connect_client(world.companion) as mia:
            await ada.send_message(conversation, "Hello")
            await ada.next_data("new_message")
            await mia.next_data("new_message")
            assert await site.metric("connections") == 2
            assert await site.metric("messages_total") == 2
        while await site.metric("connections") != 1:
            pass
