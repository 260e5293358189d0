"""Connections of either driver, opened as they are needed and kept for the next caller.

asyncpg's own pool makes a task and a wrapper of every loan, which doubled the processor
time of a small query; and SQLite needs the same for its readers and its one writer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from staffbooking_core.errors import Unavailable

C = TypeVar("C")

PATIENCE = 5.0
"""Seconds to wait for a connection before the database counts as out of reach."""


class Pool(Generic[C]):
    """At most `size` connections, lent first come first served, the latest used first."""

    def __init__(
        self,
        size: int,
        connect: Callable[[], Awaitable[C]],
        disconnect: Callable[[C], Awaitable[None]],
        is_alive: Callable[[C], bool],
    ) -> None:
        self._size = size
        self._connect = connect
        self._disconnect = disconnect
        self._is_alive = is_alive
        self._free = asyncio.Semaphore(size)
        self._idle: list[C] = []
        self._open: set[C] = set()
        self._closed = False

    async def acquire(self) -> C:
        """A connection for the caller alone, to be given to `release`."""
        if self._free.locked():
            await self._wait()
        else:
            await self._free.acquire()
        while self._idle:
            connection = self._idle.pop()
            if self._is_alive(connection):
                return connection
            self._open.discard(connection)
        try:
            connection = await self._connect()
        except BaseException:
            self._free.release()
            raise
        self._open.add(connection)
        return connection

    def release(self, connection: C) -> None:
        """Take a connection back, clean; a dead one is forgotten."""
        if self._is_alive(connection):
            self._idle.append(connection)
        else:
            self._open.discard(connection)
        self._free.release()

    async def close(self) -> None:
        """Lend no more; close what is idle now or soon, and then the rest."""
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(PATIENCE):
                for _ in range(self._size):
                    await self._free.acquire()
        except TimeoutError:
            pass
        while self._open:
            await self._disconnect(self._open.pop())

    async def _wait(self) -> None:
        if self._closed:
            raise Unavailable("the database is closed")
        try:
            async with asyncio.timeout(PATIENCE):
                await self._free.acquire()
        except TimeoutError:
            raise Unavailable("every connection is busy") from None
