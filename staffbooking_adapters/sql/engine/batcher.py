"""What waits at the same moment goes on together: one flush at a time, nobody left out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from attrs import define, field, frozen

from staffbooking_core.errors import Unavailable

Q = TypeVar("Q")
A = TypeVar("A")

MOST = 500
"""So many questions go into a flush."""


@frozen(eq=False)
class Waiting(Generic[Q, A]):
    """A question, and the future that its caller awaits, unless they have gone."""

    question: Q
    answer: asyncio.Future[A]

    def give(self, answer: A) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)

    def refuse(self, error: BaseException) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@define
class Lane(Generic[Q, A]):
    """Questions are gathered while a flush runs; the next takes all of them.

    `flush` answers each; what it raises is the answer of those that are left.
    """

    flush: Callable[[Sequence[Waiting[Q, A]]], Awaitable[None]]
    _waiting: list[Waiting[Q, A]] = field(factory=list, init=False)
    _running: asyncio.Task[None] | None = field(default=None, init=False)

    async def ask(self, question: Q) -> A:
        waiting: Waiting[Q, A] = Waiting(question, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await waiting.answer

    async def close(self) -> None:
        """Wait until every question has its answer."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
                await self._flush(batch)
        finally:
            self._running = None

    async def _flush(self, batch: Sequence[Waiting[Q, A]]) -> None:
        failure: Exception = Unavailable("the process is stopping")
        try:
            await self.flush(batch)
        except Exception as error:
            failure = error
        finally:
            for waiting in batch:
                waiting.refuse(failure)
