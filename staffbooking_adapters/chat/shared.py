"""Broadcasts between processes over any transport."""

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
"""Maximum bytes of a payload; a PostgreSQL notification holds up to 7,999."""
MAX_BACKLOG_BYTES = 1 << 20
"""Maximum bytes of broadcasts that wait to be published to other processes."""
PUBLISH_INTERVAL_SECONDS = 0.005
"""Seconds between payloads. Measured: 200 payloads per second do not slow PostgreSQL's writes; from
500 per second, with four listeners, writes are a tenth slower."""
RETRY_DELAY_SECONDS = 1.0
"""Seconds before retrying a failed publish."""
CLOSE_TIMEOUT_SECONDS = 2.0
"""Maximum seconds for publishing the backlog on close."""

_decode_payload = msgspec.json.Decoder(tuple[str, bool, tuple[Broadcast, ...]]).decode
"""A payload is the id of the publishing process, whether messages were stored, and broadcasts."""


class PubSubTransport(Protocol):
    """Carries payloads to every subscribed process, including the publishing one."""

    async def publish(self, payload: bytes) -> None:
        """Publish a payload. Raises if it failed or its outcome is unknown."""
        ...

    async def subscribe(
        self, on_payload: Callable[[str | bytes], None], on_subscribed: Callable[[], None]
    ) -> None:
        """Receive payloads until the connection breaks. `on_subscribed` is called once payloads
        are received."""
        ...

    async def close(self) -> None: ...


class SharedChat(LocalChat):
    """Implements `PubSub`: local subscribers are called at once, other processes are reached by a
    transport.

    Broadcasts made while a payload is being sent are batched into the next ones. While the
    transport is unavailable the oldest broadcasts are dropped; that messages were stored is
    announced as soon as it is available again.
    """

    def __init__(self, transport: PubSubTransport) -> None:
        """The transport is closed with this object."""
        super().__init__()
        self._transport = transport
        self._process_id = secrets.token_hex(8)
        self._has_unannounced_messages = False
        """Whether stored messages have not been announced to the other processes yet."""
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
        listen = partial(self._transport.subscribe, partial(self._receive, subscriber))
        async with super().subscribe(subscriber):
            listen_task = asyncio.create_task(keep_listening(listen, subscriber.on_messages_stored))
            try:
                yield
            finally:
                listen_task.cancel()
                with CancelScope(shield=True):
                    await asyncio.wait([listen_task])

    async def close(self) -> None:
        """Publish the backlog, waiting at most CLOSE_TIMEOUT_SECONDS, and close the transport."""
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
                has_messages, self._has_unannounced_messages = self._has_unannounced_messages, False
                batch = self._take_batch()
                try:
                    broadcasts = [msgspec.Raw(piece) for piece in batch]
                    payload = encode((self._process_id, has_messages, broadcasts))
                    await self._transport.publish(payload)
                except Exception:
                    if self._is_closed:
                        return
                    # The outcome is unknown; publishing twice is harmless.
                    self._has_unannounced_messages |= has_messages
                    self._backlog.extendleft(reversed(batch))
                    self._backlog_bytes += sum(map(len, batch))
                    await asyncio.sleep(RETRY_DELAY_SECONDS)
                else:
                    await asyncio.sleep(PUBLISH_INTERVAL_SECONDS)
        finally:
            self._publish_task = None

    def _take_batch(self) -> list[bytes]:
        """Remove and return the oldest broadcasts that fit into a payload."""
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
            process_id, has_messages, broadcasts = _decode_payload(payload)
        except (ValueError, RecursionError):
            return  # From another program or another version.
        if process_id == self._process_id:
            return
        if has_messages:
            subscriber.on_messages_stored()
        for broadcast in broadcasts:
            subscriber.on_broadcast(broadcast)


def _split_broadcast(broadcast: Broadcast) -> list[bytes]:
    """A broadcast as JSON, split by recipients if it is too long for a payload; empty if it is too
    long even for one recipient."""
    whole = encode(broadcast)
    if len(whole) < _MAX_PAYLOAD_BYTES:
        return [whole]
    if len(broadcast.to) < 2:
        return []
    middle = len(broadcast.to) // 2
    halves = broadcast.to[:middle], broadcast.to[middle:]
    return [piece for half in halves for piece in _split_broadcast(evolve(broadcast, to=half))]
