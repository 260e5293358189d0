"""The stores that the contract suite runs over.

A store is one entry of `STORES`: its name, and a context manager that opens it empty, with
`POLICY`, and closes it. It can request other fixtures, such as a database, from the test.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from attrs import define, field

from staffbooking_adapters.memory.store import MemoryStore
from staffbooking_adapters.sql.accounts.rate_limits import rate_windows_metadata
from staffbooking_adapters.sql.engine.open import Database, open_database
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_adapters.sql.schema.sandbox import fakepay_documents
from staffbooking_adapters.sql.store import (
    SqlStore,
    make_store,
    open_counter_database,
    open_store,
)
from staffbooking_adapters.testing.builders import POLICY
from staffbooking_adapters.testing.store import OpenStore, StoreOpener
from tests.support.migrated_databases import MigratedDatabase


@asynccontextmanager
async def open_memory_store(_: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    yield MemoryStore(POLICY)


@asynccontextmanager
async def open_sqlite_store(request: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    migrated: Path = request.getfixturevalue("migrated_file")
    shutil.copy(migrated, request.getfixturevalue("tmp_path") / "store.db")
    async with open_sql_store(store_url(request, "sqlite")) as store:
        yield store


@asynccontextmanager
async def open_postgresql_store(request: pytest.FixtureRequest) -> AsyncIterator[OpenStore]:
    migrated: MigratedDatabase = request.getfixturevalue("migrated_database")
    migrated.execute(RESET_SQL)
    if "postgres_connections" not in request.fixturenames:
        async with open_sql_store(migrated.url) as store:
            yield store
        return
    kept: PostgresConnections = request.getfixturevalue("postgres_connections")
    store = await kept.make_store(migrated.url)
    try:
        yield store
    finally:
        await store.hints.close()
        await store.admission.close()


@define
class PostgresConnections:
    """Connections that the stores of many tests use in turn: a new one has no plans and an empty
    catalog, and costs more than most tests."""

    _databases: list[Database] = field(factory=list)

    async def make_store(self, url: str) -> SqlStore:
        """A new store on these connections, which are not to be closed with it."""
        if not self._databases:
            self._databases.append(await open_database(url, metadata))
            self._databases.append(await open_counter_database(url))
        database, counter_database = self._databases
        return make_store(database, counter_database, POLICY)

    async def close(self) -> None:
        for database in self._databases:
            await database.close()


_TABLES = [*fakepay_documents.metadata.tables.values(), *rate_windows_metadata.tables.values()]
_TABLES_WITH_SEQUENCE = [table.name for table in _TABLES if table.autoincrement_column is not None]
RESET_SQL = "; ".join(
    (
        "SET LOCAL session_replication_role = replica",  # disables the ledger's triggers
        *(f"DELETE FROM {table.name}" for table in _TABLES),
        *(f"SELECT setval('{name}_id_seq', 1, false)" for name in _TABLES_WITH_SEQUENCE),
        "SELECT setval('booking_numbers', 1, false)",
        "INSERT INTO sandbox_clock VALUES (1, 0)",
        "INSERT INTO counters VALUES ('messages_told', 0)",
    )
)
"""Empties the session's database and resets its sequences; faster than creating a database."""


def store_url(request: pytest.FixtureRequest, name: str) -> str:
    """The database URL of a test's store of this name, to open it as another process."""
    if name == "sqlite":
        return f"sqlite+aiosqlite:///{request.getfixturevalue('tmp_path') / 'store.db'}"
    migrated: MigratedDatabase = request.getfixturevalue("migrated_database")
    return migrated.url


@asynccontextmanager
async def open_sql_store(url: str) -> AsyncIterator[SqlStore]:
    store = await open_store(url, POLICY)
    try:
        yield store
    finally:
        await store.close()


STORES: dict[str, StoreOpener] = {
    "memory": open_memory_store,
    "sqlite": open_sqlite_store,
    "postgresql": open_postgresql_store,
}
