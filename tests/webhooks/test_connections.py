"""The connections of the webhook sender: how responses are read, and how long they are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from staffbooking_adapters.webhook.connections import (
    KEEPALIVE_SECONDS,
    ConnectionPool,
    HttpConnection,
)
from staffbooking_core.domain.webhooks.deliveries import DeliveryFailure

MALFORMED = DeliveryFailure.MALFORMED_RESPONSE
CLOSED = DeliveryFailure.CONNECTION_CLOSED
URL = "https://hooks.test/"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class FakeTransport(asyncio.Transport):
    """A transport whose peer is the test; `unread` bytes wait to be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.unread = 0
        self._is_closing = False

    def write(self, data: object) -> None:
        pass

    def is_closing(self) -> bool:
        return self._is_closing

    def abort(self) -> None:
        self._is_closing = True

    def get_write_buffer_size(self) -> int:
        return self.unread


def connect(
    open_connections: set[HttpConnection] | None = None,
) -> tuple[HttpConnection, FakeTransport]:
    connection = HttpConnection(set() if open_connections is None else open_connections)
    transport = FakeTransport()
    connection.connection_made(transport)
    return connection, transport


def deadline() -> float:
    return asyncio.get_running_loop().time() + 10.0


async def answer(connection: HttpConnection, segments: Sequence[bytes]) -> int | DeliveryFailure:
    """The outcome of a request that is answered with these segments; then the peer is silent, or
    closes if there is no outcome yet."""
    outcome = asyncio.ensure_future(connection.post(b"request", deadline()))
    await asyncio.sleep(0)
    for segment in segments:
        connection.data_received(segment)
    await asyncio.sleep(0)
    if not outcome.done():
        connection.connection_lost(None)
    return await outcome


async def read(segments: Sequence[bytes]) -> tuple[int | DeliveryFailure, bool]:
    """The outcome, and whether the connection may be used again."""
    connection, _ = connect()
    return await answer(connection, segments), connection.is_reusable


HEAD = b"HTTP/1.1 200 OK\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"

RESPONSES: dict[str, tuple[bytes, int | DeliveryFailure, bool]] = {
    "a length": (OK, 200, True),
    "chunks": (CHUNKED + b"\r\n2\r\nok\r\n0\r\n\r\n", 200, True),
    "chunks with extensions and trailers": (
        CHUNKED + b"\r\n2;a=b\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n",
        200,
        True,
    ),
    "blanks after a chunk's size": (CHUNKED + b"\r\n2 \r\nok\r\n0\r\n\r\n", 200, True),
    "no body by its status": (b"HTTP/1.1 204 Done\r\n\r\n", 204, True),
    "a body until the end of the connection": (HEAD + b"\r\nok", 200, False),
    "lines that end in LF": (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", 200, True),
    "no reason": (b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, True),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, False),
    "the end announced": (HEAD + b"Connection: close\r\nContent-Length: 0\r\n\r\n", 200, False),
    "a folded header": (HEAD + b"X-Long: a\r\n b\r\nContent-Length: 0\r\n\r\n", 200, True),
    "controls in a header": (HEAD + b"X-Odd: a\x01\x7f\r\nContent-Length: 0\r\n\r\n", 200, True),
    "NUL in a body": (HEAD + b"Content-Length: 3\r\n\r\na\0b", 200, True),
    "NUL in the status line": (b"HTTP/1.1 200 O\0K\r\n\r\n", MALFORMED, False),
    "NUL in a header": (HEAD + b"X-Nul: a\0\r\n\r\n", MALFORMED, False),
    "a length and chunks": (CHUNKED + b"Content-Length: 2\r\n\r\n2\r\nok", MALFORMED, False),
    "two lengths": (HEAD + b"Content-Length: 2\r\n" * 2 + b"\r\nok", MALFORMED, False),
    "a length with a sign": (HEAD + b"Content-Length: +2\r\n\r\nok", MALFORMED, False),
    "a length beyond all": (HEAD + b"Content-Length: %d\r\n\r\n" % 2**64, MALFORMED, False),
    "a blank before the colon": (HEAD + b"Content-Length : 2\r\n\r\nok", 200, True),
    "an empty name": (HEAD + b": a\r\n\r\n", MALFORMED, False),
    "CR alone": (HEAD + b"X-Odd: a\rb\r\n\r\n", MALFORMED, False),
    "an unknown version": (b"HTTP/1.2 200 OK\r\n\r\n", MALFORMED, False),
    "another protocol": (b"ICY 200 OK\r\n\r\n", MALFORMED, False),
    "chunks that are none": (CHUNKED + b"\r\nzz\r\n", 200, False),
    "a chunk beyond all": (CHUNKED + b"\r\n" + b"f" * 17 + b"\r\n", 200, False),
    "part of a chunk": (CHUNKED + b"\r\n9\r\nok", 200, False),
    "part of a body": (HEAD + b"Content-Length: 9\r\n\r\nok", 200, False),
    "part of a head": (HEAD + b"Content-", CLOSED, False),
    "nothing": (b"", CLOSED, False),
    "only a line break": (b"\r\n", CLOSED, False),
    "line breaks before it": (b"\r\n\r\n" + OK, 200, True),
    "a second response": (OK + b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n", 200, False),
    "garbage after it": (OK + b"\x16\x03\x01", 200, False),
    "interim responses before it": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: a\r\n\r\n" + OK,
        200,
        True,
    ),
    "an interim response alone": (b"HTTP/1.1 100 Continue\r\n\r\n", CLOSED, False),
    "a switch of protocols": (
        b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\x81\x05",
        101,
        False,
    ),
    "an upgrade that is only offered": (
        HEAD + b"Upgrade: h2c\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n",
        200,
        True,
    ),
    "a status below 100": (b"HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n", 99, True),
    "a head beyond the limit": (HEAD + b"X-Long: " + b"x" * 65_536 + b"\r\n\r\n", MALFORMED, False),
    "a body beyond the limit": (
        HEAD + b"Content-Length: 100000\r\n\r\n" + b"x" * 100_000,
        200,
        False,
    ),
}


@pytest.mark.anyio
@pytest.mark.parametrize("case", RESPONSES)
async def test_a_response(case: str) -> None:
    """A response's head decides the outcome; the connection is reusable if its end is certain."""
    response, outcome, reusable = RESPONSES[case]
    assert await read([response]) == (outcome, reusable)


PIECES = st.sampled_from(
    [
        *(b"HTTP/1.1 200 OK", b"HTTP/1.1 100 Continue", b"HTTP/1.1 204 No", b"HTTP/1.0 500 No"),
        *(b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b":", b"\0", b"\xff"),
        *(b"Content-Length: 2", b"Content-Length: 0", b"Transfer-Encoding: chunked"),
        *(b"Connection: close", b"Upgrade: x", b"X-A: b", b"ok", b"2\r\nok\r\n0\r\n\r\n", b"zz"),
    ]
)


@given(st.data())
def test_segments_make_no_difference(data: st.DataObject) -> None:
    """The outcome of any bytes is the same however they are divided into segments."""
    response = b"".join(data.draw(st.lists(PIECES, max_size=12)))
    ends = sorted(data.draw(st.sets(st.integers(0, len(response)), max_size=4)))
    bounds = [0, *ends, len(response)]
    segments = [response[a:b] for a, b in pairwise(bounds) if a < b]

    whole, _ = asyncio.run(read([response]))
    divided, _ = asyncio.run(read(segments))

    assert divided == whole


@pytest.mark.anyio
async def test_a_connection_that_is_closed_before_its_first_request() -> None:
    """A new connection that is already closed is a failed attempt, not a stale connection."""
    connection, transport = connect()
    transport.abort()
    assert await connection.post(b"request", deadline()) is CLOSED


@pytest.mark.anyio
async def test_data_before_the_request() -> None:
    """Data that is sent before the request is no response to it."""
    connection, _ = connect()
    connection.data_received(OK)
    assert await connection.post(b"request", deadline()) is CLOSED


@pytest.mark.anyio
async def test_a_request_that_is_not_read() -> None:
    """A connection whose request was answered before it was read is not reused."""
    connection, transport = connect()
    transport.unread = 1
    assert await answer(connection, [OK]) == 200
    assert not connection.is_reusable


async def idle(pool: ConnectionPool) -> FakeTransport:
    """A connection that the pool keeps."""
    connection, transport = pool.create_connection(), FakeTransport()
    connection.connection_made(transport)
    assert await answer(connection, [OK]) == 200
    pool.release(URL, connection)
    return transport


@pytest.mark.anyio
async def test_an_expired_connection_is_not_reused(loop_time: list[float]) -> None:
    """A connection is reused until it has been idle for a time."""
    pool = ConnectionPool()
    await idle(pool)
    loop_time[0] += KEEPALIVE_SECONDS - 0.5
    connection = pool.acquire(URL)
    assert connection is not None
    pool.release(URL, connection)
    loop_time[0] += KEEPALIVE_SECONDS
    assert pool.acquire(URL) is None


@pytest.mark.anyio
async def test_expired_connections_are_closed(loop_time: list[float]) -> None:
    """Idle connections are closed at the end of their time, each at its own."""
    pool = ConnectionPool()
    first = await idle(pool)
    loop_time[0] += 1.0
    second = await idle(pool)
    closed = []
    for seconds in (KEEPALIVE_SECONDS - 1.0, 1.0):
        loop_time[0] += seconds
        for _ in range(3):
            await asyncio.sleep(0)
        closed.append((first.is_closing(), second.is_closing()))
    assert closed == [(True, False), (True, True)]


@pytest.mark.anyio
async def test_the_connection_that_was_used_last_is_reused_first() -> None:
    """Of several idle connections the last used is taken, so that the others may expire."""
    pool = ConnectionPool()
    first, last = await idle(pool), await idle(pool)
    connection = pool.acquire(URL)
    assert connection is not None
    connection.abort()
    assert (first.is_closing(), last.is_closing()) == (False, True)
