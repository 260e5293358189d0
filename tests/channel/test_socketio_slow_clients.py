"""What a client of Socket.IO may leave unread, and when it is cut off."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from staffbooking_core.domain.messaging.conversations import Conversation
from staffbooking_http.channel import socketio, socketio_engine
from staffbooking_http.channel.socketio_client import MAX_QUEUED_BYTES
from staffbooking_http.channel.socketio_engine import PacketQueue
from tests.channel.raw_clients import RawWebSocketClient, wait_until_offline
from tests.channel.socketio_clients import (
    POLLING_ONLY,
    SOCKETIO_PATH,
    TRANSPORTS,
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
from tests.support.messages import add_messages_by

pytestmark = pytest.mark.anyio

LONG = "\U0001f600" * 5000
"""A message of 20,000 bytes, and of as many characters of four bytes each."""
NOTHING = '42["nothing",{}]'
LIVELY = '42["presence",{"user_ids":[999]}]'
"""Whoever has spoken is told what is said at once."""


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes that lay unread after each packet; and nobody lingers long."""
    seen: list[int] = []

    class Watched(PacketQueue):
        def _put(self, item: Any) -> None:
            super()._put(item)
            seen.append(self.unread_bytes)

    monkeypatch.setattr(socketio_engine, "PacketQueue", Watched)
    monkeypatch.setattr(socketio, "CLOSE_TIMEOUT_SECONDS", 0.05)
    return seen


@asynccontextmanager
async def idling(site: ChannelServer, world: HttpDeployment) -> AsyncIterator[RawWebSocketClient]:
    """A client over a WebSocket who connects and reads no more."""
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
        for packet in (b"40", LIVELY.encode()):
            await idler.write(bytes((0x81, 0x80 | len(packet), 0, 0, 0, 0)) + packet)
        await idler.read_until(b'"not_found"')
        yield idler


async def _talk(
    site: ChannelServer, world: HttpDeployment, conversation: Conversation, gone: Any
) -> int:
    """Let the customer talk until the other one is gone: how often it was said."""
    async with site.connect_client(world.customer) as ada:
        for said in range(1000):
            if await gone():
                return said
            await ada.send_message(conversation, LONG)
    raise AssertionError("the client lives")


async def _is_gone(world: HttpDeployment) -> bool:
    async with world.store.read_view() as view:
        [found] = await view.presence.presence([world.companion.id], world.clock.wall())
    return not found.online


async def test_who_stops_reading_is_cut_off(world: HttpDeployment, unread: list[int]) -> None:
    """Over a WebSocket; with no more unread than there may be, and one frame."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as site, idling(site, world) as mia:
        await _talk(site, world, conversation, lambda: _is_gone(world))
        await mia.wait_closed()
    assert MAX_QUEUED_BYTES < max(unread) < MAX_QUEUED_BYTES + 2 * 4 * len(LONG)


async def test_who_is_closed_may_hang_up(
    world: HttpDeployment, unread: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for them then, though they have not read everything."""
    monkeypatch.setattr(socketio, "CLOSE_TIMEOUT_SECONDS", 60.0)
    relax_limits(world)
    conversation = await add_shared_conversation(world)

    async def is_closed() -> bool:
        return unread[-2:] == [max(unread)] * 2  # The last one is the end.

    async with serve_channel(world.ports) as site:
        async with idling(site, world):
            await _talk(site, world, conversation, is_closed)
            assert not await _is_gone(world)
        await wait_until_offline(world, world.companion)


async def test_who_stops_polling_is_cut_off(world: HttpDeployment, unread: list[int]) -> None:
    """The same; and whoever comes again is told what was missed."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.companion) as mia,
    ):
        await mia.connect()
        await mia.post(LIVELY)
        assert (await mia.next("error"))["code"] == "not_found"
        said = await _talk(site, world, conversation, lambda: _is_gone(world))
        while (answer := await mia.get(sid=mia.sid)).status_code == 200:
            pass
        error_body(answer, 404, "not_found")
        assert MAX_QUEUED_BYTES < max(unread) < MAX_QUEUED_BYTES + 2 * 4 * len(LONG)
        async with connect_client(site, world.companion, POLLING_ONLY) as back:
            await back.send("resume", {"after": 0})
            told = [await back.next_data("new_message") for _ in range(said)]
            assert [each["id"] for each in told] == list(range(1, said + 1))


async def test_what_was_polled_is_unread_no_more(world: HttpDeployment, unread: list[int]) -> None:
    """As soon as the answer is out, though there is no other poll yet."""
    relax_limits(world)
    async with (
        serve_channel(world.ports) as site,
        connect_polling_client(site, world.customer) as ada,
    ):
        await ada.connect()
        seen = []
        for _ in range(3):
            await ada.post(NOTHING)
            seen.append(unread[-1])
            await ada.next("error")
    assert seen == [seen[0]] * 3


async def test_who_reads_no_answers_is_cut_off(world: HttpDeployment, unread: list[int]) -> None:
    """What the library itself answers is counted, too: a client that only asks is ended."""
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


async def test_much_is_told_as_fast_as_it_is_read(world: HttpDeployment, unread: list[int]) -> None:
    """Far more than may lie unread was missed, and the client lives to see the end of it."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    await add_messages_by(world.store, conversation, *[LONG] * 100)
    async with serve_channel(world.ports) as site:
        for transports in TRANSPORTS.values():
            async with connect_client(site, world.companion, transports) as mia:
                await mia.send("resume", {"after": 0})
                told = [await mia.next_data("new_message") for _ in range(100)]
                assert [each["id"] for each in told] == list(range(1, 101))
    assert max(unread) < MAX_QUEUED_BYTES


async def test_an_answer_that_is_not_read_is_the_only_one(
    world: HttpDeployment, unread: list[int]
) -> None:
    """It goes out in pieces, and as long as it does there is no second one to be kept for the
    same client: another poll ends the connection, and the first one with it."""
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
            tasks.start_soon(world.app, {**scope, "headers": []}, receive, send)
            while len(sent) < 2:
                await anyio.lowlevel.checkpoint()
            error_body(await mia.get(sid=mia.sid), 400, "bad_handshake")
    start, piece = sent
    assert len(piece["body"]) < int(dict(start["headers"])[b"content-length"]) < MAX_QUEUED_BYTES
    assert piece["more_body"]
