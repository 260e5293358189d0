"""Fixtures: each store, opened empty for each test, and databases without a schema."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from staffbooking_adapters.testing.store import OpenStore, StoreOpener
from tests.contract.stores import STORES, PostgresConnections
from tests.support.migrated_databases import MigratedDatabase
from tests.support.postgres import PostgresServer, database_name


@pytest.fixture(scope="module", autouse=True)
async def postgres_connections(anyio_backend: object) -> AsyncIterator[PostgresConnections]:
    """The connections of all stores of a module on PostgreSQL, opened when a test first needs
    them. The module's tests run in one event loop."""
    kept = PostgresConnections()
    yield kept
    await kept.close()


@pytest.fixture(params=STORES.values(), ids=list(STORES))
def open_store(request: pytest.FixtureRequest) -> StoreOpener:
    """The opener of one store of `STORES`."""
    opener: StoreOpener = request.param
    return opener


@pytest.fixture
async def store(
    open_store: StoreOpener, request: pytest.FixtureRequest
) -> AsyncIterator[OpenStore]:
    async with open_store(request) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgresql"])
async def migrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The address of a separate database with the schema."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_file"), tmp_path / "migrated.db")
        yield f"sqlite+aiosqlite:///{tmp_path / 'migrated.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    migrated: MigratedDatabase = request.getfixturevalue("migrated_database")
    url = await server.create_database(template=migrated.template)
    yield url
    await server.drop_database(database_name(url))


@pytest.fixture(params=["sqlite", "postgresql"])
async def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """The address of a database without a schema."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'fresh.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = await server.create_database()
    yield url
    await server.drop_database(database_name(url))
