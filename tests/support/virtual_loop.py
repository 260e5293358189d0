"""An event loop with virtual time, for code that waits by the loop's own timers."""

from __future__ import annotations

import asyncio
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time stands still while a task can run, and jumps to the next timer when none can.

    Threads and other processes must not wake the loop.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]
        look = selector.select

        def select(timeout: float | None) -> Any:
            found = look(0)
            if not found:
                assert timeout is not None, "nothing will ever happen"
                self._now += timeout
            return found

        selector.select = select

    def time(self) -> float:
        return self._now
