"""WebSocket clients that do not read: their unread bytes are bounded, and others are not
affected."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio
import pytest
from attrs import field, frozen

from staffbooking_adapters.testing.builders_messages import add_messages_by
from staffbooking_core.domain.messaging.conversations import Conversation
from staffbooking_core.representations.channel import ClientEvent, CloseCode
from staffbooking_http.channel import uvicorn_protocol
from staffbooking_http.channel.frames import EncodedFrame
from staffbooking_http.channel.outbound import MAX_UNREAD_BYTES
from staffbooking_http.server import server
from tests.channel.raw_clients import connect_idle_client, wait_until_offline
from tests.http.deployment import HttpDeployment
from tests.support.channel_deployment import (
    RECEIVE_TIMEOUT_SECONDS,
    WebSocketClient,
    add_shared_conversation,
    relax_limits,
    serve_channel,
)

pytestmark = pytest.mark.anyio

LONG = "\U0001f600" * 5000
"""A message of 20,000 bytes."""


UVLOOP = ("asyncio", {"use_uvloop": True})
on_both_loops = pytest.mark.parametrize(
    "anyio_backend", [UVLOOP, "asyncio"], ids=["uvloop", "asyncio"]
)


@pytest.fixture
def anyio_backend() -> Any:
    """uvloop by default, since write buffers belong to the event loop."""
    return UVLOOP


@frozen
class WatchedConnections:
    """Records of the connections that the server opened, oldest first."""

    made: list[uvicorn_protocol.DirectOutbound] = field(factory=list)
    unread: list[int] = field(factory=list)
    """Unread bytes after each frame."""
    closed: list[CloseCode] = field(factory=list)

    async def wait_released(self, position: int) -> None:
        """Wait until the server has released the connection at an index."""
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            while not self.made[position]._protocol.disconnected:
                await anyio.lowlevel.checkpoint()


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> WatchedConnections:
    """Watch the connections of the server, which gives closing clients 50 ms to read."""
    seen = WatchedConnections()

    class Watched(uvicorn_protocol.DirectOutbound):
        __slots__ = ()

        def __init__(self, made: uvicorn_protocol.BoundedWebSocketProtocol) -> None:
            super().__init__(made)
            seen.made.append(self)

        def send(self, frame: EncodedFrame) -> bool:
            sent = super().send(frame)
            seen.unread.append(self._transport.get_write_buffer_size())
            return sent

        def close(self, code: CloseCode, reason: str) -> None:
            if self.is_open:
                seen.closed.append(code)
            super().close(code, reason)

    monkeypatch.setattr(uvicorn_protocol, "DirectOutbound", Watched)
    monkeypatch.setattr(uvicorn_protocol, "CLOSE_TIMEOUT_SECONDS", 0.05)
    return seen


async def send_until_closed(
    ada: WebSocketClient, conversation: Conversation, connections: WatchedConnections, number: int
) -> int:
    """Send messages of the customer until `number` connections were closed as SLOW; returns the
    number of messages."""
    for count in range(1000):
        if connections.closed.count(CloseCode.SLOW) >= number:
            return count
        await ada.send_message(conversation, LONG)
    raise AssertionError(f"closed were {connections.closed}")


async def test_a_hundred_clients_that_stop_reading_are_closed(
    world: HttpDeployment, connections: WatchedConnections
) -> None:
    """A hundred clients that stop reading are closed at `MAX_UNREAD_BYTES`, and reading clients get
    every message."""
    relax_limits(world, max_connections=101)
    conversation = await add_shared_conversation(world)
    async with (
        serve_channel(world.ports) as site,
        site.connect_client(world.customer) as ada,
        site.connect_client(world.companion) as mia,
        AsyncExitStack() as stack,
    ):
        idlers = [
            await stack.enter_async_context(connect_idle_client(site, world.companion, mia.token))
            for _ in range(100)
        ]
        count = await send_until_closed(ada, conversation, connections, 100)
        for idler in idlers:
            await idler.wait_closed()
        assert (
            MAX_UNREAD_BYTES - 2 * len(LONG.encode()) < max(connections.unread) <= MAX_UNREAD_BYTES
        )
        assert connections.closed == [CloseCode.SLOW] * 100
        assert await site.metric("slow_total") == 100
        for client in (ada, mia):
            received = [await client.next_data("new_message") for _ in range(count)]
            assert [each["id"] for each in received] == list(range(1, count + 1))


@on_both_loops
async def test_a_closed_client_can_reconnect(
    world: HttpDeployment, connections: WatchedConnections
) -> None:
    """A user with one connection reconnects after it was closed as slow, and gets every missed
    message by `resume`."""
    relax_limits(world, max_connections=1)
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as site, site.connect_client(world.customer) as ada:
        async with connect_idle_client(site, world.companion) as mia:
            count = await send_until_closed(ada, conversation, connections, 1)
            await mia.wait_closed()
        await wait_until_offline(world, world.companion)
        async with site.connect_client(world.companion) as back:
            await back.send(ClientEvent.RESUME, {"after": 0})
            received = [await back.next_data("new_message") for _ in range(count)]
            assert [each["id"] for each in received] == list(range(1, count + 1))


async def test_a_long_resume_stays_below_the_bound(
    world: HttpDeployment, connections: WatchedConnections
) -> None:
    """`resume` delivers 200 long messages with less than a quarter of `MAX_UNREAD_BYTES` unread."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    await add_messages_by(world.store, conversation, *[LONG] * 200)
    async with serve_channel(world.ports) as site, site.connect_client(world.companion) as mia:
        await mia.send(ClientEvent.RESUME, {"after": 0})
        received = [await mia.next_data("new_message") for _ in range(200)]
        assert [each["id"] for each in received] == list(range(1, 201))
        assert max(connections.unread) < MAX_UNREAD_BYTES / 4
        assert connections.closed == []


@on_both_loops
async def test_a_client_that_stops_reading_during_resume_is_closed(
    world: HttpDeployment, connections: WatchedConnections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that stops reading during `resume` answers no ping and is released."""
    monkeypatch.setattr(server, "WEBSOCKET_PING_INTERVAL_SECONDS", 0.1)
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    await add_messages_by(world.store, conversation, *[LONG] * 200)
    async with (
        serve_channel(world.ports) as site,
        connect_idle_client(site, world.companion) as mia,
    ):
        await mia.send(ClientEvent.RESUME, {"after": 0})
        await connections.wait_released(0)
        await wait_until_offline(world, world.companion)
        assert max(connections.unread) < MAX_UNREAD_BYTES / 4


async def test_a_signed_out_client_that_does_not_read_is_released(
    world: HttpDeployment, connections: WatchedConnections
) -> None:
    """A client that does not read is released after a sign-out and after a restart."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as site, site.connect_client(world.customer) as ada:
        browser = await world.signed_in_client(world.companion.id)
        token = browser.headers["cookie"].removeprefix("connect.sid=")
        async with (
            connect_idle_client(site, world.companion, token),
            connect_idle_client(site, world.companion),
        ):
            while max(connections.unread) < MAX_UNREAD_BYTES / 2:
                await ada.send_message(conversation, LONG)
            await browser.post("/auth/logout")
            await connections.wait_released(1)
            assert connections.closed == [CloseCode.FORBIDDEN]
            site.stop.set()
            await connections.wait_released(2)
            assert connections.closed.count(CloseCode.RESTART) == 2


@on_both_loops
async def test_a_closing_client_that_does_not_read_is_released(
    world: HttpDeployment, connections: WatchedConnections
) -> None:
    """A client that closes, or ends its sending, and reads nothing is released."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    for ending in (b"\x88\x80\0\0\0\0", b""):
        connections.unread.clear()
        async with (
            serve_channel(world.ports) as site,
            site.connect_client(world.customer) as ada,
            connect_idle_client(site, world.companion) as mia,
        ):
            while max(connections.unread, default=0) < MAX_UNREAD_BYTES / 2:
                await ada.send_message(conversation, LONG)
            if ending:
                await mia.write(ending)
            else:
                mia.socket.shutdown(socket.SHUT_WR)
            await connections.wait_released(-1)
            await wait_until_offline(world, world.companion)


async def test_unread_pongs_are_bounded(
    world: HttpDeployment, connections: WatchedConnections
) -> None:
    """A client that sends pings and reads nothing is released."""
    relax_limits(world)
    ping = b"\x89\xfd\0\0\0\0" + b"x" * 125
    async with (
        serve_channel(world.ports) as site,
        connect_idle_client(site, world.companion) as mia,
    ):
        [pipe] = connections.made
        with suppress(ConnectionError):
            while pipe._transport.get_write_buffer_size() <= MAX_UNREAD_BYTES + len(ping):
                await mia.write(ping * 1000)
        await connections.wait_released(0)
