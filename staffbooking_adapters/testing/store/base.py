"""The base of the store's contract suites."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Protocol

import pytest

from staffbooking_core.ports import Admission, Hints, ReadView, Store


class OpenStore(Store, Protocol):
    """A store together with the admission and the hints of its family."""

    @property
    def admission(self) -> Admission: ...
    @property
    def hints(self) -> Hints: ...


class StoreContract:
    """The base of the suites. A subclass names its store: `open_store` opens it empty, with
    `staffbooking_adapters.testing.builders.POLICY`, and closes it after each test."""

    pytestmark = pytest.mark.anyio

    def open_store(self, request: pytest.FixtureRequest) -> AbstractAsyncContextManager[OpenStore]:
        """The empty store of one test. It can ask the request for fixtures."""
        pytest.fail(f"{type(self).__name__} does not override StoreContract.open_store")

    @pytest.fixture
    async def store(self, request: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
        async with self.open_store(request) as opened:
            yield opened


async def read_store(store: Store, query: Callable[[ReadView], Awaitable[Any]]) -> Any:
    """The result of one query, in a read view of its own."""
    async with store.read_view() as view:
        return await query(view)


async def count_due_work(store: Store, now: datetime) -> int:
    """The number of due operations, timers, processor events and payees."""
    backlog = await read_store(store, lambda view: view.metrics.backlog(now))
    return sum(found.count for found in backlog if found.kind not in ("notification", "payout"))
