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


async def test_the_first_ends_the_wait() -> None:
    """The other waits are cancelled."""
    given_up = []

    async def slow() -> None:
        try:
            await anyio.sleep(2 * HOUR)
        finally:
            given_up.append(True)

    await wait_for_first(HOUR, slow, partial(anyio.sleep, 7), partial(anyio.sleep, 9))
    assert (anyio.current_time(), given_up) == (7, [True])


async def test_time_ends_the_wait() -> None:
    """Without an event the wait ends at its timeout."""
    await wait_for_first(5, anyio.Event().wait, anyio.Event().wait)
    assert anyio.current_time() == 5


async def test_what_has_come_already_is_not_waited_for() -> None:
    """An event that has already happened ends the wait at once."""
    come = anyio.Event()
    come.set()
    await wait_for_first(HOUR, anyio.Event().wait, come.wait)
    assert anyio.current_time() == 0


async def test_who_waits_may_be_given_up_itself() -> None:
    """A cancelled wait leaves no task running."""
    with anyio.move_on_after(3):
        await wait_for_first(HOUR, anyio.Event().wait)
    assert anyio.current_time() == 3
