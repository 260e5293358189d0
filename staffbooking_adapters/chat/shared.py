"""Word between processes, whatever wire takes it."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Protocol

import msgspec
from anyio import CancelScope
from attrs import evolve

from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.codec import encode
from staffbooking_adapters.listening import keep_listening
from staffbooking_core.ports import Subscriber
from staffbooking_core.representations.channel import Broadcast

_MAX_PAYLOAD_BYTES = 7_900
"""Bytes of a payload that tells may have: a notification of PostgreSQL holds 7,999."""
MAX_BACKLOG_BYTES = 1 << 20
"""Bytes that wait to be told to other processes."""
PUBLISH_INTERVAL_SECONDS = 0.005
"""Seconds between one payload and the next. At 200 a second PostgreSQL writes as much as
without any; from 500 on, with four that listen, it writes a tenth less."""
RETRY_DELAY_SECONDS = 1.0
"""Seconds before the next try where the wire took nothing."""
CLOSE_TIMEOUT_SECONDS = 2.0
"""Seconds that the last word is waited for at the end."""

_decode_payload = msgspec.json.Decoder(tuple[str, bool, tuple[Broadcast, ...]]).decode


class PubSubTransport(Protocol):
    """Takes payloads to every process that hears them, the one that tells included."""

    async def publish(self, payload: bytes) -> None:
        """Raises where it was not taken, or nobody knows."""
        ...

    async def subscribe(
        self, on_payload: Callable[[str | bytes], None], on_subscribed: Callable[[], None]
    ) -> None:
        """Listen until the connection breaks; `began` is called once it hears."""
        ...

    async def close(self) -> None: ...


class SharedChat(LocalChat):
    """A Chat whose word is heard here at once, and taken to the other processes by a wire.

    What is said while a payload is under way goes into the next ones. Where the wire is out
    of reach, the oldest of what passes is dropped; that messages were stored is told as soon
    as it can be.
    """

    def __init__(self, transport: PubSubTransport) -> None:
        """`wire` is closed with this."""
        super().__init__()
        self._transport = transport
        self._process_id = secrets.token_hex(8)
        self._has_unannounced_messages = False
        """Whether there are messages that the others were not told of."""
        self._backlog: deque[bytes] = deque()
        self._backlog_bytes = 0
        self._publish_task: asyncio.Task[None] | None = None
        self._is_closed = False

    def publish_messages_stored(self) -> None:
        super().publish_messages_stored()
        self._has_unannounced_messages = True
        self._start_publishing()

    def publish(self, broadcast: Broadcast) -> None:
        super().publish(broadcast)
        for piece in _split_broadcast(broadcast):
            self._backlog.append(piece)
            self._backlog_bytes += len(piece)
        while self._backlog_bytes > MAX_BACKLOG_BYTES:
            self._backlog_bytes -= len(self._backlog.popleft())
        self._start_publishing()

    @asynccontextmanager
    async def subscribe(self, subscriber: Subscriber) -> AsyncIterator[None]:
        hear = partial(self._transport.subscribe, partial(self._receive, subscriber))
        async with super().subscribe(subscriber):
            listen_task = asyncio.create_task(keep_listening(hear, subscriber.on_messages_stored))
            try:
                yield
            finally:
                listen_task.cancel()
                with CancelScope(shield=True):
                    await asyncio.wait([listen_task])

    async def close(self) -> None:
        """Tell what is to be told, but don't wait long, and close the wire."""
        self._is_closed = True
        if (publish_task := self._publish_task) is not None:
            await asyncio.wait([publish_task], timeout=CLOSE_TIMEOUT_SECONDS)
            publish_task.cancel()
            await asyncio.wait([publish_task])
        await self._transport.close()

    def _start_publishing(self) -> None:
        if self._publish_task is None and not self._is_closed:
            self._publish_task = asyncio.create_task(self._publish_backlog())

    async def _publish_backlog(self) -> None:
        try:
            while self._has_unannounced_messages or self._backlog:
                stored, self._has_unannounced_messages = self._has_unannounced_messages, False
                batch = self._take_batch()
                try:
                    broadcasts = [msgspec.Raw(piece) for piece in batch]
                    await self._transport.publish(encode((self._process_id, stored, broadcasts)))
                except Exception:
                    if self._is_closed:
                        return
                    # Told or not, nobody knows: what is told twice harms nobody.
                    self._has_unannounced_messages |= stored
                    self._backlog.extendleft(reversed(batch))
                    self._backlog_bytes += sum(map(len, batch))
                    await asyncio.sleep(RETRY_DELAY_SECONDS)
                else:
                    await asyncio.sleep(PUBLISH_INTERVAL_SECONDS)
        finally:
            self._publish_task = None

    def _take_batch(self) -> list[bytes]:
        """The oldest of what is untold, as much as a payload holds."""
        batch: list[bytes] = []
        free_bytes = _MAX_PAYLOAD_BYTES
        while self._backlog and len(self._backlog[0]) < free_bytes:
            piece = self._backlog.popleft()
            self._backlog_bytes -= len(piece)
            free_bytes -= len(piece) + 1
            batch.append(piece)
        return batch

    def _receive(self, subscriber: Subscriber, payload: str | bytes) -> None:
        try:
            process_id, stored, broadcasts = _decode_payload(payload)
        except (ValueError, RecursionError):
            return  # It is not from one of us, or from another version.
        if process_id == self._process_id:
            return
        if stored:
            subscriber.on_messages_stored()
        for tell in broadcasts:
            subscriber.on_broadcast(tell)


def _split_broadcast(broadcast: Broadcast) -> list[bytes]:
    """It as JSON, for some of its recipients at a time where it is too long for a payload;
    nothing where even for one it is."""
    whole = encode(broadcast)
    if len(whole) < _MAX_PAYLOAD_BYTES:
        return [whole]
    if len(broadcast.to) < 2:
        return []
    middle = len(broadcast.to) // 2
    halves = broadcast.to[:middle], broadcast.to[middle:]
    return [piece for half in halves for piece in _split_broadcast(evolve(broadcast, to=half))]
