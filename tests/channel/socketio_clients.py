"""Socket.IO clients for tests: python-socketio's, and minimal ones that send single packets."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio
import httpx
import socketio
from attrs import define, field
from websockets.asyncio.client import ClientConnection

from staffbooking_core.domain.accounts.users import User
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.messaging.conversations import Conversation
from tests.http.deployment import BASE_URL
from tests.support.channel_deployment import (
    RECEIVE_TIMEOUT_SECONDS,
    ChannelServer,
    plain_http_client,
)

POLLING_ONLY, WEBSOCKET_ONLY, POLLING_THEN_WEBSOCKET = (
    ["polling"],
    ["websocket"],
    ["polling", "websocket"],
)
TRANSPORTS = {
    "polling": POLLING_ONLY,
    "websocket": WEBSOCKET_ONLY,
    "upgrade": POLLING_THEN_WEBSOCKET,
}
SOCKETIO_PATH = "/socket.io/"
UNKNOWN_EVENT = '42["nothing",{}]'
"""A packet that is answered with the error `unknown_event`."""


@define
class SocketIoClient:
    """A client of python-socketio that records the events it receives."""

    client: socketio.AsyncClient
    token: str
    """The session token."""
    disconnect_reason: str | None = None
    """The reason of the disconnection; None while connected."""
    ready: dict[str, Any] = field(factory=dict)
    received: list[tuple[str, dict[str, Any]]] = field(factory=list)
    """All received events, oldest first."""
    _unread: deque[tuple[str, dict[str, Any]]] = field(factory=deque)
    _changed: anyio.Event = field(factory=anyio.Event)

    def on_event(self, event: str, data: dict[str, Any]) -> None:
        self.received.append((event, data))
        self._unread.append((event, data))
        self._changed.set()

    def on_disconnect(self, reason: str) -> None:
        self.disconnect_reason = reason
        self._changed.set()

    async def next_data(self, event: str) -> dict[str, Any]:
        """The data of the next event of a name; other events before it are skipped."""
        while True:
            while self._unread:
                name, data = self._unread.popleft()
                if name == event:
                    return data
            assert self.disconnect_reason is None, f"no {event}, but {self.disconnect_reason}"
            await self._wait_for_change()

    async def wait_closed(self) -> str:
        """Wait for the disconnection; returns its reason."""
        while self.disconnect_reason is None:
            await self._wait_for_change()
        return self.disconnect_reason

    async def _wait_for_change(self) -> None:
        self._changed = anyio.Event()
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            await self._changed.wait()

    async def send(self, event: str, *data: Any) -> None:
        await self.client.emit(event, data)

    async def call(self, event: str, *data: Any) -> Any:
        """Send an event and return the argument of its callback, or None without one."""
        return await self.client.call(event, data, timeout=RECEIVE_TIMEOUT_SECONDS)

    async def send_message(
        self, conversation: Conversation, content: str, **data: Any
    ) -> dict[str, Any]:
        """Send a message and return it as it was stored."""
        asked = {"conversation_id": conversation.id, "content": content, **data}
        message: dict[str, Any] = (await self.call("send_message", asked))["message"]
        return message

    def received_data(self, event: str) -> list[dict[str, Any]]:
        """The data of all received events of a name."""
        return [data for name, data in self.received if name == event]


@asynccontextmanager
async def connect_client(
    site: ChannelServer,
    user: User | Companion,
    transports: list[str] = WEBSOCKET_ONLY,
    *,
    token: str | None = None,
    **options: Any,
) -> AsyncIterator[SocketIoClient]:
    """Connect a signed-in client and wait for `ready`. Its HTTP session sends the cookie, which
    the library itself sends with the handshake alone."""
    token = token or await site.sign_in(user)
    cookie = {"Cookie": f"connect.sid={token}"}
    trace = aiohttp.TraceConfig()
    trace.on_request_end.append(_read_answer)
    async with aiohttp.ClientSession(headers=cookie, trace_configs=[trace]) as http:
        given = {"reconnection": False, "handle_sigint": False, "http_session": http, **options}
        sio = socketio.AsyncClient(**given)
        client = SocketIoClient(sio, token)
        sio.on("*", client.on_event)
        sio.on("disconnect", client.on_disconnect)
        await sio.connect(
            f"http://127.0.0.1:{site.port}",
            headers=cookie,
            transports=transports,
            wait_timeout=RECEIVE_TIMEOUT_SECONDS,
        )
        try:
            client.ready = await client.next_data("ready")
            yield client
        finally:
            with anyio.CancelScope(shield=True):
                await _disconnect(sio)


async def _disconnect(sio: socketio.AsyncClient) -> None:
    """Disconnect without waiting for a pending poll; the library sometimes waits for it."""
    loops = [task for task in (sio.eio.read_loop_task, sio.eio.write_loop_task) if task]
    await sio.eio.disconnect(abort=True)
    for task in loops:
        task.cancel()
    await asyncio.gather(*loops, return_exceptions=True)


async def _read_answer(_: Any, __: Any, params: aiohttp.TraceRequestEndParams) -> None:
    """Read the answers that the library leaves unread, so that their connections are released."""
    if params.response.status != 101:
        await params.response.read()


@define
class PollingClient:
    """An Engine.IO client by long polling that sends single packets."""

    http: httpx.AsyncClient
    sid: str = ""
    _waiting: deque[str] = field(factory=deque)

    async def get(self, **query: str) -> httpx.Response:
        asked = {"EIO": "4", "transport": "polling", **query}
        return await self.http.get(SOCKETIO_PATH, params=asked, timeout=RECEIVE_TIMEOUT_SECONDS)

    async def post(self, *packets: str | bytes, **query: str) -> httpx.Response:
        asked = {"EIO": "4", "transport": "polling", "sid": self.sid, **query}
        body = b"\x1e".join(each.encode() if isinstance(each, str) else each for each in packets)
        return await self.http.post(
            SOCKETIO_PATH, params=asked, content=body, timeout=RECEIVE_TIMEOUT_SECONDS
        )

    async def open(self) -> dict[str, Any]:
        """Do the Engine.IO handshake and return its parameters."""
        answer = await self.get()
        assert answer.status_code == 200, answer.text
        parameters: dict[str, Any] = json.loads(answer.text.removeprefix("0"))
        self.sid = parameters["sid"]
        return parameters

    async def connect(self) -> dict[str, Any]:
        """Do the Engine.IO and Socket.IO handshakes and return the data of `ready`."""
        await self.open()
        assert (await self.post("40")).text == "ok"
        assert (await self.packet()).startswith('40{"sid":')
        return await self.next("ready")

    async def packet(self) -> str:
        """The next packet; polls if none is waiting."""
        while not self._waiting:
            answer = await self.get(sid=self.sid)
            assert answer.status_code == 200, answer.text
            self._waiting.extend(answer.text.split("\x1e"))
        return self._waiting.popleft()

    async def next(self, event: str) -> dict[str, Any]:
        """The data of the next event of a name; other packets before it are skipped."""
        while True:
            packet = await self.packet()
            if packet.startswith(f'42["{event}",'):
                data: dict[str, Any] = json.loads(packet[2:])[1]
                return data


@asynccontextmanager
async def connect_polling_client(
    site: ChannelServer, user: User | Companion | None = None, /, **headers: str
) -> AsyncIterator[PollingClient]:
    """A polling client, signed in as a user if one is given, without a handshake."""
    if user is not None:
        headers["cookie"] = f"connect.sid={await site.sign_in(user)}"
    url = f"http://127.0.0.1:{site.port}"
    async with plain_http_client(base_url=url, headers=headers) as http:
        yield PollingClient(http)


@define
class RawSocketIoClient:
    """An Engine.IO client over a WebSocket that sends single packets."""

    socket: ClientConnection

    async def send(self, packet: str | bytes) -> None:
        await self.socket.send(packet)

    async def packet(self) -> str:
        with anyio.fail_after(RECEIVE_TIMEOUT_SECONDS):
            packet = await self.socket.recv()
        assert isinstance(packet, str)
        return packet

    async def next(self, event: str) -> dict[str, Any]:
        """The data of the next event of a name; other packets before it are skipped."""
        while True:
            packet = await self.packet()
            if packet.startswith(f'42["{event}",'):
                data: dict[str, Any] = json.loads(packet[2:])[1]
                return data


@asynccontextmanager
async def connect_raw_client(
    site: ChannelServer, user: User | Companion
) -> AsyncIterator[RawSocketIoClient]:
    """Connect a raw client over a WebSocket and wait for `ready`."""
    cookie = f"connect.sid={await site.sign_in(user)}"
    path = f"{SOCKETIO_PATH}?EIO=4&transport=websocket"
    async with site.open_websocket(cookie, path=path, origin=BASE_URL) as socket:
        client = RawSocketIoClient(socket)
        assert (await client.packet()).startswith("0")
        await client.send("40")
        assert (await client.packet()).startswith("40")
        await client.next("ready")
        yield client
