"""Clients that read only on request: bare sockets with a minimal WebSocket implementation."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.companions.companion import Companion
from tests.http.deployment import BASE_URL, HttpDeployment
from tests.support.channel_deployment import RECEIVE_TIMEOUT_SECONDS, ChannelServer


class RawWebSocketClient:
    """A client that reads only on request and returns raw bytes."""

    def __init__(self, wire: socket.socket) -> None:
        self.socket = wire
        self._loop = asyncio.get_running_loop()

    async def send(self, event: str, data: dict[str, Any]) -> None:
        """Send an event in a frame masked with zeros."""
        text = json.dumps({"event": event, "data": data}).encode()
        assert len(text) < 126
        await self.write(bytes((0x81, 0x80 | len(text), 0, 0, 0, 0)) + text)

    async def write(self, data: bytes) -> None:
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            await self._loop.sock_sendall(self.socket, data)

    async def read(self, max_bytes: int = 65536) -> bytes:
        """Read the bytes received so far; empty at the end of the stream."""
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            return await self._loop.sock_recv(self.socket, max_bytes)

    async def read_until(self, wanted: bytes) -> None:
        got = b""
        while wanted not in got:
            got += (part := await self.read())
            assert part, got

    async def wait_closed(self) -> None:
        """Discard all input until the service closes the connection."""
        try:
            while await self.read():
                pass
        except ConnectionError:
            pass


@asynccontextmanager
async def connect_idle_client(
    site: ChannelServer, user: User | Companion, token: str | None = None
) -> AsyncIterator[RawWebSocketClient]:
    """Connect a client that reads the initial frames and then stops reading."""
    token = token or await site.sign_in(user)
    wire = socket.socket()
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    wire.setblocking(False)
    with wire:
        await asyncio.get_running_loop().sock_connect(wire, ("127.0.0.1", site.port))
        idler = RawWebSocketClient(wire)
        await idler.write(
            f"GET /ws HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
            f"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
            f"cookie: connect.sid={token}\r\norigin: {BASE_URL}\r\n\r\n".encode()
        )
        await idler.read_until(b'"ready"')
        await idler.send("presence", {"user_ids": [2**40]})
        await idler.read_until(b'"not_found"')
        yield idler


async def wait_until_offline(world: HttpDeployment, who: User | Companion) -> None:
    """Wait until the service counts no connection of a user."""
    with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
        while True:
            async with world.store.read_view() as view:
                [found] = await view.presence.presence([who.id], world.clock.wall())
            if not found.online:
                return
            await anyio.lowlevel.checkpoint()
