"""WebSockets of the embedded server: uvicorn's with limits, and an `Outbound` that writes to the
socket directly, so that a broadcast frame is encoded and framed once."""

import asyncio
import base64
import re
import socket
from binascii import Error as Base64Error
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame

from staffbooking_core.representations.channel import CloseCode
from staffbooking_http.api.endpoint import Header
from staffbooking_http.channel.frames import EncodedFrame
from staffbooking_http.channel.outbound import (
    CLOSE_TIMEOUT_SECONDS,
    MAX_UNREAD_BYTES,
    OUTBOUND_EXTENSION,
)

_MAX_FRAGMENTS = 1024
"""Fragments of one message; empty fragments take memory, too."""
_SEND_BUFFER_BYTES = 128 * 1024
"""Bytes in the socket's send buffer; the system's default allows megabytes."""
_MAX_HANDSHAKE_HEADERS = 100
_MAX_HEADER_BYTES = 8000
"""Bytes of a header's name and value; uvicorn's handshake accepts no more."""

_CONNECTION_HEADER = re.compile(rb"[\w-]+(\s*,\s*[\w-]+)*")


def is_valid_handshake(url: bytes, headers: Sequence[Header]) -> bool:
    """Whether a WebSocket handshake is valid (RFC 6455, 4.2.1)."""
    found: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for name, value in headers:
        found[name].append(value)
    return (
        len(headers) <= _MAX_HANDSHAKE_HEADERS
        and all(len(name) + len(value) <= _MAX_HEADER_BYTES for name, value in headers)
        and len(url) <= _MAX_HEADER_BYTES
        and len(found[b"upgrade"]) == 1
        and all(_CONNECTION_HEADER.fullmatch(value) for value in found[b"connection"])
        and found[b"sec-websocket-version"] == [b"13"]
        and len(found[b"sec-websocket-key"]) == 1
        and _is_websocket_key(found[b"sec-websocket-key"][0])
        and len(found[b"origin"]) <= 1
        and not found[b"transfer-encoding"]
        and set(found[b"content-length"]) <= {b"0"}
    )


def _is_websocket_key(text: bytes) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 16
    except Base64Error:
        return False


class BoundedWebSocketProtocol(WebSocketsSansIOProtocol):
    """A connection that is always ended, even if the client has stopped reading."""

    _abort_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        client_socket = transport.get_extra_info("socket")
        client_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)

    async def run_asgi(self) -> None:
        extensions: Any = self.scope["extensions"]
        extensions[OUTBOUND_EXTENSION] = DirectOutbound(self)
        try:
            await super().run_asgi()
        finally:
            self.schedule_abort()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if self.close_sent:
            self.handshake_complete = True  # A refusal is a response; uvicorn must not log it.

    def close_immediately(self, code: int, reason: str) -> None:
        """Close the WebSocket, and ignore all input from the client."""
        if self.handshake_complete:
            self.conn.send_close(code, reason)
            self._finish_close(code, reason)
        else:
            self.transport.abort()

    def schedule_abort(self) -> None:
        """Abort the connection after the client has had time to read the remaining output."""
        if self._abort_timer is None and not self.disconnected:
            self._abort_timer = self.loop.call_later(CLOSE_TIMEOUT_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._abort_timer is not None:
            self._abort_timer.cancel()

    def eof_received(self) -> None:
        self.schedule_abort()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.schedule_abort()

    def shutdown(self) -> None:
        """Close at server shutdown. A handshake in progress is still answered."""
        if self.handshake_complete:
            super().shutdown()

    def data_received(self, data: bytes) -> None:
        if self.conn.parser_exc is None:
            super().data_received(data)

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > _MAX_FRAGMENTS and not self.close_sent:
            self.close_immediately(CloseCode.TOO_BIG, "too many fragments")

    def handle_ping(self) -> None:
        super().handle_ping()
        if self.transport.get_write_buffer_size() > MAX_UNREAD_BYTES and not self.close_sent:
            self.close_immediately(CloseCode.SLOW, "the client reads too slowly")

    def handle_parser_exception(self) -> None:
        """Handle a protocol violation. Input is read and dropped until the client has read the
        close frame; closing at once would reset the connection of a client still sending."""
        close_frame = self.conn.close_sent
        if close_frame is None:  # The handshake is not complete.
            self.transport.abort()
        elif not self.close_sent:
            self._finish_close(close_frame.code, close_frame.reason)
            if self.transport.can_write_eof():
                self.transport.write_eof()

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text" and not self.close_sent:
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self.close_immediately(1007, "text is UTF-8")
                return
        super().send_receive_event_to_app()

    def _finish_close(self, code: int, reason: str) -> None:
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.close_sent = True
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait({"type": "websocket.disconnect", "code": code, "reason": reason})
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(CLOSE_TIMEOUT_SECONDS, self.transport.close)


class DirectOutbound:
    """An `Outbound` that writes directly to the socket."""

    __slots__ = ("_protocol", "_transport")

    def __init__(self, protocol: BoundedWebSocketProtocol) -> None:
        self._protocol = protocol
        self._transport = protocol.transport

    @property
    def is_open(self) -> bool:
        protocol = self._protocol
        return (
            protocol.handshake_complete
            and not protocol.close_sent
            and not self._transport.is_closing()
        )

    def send(self, frame: EncodedFrame) -> bool:
        if not self.is_open:
            return True
        frame_bytes = frame.websocket_frame
        if self._transport.get_write_buffer_size() + len(frame_bytes) > MAX_UNREAD_BYTES:
            return False
        self._transport.write(frame_bytes)
        return True

    def close(self, code: CloseCode, reason: str) -> None:
        if self.is_open:
            self._protocol.close_immediately(code, reason)

    async def wait_until_drained(self) -> None:
        await self._protocol.writable.wait()
