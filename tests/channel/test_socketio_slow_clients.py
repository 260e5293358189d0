"""Socket.IO clients that do not read: the bound of unread bytes, and when they are closed."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from staffbooking_adapters.testing.builders_messages import add_messages_by
from staffbooking_core.domain.messaging.conversations import Conversation
from staffbooking_http.channel import socketio, socketio_engine
from staffbooking_http.channel.socketio_client import MAX_QUEUED_BYTES
from staffbooking_http.channel.socketio_engine import PacketQueue
from tests.channel.raw_clients import RawWebSocketClient, wait_until_offline
from tests.channel.socketio_clients import (
    POLLING_ONLY,
    SOCKETIO_PATH,
    TRANSPORTS,
    UNKNOWN_EVENT,
    PollingClient,
    connect_client,
    connect_polling_client,
)
from tests.http.deployment import BASE_URL, HttpDeployment, error_body
from tests.support.channel_deployment import (
    ChannelServer,
    add_shared_conversation,
    relax_limits,
    serve_channel,
)

pytestmark = pytest.mark.anyio

LONG = "\U0001f600" * 5000
"""A message of 5,000 characters, 20,000 bytes."""
FIRST_EVENT = '42["presence",{"user_ids":[999]}]'
"""A refused event; after it, messages are sent without waiting for the `resume_grace`."""


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Unread bytes after each queued packet; closing clients have 50 ms to read."""
    seen: list[int] = []

    class Watched(PacketQueue):
        def _put(self, item: Any) -> None:
            super()._put(item)
            seen.append(self.unread_bytes)

    monkeypatch.setattr(socketio_engine, "PacketQueue", Watched)
    monkeypatch.setattr(socketio, "CLOSE_TIMEOUT_SECONDS", 0.05)
    return seen


@asynccontextmanager
async def connect_idle_websocket(
    site: ChannelServer, world: HttpDeployment
) -> AsyncIterator[RawWebSocketClient]:
    """Connect a client over a WebSocket that then stops reading."""
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.setblocking(False)
    with wire:
        await asyncio.get_running_loop().sock_connect(wire, ("127.0.0.1", site.port))
        idler = RawWebSocketClient(wire)
        token = await site.sign_in(world.companion)
        await idler.write(
            f"GET {SOCKETIO_PATH}?EIO=4&transport=websocket HTTP/1.1\r\nhost: x\r\n"
            f"origin: {BASE_URL}\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            f"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"cookie: connect.sid={token}\r\n\r\n"
            "".encode()
        )
        await idler.read_until(b'"sid"')
        for packet in (b"40", FIRST_EVENT.encode()):
            await idler.write(bytes((0x81, 0x80 | len(packet), 0, 0, 0, 0)) + packet)
        await idler.read_until(b'"not_found"')
        yield idler


async def _send_until(
    site: ChannelServer, world: HttpDeployment, conversation: Conversation, is_done: Any
) -> int:
    """Send messages of the customer until a condition holds; returns their number."""
    async with site.connect_client(world.customer) as ada:
        for count in range(1000):
            if await is_done():
                return count
            await ada.send_message(conversation, LONG)
    raise AssertionError("the client lives")


async def _is_offline(world: HttpDeployment) -> bool:
    async with world.store.read_view() as view:
        [found] = await view.presence.presence([world.companion.id], world.clock.wall())
    return not found.online


async def test_a_websocket_client_that_stops_reading_is_closed(
    world: HttpDeployment, unread: list[int]
) -> None:
    """A WebSocket client that stops reading is closed less than two messages above
    `MAX_QUEUED_BYTES`."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as site, connect_idle_websocket(site, world) as mia:
        await _send_until(site, world, conversation, lambda: _is_offline(world))
        await mia.wait_closed()
    assert MAX_QUEUED_BYTES < max(unread) < MAX_QUEUED_BYTES + 2 * 4 * len(LONG)


async def test_a_closed_client_that_hangs_up_is_offline(
    world: HttpDeployment, unread: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A closed client that hangs up goes offline before the closing timeout."""
    monkeypatch.setattr(socketio, "CLOSE_TIMEOUT_SECONDS", 60.0)
    relax_limits(world)
    conversation = await add_shared_conversation(world)

    async def is_closed() -> bool:
        return unread[-2:] == [max(unread)] * 2  # The last item is the end marker.

    async with serve_channel(world.ports) as site:
        async with connect_idle_websocket(site, world):
            await _send_until(site, world, conversation, is_closed)
            assert not await _is_offline(world)
        await wait_until_offline(world, world.companion)


async def test_a_client_that_stops_polling_is_closed(
    world: HttpDeployment, unread: list[int]
) -> None:
    """A client that stops polling is closed at `MAX_QUEUED_BYTES`, and a new one can resume every
    message."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.companion) as mia,
    ):
        await mia.connect()
        await mia.post(FIRST_EVENT)
        assert (await mia.next("error"))["code"] == "not_found"
        count = await _send_until(site, world, conversation, lambda: _is_offline(world))
        while (answer := await mia.get(sid=mia.sid)).status_code == 200:
            pass
        error_body(answer, 404, "not_found")
        assert MAX_QUEUED_BYTES < max(unread) < MAX_QUEUED_BYTES + 2 * 4 * len(LONG)
        async with connect_client(site, world.companion, POLLING_ONLY) as back:
            await back.send("resume", {"after": 0})
            received = [await back.next_data("new_message") for _ in range(count)]
            assert [each["id"] for each in received] == list(range(1, count + 1))


async def test_polled_packets_are_not_unread(world: HttpDeployment, unread: list[int]) -> None:
    """Polled packets do not count as unread when the next one is queued."""
    relax_limits(world)
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.customer) as ada,
    ):
        await ada.connect()
        seen = []
        for _ in range(3):
            await ada.post(UNKNOWN_EVENT)
            seen.append(unread[-1])
            await ada.next("error")
    assert seen == [seen[0]] * 3


async def test_unread_answers_close_a_client(world: HttpDeployment, unread: list[int]) -> None:
    """A client that posts and never polls is closed when its answers exceed `MAX_QUEUED_BYTES`."""
    relax_limits(world)
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.customer) as ada,
    ):
        await ada.connect()
        asked = '421["presence",{"user_ids":[]}]'
        while (answer := await ada.post(*[asked] * 100)).status_code == 200:
            pass
        error_body(answer, 404, "not_found")
        assert MAX_QUEUED_BYTES < max(unread) < MAX_QUEUED_BYTES + 1000


async def test_a_long_resume_stays_below_the_bound(
    world: HttpDeployment, unread: list[int]
) -> None:
    """`resume` delivers 100 long messages with less than `MAX_QUEUED_BYTES` unread, over each
    transport."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    await add_messages_by(world.store, conversation, *[LONG] * 100)
    async with serve_channel(world.ports) as site:
        for transports in TRANSPORTS.values():
            async with connect_client(site, world.companion, transports) as mia:
                await mia.send("resume", {"after": 0})
                received = [await mia.next_data("new_message") for _ in range(100)]
                assert [each["id"] for each in received] == list(range(1, 101))
    assert max(unread) < MAX_QUEUED_BYTES


async def test_a_poll_during_an_unread_answer_is_refused(
    world: HttpDeployment, unread: list[int]
) -> None:
    """A poll while an earlier answer is unread is refused, and that answer ends after its first
    piece."""
    relax_limits(world)
    await add_messages_by(world.store, await add_shared_conversation(world), *[LONG] * 10)
    sent: list[Any] = []

    async def receive() -> Any:
        await anyio.sleep_forever()

    async def send(message: Any) -> None:
        sent.append(message)
        if "body" in message:
            await anyio.sleep_forever()

    async with world.app.lifespan(), await world.signed_in_client(world.companion.id) as http:
        mia = PollingClient(http)
        await mia.connect()
        await mia.post('42["resume",{"after":0}]')
        async with anyio.create_task_group() as tasks:
            query = f"EIO=4&transport=polling&sid={mia.sid}".encode()
            scope = {"type": "http", "method": "GET", "path": SOCKETIO_PATH, "query_string": query}
            headers = [(b"cookie", http.headers["cookie"].encode())]
            tasks.start_soon(world.app, {**scope, "headers": headers}, receive, send)
            while len(sent) < 2:
                await anyio.lowlevel.checkpoint()
            error_body(await mia.get(sid=mia.sid), 400, "bad_handshake")
    start, piece = sent
    assert len(piece["body"]) < int(dict(start["headers"])[b"content-length"]) < MAX_QUEUED_BYTES
    assert piece["more_body"]
