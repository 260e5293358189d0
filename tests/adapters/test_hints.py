"""Hints within a process, on a loop with virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

from staffbooking_adapters.hints import LocalHints
from staffbooking_core.ports import Hint
from tests.support.virtual_loop import VirtualTimeLoop

T = TypeVar("T")

DAY = 86_400.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a new loop, whose time passes only while all tasks wait."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)


def passed() -> float:
    """Seconds since the loop was created."""
    return asyncio.get_running_loop().time()


def test_hints_are_counted_by_kind() -> None:
    """Counts start at zero and are kept per kind."""
    hints = LocalHints()
    assert {hints.count(hint) for hint in Hint} == {0}

    hints.give(Hint.EVENTS)
    hints.give(Hint.EVENTS)

    assert (hints.count(Hint.EVENTS), hints.count(Hint.DELIVERIES)) == (2, 0)


def test_a_hint_wakes_all_waiters() -> None:
    """A hint wakes all waiters at once."""

    async def work() -> float:
        hints = LocalHints()
        waiting = [asyncio.create_task(hints.wait(Hint.EVENTS, 0, DAY)) for _ in range(100)]
        await asyncio.sleep(1)
        hints.give(Hint.EVENTS)
        await asyncio.gather(*waiting)
        return passed()

    assert run(work()) == 1


def test_a_hint_before_the_wait_ends_it() -> None:
    """A hint given between reading the count and waiting ends the wait at once."""

    async def work() -> float:
        hints = LocalHints()
        count_before = hints.count(Hint.EVENTS)
        hints.give(Hint.EVENTS)
        await hints.wait(Hint.EVENTS, count_before, DAY)
        return passed()

    assert run(work()) == 0


def test_a_wait_without_hints_times_out() -> None:
    """Without a hint, or with hints of another kind or too few, a wait ends at its timeout."""

    async def work() -> float:
        hints = LocalHints()
        loop = asyncio.get_running_loop()
        loop.call_later(1, hints.give, Hint.DELIVERIES)
        loop.call_later(2, hints.give, Hint.EVENTS)
        await hints.wait(Hint.EVENTS, 1, 60)
        return passed()

    assert run(work()) == pytest.approx(60)


def test_a_waiter_can_be_cancelled() -> None:
    """Cancelling one waiter does not prevent a hint from waking another."""

    async def work() -> bool:
        hints = LocalHints()
        cancelled_waiter, waiter = (
            asyncio.create_task(hints.wait(Hint.EVENTS, 0, DAY)) for _ in range(2)
        )
        await asyncio.sleep(1)
        cancelled_waiter.cancel()
        hints.give(Hint.EVENTS)
        await waiter
        return cancelled_waiter.cancelled()

    assert run(work())


def test_a_waiter_woken_and_cancelled_at_once_is_cancelled() -> None:
    """A hint does not swallow a simultaneous cancellation."""

    async def work() -> bool:
        hints = LocalHints()
        waiting = asyncio.create_task(hints.wait(Hint.EVENTS, 0, DAY))
        await asyncio.sleep(1)
        hints.give(Hint.EVENTS)
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert run(work())


def test_a_finished_wait_leaves_no_waiter() -> None:
    """A wait that was woken, cancelled or timed out leaves no waiter."""

    async def work() -> bool:
        hints, untouched = LocalHints(), LocalHints()
        for each in (hints, untouched):
            each.give(Hint.EVENTS)
        await hints.wait(Hint.EVENTS, 1, 1)
        woken, cancelled = (asyncio.create_task(hints.wait(Hint.EVENTS, n, DAY)) for n in (1, 2))
        await asyncio.sleep(1)
        hints.give(Hint.EVENTS)
        untouched.give(Hint.EVENTS)
        await woken
        cancelled.cancel()
        await asyncio.wait([cancelled])
        return vars(hints) == vars(untouched)

    assert run(work())


def test_hints_outlive_a_loop() -> None:
    """Hints work on one event loop after another."""
    hints = LocalHints()
    run(hints.wait(Hint.EVENTS, 0, 1))
    hints.give(Hint.EVENTS)

    async def work() -> float:
        await hints.wait(Hint.EVENTS, 0, DAY)
        await hints.wait(Hint.EVENTS, 1, 1)
        return passed()

    assert run(work()) == 1
