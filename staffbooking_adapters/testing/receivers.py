"""Webhook receivers on loopback, each a real server, and resolvers of names that lead to them.

A `ReceiverServer` serves each connection with its behaviour, and records connections, requests
and the number of bytes sent.
"""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import cache
from typing import Self

from attrs import define, field, frozen

DRIP_INTERVAL_SECONDS = 0.02
"""Seconds between the bytes of slow behaviours."""


@frozen
class ReceivedRequest:
    """A received request: the raw bytes of the head, and the body."""

    head: bytes
    body: bytes

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n", 1)[0].decode()

    @property
    def headers(self) -> dict[str, str]:
        """Headers by lower-case name."""
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        split = (line.split(":", 1) for line in lines if line)
        return {name.lower(): value.strip() for name, value in split}


@define
class ReceiverConnection:
    """One connection as the receiver sees it."""

    receiver: ReceiverServer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def request(self) -> ReceivedRequest | None:
        """The next complete request, or None at the end of the connection."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = ReceivedRequest(head, b"").headers.get("content-length", "0")
            request = ReceivedRequest(head, await self.reader.readexactly(int(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        self.receiver.requests.append(request)
        return request

    async def write(self, data: bytes) -> None:
        """Write, and wait until most of the bytes are sent."""
        self.writer.write(data)
        await self.writer.drain()
        self.receiver.bytes_written += len(data)

    def reset(self) -> None:
        """Reset the connection: the peer gets an error instead of an end."""
        if not self.writer.is_closing():
            own = self.writer.get_extra_info("socket")
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()


Behaviour = Callable[[ReceiverConnection], Awaitable[None]]


@define(eq=False)
class ReceiverServer:
    """A server on loopback that runs within `async with`."""

    behaviour: Behaviour
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    """The address on which the server listens."""
    name: str | None = None
    """The host in its URL, if it is not the address."""
    port: int = 0
    requests: list[ReceivedRequest] = field(factory=list)
    connections: int = 0
    bytes_written: int = 0
    _tasks: set[asyncio.Task[None]] = field(factory=set)
    _server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        scheme = "http" if self.tls is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{self.name or host}:{self.port}/hook"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(
            self._serve, self.host, self.port, ssl=self.tls, limit=1 << 20
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        # Buffered bytes count as written, so the send buffer is as small as possible.
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)
        try:
            await self.behaviour(ReceiverConnection(self, reader, writer))
            writer.close()
        except ConnectionError:
            pass
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            writer.transport.abort()
            self._tasks.discard(task)


def respond_with(
    response: bytes = b"HTTP/1.1 204 No Content\r\n\r\n", *, times: int | None = None
) -> Behaviour:
    """Reads each request and answers it with these bytes. After `times` answers it closes the
    connection without announcing it."""

    async def behave(connection: ReceiverConnection) -> None:
        left = times
        while left != 0 and await connection.request():
            await connection.write(response)
            left = None if left is None else left - 1

    return behave


def respond_raw(unasked: bytes) -> Behaviour:
    """Sends these bytes as soon as the connection is accepted."""

    async def behave(connection: ReceiverConnection) -> None:
        await connection.write(unasked)
        await connection.reader.read()

    return behave


def respond_status(code: int, body: bytes = b"") -> Behaviour:
    head = f"HTTP/1.1 {code} So\r\nContent-Length: {len(body)}\r\n\r\n"
    return respond_with(head.encode() + body)


def respond_redirect(code: int, location: str) -> Behaviour:
    head = f"HTTP/1.1 {code} There\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    return respond_with(head.encode())


async def never_respond(connection: ReceiverConnection) -> None:
    """Accepts, then neither reads nor writes: a TLS handshake hangs."""
    await asyncio.Event().wait()


async def hang_in_head(connection: ReceiverConnection) -> None:
    """Reads the request and does not respond."""
    await connection.request()
    await asyncio.Event().wait()


async def drip_head(connection: ReceiverConnection) -> None:
    """Sends an endless head, byte by byte."""
    await connection.request()
    await connection.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while True:
        await asyncio.sleep(DRIP_INTERVAL_SECONDS)
        await connection.write(b"x")


async def drip_body(connection: ReceiverConnection) -> None:
    """Sends a valid head, then the body byte by byte."""
    await connection.request()
    await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        await asyncio.sleep(DRIP_INTERVAL_SECONDS)
        await connection.write(b"x")


async def cut_body(connection: ReceiverConnection) -> None:
    """Sends a valid head and a body shorter than announced."""
    await connection.request()
    await connection.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort")


async def endless_body(connection: ReceiverConnection) -> None:
    await connection.request()
    await connection.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        await connection.write(bytes(64 * 1024))


@cache
def compression_bomb() -> bytes:
    """About 8 KB that decompress to 8 MB."""
    return gzip.compress(bytes(8 * 1024 * 1024))


async def gzip_bomb(connection: ReceiverConnection) -> None:
    """Sends a body that is far larger when decompressed."""
    await connection.request()
    bomb = compression_bomb()
    head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
    await connection.write(head.encode() + bomb)
    await connection.request()


async def many_headers(connection: ReceiverConnection) -> None:
    """Sends 100,000 headers."""
    await connection.request()
    await connection.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(100_000):
        await connection.write(b"X-%d: x\r\n" % number)
    await connection.write(b"\r\n")


async def long_header(connection: ReceiverConnection) -> None:
    """Sends a header that never ends."""
    await connection.request()
    await connection.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while True:
        await connection.write(b"x" * 16 * 1024)


async def endless_continue(connection: ReceiverConnection) -> None:
    """Sends `100 Continue` without end."""
    await connection.request()
    while True:
        await connection.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)


async def reset_connection(connection: ReceiverConnection) -> None:
    """Resets each connection when it is accepted."""
    connection.reset()


async def reset_after_request(connection: ReceiverConnection) -> None:
    await connection.request()
    connection.reset()


async def close_after_request(connection: ReceiverConnection) -> None:
    await connection.request()


@asynccontextmanager
async def closed_port() -> AsyncIterator[str]:
    """The URL of a reserved port that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/hook"


@asynccontextmanager
async def unaccepting_port() -> AsyncIterator[str]:
    """The URL of a server with a full accept queue: connections to it hang."""
    waiting = []
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening:
        address = listening.getsockname()
        for _ in range(4):
            waiting.append(socket.socket())
            waiting[-1].setblocking(False)
            with suppress(BlockingIOError):
                waiting[-1].connect(address)
        yield f"http://127.0.0.1:{address[1]}/hook"
        for connection in waiting:
            connection.close()


class FakeResolver:
    """A resolver with fixed answers. Each lookup returns the name's next answer and repeats the
    last one; an empty answer means that the name does not exist."""

    def __init__(self, answers: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self._answers = {name: list(told) for name, told in answers.items()}
        self.lookups: list[str] = []

    async def resolve(self, name: str) -> Sequence[str]:
        self.lookups.append(name)
        answers = self._answers.get(name, [[]])
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if not answer:
            raise OSError(f"no such name: {name}")
        return answer

    async def close(self) -> None:
        self.lookups.append("closed")


class SingleAddressResolver(FakeResolver):
    """Resolves every name to the same addresses."""

    def __init__(self, *addresses: str) -> None:
        super().__init__({})
        self._addresses = addresses

    async def resolve(self, name: str) -> Sequence[str]:
        self.lookups.append(name)
        return self._addresses


class HangingResolver(FakeResolver):
    """A resolver that never answers."""

    def __init__(self) -> None:
        super().__init__({})

    async def resolve(self, name: str) -> Sequence[str]:
        self.lookups.append(name)
        await asyncio.Event().wait()
        return ()
