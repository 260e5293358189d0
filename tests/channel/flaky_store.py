"""A store that fails, and waits, where a test wants it to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import anyio
from attrs import define, field

from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Reading, Writing
from tests.support.builders import POLICY

T = TypeVar("T")

Hook: TypeAlias = Callable[[], Awaitable[object]]


async def nothing() -> None:
    """What is done where no hook is set."""


@define
class Pause:
    """A hook that waits until it is let go."""

    reached: anyio.Event = field(factory=anyio.Event)
    go_on: anyio.Event = field(factory=anyio.Event)

    async def __call__(self) -> None:
        self.reached.set()
        await self.go_on.wait()


class Flaky:
    """The memory store; each hook is for one unit of work, or one look, and may raise."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self._store = MemoryStore(policy)
        self.fault: Exception | None = None
        """What all that it is asked for ends with, while there is one."""
        self.before_reading: Hook = nothing
        self.before: Hook = nothing
        self.after: Hook = nothing
        """Once it is committed, and nobody knows yet."""
        self.writes = 0
        """Units of work that were tried."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[Reading]:
        before, self.before_reading = self.before_reading, nothing
        await before()
        self._check()
        async with self._store.reading() as view:
            yield view

    async def write(self, work: Callable[[Writing], Awaitable[T]]) -> T:
        self.writes += 1
        before, after = self.before, self.after
        self.before = self.after = nothing
        await before()
        self._check()
        result = await self._store.write(work)
        await after()
        return result

    def _check(self) -> None:
        if self.fault is not None:
            raise self.fault
