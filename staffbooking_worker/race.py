"""Waits for the first of several events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio


async def wait_for_first(timeout_seconds: float, *waits: Callable[[], Awaitable[object]]) -> None:
    """Return when the first of `waits` returns or the timeout passes; the others are cancelled."""

    async def wait_and_end(wait: Callable[[], Awaitable[object]]) -> None:
        await wait()
        group.cancel_scope.cancel()

    with anyio.move_on_after(timeout_seconds):
        if len(waits) == 1:  # An idle job waits without a task of its own.
            await waits[0]()
            return
        async with anyio.create_task_group() as group:
            for wait in waits:
                group.start_soon(wait_and_end, wait)
