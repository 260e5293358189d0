"""A store that fails or waits at points that a test chooses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import anyio
from attrs import define, field

from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.testing.builders import POLICY
from staffbooking_core.policy import Policy
from staffbooking_core.ports import ReadView, Transaction

T = TypeVar("T")

Hook: TypeAlias = Callable[[], Awaitable[object]]


async def do_nothing() -> None:
    """The default hook; does nothing."""


@define
class PauseHook:
    """A hook that blocks until it is released."""

    reached: anyio.Event = field(factory=anyio.Event)
    released: anyio.Event = field(factory=anyio.Event)

    async def __call__(self) -> None:
        self.reached.set()
        await self.released.wait()


class FlakyStore:
    """The memory store with hooks; each hook runs once per unit of work or read, and may raise."""

    def __init__(self, policy: Policy = POLICY) -> None:
        self._store = MemoryStore(policy)
        self.fault: Exception | None = None
        """The error that every call raises while it is set."""
        self.before_reading: Hook = do_nothing
        self.before: Hook = do_nothing
        self.after: Hook = do_nothing
        """Hook that runs after a commit, before the caller learns of it."""
        self.write_count = 0
        """Number of units of work attempted."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    @asynccontextmanager
    async def read_view(self) -> AsyncIterator[ReadView]:
        before, self.before_reading = self.before_reading, do_nothing
        await before()
        self._raise_fault()
        async with self._store.read_view() as view:
            yield view

    async def run_transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        self.write_count += 1
        before, after = self.before, self.after
        self.before = self.after = do_nothing
        await before()
        self._raise_fault()
        result = await self._store.run_transaction(work)
        await after()
        return result

    def _raise_fault(self) -> None:
        if self.fault is not None:
            raise self.fault
