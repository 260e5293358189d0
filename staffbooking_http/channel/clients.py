"""A client of Socket.IO: one connection, over whichever requests and WebSockets it comes."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anyio
from attrs import define, field

from staffbooking_core.domain.accounts import Session, User
from staffbooking_core.domain.channel import Close
from staffbooking_http.channel.engine import UPGRADE, Encoded, Engine, Outbox, screen
from staffbooking_http.channel.frames import Outgoing
from staffbooking_http.channel.pipes import LITTLE
from staffbooking_http.channel.switchboard import Connection
from staffbooking_http.endpoint import Message, Receive, Scope, Send
from staffbooking_http.errors import Refused

CLIENT = "staffbooking.client"
"""Where the scope that the engine is shown has the client."""
MOST_UNREAD = 256 * 1024
"""Bytes that may lie unread for one client. While they are sent by polling there are up to
four copies of them: together at most 1 MiB."""
UPGRADE_WITHIN = 10.0
"""Seconds that a client may take to go over to a WebSocket that it opened."""

_DISCONNECT = Encoded("41")
"""Of Socket.IO: who is told so does not come again by itself."""


@define(eq=False)
class Client:
    """One connection, as the switchboard's pipe; there once the engine has made a socket."""

    session: Session
    user: User
    _engine: Engine
    socket: Any = None
    """The engine's."""
    connection: Connection | None = None
    """The switchboard's, once the client has connected as Socket.IO does."""
    is_open: bool = False
    code: int = 1000
    """That a WebSocket is closed with."""
    turn: anyio.Lock = field(factory=anyio.Lock)
    """Of its events: one after the other, whatever they come by."""
    _carriers: dict[str, anyio.CancelScope] = field(factory=dict)

    def begin(self, socket: Any) -> None:
        self.socket, self.is_open = socket, True

    def end(self) -> None:
        """The engine has no use for it any more."""
        self.is_open = False
        self.outbox.move()

    @property
    def outbox(self) -> Outbox:
        queue: Outbox = self.socket.queue
        return queue

    # The pipe ---------------------------------------------------------------------------

    def send(self, frame: Outgoing) -> bool:
        if not self.is_open:
            return True
        if self.outbox.unread > MOST_UNREAD:
            return False
        self.outbox.put_nowait(Encoded(frame.socketio))
        return True

    def close(self, code: Close, reason: str) -> None:
        if self.is_open:
            self.code = code
            if code is Close.FORBIDDEN:
                self.outbox.put_nowait(_DISCONNECT)
            self.end()
            self._engine.start_background_task(self.lose)

    async def lose(self) -> None:
        """Close it as a transport closes: a client that is told of it may not come again."""
        await self.socket.close(wait=False, abort=True)

    async def drained(self) -> None:
        while self.is_open and self.outbox.unread > LITTLE:
            await self.outbox.moved.wait()

    def heard(self, packet: str | None) -> str:
        """What the client has sent, as the engine may have it. Its answers, too, are to be read
        before the client goes on."""
        if self.outbox.unread > MOST_UNREAD:
            self.close(Close.SLOW, "too much lies unread")
        return screen(packet)

    # What carries it --------------------------------------------------------------------

    @contextmanager
    def carried(self, kind: str) -> Iterator[anyio.CancelScope]:
        """One request for the client, of which there is one of a kind at a time. It ends where
        the client is cut off."""
        if kind in self._carriers:
            self.close(Close.SLOW, "one request at a time")
            raise Refused(400, "bad_handshake", "There is such a request already")
        with anyio.CancelScope() as scope:
            self._carriers[kind] = scope
            try:
                yield scope
            finally:
                del self._carriers[kind]

    def cut(self) -> None:
        """Wait no more for a client that was closed."""
        for scope in self._carriers.values():
            scope.cancel()
        while self.outbox.rest():
            pass

    def scope(self, kind: str, length: int = 0) -> Scope:
        """A request of the client, as much of it as is the engine's business."""
        is_socket = kind == "websocket"
        query = f"EIO=4&transport={kind if is_socket else 'polling'}"
        if self.socket is not None:
            query += f"&sid={self.socket.sid}"
        upgrade = [(b"connection", b"upgrade"), (b"upgrade", b"websocket")]
        return {
            "type": "websocket" if is_socket else "http",
            "method": "GET" if is_socket else kind,
            "path": "/",
            "query_string": query.encode(),
            "headers": upgrade if is_socket else [(b"content-length", b"%d" % length)],
            CLIENT: self,
        }


class Link:
    """A WebSocket between a client and the engine."""

    def __init__(
        self, client: Client, carrier: anyio.CancelScope, receive: Receive, send: Send
    ) -> None:
        self._client = client
        self._carrier = carrier
        self._receive = receive
        self._send = send
        self._is_new = True
        self.is_accepted = False
        if client.socket is not None:
            carrier.deadline = anyio.current_time() + UPGRADE_WITHIN

    async def receive(self) -> Message:
        if self._is_new:
            self._is_new = False
            return {"type": "websocket.connect"}
        socket = self._client.socket
        if socket.upgraded:
            self._carrier.deadline = math.inf
        message = await self._receive()
        text = message.get("text")
        if message["type"] != "websocket.receive" or (socket.upgrading and text in UPGRADE):
            return message
        return {"type": "websocket.receive", "text": self._client.heard(text)}

    async def send(self, message: Message) -> None:
        if self._carrier.cancel_called:
            raise ConnectionError("the client was cut off")
        match message["type"]:
            case "websocket.accept":
                self.is_accepted = True
            case "websocket.close" if not self.is_accepted:
                raise Refused(400, "bad_handshake", "This connection takes no WebSocket")
            case "websocket.close":
                message = {**message, "code": self._client.code}
        await self._send(message)
