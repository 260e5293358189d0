"""How long a connection without requests stays open, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import pytest
from attrs import define, field
from uvicorn.server import ServerState

from staffbooking_adapters.settings import load_settings
from staffbooking_http.server import server
from staffbooking_http.server.http_protocol import (
    HEAD_TIMEOUT_SECONDS,
    REFUSAL_TIMEOUT_SECONDS,
    UNREAD_BODY_TIMEOUT_SECONDS,
    BoundedHttpProtocol,
)
from tests.http.server.timers import Timers

pytestmark = pytest.mark.anyio

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nhost: x\r\n"
HALF_SENT = {
    "no body": POST + b"content-length: 2\r\n\r\n",
    "half a body": POST + b"content-length: 2\r\n\r\n{",
    "no chunk": POST + b"transfer-encoding: chunked\r\n\r\n",
    "a refused expectation": POST + b"expect: 100-continue\r\ncontent-length: 2\r\n\r\n",
    "a blank line behind": REQUEST + b"\r\n",
}
"""What a client sends before its response, which is not all that was announced."""
HANDSHAKE = (
    b"GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Loop(Timers):
    """The event loop of a connection: its tasks run, and its timers wait for the test."""

    def create_task(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)


class Transport(asyncio.Transport):
    """A transport that drops what is written."""

    is_closed = False
    has_ended = False
    """Whether the client was told that nothing more is sent."""
    protocol: asyncio.BaseProtocol

    def write(self, data: Any) -> None:
        pass

    def close(self) -> None:
        self.is_closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.has_ended = True

    def is_closing(self) -> bool:
        return self.is_closed

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol


@define
class Connected:
    """A connection whose application answers when it may."""

    loop: Loop = field(factory=Loop)
    transport: Transport = field(factory=Transport)
    may_answer: asyncio.Event = field(factory=asyncio.Event)
    protocol: BoundedHttpProtocol = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.may_answer.set()

        async def answer(scope: Any, receive: Any, send: Any) -> None:
            await self.may_answer.wait()
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

        config = server._uvicorn_config(cast("Any", answer), load_settings({}))
        loop = cast("asyncio.AbstractEventLoop", self.loop)
        self.protocol = BoundedHttpProtocol(config, ServerState(), {}, loop)
        self.transport.set_protocol(self.protocol)
        self.protocol.connection_made(self.transport)

    @property
    def keep_alive_seconds(self) -> int:
        return self.protocol.timeout_keep_alive

    async def finish(self) -> None:
        """Wait for the response."""
        await asyncio.gather(*self.protocol.tasks)

    async def request(self, sent: bytes = REQUEST) -> None:
        self.protocol.data_received(sent)
        await self.finish()


async def test_an_idle_connection_is_closed() -> None:
    """A connection is closed once nothing was asked for a while."""
    connected = Connected()
    await connected.request()
    connected.loop.advance(connected.keep_alive_seconds)
    assert connected.transport.is_closed


async def test_a_request_begins_the_time_anew() -> None:
    """A connection stays open while requests follow each other."""
    connected = Connected()
    for _ in range(3):
        await connected.request()
        connected.loop.advance(connected.keep_alive_seconds - 1)
    assert not connected.transport.is_closed
    connected.loop.advance(1)
    assert connected.transport.is_closed


async def test_a_connection_on_which_a_request_arrives_is_not_idle() -> None:
    """The rest of a request has the time of a head, though that of idle connections is over."""
    connected = Connected()
    connected.protocol.timeout_keep_alive = 2
    await connected.request()
    connected.loop.advance(1)
    connected.protocol.data_received(REQUEST[:10])
    connected.loop.advance(HEAD_TIMEOUT_SECONDS - 1)
    assert not connected.transport.is_closed


async def test_a_connection_that_waits_for_its_response_is_not_idle() -> None:
    """The time begins with a response, however long the request took."""
    connected = Connected()
    await connected.request()
    connected.may_answer.clear()
    connected.protocol.data_received(REQUEST)
    connected.loop.advance(10 * connected.keep_alive_seconds)
    connected.may_answer.set()
    await connected.finish()
    connected.loop.advance(connected.keep_alive_seconds - 1)
    assert not connected.transport.is_closed
    connected.loop.advance(1)
    assert connected.transport.is_closed


@pytest.mark.parametrize("sent", HALF_SENT.values(), ids=HALF_SENT.keys())
async def test_a_connection_whose_input_stays_away_is_closed(sent: bytes) -> None:
    """A connection is closed if nothing more arrives of what was begun before the response."""
    connected = Connected()
    await connected.request(sent)
    connected.loop.advance(UNREAD_BODY_TIMEOUT_SECONDS)
    assert connected.transport.is_closed


async def test_a_body_after_the_response_keeps_the_connection() -> None:
    """A request that follows a late body is answered, however long it takes."""
    connected = Connected()
    await connected.request(HALF_SENT["no body"])
    connected.may_answer.clear()
    connected.protocol.data_received(b"{}" + REQUEST)
    connected.loop.advance(UNREAD_BODY_TIMEOUT_SECONDS)
    assert not connected.transport.is_closed
    connected.may_answer.set()
    await connected.finish()


LAST = POST + b"connection: close\r\ncontent-length: 2\r\n\r\n"


async def test_a_client_that_still_sends_may_read_the_last_response() -> None:
    """After the last response the connection takes the rest of the body for a while."""
    connected = Connected()
    await connected.request(LAST)
    assert connected.transport.has_ended
    connected.loop.advance(REFUSAL_TIMEOUT_SECONDS / 2)
    connected.protocol.data_received(b"{")
    assert not connected.transport.is_closed
    connected.loop.advance(REFUSAL_TIMEOUT_SECONDS / 2)
    assert connected.transport.is_closed


async def test_a_request_behind_the_last_one_is_not_answered() -> None:
    """What follows the last request of a connection is dropped, though it is a whole request."""
    connected = Connected()
    await connected.request(LAST)
    connected.protocol.data_received(b"{}" + REQUEST)
    assert not connected.protocol.tasks


async def test_a_connection_whose_last_request_has_arrived_is_closed() -> None:
    """After the last response to a whole request the connection is closed at once."""
    connected = Connected()
    await connected.request(LAST + b"{}")
    assert connected.transport.is_closed


async def test_a_websocket_is_not_idle() -> None:
    """A connection that becomes a WebSocket after a request is not closed by the timer of idle
    ones."""
    connected = Connected()
    await connected.request()
    connected.protocol.ws_protocol_class = cast("Any", lambda **_: _WebSocket())
    connected.protocol.data_received(HANDSHAKE)
    assert isinstance(connected.transport.protocol, _WebSocket)
    connected.loop.advance(10 * connected.keep_alive_seconds)
    assert not connected.transport.is_closed


class _WebSocket(asyncio.Protocol):
    """Stands for the protocol that takes over."""
