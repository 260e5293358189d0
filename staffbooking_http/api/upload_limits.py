"""Limits on concurrent uploads: a file is held in memory, and processing it holds a thread.

1. A user slot bounds the calls of one user.
2. Bodies are received concurrently, without a work slot, so that slow senders block nobody.
3. When the buffered bytes of all bodies exceed the bound, the oldest unfinished upload is aborted.
4. A complete body waits for a work slot, then is processed.
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
"""Uploads processed at the same time, per process."""
MAX_UPLOADS_PER_USER = 2
"""Concurrent calls of one user, in any phase."""
_MAX_BUFFERED_UPLOAD_BYTES = 256 * 1024 * 1024
"""Bytes of all bodies being received, waiting or processed, per process."""
SLOT_TIMEOUT_SECONDS = 10.0
"""Seconds that a call may wait for a slot."""
_RETRY_AFTER_PERIOD = timedelta(seconds=2)
"""The time after which a refused client may retry."""

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]


@define(eq=False)
class UploadBody:
    """The body of one upload."""

    started_at: datetime
    size_bytes: int = 0
    """Bytes counted against the buffer bound."""
    timeout: asyncio.Timeout | None = None
    """Set while the body is being received."""


class UploadLimiter:
    """Bounds concurrent uploads. Refuses with RateLimitExceeded, after which clients may retry."""

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
        """Read the upload of a user's call, then handle it in a work slot. Raises
        RateLimitExceeded."""
        async with self.hold_user_slot(user_id, call.now) as body:
            call.receive = self.count_received_bytes(body, call.receive)
            async with self.receive_body(body):
                received = await read()
            async with self.hold_work_slot(call.now):
                return await handle(received)

    @asynccontextmanager
    async def hold_user_slot(self, user_id: int, now: datetime) -> AsyncIterator[UploadBody]:
        """Hold a slot of the user from before the body is read until the response. Raises
        RateLimitExceeded if none becomes free within the slot timeout."""
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
        """Mark a body as being received. Raises RateLimitExceeded if it is aborted."""
        try:
            async with asyncio.timeout(None) as body.timeout:
                yield
        except TimeoutError:
            raise _limit_exceeded(body.started_at, MAX_CONCURRENT_UPLOADS) from None
        finally:
            body.timeout = None

    def count_received_bytes(self, body: UploadBody, receive: Receive) -> Receive:
        """Wrap `receive` so that the received bytes are counted."""

        async def receive_counted() -> MutableMapping[str, Any]:
            message = await receive()
            if body.timeout is not None:
                body.size_bytes += len(message.get("body", b""))
            while sum(each.size_bytes for each in self._bodies) > self._max_buffered_bytes:
                self._abort_oldest()
            return message

        return receive_counted

    def _abort_oldest(self) -> None:
        """Abort the oldest upload being received. One exists, since only such bodies grow."""
        oldest = next(body for body in self._bodies if body.timeout is not None)
        assert oldest.timeout is not None
        oldest.timeout.reschedule(asyncio.get_running_loop().time())
        oldest.timeout, oldest.size_bytes = None, 0

    @asynccontextmanager
    async def hold_work_slot(self, now: datetime) -> AsyncIterator[None]:
        """Hold a work slot. Raises RateLimitExceeded if none becomes free in time."""
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
