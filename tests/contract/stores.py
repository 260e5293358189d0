"""The stores that the contract suite runs over.

A store is one entry of `STORES`: its name, and a context manager that opens it empty, with
`POLICY`, and closes it. It may ask the test's request for other fixtures (a database).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeAlias

import pytest

from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_core.ports import Admission, Reading, Store
from tests.support.builders import POLICY


class OpenStore(Store, Protocol):
    @property
    def admission(self) -> Admission: ...


Opener: TypeAlias = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[OpenStore]]


@asynccontextmanager
async def memory(_: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    yield MemoryStore(POLICY)


STORES: dict[str, Opener] = {
    "memory": memory,
}


async def read(store: Store, query: Callable[[Reading], Awaitable[Any]]) -> Any:
    """The answer to one question, as `Store.write` gives that of a unit of work."""
    async with store.reading() as view:
        return await query(view)
