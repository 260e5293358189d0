"""The batcher: items that wait at the same time are flushed together, and every caller gets a
result."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import anyio
import pytest

from staffbooking_adapters.batcher import Batcher
from staffbooking_core.errors import StoreUnavailable

pytestmark = pytest.mark.anyio

MAX_BATCH_SIZE = 3
RESULT_TIMEOUT_SECONDS = 20.0


class GatedFlush:
    """Upper-cases items once its gate is open, and records the batches it was given."""

    def __init__(self) -> None:
        self.batches: list[str] = []
        self.gate = anyio.Event()
        self.errors: dict[str, BaseException] = {}
        """Errors raised for a batch with that item, each time."""
        self.task: asyncio.Task[object] | None = None

    async def __call__(self, items: Sequence[str]) -> Sequence[str | Exception]:
        self.batches.append("".join(items))
        self.task = asyncio.current_task()
        await self.gate.wait()
        for item in items:
            if item in self.errors:
                raise self.errors[item]
        return [KeyError(item) if item == "?" else item.upper() for item in items]


@pytest.fixture
def flush() -> GatedFlush:
    return GatedFlush()


@pytest.fixture
def batcher(flush: GatedFlush) -> Batcher[str, str]:
    return Batcher(flush, max_batch_size=MAX_BATCH_SIZE)


async def submit(batcher: Batcher[str, str], items: str) -> list[asyncio.Task[str]]:
    """Submits items concurrently; they are waiting when this returns."""
    tasks = [asyncio.create_task(batcher.submit(item)) for item in items]
    await anyio.wait_all_tasks_blocked()
    return tasks


async def results(tasks: Sequence[asyncio.Task[str]]) -> list[object]:
    """The result of each item, or the type of its error."""
    with anyio.fail_after(RESULT_TIMEOUT_SECONDS):
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    return [type(each) if isinstance(each, BaseException) else each for each in outcomes]


async def test_each_caller_gets_the_result_of_its_item(
    batcher: Batcher[str, str], flush: GatedFlush
) -> None:
    """Items submitted in the same loop iteration share one flush, in order."""
    flush.gate.set()
    assert await results(await submit(batcher, "abc")) == ["A", "B", "C"]
    assert flush.batches == ["abc"]


async def test_items_that_arrive_during_a_flush_share_the_next(
    batcher: Batcher[str, str], flush: GatedFlush
) -> None:
    """Only one flush runs at a time; items that arrive meanwhile share the next."""
    first = await submit(batcher, "a")
    others = await submit(batcher, "bc")
    assert flush.batches == ["a"]
    flush.gate.set()
    assert await results(first + others) == ["A", "B", "C"]
    assert flush.batches == ["a", "bc"]


async def test_a_batch_is_bounded(batcher: Batcher[str, str], flush: GatedFlush) -> None:
    """More items than a batch holds are flushed in several batches, in order."""
    flush.gate.set()
    assert await results(await submit(batcher, "abcdefg")) == [*"ABCDEFG"]
    assert flush.batches == ["abc", "def", "g"]


async def test_a_returned_error_is_raised_only_to_its_caller(
    batcher: Batcher[str, str], flush: GatedFlush
) -> None:
    """An error returned for an item is raised only to its caller, and the batch is not flushed
    again."""
    flush.gate.set()
    assert await results(await submit(batcher, "a?c")) == ["A", KeyError, "C"]
    assert flush.batches == ["a?c"]


async def test_an_item_that_cannot_be_flushed_does_not_affect_others(
    batcher: Batcher[str, str], flush: GatedFlush
) -> None:
    """After an unexpected error the items of its batch, and no others, are flushed one by one."""
    flush.gate.set()
    flush.errors["b"] = ArithmeticError()
    assert await results(await submit(batcher, "abcdef")) == [
        "A", ArithmeticError, "C", "D", "E", "F",
    ]  # fmt: skip
    assert flush.batches == ["abc", "a", "b", "c", "def"]


async def test_a_flush_must_return_one_result_per_item() -> None:
    """A flush that returns fewer results than items raises an error, and is not repeated."""
    batches: list[str] = []

    async def flush(items: Sequence[str]) -> Sequence[str]:
        batches.append("".join(items))
        return []

    batcher: Batcher[str, str] = Batcher(flush, max_batch_size=MAX_BATCH_SIZE)
    assert await results(await submit(batcher, "ab")) == [AssertionError] * 2
    assert batches == ["ab"]


async def test_an_unavailable_store_fails_all_waiting_items(
    batcher: Batcher[str, str], flush: GatedFlush
) -> None:
    """If the store is unavailable all waiting items fail at once, and none is flushed alone."""
    flush.gate.set()
    flush.errors["a"] = StoreUnavailable()
    assert await results(await submit(batcher, "abcdef")) == [StoreUnavailable] * 6
    assert flush.batches == ["abc"]


async def test_an_unavailable_store_ends_the_flushing_one_by_one() -> None:
    """If the store becomes unavailable the rest of the batch fails at once, and the next batch is
    whole again."""
    batches: list[str] = []

    async def flush(items: Sequence[str]) -> Sequence[str]:
        batches.append("".join(items))
        if len(batches) == 1:
            raise ArithmeticError
        if items == ["b"]:
            raise StoreUnavailable
        return items

    batcher: Batcher[str, str] = Batcher(flush, max_batch_size=MAX_BATCH_SIZE)
    assert await results(await submit(batcher, "abc")) == ["a"] + [StoreUnavailable] * 2
    assert await results(await submit(batcher, "de")) == ["d", "e"]
    assert batches == ["abc", "a", "b", "de"]


async def test_items_that_arrive_during_a_flush_do_not_fail_with_it(
    batcher: Batcher[str, str], flush: GatedFlush
) -> None:
    """Items that arrive during a failing flush are flushed separately."""
    flush.errors["a"] = StoreUnavailable()
    early = await submit(batcher, "a")
    late = await submit(batcher, "b")
    flush.gate.set()
    assert await results(early + late) == [StoreUnavailable, "B"]


async def test_a_caller_that_is_cancelled_does_not_cancel_the_flush(
    batcher: Batcher[str, str], flush: GatedFlush
) -> None:
    """Cancelling one caller leaves the flush running, and the other callers get their results."""
    tasks = await submit(batcher, "ab")
    tasks[0].cancel()
    flush.gate.set()
    assert await results(tasks) == [asyncio.CancelledError, "B"]
    assert flush.batches == ["ab"]


async def test_a_cancelled_flush_fails_all_waiting_items(
    batcher: Batcher[str, str], flush: GatedFlush
) -> None:
    """All waiting items fail when the flush is cancelled; later items are flushed."""
    tasks = await submit(batcher, "abcde")
    assert flush.task is not None
    flush.task.cancel()
    assert await results(tasks) == [StoreUnavailable] * 5
    flush.gate.set()
    assert await results(await submit(batcher, "f")) == ["F"]


async def test_close_waits_for_all_results(batcher: Batcher[str, str], flush: GatedFlush) -> None:
    """Closing waits for all batches, not only the one being flushed."""
    tasks = await submit(batcher, "abcd")
    closing = asyncio.create_task(batcher.close())
    await anyio.wait_all_tasks_blocked()
    assert not closing.done()
    flush.gate.set()
    with anyio.fail_after(RESULT_TIMEOUT_SECONDS):
        await closing
    assert flush.batches == ["abc", "d"]
    assert await results(tasks) == [*"ABCD"]


async def test_close_without_items_returns_at_once(batcher: Batcher[str, str]) -> None:
    """Closing returns at once without waiting items."""
    with anyio.fail_after(RESULT_TIMEOUT_SECONDS):
        await batcher.close()
