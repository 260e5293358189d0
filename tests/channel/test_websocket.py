"""Events over a WebSocket, the ends of connections, and metrics."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.testing.builders import SECOND
from staffbooking_core.domain.accounts.users import hash_session_token
from staffbooking_core.ports import Store
from staffbooking_core.usecases.accounts import sessions
from staffbooking_core.usecases.bookings import disabling
from tests.contract.stores import STORES, open_sql_store, store_url
from tests.http.deployment import HttpDeployment
from tests.support.channel_deployment import (
    ChannelServer,
    add_shared_conversation,
    relax_limits,
    serve_channel,
)

pytestmark = pytest.mark.anyio


# Events ---------------------------------------------------------------------------------


async def test_a_message_reaches_all_connections_of_both_parties(
    each_world: HttpDeployment,
) -> None:
    """A message is acknowledged with its `ref` and sent once, in order, to every connection of both
    parties, on each store and from each server."""
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
            received = [await client.next_data("new_message") for _ in range(3)]
            assert [each["content"] for each in received] == ["Word 0", "Word 1", "Word 2"]
            assert {each["sender_name"] for each in received} == {world.customer.name}
        acks = [await ada.next_frame("ack") for _ in range(3)]
        assert [ack["ref"] for ack in acks] == [0, 1, 2]
        assert [ack["data"]["message"] for ack in acks] == ada.received_data("new_message")
        await sam.send("nothing", {})
        await sam.next_data("error")
        assert sam.received_data("new_message") == []


async def test_a_repeated_client_message_id_is_broadcast_once(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """A message repeated with its `client_message_id` is acknowledged again and broadcast once."""
    conversation = await add_shared_conversation(world)
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        first = await ada.send_message(conversation, "Hello", client_message_id="a")
        assert await ada.send_message(conversation, "Hello", client_message_id="a") == first
        last = await ada.send_message(conversation, "Bye", client_message_id="b")
        assert [await mia.next_data("new_message") for _ in range(2)] == [first, last]


async def test_typing_reaches_the_other_party(world: HttpDeployment, site: ChannelServer) -> None:
    """Typing is sent to the other party when it begins, when it ends, and when it expires."""
    conversation = await add_shared_conversation(world)
    typing = {"conversation_id": conversation.id, "is_typing": True}
    expected = {"user_id": world.customer.id, "sender_name": world.customer.name, **typing}
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        await ada.send("typing", typing)
        assert await mia.next_data("typing") == expected
        await ada.send("typing", {**typing, "is_typing": False})
        assert await mia.next_data("typing") == {**expected, "is_typing": False}
        await ada.send("typing", typing)
        assert await mia.next_data("typing") == expected
        world.clock.advance(6 * SECOND)
        assert await mia.next_data("typing") == {**expected, "is_typing": False}
        assert ada.received_data("typing") == []


async def test_reading_reaches_both_parties(world: HttpDeployment, site: ChannelServer) -> None:
    """A `read` event reaches both parties with the id of the last read message."""
    conversation = await add_shared_conversation(world)
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        message = await ada.send_message(conversation, "Hello")
        read = {"conversation_id": conversation.id, "message_id": message["id"]}
        await mia.send("read", read)
        for client in (ada, mia):
            assert await client.next_data("read") == {**read, "user_id": world.companion.id}


async def test_presence_is_sent_on_change_and_on_request(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """Presence is sent when a user comes or goes, and on request."""
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


async def test_resume_sends_messages_after_the_named_one(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """`resume` sends all messages after the named one in order, and later messages follow."""
    conversation = await add_shared_conversation(world)
    async with site.connect_client(world.customer) as ada:
        sent = [await ada.send_message(conversation, f"Word {number}") for number in range(5)]
        async with site.connect_client(world.companion) as mia:
            assert mia.ready["last_message_id"] == sent[-1]["id"]
            await mia.send("resume", {"after": sent[1]["id"]})
            assert [await mia.next_data("new_message") for _ in range(3)] == sent[2:]
            await mia.send("resume", {"after": 0})
            assert [await mia.next_data("new_message") for _ in range(5)] == sent
            last = await ada.send_message(conversation, "Now")
            assert await mia.next_data("new_message") == last


# Ends of connections --------------------------------------------------------------------


async def test_signing_out_closes_connections(each_world: HttpDeployment) -> None:
    """Signing out closes all connections of the session on every server, and none of another
    session."""
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
async def test_disabling_a_user_closes_connections(
    request: pytest.FixtureRequest, name: str
) -> None:
    """Disabling a user in a process that shares only the database closes their connections
    alone."""
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
            await disabling.disable_user(operator, world.customer.email)
            assert await ada.wait_closed() == 1008
            answer, _ = await site.rejected_handshake(f"connect.sid={ada.token}")
            assert answer.status_code == 401
            await mia.send_message(conversation, "Still here")


class GatedStore:
    """A store whose transactions wait while its gate is set."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.has_waiter = anyio.Event()
        self.gate: anyio.Event | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def run_transaction(self, unit: Any) -> Any:
        if self.gate is not None:
            self.has_waiter.set()
            await self.gate.wait()
        return await self._store.run_transaction(unit)


async def test_events_not_begun_before_the_close_are_dropped(world: HttpDeployment) -> None:
    """Of five messages sent before the close only the one already in a transaction is stored."""
    gated = GatedStore(world.store)
    world.restart(store=gated)
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as site, site.connect_client(world.companion) as mia:
        async with site.connect_client(world.customer) as ada:
            gated.gate = anyio.Event()
            for number in range(5):
                data = {"conversation_id": conversation.id, "content": f"Word {number}"}
                await ada.send("send_message", data)
            await gated.has_waiter.wait()
            await sessions.logout(
                evolve(world.ports, store=world.store), hash_session_token(ada.token)
            )
            assert await ada.wait_closed() == 1008
            gated.gate.set()
            gated.gate = None
        last = await mia.send_message(conversation, "Hello?")
        assert (await mia.next_data("new_message"))["content"] == "Word 0"
        assert await mia.next_data("new_message") == last


async def test_an_idle_session_closes_its_connection(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """An idle session closes its connection with 1008, and an event keeps a session alive."""
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
    """A stopping server closes all connections with 1012."""
    async with (
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
    ):
        site.stop.set()
        assert (await ada.wait_closed(), await mia.wait_closed()) == (1012, 1012)
        assert ada.socket.close_reason == "restarting"


async def test_a_client_close_is_answered(world: HttpDeployment, site: ChannelServer) -> None:
    """A closing client gets its own close code back, and its earlier message is delivered."""
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


# Metrics --------------------------------------------------------------------------------


async def test_metrics_count_connections_and_messages(
    world: HttpDeployment, site: ChannelServer
) -> None:
    """The metrics count the connections and the messages sent to them."""
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
