"""How frames reach a client: never more of them unread than a client may leave.

Our own server hands a pipe over with the scope, which writes straight to the socket. For
any other ASGI server there is one here that keeps what waits.
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

OUTBOUND_EXTENSION = "staffbooking.pipe"
"""The extension of the scope under which our own server hands its pipe over."""
MAX_UNREAD_BYTES = 1024 * 1024
"""Bytes that may lie unread for one client."""
DRAINED_UNREAD_BYTES = 64 * 1024
"""Bytes of it that are no reason to wait."""
CLOSE_TIMEOUT_SECONDS = 2.0
"""Seconds that a client has to read why it is closed."""


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
        """Wait until the client has read most of what it was sent, or the pipe is closed."""
        ...


@asynccontextmanager
async def open_outbound(scope: Scope, send: Send) -> AsyncIterator[Outbound]:
    """The pipe of a connection that was accepted. What is done with it is cancelled once it
    is closed, unless the server itself tells of that."""
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
    """A pipe through an ASGI server's `send`, which may wait for the client for ever."""

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
        """Send what comes, until the pipe is closed or the client has gone."""
        with self._cancel_scope:
            try:
                while await self._send_next():
                    pass
            except Exception:  # What a server raises for this is its own affair.
                log.debug("a client has gone", exc_info=True)
        self._close_message = self._close_message or {}
        self._notify_change()

    async def _send_next(self) -> bool:
        """Whether there may be more."""
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
