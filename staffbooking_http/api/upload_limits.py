"""Calls that bring a file: it is in memory, and work on it holds a thread.

Of one user few are let in at a time. A body comes beside all others, as slowly as it may, and
only once it is there the call takes its turn: so slow senders take nobody else's. What has come
of all bodies has its bound, and where that is reached, whoever has been sending for the longest
goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from attrs import define

from staffbooking_core.domain.shared.rate_limits import LimitExceeded, Rule, verdict

if TYPE_CHECKING:
    from staffbooking_http.api.endpoint import Call

A = TypeVar("A")
B = TypeVar("B")

MOST = 8
"""Turns at a time, in a process."""
MOST_OF_ONE = 2
"""Calls of one user at a time, wherever they are."""
MOST_BYTES = 256 * 1024 * 1024
"""Of bodies that come, wait or are worked on, in a process."""
PATIENCE = 10.0
"""Seconds that a call may wait for its turn."""
PAUSE = timedelta(seconds=2)
"""After which who was refused may come again."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@define(eq=False)
class Body:
    """What a call brings."""

    begun_at: datetime
    size: int = 0
    """Bytes of it that count."""
    deadline: asyncio.Timeout | None = None
    """While it comes."""


class Turns:
    """Whatever is refused here may come again soon: LimitExceeded."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._free = asyncio.Semaphore(most)
        self._places = WeakValueDictionary[int, asyncio.Semaphore]()
        self._bodies: list[Body] = []

    async def carry(
        self,
        call: Call,
        user_id: int,
        read: Callable[[], Awaitable[A]],
        work: Callable[[A], Awaitable[B]],
    ) -> B:
        """Read what a user's call brings, and once it is there work on it in its turn. Raises
        LimitExceeded."""
        async with self.held(user_id, call.now) as body:
            call.receive = self.counting(body, call.receive)
            async with self.coming(body):
                brought = await read()
            async with self.taken(call.now):
                return await work(brought)

    @asynccontextmanager
    async def held(self, user_id: int, now: datetime) -> AsyncIterator[Body]:
        """From before a body is read to the answer. Raises LimitExceeded where the user has as
        many as one may have for a while."""
        place = self._places.setdefault(user_id, asyncio.Semaphore(MOST_OF_ONE))
        async with _acquired(place, now, MOST_OF_ONE):
            body = Body(now)
            self._bodies.append(body)
            try:
                yield body
            finally:
                self._bodies.remove(body)

    @asynccontextmanager
    async def coming(self, body: Body) -> AsyncIterator[None]:
        """While a body is read. Raises LimitExceeded where it has to go."""
        try:
            async with asyncio.timeout(None) as body.deadline:
                yield
        except TimeoutError:
            raise _refused(body.begun_at, MOST) from None
        finally:
            body.deadline = None

    def counting(self, body: Body, receive: Receive) -> Receive:
        """The same, while what comes is counted."""

        async def counted() -> MutableMapping[str, Any]:
            message = await receive()
            if body.deadline is not None:
                body.size += len(message.get("body", b""))
            while sum(each.size for each in self._bodies) > self._most_bytes:
                self._drop_oldest()
            return message

        return counted

    def _drop_oldest(self) -> None:
        """There is one, since only a body that comes grows."""
        oldest = next(body for body in self._bodies if body.deadline is not None)
        assert oldest.deadline is not None
        oldest.deadline.reschedule(asyncio.get_running_loop().time())
        oldest.deadline, oldest.size = None, 0

    @asynccontextmanager
    async def taken(self, now: datetime) -> AsyncIterator[None]:
        """In its turn. Raises LimitExceeded where all are taken for a while."""
        async with _acquired(self._free, now, MOST):
            yield


@asynccontextmanager
async def _acquired(free: asyncio.Semaphore, now: datetime, most: int) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(PATIENCE):
            await free.acquire()
    except TimeoutError:
        raise _refused(now, most) from None
    try:
        yield
    finally:
        free.release()


def _refused(now: datetime, most: int) -> LimitExceeded:
    return LimitExceeded(verdict(Rule("files", most, PAUSE), most + 1, now + PAUSE, now))
