"""Waiting for the first of several events, in virtual time."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest

from staffbooking_worker.race import wait_for_first
from tests.support.virtual_loop import VirtualTimeLoop

pytestmark = pytest.mark.anyio

HOUR = 3_600.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "asyncio", {"loop_factory": VirtualTimeLoop}


async def test_the_first_event_ends_the_wait() -> None:
    """The first event ends the wait and cancels the other waits."""
    cancelled = []

    async def slow() -> None:
        try:
            await anyio.sleep(2 * HOUR)
        finally:
            cancelled.append(True)

    await wait_for_first(HOUR, slow, partial(anyio.sleep, 7), partial(anyio.sleep, 9))
    assert (anyio.current_time(), cancelled) == (7, [True])


async def test_the_timeout_ends_the_wait() -> None:
    """Without an event the wait ends at its timeout."""
    await wait_for_first(5, anyio.Event().wait, anyio.Event().wait)
    assert anyio.current_time() == 5


async def test_an_event_that_has_happened_ends_the_wait_at_once() -> None:
    """An event that has already happened ends the wait at once."""
    happened = anyio.Event()
    happened.set()
    await wait_for_first(HOUR, anyio.Event().wait, happened.wait)
    assert anyio.current_time() == 0


async def test_a_wait_can_be_cancelled() -> None:
    """A wait that is cancelled from outside ends at once."""
    with anyio.move_on_after(3):
        await wait_for_first(HOUR, anyio.Event().wait)
    assert anyio.current_time() == 3
