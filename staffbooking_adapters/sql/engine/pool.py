"""Connections of either driver, opened as they are needed and kept for the next caller.

asyncpg's own pool makes a task and a wrapper of every loan, which doubled the processor
time of a small query; and SQLite needs the same for its readers and its one writer.
"""

from __future__ import annotations

import asyncio
from collections import deque
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
        self._free = size
        """How many more may be lent; while it is 0 callers wait in line."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[C] = []
        self._open: set[C] = set()
        self._closed = False

    async def acquire(self) -> C:
        """A connection for the caller alone, to be given to `release`."""
        await self._take_turn()
        while self._idle:
            connection = self._idle.pop()
            if self._is_alive(connection):
                return connection
            self._open.discard(connection)
        try:
            connection = await self._connect()
        except BaseException:
            self._pass_on()
            raise
        self._open.add(connection)
        return connection

    def release(self, connection: C) -> None:
        """Take a connection back, clean; a dead one is forgotten."""
        if self._is_alive(connection):
            self._idle.append(connection)
        else:
            self._open.discard(connection)
        self._pass_on()

    async def close(self) -> None:
        """Lend no more; close what is idle now or soon, and then the rest."""
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(PATIENCE):
                for _ in range(self._size):
                    await self._take_turn(closing=True)
        except (TimeoutError, Unavailable):
            pass
        while self._open:
            await self._disconnect(self._open.pop())

    async def _take_turn(self, *, closing: bool = False) -> None:
        if self._free:
            self._free -= 1
            return
        if self._closed and not closing:
            raise Unavailable("the database is closed")
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        # A bare timer: asyncio.timeout costs as much as the rest of a small query's way here.
        timer = loop.call_later(PATIENCE, _give_up, turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._pass_on()  # It was our turn at the very moment of the cancellation.
            raise
        finally:
            timer.cancel()

    def _pass_on(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1


def _give_up(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(Unavailable("every connection is busy"))
