"""A small HTTP/1.1 server on loopback that can reset or cut off its connections."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import httptools
from attrs import frozen

from tests.stripe_stub.http_messages import ConnectionEnding, StubRequest, StubResponse

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""The linger option that makes a closed socket send a reset."""


@frozen
class StubServer:
    url: str
    connections: set[StubConnection]

    def flush_delayed(self) -> None:
        """Send all delayed answers now."""
        for each in [*self.connections]:
            each.flush_delayed()


@asynccontextmanager
async def run_server(answer: Callable[[StubRequest], StubResponse]) -> AsyncIterator[StubServer]:
    """Serve until the block ends."""
    loop = asyncio.get_running_loop()
    connections: set[StubConnection] = set()
    server = await loop.create_server(lambda: StubConnection(answer, connections), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield StubServer(f"http://127.0.0.1:{port}", connections)
    finally:
        server.close()
        for each in [*connections]:
            each.close()
        await server.wait_closed()


class StubConnection(asyncio.Protocol):
    """One client's connection; requests are handled one after the other."""

    def __init__(
        self, answer: Callable[[StubRequest], StubResponse], connections: set[StubConnection]
    ) -> None:
        self._answer = answer
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._delayed: tuple[asyncio.TimerHandle, StubResponse] | None = None
        self._reset_parser()

    def _reset_parser(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    # What asyncio and httptools call -----------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._delayed is None:
            self._connections.discard(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        url = httptools.parse_url(self._url)
        request = StubRequest(
            self._parser.get_method().decode().lower(),
            url.path.decode(),
            (url.query or b"").decode(),
            self._headers,
            bytes(self._body),
        )
        self._reset_parser()
        answer = self._answer(request)
        if answer.delay_seconds:
            loop = asyncio.get_running_loop()
            self._delayed = (loop.call_later(answer.delay_seconds, self._send, answer), answer)
        else:
            self._send(answer)

    # Answers ------------------------------------------------------------------------------

    def _send(self, answer: StubResponse) -> None:
        self._delayed = None
        answer.on_sent()
        transport = self._transport
        if transport is None or transport.is_closing():
            self._connections.discard(self)
            return
        if answer.ending is ConnectionEnding.RESET_BEFORE_RESPONSE:
            self._reset(transport)
            return
        reason = HTTPStatus(answer.status).phrase
        headers = {**answer.headers, "Content-Length": str(len(answer.body))}
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        head = f"HTTP/1.1 {answer.status} {reason}\r\n{''.join(lines)}\r\n".encode()
        if answer.ending is ConnectionEnding.CUT_WITHIN_RESPONSE:
            transport.write(head + answer.body[: len(answer.body) // 2])
            transport.close()
        else:
            transport.write(head + answer.body)

    @staticmethod
    def _reset(transport: asyncio.Transport) -> None:
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
        transport.abort()

    def flush_delayed(self) -> None:
        """Send the delayed answer, if any."""
        if self._delayed is not None:
            timer, answer = self._delayed
            timer.cancel()
            self._send(answer)

    def close(self) -> None:
        """Close the connection; a delayed answer is not sent."""
        if self._delayed is not None:
            self._delayed[0].cancel()
        if self._transport is not None:
            self._transport.abort()
