"""WebSockets at next to no cost: connections that count what they are told, and the floor of any
server, `python -m benchmarks.sockets PORT`: bare sockets, each frame that comes in is written
to all connections, nothing is checked, nothing is stored.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sys
from collections.abc import Callable
from typing import cast

import uvloop

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEY = base64.b64encode(b"sixteen bytes ..")
ACCEPT = base64.b64encode(hashlib.sha1(KEY + GUID).digest())
TEXT = 0x81
CLOSE = 0x88
PING = 0x89
PONG = 0x8A


def wrapped(payload: bytes, masked: bool = False, kind: int = TEXT) -> bytes:
    """A frame; a client's is masked, here with zeros."""
    size, mask = len(payload), 0x80 if masked else 0
    head = bytes((kind, mask | size)) if size < 126 else bytes((kind, mask | 126))
    longer = b"" if size < 126 else size.to_bytes(2, "big")
    return head + longer + (b"\0\0\0\0" if masked else b"") + payload


class Frames:
    """Splits a stream into frames of less than 64 KiB."""

    def __init__(self, masked: bool) -> None:
        self._masked = 4 if masked else 0
        self._rest = b""

    def split(self, data: bytes, take: Callable[[int, bytes, int, int], None]) -> None:
        """Calls `take(kind, data, start, end)` for each; where its payload lies."""
        if self._rest:
            data = self._rest + data
        at, length = 0, len(data)
        while length - at >= 4:
            size, start = data[at + 1] & 0x7F, at + 2
            if size == 126:
                size, start = data[at + 2] << 8 | data[at + 3], at + 4
            start += self._masked
            if start + size > length:
                break
            take(data[at], data, start, start + size)
            at = start + size
        self._rest = data[at:]


class Listener(asyncio.Protocol):
    """One client. It counts the frames it is told, and shows them to who wants to see them."""

    def __init__(self, cookie: str, origin: str, port: int) -> None:
        self.count = 0
        self.seen: Callable[[bytes], None] | None = None
        self.is_open = asyncio.get_running_loop().create_future()
        self._frames = Frames(masked=False)
        self._head: bytes | None = b""
        self._hello = (
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {KEY.decode()}\r\n"
            f"Sec-WebSocket-Version: 13\r\nOrigin: {origin}\r\nCookie: connect.sid={cookie}\r\n\r\n"
        ).encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._hello)

    def data_received(self, data: bytes) -> None:
        if self._head is not None:
            head, found, data = (self._head + data).partition(b"\r\n\r\n")
            self._head = None if found else head
            if not found:
                return
            if not head.startswith(b"HTTP/1.1 101"):
                self.is_open.set_exception(ConnectionError(head.decode()))
                return
            self.is_open.set_result(None)
        self._frames.split(data, self._take)

    def _take(self, kind: int, data: bytes, start: int, end: int) -> None:
        if kind == PING:
            self.transport.write(wrapped(data[start:end], masked=True, kind=PONG))
        elif kind == CLOSE:
            sys.exit(f"closed by the server: {data[start:end]!r}")
        if kind != TEXT:
            return
        self.count += 1
        if self.seen is not None:
            self.seen(data[start:end])

    def send(self, payload: bytes) -> None:
        self.transport.write(wrapped(payload, masked=True))


async def listen(port: int, cookie: str, origin: str) -> Listener:
    """A connection whose handshake is done."""
    loop = asyncio.get_running_loop()
    _, listener = await loop.create_connection(
        lambda: Listener(cookie, origin, port), "127.0.0.1", port
    )
    await listener.is_open
    return listener


class _Floor(asyncio.Protocol):
    everybody: list[asyncio.Transport] = []  # noqa: RUF012 - of the process

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._frames = Frames(masked=True)
        self._is_open = False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_open:
            self.everybody.remove(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._is_open:
            self._frames.split(data, self._take)
        elif data.startswith(b"GET /ws "):
            self._is_open = True
            self.everybody.append(self._transport)
            head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            accept = b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + ACCEPT
            self._transport.write(head + accept + b"\r\n\r\n")
        else:
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def _take(self, kind: int, data: bytes, start: int, end: int) -> None:
        frame = wrapped(data[start:end])
        for transport in self.everybody:
            transport.write(frame)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(_Floor, "127.0.0.1", port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
