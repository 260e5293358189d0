"""Hints that stay in the process: all that a deployment of one process needs."""

from __future__ import annotations

import asyncio

import anyio

from staffbooking_core.ports import Hint


class LocalHints:
    """The Hints of one process. Whoever commits work gives one; any number may wait."""

    def __init__(self) -> None:
        self._heard = dict.fromkeys(Hint, 0)
        self._waiting: dict[Hint, set[asyncio.Future[None]]] = {hint: set() for hint in Hint}

    def give(self, hint: Hint) -> None:
        """Wake all that wait for it. It costs next to nothing and never fails."""
        self._heard[hint] += 1
        for woken in self._waiting[hint]:
            if not woken.done():
                woken.set_result(None)

    def count(self, hint: Hint) -> int:
        return self._heard[hint]

    async def wait(self, hint: Hint, beyond: int, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self._heard[hint] <= beyond:
                await self._next(hint)

    async def close(self) -> None:
        """Nothing is open here; hints may still be given and waited for."""

    async def _next(self, hint: Hint) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[hint].add(woken)
        try:
            await woken
        finally:
            self._waiting[hint].discard(woken)
