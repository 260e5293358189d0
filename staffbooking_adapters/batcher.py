"""Batching: items that arrive during a flush share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from staffbooking_adapters.database_time import current_database_time, set_separate_database_time
from staffbooking_core.errors import StoreUnavailable

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Batcher(Generic[_Item, _Result]):
    """Collects items and flushes them together; each caller gets the result of its own item.

    One flush runs at a time, the next starts when it has returned, and items keep their order.
    `flush` returns a result, or the error to raise, for each item in order. When it raises
    instead, the items of that batch are flushed again one by one, so that an item that cannot be
    flushed does not fail the others; a flush that raises must therefore have changed nothing, or be
    safe to repeat. StoreUnavailable is not retried: it is raised to all callers that were waiting
    when the flush began, since each would wait for the same timeout.

    A caller that is cancelled does not cancel the flush: its item may still be flushed.
    """

    def __init__(
        self,
        flush: Callable[[Sequence[_Item]], Awaitable[Sequence[_Result | Exception]]],
        *,
        max_batch_size: int,
    ) -> None:
        self._flush = flush
        self._max_batch_size = max_batch_size
        self._pending: list[tuple[_Item, asyncio.Future[_Result]]] = []
        """Items without a result, in order of arrival; those being flushed come first."""
        self._flush_task: asyncio.Task[None] | None = None

    async def submit(self, item: _Item) -> _Result:
        """The result of the item, once it is flushed. Raises the error that `flush` returned or
        raised for it, and StoreUnavailable when the flush was cancelled, or when the caller's
        database time is spent: its item may still be flushed."""
        budget = current_database_time()
        budget.remaining()
        future: asyncio.Future[_Result] = asyncio.get_running_loop().create_future()
        self._pending.append((item, future))
        if self._flush_task is None or self._flush_task.done():
            self._flush_task = asyncio.create_task(self._flush_pending())
        return await budget.wait_for(future)

    async def close(self) -> None:
        """Wait until every item has its result."""
        while self._flush_task is not None and not self._flush_task.done():
            await asyncio.wait([self._flush_task])

    async def _flush_pending(self) -> None:
        one_by_one_count = 0
        try:
            while self._pending:
                pending_count = len(self._pending)
                batch_size = 1 if one_by_one_count else self._max_batch_size
                items = [item for item, _ in self._pending[:batch_size]]
                results: Sequence[_Result | Exception]
                budget = set_separate_database_time()
                try:
                    results = await self._flush(items)
                except StoreUnavailable as error:
                    results = [error] * pending_count
                except Exception as error:
                    if len(items) > 1:
                        one_by_one_count = len(items)
                        continue
                    results = [error]
                else:
                    if len(results) != len(items):
                        # The flush may have changed something, so it is not repeated.
                        wrong = AssertionError("a flush returns one result per item")
                        results = [wrong] * len(items)
                finally:
                    budget.is_over = True
                self._resolve_first(results)
                one_by_one_count = max(0, one_by_one_count - len(results))
        finally:
            if self._pending:
                stopping = StoreUnavailable("the process is stopping")
                self._resolve_first([stopping] * len(self._pending))

    def _resolve_first(self, results: Sequence[_Result | Exception]) -> None:
        resolved = self._pending[: len(results)]
        del self._pending[: len(results)]
        for (_, future), result in zip(resolved, results, strict=True):
            if future.done():
                continue  # Its caller waits no longer.
            if isinstance(result, Exception):
                future.set_exception(result)
            else:
                future.set_result(result)
