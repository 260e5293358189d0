"""Waits that can be ended early."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio


class Waits:
    """The waits of some tasks, which `end_all` ends. They need no tasks of their own."""

    def __init__(self) -> None:
        self.end_count = 0
        """How often all waits were ended."""
        self._scopes: dict[anyio.CancelScope, None] = {}

    def end_all(self) -> None:
        self.end_count += 1
        for scope in self._scopes:
            scope.cancel()

    async def end_all_after(self, event: anyio.Event) -> None:
        """End all waits when an event happens."""
        await event.wait()
        self.end_all()

    async def wait(
        self,
        timeout_seconds: float,
        seen_end_count: int,
        wait: Callable[[], Awaitable[object]] = anyio.sleep_forever,
    ) -> None:
        """Run `wait` until it returns, the timeout passes, or `end_all` was called more than
        `seen_end_count` times: an end before the wait has begun counts too."""
        if self.end_count > seen_end_count:
            return
        with anyio.move_on_after(timeout_seconds) as scope:
            self._scopes[scope] = None
            try:
                await wait()
            finally:
                del self._scopes[scope]
