"""How frames reach a client: never more of them unread than a client may leave.

Our own server hands a pipe over with the scope, which writes straight to the socket. For
any other ASGI server there is one here that keeps what waits.
"""

import logging
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from staffbooking_core.representations.channel import Close
from staffbooking_http.api.endpoint import Message, Scope, Send
from staffbooking_http.channel.frames import Outgoing
from staffbooking_http.channel.hub import Pipe

log = logging.getLogger("staffbooking.channel")

PIPE = "staffbooking.pipe"
"""The extension of the scope under which our own server hands its pipe over."""
MOST_UNREAD = 1024 * 1024
"""Bytes that may lie unread for one client."""
LITTLE = 64 * 1024
"""Bytes of it that are no reason to wait."""
LINGER = 2.0
"""Seconds that a client has to read why it is closed."""


@asynccontextmanager
async def carried(scope: Scope, send: Send) -> AsyncIterator[Pipe]:
    """The pipe of a connection that was accepted. What is done with it is cancelled once it
    is closed, unless the server itself tells of that."""
    direct: Pipe | None = (scope.get("extensions") or {}).get(PIPE)
    if direct is not None:
        yield direct
        return
    async with anyio.create_task_group() as tasks:
        queue = Queue(send)

        async def carry() -> None:
            await queue.run()
            tasks.cancel_scope.cancel()

        tasks.start_soon(carry)
        yield queue
        if queue.is_open:
            tasks.cancel_scope.cancel()


class Queue:
    """A pipe through an ASGI server's `send`, which may wait for the client for ever."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._frames: deque[bytes] = deque()
        self._unread = 0
        self._end: Message | None = None
        self._moved = anyio.Event()
        self._scope = anyio.CancelScope()

    @property
    def is_open(self) -> bool:
        return self._end is None

    def send(self, frame: Outgoing) -> bool:
        if not self.is_open:
            return True
        if self._unread + len(frame.text) > MOST_UNREAD:
            return False
        self._frames.append(frame.text)
        self._unread += len(frame.text)
        self._move()
        return True

    def close(self, code: Close, reason: str) -> None:
        if self.is_open:
            self._end = {"type": "websocket.close", "code": int(code), "reason": reason}
            self._scope.deadline = anyio.current_time() + LINGER
            self._move()

    async def drained(self) -> None:
        while self.is_open and self._unread > LITTLE:
            await self._moved.wait()

    async def run(self) -> None:
        """Send what comes, until the pipe is closed or the client has gone."""
        with self._scope:
            try:
                while await self._send_next():
                    pass
            except Exception:  # What a server raises for this is its own affair.
                log.debug("a client has gone", exc_info=True)
        self._end = self._end or {}
        self._move()

    async def _send_next(self) -> bool:
        """Whether there may be more."""
        if self._frames:
            text = self._frames[0]
            await self._send({"type": "websocket.send", "text": text.decode()})
            self._frames.popleft()
            self._unread -= len(text)
            self._move()
        elif self._end is None:
            await self._moved.wait()
        else:
            await self._send(self._end)
            return False
        return True

    def _move(self) -> None:
        self._moved.set()
        self._moved = anyio.Event()
