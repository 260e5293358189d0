"""Adapts python-socketio: counts unread bytes, ends its tasks at shutdown, and parses packets
strictly. Only this module overrides private methods of the library.

The library's server ignores malformed packets, parses packets that no limit counts, keeps
attachments of binary events without limit, and calls its own handlers for events with reserved
names. `filter_packet` and `_StrictPacket` keep such packets from it.
"""

import asyncio
import json
import logging
import re
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import anyio
import engineio
import socketio
from attrs import frozen
from socketio import packet

from staffbooking_http.api import request_body
from staffbooking_http.api.errors import HttpError
from staffbooking_http.channel.frames import MAX_FRAME_BYTES, MAX_FRAME_DEPTH

Environ: TypeAlias = dict[str, Any]
"""The environment of the handshake request."""

log = logging.getLogger("staffbooking.channel.socketio")
log.setLevel(logging.ERROR)  # Lower levels log message texts.

PING_INTERVAL_SECONDS = 20.0
PONG_TIMEOUT_SECONDS = 20.0
"""Seconds to wait for a pong. As the engine checks each socket once in this time, a lost client is
detected within the ping interval plus twice this timeout."""
_MAX_PACKETS_PER_RESPONSE = 16
"""Maximum packets in one polling response, the most that python-socketio clients accept."""
_PACKET_OVERHEAD_BYTES = 256
"""Estimated bytes of memory per packet besides its text."""
_NAMELESS_EVENT_PACKET = "42"
"""An event packet without a name. It replaces invalid packets."""

UPGRADE_PACKETS = ("2probe", "5")
"""Engine.IO packets by which a client upgrades to a WebSocket."""

_PACKETS_BEFORE_CONNECT = re.compile(r"[13]|40.*", re.DOTALL)
"""Packets allowed before the Socket.IO connect: Engine.IO close (1) and pong (3), and Socket.IO
connect (40)."""
_PACKETS_AFTER_CONNECT = re.compile(r"[13]|41|4[25].*", re.DOTALL)
"""Packets allowed afterwards: Engine.IO close (1) and pong (3), and Socket.IO disconnect (41),
event (42) and binary event (45)."""
_RESERVED_EVENT_NAMES = ("connect", "disconnect", "*")
"""Event names for which python-socketio calls its own handlers."""


def create_server(
    on_connect: Callable[[str, Environ], None], on_disconnect: Callable[[Environ], None]
) -> socketio.AsyncServer:
    """Create a server, which starts no task before its first connection. It calls `on_connect` for
    each socket that the engine opens, and `on_disconnect` for each that closes or is lost."""
    return _CallbackServer(
        on_connect,
        on_disconnect,
        async_mode="asgi",
        serializer=_StrictPacket,
        async_handlers=False,
        always_connect=True,
        ping_interval=PING_INTERVAL_SECONDS,
        ping_timeout=PONG_TIMEOUT_SECONDS,
        max_http_buffer_size=MAX_FRAME_BYTES,
        http_compression=False,
        cors_allowed_origins=[],
        logger=log,
        engineio_logger=log,
    )


def filter_packet(text: str | None, *, is_connected: bool) -> str:
    """Return the packet if it is allowed, else an event without a name. A None packet is binary."""
    allowed_packets = _PACKETS_AFTER_CONNECT if is_connected else _PACKETS_BEFORE_CONNECT
    return text if text is not None and allowed_packets.fullmatch(text) else _NAMELESS_EVENT_PACKET


class PacketQueue(asyncio.Queue[Any]):
    """Outgoing packets of one client. Packets that the engine has taken count as unread until
    it asks for more, which it does after sending them."""

    def _init(self, maxsize: int) -> None:
        super()._init(maxsize)
        self.unread_bytes = 0
        """Bytes of the packets that are queued or being sent."""
        self.changed = anyio.Event()
        """Set when `unread_bytes` has decreased or the queue was cleared."""
        self._taken_sizes: list[int] = []

    async def get(self) -> Any:
        self.mark_sent()
        return await super().get()

    def get_nowait(self) -> Any:
        if len(self._taken_sizes) == _MAX_PACKETS_PER_RESPONSE:
            raise asyncio.QueueEmpty
        return super().get_nowait()

    def mark_sent(self) -> None:
        """Stop counting the packets that were taken: they have been sent."""
        self.unread_bytes -= sum(self._taken_sizes)
        self._taken_sizes.clear()
        self.notify_change()

    def take_remaining(self) -> str:
        """Return the next packets of a closed client, as one polling response."""
        self.mark_sent()
        packets = []
        while not self.empty() and len(self._taken_sizes) < _MAX_PACKETS_PER_RESPONSE:
            if (item := self.get_nowait()) is not None:
                packets.append(item.encode())
        return "\x1e".join(packets)

    def clear(self) -> None:
        """Drop all packets: nobody will read them."""
        while not self.empty():
            self._get()
        self.mark_sent()

    def notify_change(self) -> None:
        self.changed.set()
        self.changed = anyio.Event()

    def _put(self, item: Any) -> None:
        self.unread_bytes += _packet_size(item)
        super()._put(item)

    def _get(self) -> Any:
        item = super()._get()
        self._taken_sizes.append(_packet_size(item))
        return item


def _packet_size(item: Any) -> int:
    return 0 if item is None else sys.getsizeof(item.encode()) + _PACKET_OVERHEAD_BYTES


@frozen
class EncodedPacket:
    """A packet with the interface that the engine expects, encoded once for all recipients."""

    text: str

    def encode(self, b64: bool = False) -> str:
        return self.text


class TrackedEngine(engineio.AsyncServer):
    """python-engineio's server; `shutdown` ends all its tasks."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._tasks: set[asyncio.Task[Any]] = set()

    def create_queue(self, *_: Any, **__: Any) -> PacketQueue:
        return PacketQueue()

    def start_background_task(
        self, target: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = super().start_background_task(target, *args, **kwargs)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("connection maintenance failed", exc_info=error)

    async def shutdown(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.start_service_task = True  # Makes the next connection start the service task again.


class EngineSocket:
    """The engine's socket of one client; absent until the first handshake."""

    def __init__(self, engine: TrackedEngine) -> None:
        self._engine = engine
        self._socket: Any = None

    def attach(self, sid: str) -> None:
        self._socket = self._engine.sockets[sid]

    @property
    def is_attached(self) -> bool:
        return self._socket is not None

    @property
    def sid(self) -> str:
        sid: str = self._socket.sid
        return sid

    @property
    def packet_queue(self) -> PacketQueue:
        queue: PacketQueue = self._socket.queue
        return queue

    @property
    def is_upgrading(self) -> bool:
        return bool(self._socket.upgrading)

    @property
    def is_upgraded(self) -> bool:
        """Whether the client uses a WebSocket."""
        return bool(self._socket.upgraded)

    def end_upgrade(self) -> None:
        """Reset a failed upgrade: the engine does not, and polls would wait forever."""
        self._socket.upgrading = False

    async def close(self) -> None:
        """Close without a close packet: a client that receives one might not reconnect."""
        await self._socket.close(wait=False, abort=True)

    def forget(self) -> None:
        self._engine.sockets.pop(self.sid, None)


class _CallbackServer(socketio.AsyncServer):
    def __init__(
        self,
        on_connect: Callable[[str, Environ], None],
        on_disconnect: Callable[[Environ], None],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect

    def _engineio_server_class(self) -> type[TrackedEngine]:
        return TrackedEngine

    async def _handle_eio_connect(  # type: ignore[override]
        self, eio_sid: str, environ: Environ
    ) -> None:
        await super()._handle_eio_connect(eio_sid, environ)
        self._on_connect(eio_sid, environ)

    async def _handle_eio_disconnect(  # type: ignore[override]
        self, eio_sid: str, reason: str
    ) -> None:
        self._on_disconnect(self.environ[eio_sid])
        await super()._handle_eio_disconnect(eio_sid, reason)


class _StrictJson:
    """Parses JSON as strictly as WebSocket frames are parsed."""

    dumps = staticmethod(json.dumps)

    @staticmethod
    def loads(text: str) -> Any:
        return request_body.decode_json(text.encode(), MAX_FRAME_DEPTH)


class _StrictPacket(packet.Packet):
    """A Socket.IO packet. A malformed or binary packet is parsed as an event without a name."""

    json = _StrictJson  # type: ignore[assignment]

    def decode(self, encoded_packet: str) -> int:
        try:
            attachments = super().decode(encoded_packet)
        except (ValueError, HttpError):
            attachments = None
        if attachments != 0 or not self._is_allowed():
            self.packet_type, self.namespace, self.data = packet.EVENT, None, [""]
        return 0

    def _is_allowed(self) -> bool:
        match self.packet_type:
            case packet.CONNECT | packet.DISCONNECT:
                return True
            case packet.EVENT:
                return self.namespace in (None, "/") and _has_event_name(self.data)
        return False


def _has_event_name(data: Any) -> bool:
    return (
        isinstance(data, list)
        and len(data) > 0
        and isinstance(data[0], str)
        and data[0] not in _RESERVED_EVENT_NAMES
    )
