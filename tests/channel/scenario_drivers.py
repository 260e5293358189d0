"""How plays are put on: without a socket, over WebSocket, over Socket.IO."""

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

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.ports import Ports
from staffbooking_core.representations.channel import Asked, Close, Told
from staffbooking_http.channel.frames import Outgoing, parse
from staffbooking_http.channel.hub import Connection, Switchboard
from tests.channel.scenarios import Connect, Data, Driver, Frame, HungUp, frame
from tests.support.builders import add_session
from tests.support.channel_deployment import served

# Without a socket -------------------------------------------------------------------------


@define
class PlainPipe:
    """The service's end of a connection: what it sends is there at once."""

    told: asyncio.Queue[Frame | HungUp] = field(factory=asyncio.Queue)
    is_open: bool = True

    def send(self, frame: Outgoing) -> bool:
        if self.is_open:
            self.told.put_nowait(json.loads(frame.text))
        return True

    def close(self, code: Close, reason: str) -> None:
        if self.is_open:
            self.is_open = False
            self.told.put_nowait(HungUp(code))

    async def drained(self) -> None:
        await checkpoint()


@frozen
class PlainWire:
    """The client's end of it, right at the switchboard."""

    switchboard: Switchboard
    connection: Connection
    pipe: PlainPipe

    async def send(self, frame: Frame) -> None:
        await self.switchboard.receive(self.connection, *parse(json.dumps(frame)))

    async def receive(self) -> Frame:
        told = await self.pipe.told.get()
        if isinstance(told, HungUp):
            raise told
        return told

    async def close(self) -> None:
        self.pipe.is_open = False
        self.switchboard.close(self.connection)
        await self.switchboard.release(self.connection.user_id)


@asynccontextmanager
async def plain(ports: Ports) -> AsyncIterator[Connect]:
    """The switchboard alone."""
    switchboard = Switchboard(ports)

    async def open_one(user: User, after: int | None) -> PlainWire:
        session = await add_session(ports.store, user.id, seen_at=ports.clock.wall())
        pipe = PlainPipe()
        await switchboard.reserve(user)
        connection = await switchboard.open(session, user, pipe, after)
        return PlainWire(switchboard, connection, pipe)

    async with switchboard.running():
        yield open_one


# Over sockets -----------------------------------------------------------------------------


@frozen
class WebSocketWire:
    socket: ClientConnection

    async def send(self, frame: Frame) -> None:
        await self.socket.send(json.dumps(frame))

    async def receive(self) -> Frame:
        try:
            told: Frame = json.loads(await self.socket.recv())
        except ConnectionClosed as end:
            raise HungUp(None if end.rcvd is None else end.rcvd.code) from None
        return told

    async def close(self) -> None:
        await self.socket.close()


@asynccontextmanager
async def websocket(ports: Ports) -> AsyncIterator[Connect]:
    """At `/ws`."""
    async with served(ports) as site:

        async def open_one(user: User, after: int | None) -> WebSocketWire:
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
            return WebSocketWire(socket)

        yield open_one


@define
class SocketIoWire:
    """Socket.IO knows no `ref`: what answers an event comes to its callback as well, in the
    order in which the events were sent."""

    client: socketio.AsyncClient
    _told: deque[Frame] = field(factory=deque)
    _unnamed: deque[Frame] = field(factory=deque)
    """Answers that no callback was called with yet."""
    _is_over: bool = False
    _news: asyncio.Event = field(factory=asyncio.Event)

    async def send(self, frame: Frame) -> None:
        answered = partial(self._answer, frame.get("ref"))
        await self.client.emit(frame["event"], frame["data"], callback=answered)

    async def receive(self) -> Frame:
        while not self._told or any(each is self._told[0] for each in self._unnamed):
            if self._is_over and not self._told:
                raise HungUp(None)
            self._news.clear()
            await self._news.wait()
        return self._told.popleft()

    async def close(self) -> None:
        await self.client.disconnect()

    def hear(self, event: str, data: Data) -> None:
        told = frame(event, data)
        self._told.append(told)
        if event in (Told.ACK, Told.ERROR):
            self._unnamed.append(told)
        self._news.set()

    def end(self, *_: Any) -> None:
        self._is_over = True
        self._news.set()

    def _answer(self, ref: Any, data: Data | None = None) -> None:
        if data is not None:
            answer = self._unnamed.popleft()
            assert answer["data"] == data
            answer |= {} if ref is None else {"ref": ref}
        self._news.set()


@asynccontextmanager
async def over_socketio(ports: Ports) -> AsyncIterator[Connect]:
    """At `/socket.io`, where clients name the last message by `resume` alone."""
    async with served(ports) as site:

        async def open_one(user: User, after: int | None) -> SocketIoWire:
            client = socketio.AsyncClient(reconnection=False, handle_sigint=False)
            wire = SocketIoWire(client)
            client.on("*", wire.hear)
            client.on("disconnect", wire.end)
            await client.connect(
                f"http://127.0.0.1:{site.port}",
                headers={"Cookie": f"connect.sid={await site.sign_in(user)}"},
                transports=["websocket"],
            )
            if after is not None:
                await wire.send(frame(Asked.RESUME, {"after": after}))
            return wire

        yield open_one


OVER_SOCKETS: dict[str, Driver] = {"websocket": websocket, "socketio": over_socketio}
