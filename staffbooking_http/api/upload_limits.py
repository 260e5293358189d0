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

from staffbooking_core.domain.shared.rate_limits import RateLimit, RateLimitExceeded, decide

if TYPE_CHECKING:
    from staffbooking_http.api.endpoint import Call

InputT = TypeVar("InputT")
ResultT = TypeVar("ResultT")

MAX_CONCURRENT_UPLOADS = 8
"""Turns at a time, in a process."""
MAX_UPLOADS_PER_USER = 2
"""Calls of one user at a time, wherever they are."""
_MAX_BUFFERED_UPLOAD_BYTES = 256 * 1024 * 1024
"""Of bodies that come, wait or are worked on, in a process."""
SLOT_TIMEOUT_SECONDS = 10.0
"""Seconds that a call may wait for its turn."""
_RETRY_AFTER_PERIOD = timedelta(seconds=2)
"""After which who was refused may come again."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@define(eq=False)
class UploadBody:
    """What a call brings."""

    started_at: datetime
    size_bytes: int = 0
    """Bytes of it that count."""
    timeout: asyncio.Timeout | None = None
    """While it comes."""


class UploadLimiter:
    """Whatever is refused here may come again soon: LimitExceeded."""

    def __init__(
        self,
        max_concurrent: int = MAX_CONCURRENT_UPLOADS,
        max_buffered_bytes: int = _MAX_BUFFERED_UPLOAD_BYTES,
    ) -> None:
        self._max_buffered_bytes = max_buffered_bytes
        self._work_slots = asyncio.Semaphore(max_concurrent)
        self._user_slots = WeakValueDictionary[int, asyncio.Semaphore]()
        self._bodies: list[UploadBody] = []

    async def process(
        self,
        call: Call,
        user_id: int,
        read: Callable[[], Awaitable[InputT]],
        handle: Callable[[InputT], Awaitable[ResultT]],
    ) -> ResultT:
        """Read what a user's call brings, and once it is there work on it in its turn. Raises
        LimitExceeded."""
        async with self.hold_user_slot(user_id, call.now) as body:
            call.receive = self.count_received_bytes(body, call.receive)
            async with self.receive_body(body):
                received = await read()
            async with self.hold_work_slot(call.now):
                return await handle(received)

    @asynccontextmanager
    async def hold_user_slot(self, user_id: int, now: datetime) -> AsyncIterator[UploadBody]:
        """From before a body is read to the answer. Raises LimitExceeded where the user has as
        many as one may have for a while."""
        user_slot = self._user_slots.setdefault(user_id, asyncio.Semaphore(MAX_UPLOADS_PER_USER))
        async with _hold_slot(user_slot, now, MAX_UPLOADS_PER_USER):
            body = UploadBody(now)
            self._bodies.append(body)
            try:
                yield body
            finally:
                self._bodies.remove(body)

    @asynccontextmanager
    async def receive_body(self, body: UploadBody) -> AsyncIterator[None]:
        """While a body is read. Raises LimitExceeded where it has to go."""
        try:
            async with asyncio.timeout(None) as body.timeout:
                yield
        except TimeoutError:
            raise _limit_exceeded(body.started_at, MAX_CONCURRENT_UPLOADS) from None
        finally:
            body.timeout = None

    def count_received_bytes(self, body: UploadBody, receive: Receive) -> Receive:
        """The same, while what comes is counted."""

        async def receive_counted() -> MutableMapping[str, Any]:
            message = await receive()
            if body.timeout is not None:
                body.size_bytes += len(message.get("body", b""))
            while sum(each.size_bytes for each in self._bodies) > self._max_buffered_bytes:
                self._abort_oldest()
            return message

        return receive_counted

    def _abort_oldest(self) -> None:
        """There is one, since only a body that comes grows."""
        oldest = next(body for body in self._bodies if body.timeout is not None)
        assert oldest.timeout is not None
        oldest.timeout.reschedule(asyncio.get_running_loop().time())
        oldest.timeout, oldest.size_bytes = None, 0

    @asynccontextmanager
    async def hold_work_slot(self, now: datetime) -> AsyncIterator[None]:
        """In its turn. Raises LimitExceeded where all are taken for a while."""
        async with _hold_slot(self._work_slots, now, MAX_CONCURRENT_UPLOADS):
            yield


@asynccontextmanager
async def _hold_slot(slots: asyncio.Semaphore, now: datetime, limit: int) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(SLOT_TIMEOUT_SECONDS):
            await slots.acquire()
    except TimeoutError:
        raise _limit_exceeded(now, limit) from None
    try:
        yield
    finally:
        slots.release()


def _limit_exceeded(now: datetime, limit: int) -> RateLimitExceeded:
    return RateLimitExceeded(
        decide(
            RateLimit("files", limit, _RETRY_AFTER_PERIOD),
            limit + 1,
            now + _RETRY_AFTER_PERIOD,
            now,
        )
    )
