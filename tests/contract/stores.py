"""The stores that the contract suite runs over.

A store is one entry of `STORES`: its name, and a context manager that opens it empty, with
`POLICY`, and closes it. It may ask the test's request for other fixtures (a database).
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeAlias

import pytest

from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.sql.schema import upgrade
from staffbooking_adapters.sql.store import open_store
from staffbooking_core.ports import Admission, Reading, Store
from tests.support.builders import POLICY
from tests.support.postgres import PostgresServer, database_name


class OpenStore(Store, Protocol):
    @property
    def admission(self) -> Admission: ...


Opener: TypeAlias = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[OpenStore]]


@asynccontextmanager
async def memory(_: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    yield MemoryStore(POLICY)


@asynccontextmanager
async def sqlite(request: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    path = request.getfixturevalue("tmp_path") / "store.db"
    shutil.copy(await _migrated_file(request), path)
    async with _opened(f"sqlite+aiosqlite:///{path}") as store:
        yield store


@asynccontextmanager
async def postgresql(request: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = await server.create_database(template=await _migrated_database(request, server))
    try:
        async with _opened(url) as store:
            yield store
    finally:
        await server.drop_database(database_name(url))


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[OpenStore]:
    store = await open_store(url, POLICY)
    try:
        yield store
    finally:
        await store.close()


MIGRATED = pytest.StashKey[dict[str, str]]()
"""The templates of the session's databases, made by whoever is the first to need one."""


async def _migrated_file(request: pytest.FixtureRequest) -> str:
    made = request.session.stash.setdefault(MIGRATED, {})
    if "sqlite" not in made:
        path = request.getfixturevalue("tmp_path_factory").mktemp("template") / "store.db"
        await upgrade(f"sqlite+aiosqlite:///{path}")
        made["sqlite"] = str(path)
    return made["sqlite"]


async def _migrated_database(request: pytest.FixtureRequest, server: PostgresServer) -> str:
    made = request.session.stash.setdefault(MIGRATED, {})
    if "postgresql" not in made:
        url = await server.create_database()
        await upgrade(url)
        made["postgresql"] = database_name(url)
    return made["postgresql"]


STORES: dict[str, Opener] = {
    "memory": memory,
    "sqlite": sqlite,
    "postgresql": postgresql,
}


async def read(store: Store, query: Callable[[Reading], Awaitable[Any]]) -> Any:
    """The answer to one question, as `Store.write` gives that of a unit of work."""
    async with store.reading() as view:
        return await query(view)
