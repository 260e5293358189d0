"""Turns of calls that bring a file: it is in memory, and work on it holds a thread."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from staffbooking_core.errors import Unavailable

MOST = 8
"""At a time, in a process."""
MOST_OF_ONE = 2
"""Of one user, held or waited for: slow senders take nobody else's."""
PATIENCE = 10.0
"""Seconds that a call may wait for those before it."""


class Turns:
    """Taken before a body is read, and held to the answer."""

    def __init__(self, most: int = MOST) -> None:
        self._free = asyncio.Semaphore(most)
        self._users: list[int] = []

    @asynccontextmanager
    async def taken(self, user_id: int) -> AsyncIterator[None]:
        """In its turn. Raises Unavailable: at once where the user has as many as one may have,
        and after a while where all are taken."""
        if self._users.count(user_id) >= MOST_OF_ONE:
            raise Unavailable("too many files of one user at once")
        self._users.append(user_id)
        try:
            await self._wait()
            try:
                yield
            finally:
                self._free.release()
        finally:
            self._users.remove(user_id)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._free.acquire()
        except TimeoutError:
            raise Unavailable("too many files at once") from None
