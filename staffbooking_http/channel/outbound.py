"""Outbound frames of a client, with a bound on the unread bytes.

The embedded server passes an `Outbound` in the scope, which writes directly to the socket. For
any other ASGI server, `QueuedOutbound` queues the frames.
"""

import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Protocol

import anyio

from staffbooking_core.representations.channel import CloseCode
from staffbooking_http.api.endpoint import AsgiMessage, Scope, Send
from staffbooking_http.channel.frames import EncodedFrame

log = logging.getLogger("staffbooking.channel")

OUTBOUND_EXTENSION = "staffbooking.outbound"
"""The scope extension in which the embedded server passes its `Outbound`."""
MAX_UNREAD_BYTES = 1024 * 1024
"""The limit of unread bytes per client."""
DRAINED_UNREAD_BYTES = 64 * 1024
"""The number of unread bytes at which `wait_until_drained` returns."""
CLOSE_TIMEOUT_SECONDS = 2.0
"""Seconds that a client has to read the close reason."""


class Outbound(Protocol):
    """Carries frames to one client."""

    def send(self, frame: EncodedFrame) -> bool:
        """Queue a frame, without waiting. False, and the frame may be lost, if more bytes would
        be unread than a client may leave. Does nothing after `close`."""
        ...

    def close(self, code: CloseCode, reason: str) -> None:
        """End the connection soon, also if the client reads nothing."""
        ...

    @property
    def is_open(self) -> bool: ...

    async def wait_until_drained(self) -> None:
        """Wait until the client has read most of what it was sent, or the connection is closed."""
        ...


@asynccontextmanager
async def open_outbound(scope: Scope, send: Send) -> AsyncIterator[Outbound]:
    """The `Outbound` of an accepted connection. The body is cancelled when a queued one closes;
    for a direct one, the server reports the disconnect."""
    direct: Outbound | None = (scope.get("extensions") or {}).get(OUTBOUND_EXTENSION)
    if direct is not None:
        yield direct
        return
    async with anyio.create_task_group() as tasks:
        queue = QueuedOutbound(send)

        async def run_queue() -> None:
            await queue.run()
            tasks.cancel_scope.cancel()

        tasks.start_soon(run_queue)
        yield queue
        if queue.is_open:
            tasks.cancel_scope.cancel()


class QueuedOutbound:
    """An `Outbound` over an ASGI server's `send`, which may block on the client indefinitely."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._frames: deque[bytes] = deque()
        self._unread_bytes = 0
        self._close_message: AsgiMessage | None = None
        self._changed = anyio.Event()
        self._cancel_scope = anyio.CancelScope()

    @property
    def is_open(self) -> bool:
        return self._close_message is None

    def send(self, frame: EncodedFrame) -> bool:
        if not self.is_open:
            return True
        if self._unread_bytes + len(frame.json_bytes) > MAX_UNREAD_BYTES:
            return False
        self._frames.append(frame.json_bytes)
        self._unread_bytes += len(frame.json_bytes)
        self._notify_change()
        return True

    def close(self, code: CloseCode, reason: str) -> None:
        if self.is_open:
            self._close_message = {"type": "websocket.close", "code": int(code), "reason": reason}
            self._cancel_scope.deadline = anyio.current_time() + CLOSE_TIMEOUT_SECONDS
            self._notify_change()

    async def wait_until_drained(self) -> None:
        while self.is_open and self._unread_bytes > DRAINED_UNREAD_BYTES:
            await self._changed.wait()

    async def run(self) -> None:
        """Send queued frames until closed or the client has disconnected."""
        with self._cancel_scope:
            try:
                while await self._send_next():
                    pass
            except Exception:  # ASGI servers differ in what they raise for a disconnect.
                log.debug("a client has gone", exc_info=True)
        self._close_message = self._close_message or {}
        self._notify_change()

    async def _send_next(self) -> bool:
        """Send the next frame or the close message. False after the close message."""
        if self._frames:
            text = self._frames[0]
            await self._send({"type": "websocket.send", "text": text.decode()})
            self._frames.popleft()
            self._unread_bytes -= len(text)
            self._notify_change()
        elif self._close_message is None:
            await self._changed.wait()
        else:
            await self._send(self._close_message)
            return False
        return True

    def _notify_change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
