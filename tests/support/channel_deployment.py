"""A deployment that is served in the test's own event loop, and clients of its channel.

`serve_channel` runs the service's server on the test's ports; `ChannelServer.connect_client`
opens a WebSocket as a browser would, with a session cookie and the Origin of the service's pages.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any
from unittest.mock import patch

import anyio
import httpx
import pytest
import uvicorn.server
from attrs import define, evolve, field, frozen
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.http11 import Response

from staffbooking_adapters.settings import load_settings
from staffbooking_adapters.testing.builders import MINUTE, POLICY, add_session
from staffbooking_adapters.testing.builders_messages import add_direct
from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.messaging.conversations import Conversation
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.ports import Ports
from staffbooking_http.server.listening import open_listening_socket
from staffbooking_http.server.server import serve
from tests.http.deployment import BASE_URL, HttpDeployment, shared_routes

RECEIVE_TIMEOUT_SECONDS = 20.0
"""Seconds after which a test stops waiting for a frame."""

SHORT_INTERVAL = timedelta(milliseconds=20)

DEFAULT_SETTINGS = load_settings({})


def relax_limits(
    world: HttpDeployment,
    *,
    max_events_per_minute: int = 100_000,
    max_user_events_per_minute: int = 100_000,
    **policy: Any,
) -> None:
    """Raise the event limits of a connection and of a user, and remove the delays."""
    quick = {"resume_grace": SHORT_INTERVAL, "sessions_judged_every": SHORT_INTERVAL}
    limits = evolve(
        POLICY.limits,
        channel=RateLimit("channel", max_events_per_minute, MINUTE),
        channel_user=RateLimit("channel_user", max_user_events_per_minute, MINUTE),
    )
    world.restart(policy=evolve(POLICY, **{"limits": limits, **quick, **policy}))


class _FastSleepAsyncio:
    """asyncio for uvicorn, with 20 times shorter sleeps: uvicorn polls every 0.1 s, and the tests
    start and stop it hundreds of times."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


def plain_http_client(**options: Any) -> httpx.AsyncClient:
    """A client without TLS, whose certificates take 27 ms to load."""
    return httpx.AsyncClient(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), **options)


@asynccontextmanager
async def serve_channel(ports: Ports, **settings: Any) -> AsyncIterator[ChannelServer]:
    """Serve on these ports with separate settings; several servers act as processes of one
    deployment."""
    stop = anyio.Event()
    given = evolve(DEFAULT_SETTINGS, **settings)
    hasty = patch.object(uvicorn.server, "asyncio", _FastSleepAsyncio())
    with hasty:
        async with anyio.create_task_group() as tasks:
            with open_listening_socket("127.0.0.1", 0) as listening:
                job = partial(serve, given, listening_socket=listening, stop=stop, ports=ports)
                with shared_routes():
                    port: int = await tasks.start(job)
            yield ChannelServer(ports, port, stop)
            stop.set()


async def add_shared_conversation(world: HttpDeployment) -> Conversation:
    """The direct conversation of the customer and the companion, with their booking."""
    return await add_direct(world.store, companion=world.companion, customer=world.customer)


@frozen
class ChannelServer:
    ports: Ports
    port: int
    stop: anyio.Event
    """Stops the server, as SIGTERM does."""

    async def sign_in(self, user: User | Companion) -> str:
        """The token of a new session of a user."""
        token = self.ports.ids.token()
        now = self.ports.clock.wall()
        await add_session(self.ports.store, user.id, token=token, seen_at=now)
        return token

    @asynccontextmanager
    async def open_websocket(
        self,
        cookie: str | None,
        *,
        origin: str | None = BASE_URL,
        path: str = "/ws",
        headers: list[tuple[str, str]] | None = None,
    ) -> AsyncIterator[ClientConnection]:
        """A bare WebSocket, with a Cookie header if given."""
        cookies = [] if cookie is None else [("cookie", cookie)]
        origins = [] if origin is None else [("origin", origin)]
        async with connect(
            f"ws://127.0.0.1:{self.port}{path}",
            additional_headers=[*cookies, *origins, *(headers or ())],
            compression=None,
            max_size=None,
            ping_interval=None,
            open_timeout=RECEIVE_TIMEOUT_SECONDS,
            close_timeout=RECEIVE_TIMEOUT_SECONDS,
            proxy=None,
        ) as socket:
            yield socket

    @asynccontextmanager
    async def connect_client(
        self, user: User | Companion, token: str | None = None, **given: Any
    ) -> AsyncIterator[WebSocketClient]:
        """A client of a user after its `ready` event; without a token it gets a new session."""
        token = token or await self.sign_in(user)
        async with self.open_websocket(f"connect.sid={token}", **given) as socket:
            client = WebSocketClient(socket, token)
            client.ready = await client.next_data("ready")
            yield client

    async def metric(self, name: str) -> float:
        """One of the channel's Prometheus metrics."""
        async with plain_http_client() as client:
            told = (await client.get(f"http://127.0.0.1:{self.port}/metrics")).text
        [value] = re.findall(rf"^staffbooking_channel_{name} (.*)$", told, re.MULTILINE)
        return float(value)

    async def rejected_handshake(
        self, cookie: str | None, **given: Any
    ) -> tuple[Response, dict[str, Any]]:
        """The response to a rejected handshake, and its JSON."""
        with pytest.raises(InvalidStatus) as refused:
            async with self.open_websocket(cookie, **given):
                pass
        answer = refused.value.response
        assert answer.body is not None
        body: dict[str, Any] = json.loads(answer.body)
        return answer, body


@define
class WebSocketClient:
    """A client of the channel over WebSocket."""

    socket: ClientConnection
    token: str
    """The token of the client's session."""
    ready: dict[str, Any] = field(factory=dict)
    received: list[dict[str, Any]] = field(factory=list)
    """All frames received so far."""
    _unread: deque[dict[str, Any]] = field(factory=deque)
    """Received frames that no call has returned yet."""

    async def send(self, event: str, data: dict[str, Any], ref: Any = None) -> None:
        answered = {} if ref is None else {"ref": ref}
        await self.socket.send(json.dumps({"event": event, "data": data, **answered}))

    async def send_message(
        self, conversation: Conversation, content: str, **data: Any
    ) -> dict[str, Any]:
        """Send a message, wait until it is stored and return it."""
        asked = {"conversation_id": conversation.id, "content": content, **data}
        await self.send("send_message", asked)
        message: dict[str, Any] = (await self.next_data("ack"))["message"]
        return message

    async def next_any_frame(self) -> dict[str, Any]:
        """The next frame of any event."""
        return self._unread.popleft() if self._unread else await self._receive()

    async def next_data(self, event: str) -> dict[str, Any]:
        """The data of the next event of a name."""
        data: dict[str, Any] = (await self.next_frame(event))["data"]
        return data

    async def next_frame(self, event: str) -> dict[str, Any]:
        """The next event of a name; earlier events of other names stay available."""
        for frame in self._unread:
            if frame["event"] == event:
                self._unread.remove(frame)
                return frame
        while (frame := await self._receive())["event"] != event:
            self._unread.append(frame)
        return frame

    async def _receive(self) -> dict[str, Any]:
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            frame: dict[str, Any] = json.loads(await self.socket.recv())
        self.received.append(frame)
        return frame

    async def wait_closed(self) -> int | None:
        """The close code of the server, or None if the connection broke."""
        try:
            while True:
                await self._receive()
        except ConnectionClosed as end:
            return None if end.rcvd is None else end.rcvd.code

    def received_data(self, event: str) -> list[dict[str, Any]]:
        """The data of all events of a name so far."""
        return [frame["data"] for frame in self.received if frame["event"] == event]
