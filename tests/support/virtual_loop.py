"""An event loop whose time is virtual: for what waits by timers of the loop itself."""

from __future__ import annotations

import asyncio
from typing import Any


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """Time stands while anything can run, and jumps to the next timer when nothing can.

    Nothing may come from outside: neither threads nor other processes.
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
