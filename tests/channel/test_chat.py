"""The chat between processes over each transport: limits, and connections that break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest

from staffbooking_adapters.chat import shared
from staffbooking_adapters.chat.redis import RedisPubSubTransport
from staffbooking_adapters.chat.shared import PubSubTransport, SharedChat
from staffbooking_adapters.codec import encode
from staffbooking_adapters.sql.messaging.pubsub import PostgresPubSubTransport
from staffbooking_adapters.testing.pubsub import WAIT_TIMEOUT_SECONDS, RecordingSubscriber
from tests.channel.chat_links import (
    ChatTransport,
    PostgresTransport,
    RedisTransport,
    closing_chat,
    listen_to,
    make_typing_broadcast,
    open_shared_chats,
)
from tests.support.postgres import PostgresServer, database_name

pytestmark = pytest.mark.anyio

LAST = make_typing_broadcast(99, last=True)
BIG = 2**63 - 1
DEEP = '["a", false, [{"to": [1], "event": "typing", "data": {"a": ' + "[" * 7_000


@pytest.fixture(scope="module")
async def postgres_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create_database()
    yield url
    await postgres_server.drop_database(database_name(url))


@pytest.fixture(params=["postgresql", "redis"])
def transport(request: pytest.FixtureRequest) -> ChatTransport:
    """The transport between processes."""
    if request.param == "redis":
        return RedisTransport(request.getfixturevalue("redis_server"))
    return PostgresTransport(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def processes(transport: ChatTransport) -> AsyncIterator[list[SharedChat]]:
    """The chats of two processes with a common transport."""
    async with open_shared_chats(transport) as chats:
        yield chats


async def test_an_oversized_broadcast_is_dropped(processes: list[SharedChat]) -> None:
    """A broadcast over the size limit is dropped, and those before and after it arrive."""
    mine, other = processes
    async with listen_to(other) as there:
        mine.publish(make_typing_broadcast(1))
        mine.publish(make_typing_broadcast(1, 2, name="é" * 4_000))
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        assert there.broadcasts == [make_typing_broadcast(1), LAST]


@pytest.mark.parametrize(
    "payload",
    ["", "hello", DEEP, '["a", true]', '["a", true, [{"to": ["x"]}]]', "\ufffd"],
    ids=["empty", "text", "deep", "short", "wrong", "odd"],
)
async def test_an_invalid_payload_is_ignored(
    transport: ChatTransport,
    processes: list[SharedChat],
    payload: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An invalid payload is ignored without a notification or a log record."""
    mine, other = processes
    other_sender = transport.wire()
    async with listen_to(other) as there:
        before = there.stored_count
        await other_sender.publish(payload.encode())
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        assert (there.broadcasts, there.stored_count) == ([LAST], before)
    await other_sender.close()
    assert caplog.records == []


async def test_only_subscribed_chats_listen(
    transport: ChatTransport, processes: list[SharedChat]
) -> None:
    """Only a chat with a subscriber has a listening connection, which closes with the
    subscription."""
    mine, other = processes
    async with listen_to(other) as there:
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        assert await transport.count_connections(listening=True) == 1
    with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
        while await transport.count_connections(listening=True):
            pass


# When connections break -----------------------------------------------------------------------


async def test_a_killed_listening_connection_is_replaced(
    transport: ChatTransport, processes: list[SharedChat]
) -> None:
    """A killed listening connection is replaced, with a notification of stored messages, and
    broadcasts arrive again."""
    mine, other = processes
    async with listen_to(other) as there:
        before = there.stored_count
        await transport.kill_connections(listening=True)
        await there.wait_until(lambda: there.stored_count > before)
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        assert there.broadcasts == [LAST]


async def test_a_killed_publishing_connection_is_replaced(
    transport: ChatTransport, processes: list[SharedChat], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its publishing connection is killed, a chat delivers stored-message notifications and
    broadcasts again."""
    monkeypatch.setattr(shared, "RETRY_DELAY_SECONDS", 0)
    mine, other = processes
    async with listen_to(other) as there:
        mine.publish(LAST)
        await there.wait_until_last(LAST)
        before = there.stored_count
        await transport.kill_connections(listening=False)
        mine.publish_messages_stored()
        await there.wait_until(lambda: there.stored_count > before)
        mine.publish(make_typing_broadcast(3))
        await there.wait_until_last(make_typing_broadcast(3))


class GatedTransport:
    """A transport whose payloads wait until `opened` is set."""

    def __init__(self, wire: PubSubTransport) -> None:
        self._wire = wire
        self.opened = asyncio.Event()
        self.subscribe = wire.subscribe
        self.close = wire.close

    async def publish(self, payload: bytes) -> None:
        await self.opened.wait()
        await self._wire.publish(payload)


async def test_a_blocked_transport_drops_the_oldest_broadcasts(
    transport: ChatTransport, processes: list[SharedChat]
) -> None:
    """While the transport is blocked, the oldest broadcasts are dropped beyond `MAX_BACKLOG_BYTES`,
    but not the stored-messages notification."""
    gate = GatedTransport(transport.wire())
    async with closing_chat(SharedChat(gate)) as mine, listen_to(processes[1]) as there:
        here = RecordingSubscriber()
        async with mine.subscribe(here):
            before = there.stored_count
            flood = [make_typing_broadcast(7, number=number) for number in range(50_000)]
            mine.publish_messages_stored()
            for broadcast in flood:
                mine.publish(broadcast)
            assert here.broadcasts == flood
            gate.opened.set()
            await there.wait_until_last(flood[-1])
            received = there.broadcasts
            assert there.stored_count == before + 1
            assert received == flood[-len(received) :]
            assert len(b"".join(map(encode, received))) <= shared.MAX_BACKLOG_BYTES
            assert len(received) > 10_000


@pytest.mark.parametrize(
    "wire",
    [
        lambda: PostgresPubSubTransport("postgresql+asyncpg://app@127.0.0.1:1/nowhere"),
        lambda: RedisPubSubTransport("redis://127.0.0.1:1", "staffbooking:tests"),
    ],
    ids=["postgresql", "redis"],
)
async def test_an_unreachable_server_raises_nothing(wire) -> None:
    """An unreachable server raises nothing, and subscribers of the same process are notified."""
    async with closing_chat(SharedChat(wire())) as chat:
        here = RecordingSubscriber()
        async with chat.subscribe(here):
            await asyncio.sleep(0)
            chat.publish(LAST)
            chat.publish_messages_stored()
            assert (here.broadcasts, here.stored_count) == ([LAST], 1)


# Closing --------------------------------------------------------------------------------------


async def test_closing_sends_all_broadcasts(
    transport: ChatTransport, processes: list[SharedChat]
) -> None:
    """Closing sends all published broadcasts, and a closed chat sends nothing."""
    mine, other = processes
    async with listen_to(other) as there, closing_chat(SharedChat(transport.wire())) as another:
        sent = [make_typing_broadcast(7, number=number) for number in range(2_000)]
        for broadcast in sent:
            mine.publish(broadcast)
        await mine.close()
        mine.publish_messages_stored()
        mine.publish(LAST)
        another.publish(LAST)
        await there.wait_until_last(LAST)
        assert there.broadcasts == [*sent, LAST]
        assert there.stored_count == 1


async def test_closing_leaves_no_connection(transport: ChatTransport) -> None:
    """Closed chats leave no connection open."""
    async with (
        closing_chat(SharedChat(transport.wire())) as mine,
        closing_chat(SharedChat(transport.wire())) as other,
        listen_to(other) as there,
    ):
        mine.publish(LAST)
        await there.wait_until_last(LAST)
    with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
        while await transport.count_connections(
            listening=True
        ) or await transport.count_connections(listening=False):
            pass
