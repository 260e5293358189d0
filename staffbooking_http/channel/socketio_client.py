"""A client of Socket.IO: one connection, over whichever requests and WebSockets it comes."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from attrs import define, field

from staffbooking_core.domain.accounts.users import Session, User
from staffbooking_core.representations.channel import Close
from staffbooking_http.api.endpoint import Message, Receive, Scope, Send
from staffbooking_http.api.errors import Refused
from staffbooking_http.channel.frames import Outgoing
from staffbooking_http.channel.hub import Connection
from staffbooking_http.channel.outbound import LITTLE
from staffbooking_http.channel.socketio_engine import UPGRADE, Encoded, Outbox, Socket, screen

CLIENT = "staffbooking.client"
"""Where the scope that the engine is shown has the client."""
MOST_WAITING = 256 * 1024
"""Bytes that may wait for one client. While they are sent by polling there are up to four
copies of them: together no more than may lie unread over `/ws`."""
MOST_EARLY = 32
"""Packets of a client that has not connected yet: nobody else counts them."""
CONNECT_WITHIN = 10.0
"""Seconds that a client may take from Engine.IO's handshake to Socket.IO's."""
UPGRADE_WITHIN = 10.0
"""Seconds that a client may take to go over to a WebSocket that it opened."""

_DISCONNECT = Encoded("41")
"""Of Socket.IO: who is told so does not come again by itself."""


@define(eq=False)
class Client:
    """One connection, as the switchboard's pipe. It is open from its first handshake until it
    is closed, by either side; then closing, until it has `settled` or is `cut`."""

    session: Session
    user: User
    socket: Socket
    """The engine's."""
    connection: Connection | None = None
    """The switchboard's, once the client has connected as Socket.IO does."""
    code: int = 1000
    """That a WebSocket is closed with."""
    turn: anyio.Lock = field(factory=anyio.Lock)
    """Of its events: one after the other, whatever they come by."""
    _early: int = 0
    _handshake: anyio.CancelScope = field(factory=anyio.CancelScope)
    """The time that it has to connect."""
    _end: anyio.Event = field(factory=anyio.Event)
    _carriers: dict[str, anyio.CancelScope] = field(factory=dict)

    def begin(self, sid: str) -> None:
        self.socket.begin(sid)
        self._handshake.deadline = anyio.current_time() + CONNECT_WITHIN

    def connect(self, connection: Connection) -> None:
        self.connection = connection
        self._handshake.deadline = math.inf

    @property
    def is_closed(self) -> bool:
        return self._end.is_set()

    @property
    def outbox(self) -> Outbox:
        return self.socket.outbox

    # The pipe ---------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self.socket.is_made and not self.is_closed

    def send(self, frame: Outgoing) -> bool:
        if not self.is_open:
            return True
        if self.outbox.unread > MOST_WAITING:
            return False
        self.outbox.put_nowait(Encoded(frame.socketio))
        return True

    def close(self, code: Close, reason: str) -> None:
        if self.is_open:
            self.code = code
            if code is Close.FORBIDDEN:
                self.outbox.put_nowait(_DISCONNECT)
            self._close()

    async def drained(self) -> None:
        while self.is_open and self.outbox.unread > LITTLE:
            await self.outbox.moved.wait()

    def heard(self, packet: str | None) -> str:
        """What the client has sent, as the engine may have it while the client is open. Its
        answers, too, are to be read before the client goes on."""
        if self.outbox.unread > MOST_WAITING:
            self.close(Close.SLOW, "too much lies unread")
        if self.connection is None:
            self._early += 1
            if self._early > MOST_EARLY:
                self.close(Close.FORBIDDEN, "too many packets")
        return screen(packet, is_connected=self.connection is not None)

    # Its end ----------------------------------------------------------------------------

    def leave(self) -> None:
        """The client has ended it, and reads no more."""
        if self.is_open:
            self.outbox.clear()
            self._close()

    def _close(self) -> None:
        self._end.set()
        self.outbox.put_nowait(None)  # After the last packet: the engine's writer ends here.
        self.outbox.move()

    async def ended(self) -> None:
        """Until it is closed, also since it does not go on."""
        with self._handshake:
            await self._end.wait()
        self.close(Close.SLOW, "nothing was heard")

    async def settled(self) -> None:
        """Until all is read, and no request is under way any more."""
        while self._carriers or self.outbox.unread:
            await self.outbox.moved.wait()

    def cut(self) -> None:
        """Wait no more for a client that was closed."""
        for scope in self._carriers.values():
            scope.cancel()
        self.outbox.clear()

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
                if self.is_closed:
                    self.outbox.move()

    def scope(self, kind: str, length: int = 0) -> Scope:
        """A request of the client, as much of it as is the engine's business."""
        is_socket = kind == "websocket"
        query = f"EIO=4&transport={kind if is_socket else 'polling'}"
        if self.socket.is_made:
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
        if client.socket.is_made:
            carrier.deadline = anyio.current_time() + UPGRADE_WITHIN

    async def receive(self) -> Message:
        if self._is_new:
            self._is_new = False
            return {"type": "websocket.connect"}
        socket = self._client.socket
        if socket.is_upgraded:
            self._carrier.deadline = math.inf
        message = await self._receive()
        if message["type"] == "websocket.receive":
            text = message.get("text")
            if not socket.is_upgrading or text not in UPGRADE:
                text = self._client.heard(text)
            message = {"type": "websocket.receive", "text": text}
        return message if self._client.is_open else {"type": "websocket.disconnect"}

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
