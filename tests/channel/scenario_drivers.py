"""Scenario drivers: without a socket, over WebSocket, over Socket.IO."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import socketio
from anyio.lowlevel import checkpoint
from attrs import define, field, frozen
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from staffbooking_adapters.testing.builders import add_session
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.ports import Ports
from staffbooking_core.representations.channel import ClientEvent, CloseCode, ServerEvent
from staffbooking_http.channel.connection import ChannelConnection
from staffbooking_http.channel.frames import EncodedFrame, parse_frame
from staffbooking_http.channel.hub import ChannelHub
from tests.channel.scenarios import (
    ConnectionEnded,
    Data,
    Frame,
    OpenConnection,
    TransportDriver,
    make_frame,
)
from tests.support.channel_deployment import serve_channel

# Without a socket -------------------------------------------------------------------------


@define
class DirectOutbound:
    """The service's end of a connection; a sent frame is available at once."""

    received: asyncio.Queue[Frame | ConnectionEnded] = field(factory=asyncio.Queue)
    is_open: bool = True

    def send(self, frame: EncodedFrame) -> bool:
        if self.is_open:
            self.received.put_nowait(json.loads(frame.json_bytes))
        return True

    def close(self, code: CloseCode, reason: str) -> None:
        if self.is_open:
            self.is_open = False
            self.received.put_nowait(ConnectionEnded(code))

    async def wait_until_drained(self) -> None:
        await checkpoint()


@frozen
class DirectConnection:
    """The client's end of a connection that calls the hub directly."""

    hub: ChannelHub
    connection: ChannelConnection
    outbound: DirectOutbound

    async def send(self, frame: Frame) -> None:
        await self.hub.receive(self.connection, *parse_frame(json.dumps(frame)))

    async def receive(self) -> Frame:
        frame = await self.outbound.received.get()
        if isinstance(frame, ConnectionEnded):
            raise frame
        return frame

    async def close(self) -> None:
        self.outbound.is_open = False
        self.hub.close(self.connection)
        await self.hub.release(self.connection.user_id)


@asynccontextmanager
async def connect_directly(ports: Ports) -> AsyncIterator[OpenConnection]:
    """Open connections to the hub without a transport."""
    switchboard = ChannelHub(ports)

    async def open_one(user: User, after: int | None) -> DirectConnection:
        session = await add_session(ports.store, user.id, seen_at=ports.clock.wall())
        pipe = DirectOutbound()
        await switchboard.reserve(user)
        connection = await switchboard.open(session, user, pipe, after)
        return DirectConnection(switchboard, connection, pipe)

    async with switchboard.running():
        yield open_one


# Over sockets -----------------------------------------------------------------------------


@frozen
class WebSocketConnection:
    socket: ClientConnection

    async def send(self, frame: Frame) -> None:
        await self.socket.send(json.dumps(frame))

    async def receive(self) -> Frame:
        try:
            frame: Frame = json.loads(await self.socket.recv())
        except ConnectionClosed as end:
            raise ConnectionEnded(None if end.rcvd is None else end.rcvd.code) from None
        return frame

    async def close(self) -> None:
        await self.socket.close()


@asynccontextmanager
async def connect_websocket(ports: Ports) -> AsyncIterator[OpenConnection]:
    """Open connections at `/ws`."""
    async with serve_channel(ports) as site:

        async def open_one(user: User, after: int | None) -> WebSocketConnection:
            query = "" if after is None else f"?after={after}"
            socket = await connect(
                f"ws://127.0.0.1:{site.port}/ws{query}",
                additional_headers={
                    "origin": ports.policy.base_url,
                    "cookie": f"connect.sid={await site.sign_in(user)}",
                },
                ping_interval=None,
                proxy=None,
            )
            return WebSocketConnection(socket)

        yield open_one


@define
class SocketIoConnection:
    """A Socket.IO connection. Socket.IO has no `ref`; each answer also goes to the callback of
    its event, in the order in which the events were sent."""

    client: socketio.AsyncClient
    _received: deque[Frame] = field(factory=deque)
    _unacked_answers: deque[Frame] = field(factory=deque)
    """Answers that are not yet matched with a callback."""
    _is_disconnected: bool = False
    _changed: asyncio.Event = field(factory=asyncio.Event)

    async def send(self, frame: Frame) -> None:
        answered = partial(self._on_ack, frame.get("ref"))
        await self.client.emit(frame["event"], frame["data"], callback=answered)

    async def receive(self) -> Frame:
        while not self._received or any(
            each is self._received[0] for each in self._unacked_answers
        ):
            if self._is_disconnected and not self._received:
                raise ConnectionEnded(None)
            self._changed.clear()
            await self._changed.wait()
        return self._received.popleft()

    async def close(self) -> None:
        await self.client.disconnect()

    def on_event(self, event: str, data: Data) -> None:
        frame = make_frame(event, data)
        self._received.append(frame)
        if event in (ServerEvent.ACK, ServerEvent.ERROR):
            self._unacked_answers.append(frame)
        self._changed.set()

    def on_disconnect(self, *_: Any) -> None:
        self._is_disconnected = True
        self._changed.set()

    def _on_ack(self, ref: Any, data: Data | None = None) -> None:
        if data is not None:
            answer = self._unacked_answers.popleft()
            assert answer["data"] == data
            answer |= {} if ref is None else {"ref": ref}
        self._changed.set()


@asynccontextmanager
async def connect_socketio(ports: Ports) -> AsyncIterator[OpenConnection]:
    """Open connections at `/socket.io`, where clients name the last message only by `resume`."""
    async with serve_channel(ports) as site:

        async def open_one(user: User, after: int | None) -> SocketIoConnection:
            client = socketio.AsyncClient(reconnection=False, handle_sigint=False)
            wire = SocketIoConnection(client)
            client.on("*", wire.on_event)
            client.on("disconnect", wire.on_disconnect)
            await client.connect(
                f"http://127.0.0.1:{site.port}",
                headers={"Cookie": f"connect.sid={await site.sign_in(user)}"},
                transports=["websocket"],
            )
            if after is not None:
                await wire.send(make_frame(ClientEvent.RESUME, {"after": after}))
            return wire

        yield open_one


SOCKET_DRIVERS: dict[str, TransportDriver] = {
    "websocket": connect_websocket,
    "socketio": connect_socketio,
}
