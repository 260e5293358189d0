"""Who listens to a Chat, and the places where the chats of two processes meet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio
import asyncpg

from staffbooking_adapters.chat.local import LocalChat
from staffbooking_adapters.chat.redis import RedisWire
from staffbooking_adapters.chat.shared import SharedChat, Wire
from staffbooking_adapters.sql.messaging.pubsub import PostgresWire
from staffbooking_core.ports import Chat
from staffbooking_core.representations.channel import Tell, Told
from tests.support.postgres import driver_url
from tests.support.redis import RedisServer

PATIENCE = 10.0
"""Seconds; nobody waits so long unless something is wrong."""


class Listener:
    """Ears that remember what they were told, the oldest first."""

    def __init__(self) -> None:
        self.marks = 0
        """How often it was told that messages were stored."""
        self.tells: list[Tell] = []
        self._news = asyncio.Event()

    def stored(self) -> None:
        self.marks += 1
        self._news.set()

    def told(self, tell: Tell) -> None:
        self.tells.append(tell)
        self._news.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something that word has to bring about."""
        with anyio.fail_after(PATIENCE):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def until_told(self, last: Tell) -> None:
        """Wait for word after which there is none."""
        await self.until(lambda: last in self.tells[-1:])


@asynccontextmanager
async def listening(chat: Chat) -> AsyncIterator[Listener]:
    """Somebody who hears what the others say."""
    listener = Listener()
    async with chat.listen(listener):
        if isinstance(chat, SharedChat):
            await listener.until(lambda: listener.marks)
        yield listener


@asynccontextmanager
async def running(chat: LocalChat) -> AsyncIterator[LocalChat]:
    """The chat of a process that runs until the end."""
    try:
        yield chat
    finally:
        await chat.close()


def typing(*to: int, **data: Any) -> Tell:
    return Tell(to, Told.TYPING, data)


class Place(Protocol):
    """Where processes meet, as its operator sees it."""

    def wire(self) -> Wire:
        """The wire of one more process."""
        ...

    async def kill(self, *, listening: bool) -> None:
        """Cut all connections that listen, or all others."""
        ...

    async def count(self, *, listening: bool) -> int:
        """How many connections listen, or don't."""
        ...


class PostgresPlace:
    def __init__(self, url: str) -> None:
        self.url = url

    def wire(self) -> Wire:
        return PostgresWire(self.url)

    async def kill(self, *, listening: bool) -> None:
        await self._ask("count(pg_terminate_backend(pid))", listening)

    async def count(self, *, listening: bool) -> int:
        return await self._ask("count(*)", listening)

    async def _ask(self, what: str, listening: bool) -> int:
        connection = await asyncpg.connect(driver_url(self.url))
        try:
            found: int = await connection.fetchval(
                f"SELECT {what} FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() AND (query LIKE 'LISTEN%') = $1",
                listening,
            )
            return found
        finally:
            await connection.close()


class RedisPlace:
    def __init__(self, server: RedisServer) -> None:
        self.server = server

    def wire(self) -> Wire:
        return RedisWire(self.server.url, "staffbooking:tests")

    async def kill(self, *, listening: bool) -> None:
        async with self.server.client() as operator:
            kind = "pubsub" if listening else "normal"
            await operator.client_kill_filter(_type=kind, skipme=True)

    async def count(self, *, listening: bool) -> int:
        async with self.server.client() as operator:
            clients = await operator.client_list(_type="pubsub" if listening else "normal")
            return len(clients) - (not listening)
