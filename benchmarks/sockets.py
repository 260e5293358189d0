"""WebSockets with minimal overhead: clients that count frames, and a server as the floor,
`python -m benchmarks.sockets PORT`, which writes each received frame to all connections without
checking or storing it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import sys
from collections.abc import Callable
from typing import cast

import uvloop

WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
WEBSOCKET_KEY = base64.b64encode(b"sixteen bytes ..")
WEBSOCKET_ACCEPT = base64.b64encode(hashlib.sha1(WEBSOCKET_KEY + WEBSOCKET_GUID).digest())
TEXT_OPCODE = 0x81
CLOSE_OPCODE = 0x88
PING_OPCODE = 0x89
PONG_OPCODE = 0x8A


def encode_frame(payload: bytes, masked: bool = False, kind: int = TEXT_OPCODE) -> bytes:
    """Encode a frame; a client masks its frames, here with zeros."""
    size, mask = len(payload), 0x80 if masked else 0
    head = bytes((kind, mask | size)) if size < 126 else bytes((kind, mask | 126))
    longer = b"" if size < 126 else size.to_bytes(2, "big")
    return head + longer + (b"\0\0\0\0" if masked else b"") + payload


class FrameDecoder:
    """Splits a stream into frames of less than 64 KiB."""

    def __init__(self, masked: bool) -> None:
        self._masked = 4 if masked else 0
        self._rest = b""

    def decode(self, data: bytes, take: Callable[[int, bytes, int, int], None]) -> None:
        """Call `take(kind, data, start, end)` for each frame, with the range of its payload."""
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


class CountingClient(asyncio.Protocol):
    """A client that counts received frames and passes them to `on_frame`."""

    def __init__(self, cookie: str, origin: str, port: int) -> None:
        self.frame_count = 0
        self.on_frame: Callable[[bytes], None] | None = None
        self.is_open = asyncio.get_running_loop().create_future()
        self._frames = FrameDecoder(masked=False)
        self._head: bytes | None = b""
        self._handshake_request = (
            f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\nSec-WebSocket-Key: {WEBSOCKET_KEY.decode()}\r\n"
            f"Sec-WebSocket-Version: 13\r\nOrigin: {origin}\r\nCookie: connect.sid={cookie}\r\n\r\n"
        ).encode()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._handshake_request)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_open.done():
            self.is_open.set_exception(ConnectionError("closed before the handshake's end"))

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
        self._frames.decode(data, self._take)

    def _take(self, kind: int, data: bytes, start: int, end: int) -> None:
        if kind == PING_OPCODE:
            self.transport.write(encode_frame(data[start:end], masked=True, kind=PONG_OPCODE))
        elif kind == CLOSE_OPCODE:
            sys.exit(f"closed by the server: {data[start:end]!r}")
        if kind != TEXT_OPCODE:
            return
        self.frame_count += 1
        if self.on_frame is not None:
            self.on_frame(data[start:end])

    def send(self, payload: bytes) -> None:
        self.transport.write(encode_frame(payload, masked=True))


async def connect_counting_client(port: int, cookie: str, origin: str) -> CountingClient:
    """Connect a client and complete its handshake."""
    loop = asyncio.get_running_loop()
    _, listener = await loop.create_connection(
        lambda: CountingClient(cookie, origin, port), "127.0.0.1", port
    )
    await listener.is_open
    return listener


class _EchoToAllServer(asyncio.Protocol):
    connections: list[asyncio.Transport] = []  # noqa: RUF012 - of the process

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._frames = FrameDecoder(masked=True)
        self._is_open = False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_open:
            self.connections.remove(self._transport)

    def data_received(self, data: bytes) -> None:
        if self._is_open:
            self._frames.decode(data, self._take)
        elif data.startswith(b"GET /ws "):
            self._is_open = True
            self.connections.append(self._transport)
            head = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
            accept = b"Connection: Upgrade\r\nSec-WebSocket-Accept: " + WEBSOCKET_ACCEPT
            self._transport.write(head + accept + b"\r\n\r\n")
        else:
            self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    def _take(self, kind: int, data: bytes, start: int, end: int) -> None:
        frame = encode_frame(data[start:end])
        for transport in self.connections:
            transport.write(frame)


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(
        _EchoToAllServer, "127.0.0.1", port, backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve(int(sys.argv[1])))
