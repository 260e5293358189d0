"""Hints within one process."""

from __future__ import annotations

import asyncio

import anyio

from staffbooking_core.ports import Hint


class LocalHints:
    """Implements `Hints` for one process; any number of tasks may wait."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(Hint, 0)
        # In their order, so that simulated histories repeat.
        self._waiters: dict[Hint, dict[asyncio.Future[None], None]] = {hint: {} for hint in Hint}

    def give(self, hint: Hint) -> None:
        """Count a hint and wake its waiters. Cheap; never fails."""
        self._counts[hint] += 1
        for woken in self._waiters[hint]:
            if not woken.done():
                woken.set_result(None)

    def count(self, hint: Hint) -> int:
        return self._counts[hint]

    async def wait(self, hint: Hint, seen_count: int, timeout_seconds: float) -> None:
        with anyio.move_on_after(timeout_seconds):
            while self._counts[hint] <= seen_count:
                await self._wait_for_next(hint)

    async def close(self) -> None:
        """Do nothing: no resources are held. Hints keep working."""

    async def _wait_for_next(self, hint: Hint) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters[hint][woken] = None
        try:
            await woken
        finally:
            del self._waiters[hint][woken]
