"""What waits at the same moment goes on together: one flush at a time, nobody left out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from attrs import define, field, frozen

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

    `flush` sets the answer of each; what it leaves or raises is the error of those left.
    """

    flush: Callable[[Sequence[Waiting[Q, A]]], Awaitable[None]]
    _waiting: list[Waiting[Q, A]] = field(factory=list)
    _running: asyncio.Task[None] | None = None

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
                await self._answer(batch)
        finally:
            self._running = None

    async def _answer(self, batch: Sequence[Waiting[Q, A]]) -> None:
        failure: BaseException = RuntimeError("left without an answer")
        try:
            await self.flush(batch)
        except Exception as error:
            failure = error
        except asyncio.CancelledError:
            failure = asyncio.CancelledError()
            raise
        finally:
            for waiting in batch:
                waiting.refuse(failure)
