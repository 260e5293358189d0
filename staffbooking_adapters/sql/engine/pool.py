"""Connections of either driver, opened as needed and kept for the next caller.

asyncpg's own pool creates a task and a wrapper for each loan, which doubled the processor time of a
small query; SQLite needs the same for its readers and its one writer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_adapters.sql.engine.connection import await_uninterrupted
from staffbooking_core.errors import StoreUnavailable

C = TypeVar("C")

CLOSE_TIMEOUT_SECONDS = 5.0
"""Seconds to wait for lent connections before a pool that is closed cuts them."""


class Pool(Generic[C]):
    """A pool of at most `size` connections. Callers are served in order; the connection used
    last is reused first."""

    def __init__(
        self,
        size: int,
        connect: Callable[[DatabaseTime], Awaitable[C]],
        disconnect: Callable[[C], Awaitable[None]],
        is_alive: Callable[[C], bool],
    ) -> None:
        self._size = size
        self._connect = connect
        self._disconnect = disconnect
        self._is_alive = is_alive
        self._free_slots = size
        """Number of connections that may still be acquired; at 0, callers queue."""
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._idle_connections: list[C] = []
        self._open_connections: set[C] = set()
        self._is_closed = False
        """Whether new callers are refused."""
        self._is_cut = False
        """Whether the open connections were closed, lent ones too."""

    async def acquire(self, budget: DatabaseTime) -> C:
        """Acquire a connection for exclusive use; return it with `release`.

        Raises StoreUnavailable when the budget is spent, or if the pool is closed.
        """
        if self._is_closed:
            raise StoreUnavailable("the database is closed")
        if self._free_slots:
            self._free_slots -= 1
        else:
            await self._wait_for_slot(budget)
        while self._idle_connections:
            connection = self._idle_connections.pop()
            if self._is_alive(connection):
                return connection
            self._open_connections.discard(connection)
        try:
            connection = await self._connect(budget)
        except BaseException:
            self._release_slot()
            raise
        if self._is_cut:  # Nothing would close a connection opened since.
            self._release_slot()
            await await_uninterrupted(self._disconnect(connection))
            raise StoreUnavailable("the database is closed")
        self._open_connections.add(connection)
        return connection

    def release(self, connection: C) -> None:
        """Return a connection without an open transaction. A dead one is dropped when it would be
        lent again."""
        self._idle_connections.append(connection)
        self._release_slot()

    async def close(self) -> None:
        """Close the pool: refuse new callers, wait until all connections are returned or
        CLOSE_TIMEOUT_SECONDS have passed, then close them. A cancellation ends only the wait."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            budget = DatabaseTime(CLOSE_TIMEOUT_SECONDS)
            for _ in range(self._size - self._take_free_slots()):
                await self._wait_for_slot(budget)
        except StoreUnavailable:
            pass
        finally:
            self._is_cut = True
            await await_uninterrupted(self._disconnect_all())

    async def _disconnect_all(self) -> None:
        while self._open_connections:
            await self._disconnect(self._open_connections.pop())

    def _take_free_slots(self) -> int:
        taken, self._free_slots = self._free_slots, 0
        return taken

    async def _wait_for_slot(self, budget: DatabaseTime) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await budget.wait_for(waiter)
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self._release_slot()  # Assigned at the moment of the cancellation.
            raise

    def _release_slot(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
        self._free_slots += 1
