"""Waits that can be ended early, in virtual time."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest

from staffbooking_worker.waits import Waits
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio

HOUR = 3_600.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def test_the_timeout_ends_a_wait() -> None:
    """Without an event a wait ends at its timeout."""
    await Waits().wait(5, 0)
    assert anyio.current_time() == 5


async def test_what_is_waited_for_ends_a_wait() -> None:
    """A wait ends when what it waits for has happened."""
    await Waits().wait(HOUR, 0, partial(anyio.sleep, 7))
    assert anyio.current_time() == 7


async def test_all_waits_are_ended() -> None:
    """`end_all` ends all waits in progress, and cancels what they wait for."""
    waits, cancelled = Waits(), []

    async def sleep() -> None:
        try:
            await anyio.sleep(2 * HOUR)
        finally:
            cancelled.append(True)

    async with anyio.create_task_group() as group:
        group.start_soon(waits.wait, HOUR, 0, sleep)
        group.start_soon(waits.wait, HOUR, 0, sleep)
        await anyio.sleep(3)
        waits.end_all()
    assert (anyio.current_time(), cancelled) == (3, [True, True])


async def test_an_end_before_the_wait_counts() -> None:
    """A wait does not begin if all waits were ended since its caller has looked; the next does."""
    waits = Waits()
    waits.end_all()
    await waits.wait(HOUR, 0)
    assert anyio.current_time() == 0
    await waits.wait(5, waits.end_count)
    assert anyio.current_time() == 5


async def test_an_event_ends_all_waits() -> None:
    """After the event that `end_all_after` waits for, no wait goes on or begins."""
    waits, stop = Waits(), anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(waits.end_all_after, stop)
        group.start_soon(waits.wait, HOUR, 0)
        await anyio.sleep(3)
        stop.set()
    await waits.wait(HOUR, 0)
    assert anyio.current_time() == 3


async def test_a_wait_can_be_cancelled() -> None:
    """A wait that is cancelled from outside ends at once."""
    with anyio.move_on_after(3):
        await Waits().wait(HOUR, 0)
    assert anyio.current_time() == 3
