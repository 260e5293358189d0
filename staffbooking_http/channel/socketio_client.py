"""A Socket.IO client: one connection over any number of requests and WebSockets."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from attrs import define, field

from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.representations.channel import CloseCode
from staffbooking_http.api.endpoint import AsgiMessage, Receive, Scope, Send
from staffbooking_http.api.errors import HttpError
from staffbooking_http.channel.connection import ChannelConnection
from staffbooking_http.channel.frames import EncodedFrame
from staffbooking_http.channel.outbound import DRAINED_UNREAD_BYTES
from staffbooking_http.channel.socketio_engine import (
    UPGRADE_PACKETS,
    EncodedPacket,
    EngineSocket,
    PacketQueue,
    filter_packet,
)

CLIENT_SCOPE_KEY = "staffbooking.client"
"""The key of the client in the scope that is passed to the engine."""
MAX_QUEUED_BYTES = 256 * 1024
"""Bytes that may be queued for one client. Polling makes up to four copies of them, together no
more than the limit of unread bytes at `/ws`."""
_MAX_PACKETS_BEFORE_CONNECT = 32
"""Packets that a client may send before it has connected; no other limit counts them."""
CONNECT_TIMEOUT_SECONDS = 10.0
"""Seconds that a client may take from Engine.IO's handshake to Socket.IO's."""
UPGRADE_TIMEOUT_SECONDS = 10.0
"""Seconds that a client may take to upgrade to a WebSocket that it opened."""

_DISCONNECT_PACKET = EncodedPacket("41")
"""The Socket.IO disconnect packet. Clients that get it do not reconnect by themselves."""


@define(eq=False)
class SocketIoClient:
    """One connection, as the hub's `Outbound`. It is open from its first handshake until either
    side closes it; then it is closing until it is idle or `abort` is called."""

    session: Session
    user: User
    socket: EngineSocket
    """The engine's socket."""
    connection: ChannelConnection | None = None
    """The hub's connection, set once the client has connected in Socket.IO."""
    close_code: int = 1000
    """The close code of its WebSocket."""
    event_lock: anyio.Lock = field(factory=anyio.Lock)
    """Serializes its events over all transports."""
    _early_packet_count: int = 0
    _connect_scope: anyio.CancelScope = field(factory=anyio.CancelScope)
    """Limits the time that the client may take to connect."""
    _closed: anyio.Event = field(factory=anyio.Event)
    _active_requests: dict[str, anyio.CancelScope] = field(factory=dict)

    def attach_socket(self, sid: str) -> None:
        self.socket.attach(sid)
        self._connect_scope.deadline = anyio.current_time() + CONNECT_TIMEOUT_SECONDS

    def attach_connection(self, connection: ChannelConnection) -> None:
        self.connection = connection
        self._connect_scope.deadline = math.inf

    @property
    def is_closed(self) -> bool:
        return self._closed.is_set()

    @property
    def packet_queue(self) -> PacketQueue:
        return self.socket.packet_queue

    # Packets ----------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self.socket.is_attached and not self.is_closed

    def send(self, frame: EncodedFrame) -> bool:
        if not self.is_open:
            return True
        if self.packet_queue.unread_bytes > MAX_QUEUED_BYTES:
            return False
        self.packet_queue.put_nowait(EncodedPacket(frame.socketio_packet))
        return True

    def close(self, code: CloseCode, reason: str) -> None:
        if self.is_open:
            self.close_code = code
            if code is CloseCode.FORBIDDEN:
                self.packet_queue.put_nowait(_DISCONNECT_PACKET)
            self._close()

    async def wait_until_drained(self) -> None:
        while self.is_open and self.packet_queue.unread_bytes > DRAINED_UNREAD_BYTES:
            await self.packet_queue.changed.wait()

    def accept_packet(self, packet: str | None) -> str:
        """Filter a packet for the engine. Closes a client that sends without reading."""
        if self.packet_queue.unread_bytes > MAX_QUEUED_BYTES:
            self.close(CloseCode.SLOW, "the client reads too slowly")
        if self.connection is None:
            self._early_packet_count += 1
            if self._early_packet_count > _MAX_PACKETS_BEFORE_CONNECT:
                self.close(CloseCode.FORBIDDEN, "too many packets")
        return filter_packet(packet, is_connected=self.connection is not None)

    # Closing ----------------------------------------------------------------------------

    def disconnect(self) -> None:
        """Close after the client has disconnected; it reads no more."""
        if self.is_open:
            self.packet_queue.clear()
            self._close()

    def _close(self) -> None:
        self._closed.set()
        self.packet_queue.put_nowait(None)  # Ends the engine's writer after the last packet.
        self.packet_queue.notify_change()

    async def wait_until_closed(self) -> None:
        """Wait until the client is closed. Closes it if it does not connect in time."""
        with self._connect_scope:
            await self._closed.wait()
        self.close(CloseCode.SLOW, "did not connect in time")

    async def wait_until_idle(self) -> None:
        """Wait until everything is read and no request is in progress."""
        while self._active_requests or self.packet_queue.unread_bytes:
            await self.packet_queue.changed.wait()

    def abort(self) -> None:
        """Stop waiting for a closed client."""
        for scope in self._active_requests.values():
            scope.cancel()
        self.packet_queue.clear()

    # Transports ------------------------------------------------------------------------

    @contextmanager
    def track_request(self, request_kind: str) -> Iterator[anyio.CancelScope]:
        """Track a request. A second one of the same kind at a time closes the client."""
        if request_kind in self._active_requests:
            self.close(CloseCode.SLOW, "one request at a time")
            raise HttpError(400, "bad_handshake", "There is such a request already")
        with anyio.CancelScope() as scope:
            self._active_requests[request_kind] = scope
            try:
                yield scope
            finally:
                del self._active_requests[request_kind]
                if self.is_closed:
                    self.packet_queue.notify_change()

    def build_engine_scope(self, request_kind: str, length: int = 0) -> Scope:
        """Build the scope of a request with only what the engine needs."""
        is_socket = request_kind == "websocket"
        query = f"EIO=4&transport={request_kind if is_socket else 'polling'}"
        if self.socket.is_attached:
            query += f"&sid={self.socket.sid}"
        upgrade = [(b"connection", b"upgrade"), (b"upgrade", b"websocket")]
        return {
            "type": "websocket" if is_socket else "http",
            "method": "GET" if is_socket else request_kind,
            "path": "/",
            "query_string": query.encode(),
            "headers": upgrade if is_socket else [(b"content-length", b"%d" % length)],
            CLIENT_SCOPE_KEY: self,
        }


class EngineWebSocket:
    """A WebSocket between a client and the engine."""

    def __init__(
        self, client: SocketIoClient, cancel_scope: anyio.CancelScope, receive: Receive, send: Send
    ) -> None:
        self._client = client
        self._cancel_scope = cancel_scope
        self._receive = receive
        self._send = send
        self._is_first_receive = True
        self.is_accepted = False
        if client.socket.is_attached:
            cancel_scope.deadline = anyio.current_time() + UPGRADE_TIMEOUT_SECONDS

    async def receive(self) -> AsgiMessage:
        if self._is_first_receive:
            self._is_first_receive = False
            return {"type": "websocket.connect"}
        socket = self._client.socket
        if socket.is_upgraded:
            self._cancel_scope.deadline = math.inf
        message = await self._receive()
        if message["type"] == "websocket.receive":
            text = message.get("text")
            if not socket.is_upgrading or text not in UPGRADE_PACKETS:
                text = self._client.accept_packet(text)
            message = {"type": "websocket.receive", "text": text}
        return message if self._client.is_open else {"type": "websocket.disconnect"}

    async def send(self, message: AsgiMessage) -> None:
        if self._cancel_scope.cancel_called:
            raise ConnectionError("the client was cut off")
        match message["type"]:
            case "websocket.accept":
                self.is_accepted = True
            case "websocket.close" if not self.is_accepted:
                raise HttpError(400, "bad_handshake", "This connection takes no WebSocket")
            case "websocket.close":
                message = {**message, "code": self._client.close_code}
        await self._send(message)
