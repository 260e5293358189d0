"""Listeners on a chat, and the transports that connect the chats of two processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Protocol

import asyncpg

from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.chat.redis import RedisPubSubTransport
from staffbooking_adapters.chat.shared import PubSubTransport, SharedChat
from staffbooking_adapters.sql.messaging.pubsub import PostgresPubSubTransport
from staffbooking_adapters.testing.pubsub import RecordingSubscriber
from staffbooking_core.ports import PubSub
from staffbooking_core.representations.channel import Broadcast, ServerEvent
from tests.support.postgres import driver_url
from tests.support.redis import RedisServer


@asynccontextmanager
async def listen_to(chat: PubSub) -> AsyncIterator[RecordingSubscriber]:
    """A listener on the broadcasts of other processes."""
    listener = RecordingSubscriber()
    async with chat.subscribe(listener):
        if isinstance(chat, SharedChat):
            await listener.wait_until(lambda: listener.stored_count)
        yield listener


@asynccontextmanager
async def closing_chat(chat: LocalChat) -> AsyncIterator[LocalChat]:
    """Run a chat and close it on exit."""
    try:
        yield chat
    finally:
        await chat.close()


def make_typing_broadcast(*to: int, **data: Any) -> Broadcast:
    return Broadcast(to, ServerEvent.TYPING, data)


class ChatTransport(Protocol):
    """The shared transport between processes, with operator controls."""

    def wire(self) -> PubSubTransport:
        """A transport for one more process."""
        ...

    async def kill_connections(self, *, listening: bool) -> None:
        """Close all listening connections, or all others."""
        ...

    async def count_connections(self, *, listening: bool) -> int:
        """Number of listening connections, or of all others."""
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


@asynccontextmanager
async def open_shared_chats(transport: ChatTransport) -> AsyncIterator[list[SharedChat]]:
    """The chats of two processes with a common transport."""
    async with AsyncExitStack() as stack:
        chats = [SharedChat(transport.wire()) for _ in range(2)]
        for chat in chats:
            stack.push_async_callback(chat.close)
        yield chats
