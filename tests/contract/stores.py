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
from sqlalchemy import text

from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.sql.engine import Connection, Statement
from staffbooking_adapters.sql.fake_tables import fakepay_documents
from staffbooking_adapters.sql.schema import upgrade
from staffbooking_adapters.sql.store import SqlStore, open_store
from staffbooking_adapters.sql.windows import windows_metadata
from staffbooking_core.ports import Admission, Hints, Reading, Store
from tests.support.builders import POLICY
from tests.support.postgres import PostgresServer


class OpenStore(Store, Protocol):
    @property
    def admission(self) -> Admission: ...
    @property
    def hints(self) -> Hints: ...


Opener: TypeAlias = Callable[[pytest.FixtureRequest], AbstractAsyncContextManager[OpenStore]]


@asynccontextmanager
async def memory(_: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    yield MemoryStore(POLICY)


@asynccontextmanager
async def sqlite(request: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    shutil.copy(await _migrated_file(request), request.getfixturevalue("tmp_path") / "store.db")
    async with opened(await address(request, "sqlite")) as store:
        yield store


@asynccontextmanager
async def postgresql(request: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    async with opened(await address(request, "postgresql")) as store:
        await store.database.write(_empty)
        yield store


async def _empty(connection: Connection) -> None:
    """Make the session's database as good as new, much faster than a new one is made."""
    await connection.run(EMPTY)


_TABLES = [*fakepay_documents.metadata.tables.values(), *windows_metadata.tables.values()]
_NUMBERED = [table.name for table in _TABLES if table.autoincrement_column is not None]
EMPTY = Statement(
    text(
        "; ".join(
            (
                "SET LOCAL session_replication_role = replica",  # the ledger refuses it otherwise
                *(f"DELETE FROM {table.name}" for table in _TABLES),
                *(f"SELECT setval('{name}_id_seq', 1, false)" for name in _NUMBERED),
                "SELECT setval('booking_numbers', 1, false)",
                "INSERT INTO sandbox_clock VALUES (1, 0)",
                "INSERT INTO counters VALUES ('messages_told', 0)",
            )
        )
    )
)


async def address(request: pytest.FixtureRequest, name: str) -> str:
    """Where a test's store of this name has its rows, for another process to open."""
    if name == "sqlite":
        return f"sqlite+aiosqlite:///{request.getfixturevalue('tmp_path') / 'store.db'}"
    return await _migrated_database(request)


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[SqlStore]:
    store = await open_store(url, POLICY)
    try:
        yield store
    finally:
        await store.close()


MIGRATED = pytest.StashKey[dict[str, str]]()
"""The session's databases with their tables, made by whoever is the first to need one."""


async def _migrated_file(request: pytest.FixtureRequest) -> str:
    made = request.session.stash.setdefault(MIGRATED, {})
    if "sqlite" not in made:
        path = request.getfixturevalue("tmp_path_factory").mktemp("template") / "store.db"
        await upgrade(f"sqlite+aiosqlite:///{path}")
        made["sqlite"] = str(path)
    return made["sqlite"]


async def _migrated_database(request: pytest.FixtureRequest) -> str:
    made = request.session.stash.setdefault(MIGRATED, {})
    if "postgresql" not in made:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        made["postgresql"] = await server.create_database()
        await upgrade(made["postgresql"])
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
