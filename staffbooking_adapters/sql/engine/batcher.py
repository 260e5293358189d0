"""What waits at the same moment goes on together: one flush at a time, nobody left out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from attrs import define, field, frozen

from staffbooking_core.errors import StoreUnavailable

Q = TypeVar("Q")
A = TypeVar("A")

MAX_BATCH_SIZE = 500
"""So many questions go into a flush."""


@frozen(eq=False)
class PendingRequest(Generic[Q, A]):
    """A question, and the future that its caller awaits, unless they have gone."""

    request: Q
    result: asyncio.Future[A]

    def resolve(self, result: A) -> None:
        if not self.result.done():
            self.result.set_result(result)

    def reject(self, error: BaseException) -> None:
        if not self.result.done():
            self.result.set_exception(error)


@define
class RequestBatcher(Generic[Q, A]):
    """Questions are gathered while a flush runs; the next takes all of them.

    `flush` answers each; what it raises is the answer of those that are left.
    """

    flush: Callable[[Sequence[PendingRequest[Q, A]]], Awaitable[None]]
    _pending: list[PendingRequest[Q, A]] = field(factory=list, init=False)
    _flush_task: asyncio.Task[None] | None = field(default=None, init=False)

    async def submit(self, request: Q) -> A:
        pending: PendingRequest[Q, A] = PendingRequest(
            request, asyncio.get_running_loop().create_future()
        )
        self._pending.append(pending)
        if self._flush_task is None:
            self._flush_task = asyncio.create_task(self._flush_all())
        return await pending.result

    async def close(self) -> None:
        """Wait until every question has its answer."""
        while self._flush_task is not None:
            await asyncio.wait([self._flush_task])

    async def _flush_all(self) -> None:
        try:
            while self._pending:
                batch, self._pending = (
                    self._pending[:MAX_BATCH_SIZE],
                    self._pending[MAX_BATCH_SIZE:],
                )
                await self._flush_batch(batch)
        finally:
            self._flush_task = None

    async def _flush_batch(self, batch: Sequence[PendingRequest[Q, A]]) -> None:
        failure: Exception = StoreUnavailable("the process is stopping")
        try:
            await self.flush(batch)
        except Exception as error:
            failure = error
        finally:
            for pending in batch:
                pending.reject(failure)
