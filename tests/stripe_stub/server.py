"""A small HTTP/1.1 server on loopback, whose connections can be broken at will."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import httptools
from attrs import frozen

from tests.stripe_stub.http_messages import Answer, Ending, Request

LINGER_NOT = struct.pack("ii", 1, 0)
"""With this a socket that is closed sends a reset."""


@frozen
class Server:
    url: str
    connections: set[Connection]

    def hurry(self) -> None:
        """Send the answers that wait for their time."""
        for each in [*self.connections]:
            each.hurry()


@asynccontextmanager
async def serve(answer: Callable[[Request], Answer]) -> AsyncIterator[Server]:
    """Serve until the block ends."""
    loop = asyncio.get_running_loop()
    open_ones: set[Connection] = set()
    server = await loop.create_server(lambda: Connection(answer, open_ones), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield Server(f"http://127.0.0.1:{port}", open_ones)
    finally:
        server.close()
        for each in [*open_ones]:
            each.close()
        await server.wait_closed()


class Connection(asyncio.Protocol):
    """One client, one request after the other."""

    def __init__(self, answer: Callable[[Request], Answer], open_ones: set[Connection]) -> None:
        self._answer = answer
        self._open_ones = open_ones
        self._transport: asyncio.Transport | None = None
        self._waiting: tuple[asyncio.TimerHandle, Answer] | None = None
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    # What asyncio and httptools call -----------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open_ones.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is None:
            self._open_ones.discard(self)

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
        request = Request(
            self._parser.get_method().decode().lower(),
            url.path.decode(),
            (url.query or b"").decode(),
            self._headers,
            bytes(self._body),
        )
        self._begin()
        answer = self._answer(request)
        if answer.seconds:
            loop = asyncio.get_running_loop()
            self._waiting = (loop.call_later(answer.seconds, self._send, answer), answer)
        else:
            self._send(answer)

    # Answers ------------------------------------------------------------------------------

    def _send(self, answer: Answer) -> None:
        self._waiting = None
        answer.sent()
        transport = self._transport
        if transport is None or transport.is_closing():
            self._open_ones.discard(self)
            return
        if answer.ending is Ending.RESET:
            self._reset(transport)
            return
        reason = HTTPStatus(answer.status).phrase
        headers = {**answer.headers, "Content-Length": str(len(answer.body))}
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        head = f"HTTP/1.1 {answer.status} {reason}\r\n{''.join(lines)}\r\n".encode()
        if answer.ending is Ending.CUT:
            transport.write(head + answer.body[: len(answer.body) // 2])
            transport.close()
        else:
            transport.write(head + answer.body)

    @staticmethod
    def _reset(transport: asyncio.Transport) -> None:
        sock = transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NOT)
        transport.abort()

    def hurry(self) -> None:
        """Send the answer that waits, if there is one."""
        if self._waiting is not None:
            timer, answer = self._waiting
            timer.cancel()
            self._send(answer)

    def close(self) -> None:
        """End the connection; an answer that still waits is not sent."""
        if self._waiting is not None:
            self._waiting[0].cancel()
        if self._transport is not None:
            self._transport.abort()
