"""Clients that don't read: what lies unread for them is bounded, and nobody else suffers."""

from __future__ import annotations

import socket
from contextlib import AsyncExitStack, suppress
from typing import Any

import anyio
import pytest
from attrs import field, frozen

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
from tests.support.messages import add_messages_by

pytestmark = pytest.mark.anyio

LONG = "\U0001f600" * 5000
"""A message of 20,000 bytes."""


UVLOOP = ("asyncio", {"use_uvloop": True})
on_both_loops = pytest.mark.parametrize(
    "anyio_backend", [UVLOOP, "asyncio"], ids=["uvloop", "asyncio"]
)


@pytest.fixture
def anyio_backend() -> Any:
    """The loop that the service runs on: buffers are its affair."""
    return UVLOOP


@frozen
class Pipes:
    """What the server's pipes were seen to do."""

    made: list[uvicorn_protocol.DirectOutbound] = field(factory=list)
    unread: list[int] = field(factory=list)
    """Bytes that lay unread after each frame."""
    closed: list[CloseCode] = field(factory=list)

    async def cut(self, place: int) -> None:
        """Until nothing is left of a pipe: neither its socket nor what lay unread."""
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            while not self.made[place]._protocol.disconnected:
                await anyio.lowlevel.checkpoint()


@pytest.fixture
def pipes(monkeypatch: pytest.MonkeyPatch) -> Pipes:
    """The server's pipes are watched, and nobody is given long to read why they are closed."""
    seen = Pipes()

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


async def chat(ada: WebSocketClient, conversation: Conversation, pipes: Pipes, number: int) -> int:
    """Let the customer talk until so many idlers were closed: how often it was said."""
    for said in range(1000):
        if pipes.closed.count(CloseCode.SLOW) >= number:
            return said
        await ada.send_message(conversation, LONG)
    raise AssertionError(f"closed were {pipes.closed}")


async def test_a_hundred_who_stop_reading_are_cut_off(world: HttpDeployment, pipes: Pipes) -> None:
    """Each at 1 MiB at the latest, while whoever reads gets everything."""
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
        said = await chat(ada, conversation, pipes, 100)
        for idler in idlers:
            await idler.wait_closed()
        assert MAX_UNREAD_BYTES - 2 * len(LONG.encode()) < max(pipes.unread) <= MAX_UNREAD_BYTES
        assert pipes.closed == [CloseCode.SLOW] * 100
        assert await site.metric("slow_total") == 100
        for client in (ada, mia):
            told = [await client.next_data("new_message") for _ in range(said)]
            assert [each["id"] for each in told] == list(range(1, said + 1))


@on_both_loops
async def test_who_was_cut_off_may_come_again(world: HttpDeployment, pipes: Pipes) -> None:
    """Nothing is left of the old connection, and the new one is told what was missed."""
    relax_limits(world, max_connections=1)
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as site, site.connect_client(world.customer) as ada:
        async with connect_idle_client(site, world.companion) as mia:
            said = await chat(ada, conversation, pipes, 1)
            await mia.wait_closed()
        await wait_until_offline(world, world.companion)
        async with site.connect_client(world.companion) as back:
            await back.send(ClientEvent.RESUME, {"after": 0})
            told = [await back.next_data("new_message") for _ in range(said)]
            assert [each["id"] for each in told] == list(range(1, said + 1))


async def test_much_is_told_as_fast_as_it_is_read(world: HttpDeployment, pipes: Pipes) -> None:
    """Far more than may lie unread was missed, and the client lives to see the end of it."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    await add_messages_by(world.store, conversation, *[LONG] * 200)
    async with serve_channel(world.ports) as site, site.connect_client(world.companion) as mia:
        await mia.send(ClientEvent.RESUME, {"after": 0})
        told = [await mia.next_data("new_message") for _ in range(200)]
        assert [each["id"] for each in told] == list(range(1, 201))
        assert max(pipes.unread) < MAX_UNREAD_BYTES / 4
        assert pipes.closed == []


@on_both_loops
async def test_who_stops_in_the_middle_is_cut_off(
    world: HttpDeployment, pipes: Pipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told of what was missed, and reading none of it: no ping is answered either."""
    monkeypatch.setattr(server, "WEBSOCKET_PING_INTERVAL_SECONDS", 0.1)
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    await add_messages_by(world.store, conversation, *[LONG] * 200)
    async with (
        serve_channel(world.ports) as site,
        connect_idle_client(site, world.companion) as mia,
    ):
        await mia.send(ClientEvent.RESUME, {"after": 0})
        await pipes.cut(0)
        await wait_until_offline(world, world.companion)
        assert max(pipes.unread) < MAX_UNREAD_BYTES / 4


async def test_who_is_signed_out_is_cut_off_unread(world: HttpDeployment, pipes: Pipes) -> None:
    """A client that does not read keeps nothing open: neither for itself nor for the server's
    end."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    async with serve_channel(world.ports) as site, site.connect_client(world.customer) as ada:
        browser = await world.signed_in_client(world.companion.id)
        token = browser.headers["cookie"].removeprefix("connect.sid=")
        async with (
            connect_idle_client(site, world.companion, token),
            connect_idle_client(site, world.companion),
        ):
            while max(pipes.unread) < MAX_UNREAD_BYTES / 2:
                await ada.send_message(conversation, LONG)
            await browser.post("/auth/logout")
            await pipes.cut(1)
            assert pipes.closed == [CloseCode.FORBIDDEN]
            site.stop.set()
            await pipes.cut(2)
            assert pipes.closed.count(CloseCode.RESTART) == 2


@on_both_loops
async def test_who_closes_and_reads_nothing_is_cut_off(world: HttpDeployment, pipes: Pipes) -> None:
    """A closing frame, or the end of its sending, with much that it never reads."""
    relax_limits(world)
    conversation = await add_shared_conversation(world)
    for ending in (b"\x88\x80\0\0\0\0", b""):
        pipes.unread.clear()
        async with (
            serve_channel(world.ports) as site,
            site.connect_client(world.customer) as ada,
            connect_idle_client(site, world.companion) as mia,
        ):
            while max(pipes.unread, default=0) < MAX_UNREAD_BYTES / 2:
                await ada.send_message(conversation, LONG)
            if ending:
                await mia.write(ending)
            else:
                mia.socket.shutdown(socket.SHUT_WR)
            await pipes.cut(-1)
            await wait_until_offline(world, world.companion)


async def test_answers_to_pings_are_bounded(world: HttpDeployment, pipes: Pipes) -> None:
    """A client that pings for ever and reads nothing is cut off, too."""
    relax_limits(world)
    ping = b"\x89\xfd\0\0\0\0" + b"x" * 125
    async with (
        serve_channel(world.ports) as site,
        connect_idle_client(site, world.companion) as mia,
    ):
        [pipe] = pipes.made
        with suppress(ConnectionError):
            while pipe._transport.get_write_buffer_size() <= MAX_UNREAD_BYTES + len(ping):
                await mia.write(ping * 1000)
        await pipes.cut(0)
