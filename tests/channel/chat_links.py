"""Who listens to a Chat, and the places where the chats of two processes meet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio
import asyncpg

from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.chat.redis import RedisPubSubTransport
from staffbooking_adapters.chat.shared import PubSubTransport, SharedChat
from staffbooking_adapters.sql.messaging.pubsub import PostgresPubSubTransport
from staffbooking_core.ports import PubSub
from staffbooking_core.representations.channel import Broadcast, ServerEvent
from tests.support.postgres import driver_url
from tests.support.redis import RedisServer

WAIT_TIMEOUT_SECONDS = 10.0
"""Seconds; nobody waits so long unless something is wrong."""


class RecordingListener:
    """Ears that remember what they were told, the oldest first."""

    def __init__(self) -> None:
        self.stored_count = 0
        """How often it was told that messages were stored."""
        self.broadcasts: list[Broadcast] = []
        self._changed = asyncio.Event()

    def on_messages_stored(self) -> None:
        self.stored_count += 1
        self._changed.set()

    def on_broadcast(self, broadcast: Broadcast) -> None:
        self.broadcasts.append(broadcast)
        self._changed.set()

    async def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait for something that word has to bring about."""
        with anyio.fail_after(WAIT_TIMEOUT_SECONDS):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def wait_until_last(self, last: Broadcast) -> None:
        """Wait for word after which there is none."""
        await self.wait_until(lambda: last in self.broadcasts[-1:])


@asynccontextmanager
async def listen_to(chat: PubSub) -> AsyncIterator[RecordingListener]:
    """Somebody who hears what the others say."""
    listener = RecordingListener()
    async with chat.subscribe(listener):
        if isinstance(chat, SharedChat):
            await listener.wait_until(lambda: listener.stored_count)
        yield listener


@asynccontextmanager
async def closing_chat(chat: LocalChat) -> AsyncIterator[LocalChat]:
    """The chat of a process that runs until the end."""
    try:
        yield chat
    finally:
        await chat.close()


def make_typing_broadcast(*to: int, **data: Any) -> Broadcast:
    return Broadcast(to, ServerEvent.TYPING, data)


class ChatTransport(Protocol):
    """Where processes meet, as its operator sees it."""

    def wire(self) -> PubSubTransport:
        """The wire of one more process."""
        ...

    async def kill_connections(self, *, listening: bool) -> None:
        """Cut all connections that listen, or all others."""
        ...

    async def count_connections(self, *, listening: bool) -> int:
        """How many connections listen, or don't."""
        ...


class PostgresTransport:
    def __init__(self, url: str) -> None:
        self.url = url

    def wire(self) -> PubSubTransport:
        return PostgresPubSubTransport(self.url)

    async def kill_connections(self, *, listening: bool) -> None:
        await self._query_connections("count(pg_terminate_backend(pid))", listening)

    async def count_connections(self, *, listening: bool) -> int:
        return await self._query_connections("count(*)", listening)

    async def _query_connections(self, expression: str, listening: bool) -> int:
        connection = await asyncpg.connect(driver_url(self.url))
        try:
            found: int = await connection.fetchval(
                f"SELECT {expression} FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND (query LIKE 'LISTEN%') = $1",
                listening,
            )
            return found
        finally:
            await connection.close()


class RedisTransport:
    def __init__(self, server: RedisServer) -> None:
        self.server = server

    def wire(self) -> PubSubTransport:
        return RedisPubSubTransport(self.server.url, "staffbooking:tests")

    async def kill_connections(self, *, listening: bool) -> None:
        async with self.server.client() as operator:
            kind = "pubsub" if listening else "normal"
            await operator.client_kill_filter(_type=kind, skipme=True)

    async def count_connections(self, *, listening: bool) -> int:
        async with self.server.client() as operator:
            clients = await operator.client_list(_type="pubsub" if listening else "normal")
            return len(clients) - (not listening)
