"""Fixtures of the engine tests: both databases with the tables of `sample_schema`, and both with
the service's tables, empty, for tests of plans."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import create_mock_engine, text

from staffbooking_adapters.sql.engine.open import Database, Statement, open_database
from staffbooking_adapters.sql.engine.postgres import SERVER_SETTINGS
from tests.contract.engine.sample_schema import METADATA
from tests.support.migrated_databases import MigratedDatabase
from tests.support.postgres import PostgresServer, database_name, driver_url


async def create_tables(database: Database) -> None:
    written: list[Any] = []
    engine = create_mock_engine(f"{database.dialect}://", lambda ddl, *_: written.append(ddl))
    METADATA.create_all(engine, checkfirst=False)
    for ddl in written:
        await database.execute(Statement(text(str(ddl.compile(dialect=engine.dialect)))))


@pytest.fixture(scope="module")
async def postgres_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create_database()
    yield url
    await postgres_server.drop_database(database_name(url))


@pytest.fixture
async def postgres(postgres_url: str) -> AsyncIterator[Database]:
    database = await open_database(postgres_url, METADATA, pool_size=4)
    await database.execute(Statement(text("DROP SCHEMA IF EXISTS public CASCADE")))
    await database.execute(Statement(text("CREATE SCHEMA public")))
    await create_tables(database)
    yield database
    await database.close()


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[Database]:
    database = await open_database(f"sqlite+aiosqlite:///{tmp_path / 'main.db'}", METADATA)
    await create_tables(database)
    yield database
    await database.close()


@pytest.fixture(params=["postgres", "sqlite"])
def database(request: pytest.FixtureRequest) -> Database:
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Database)
    return found


WITHOUT_SCANS = {"enable_seqscan": "off", "enable_bitmapscan": "off", "enable_sort": "off"}
"""PostgreSQL scans and sorts an empty table only where no index serves."""


@pytest.fixture(scope="module")
async def empty_postgres(
    postgres_server: PostgresServer, migrated_database: MigratedDatabase
) -> AsyncIterator[asyncpg.Connection]:
    """A connection to an empty database."""
    url = await postgres_server.create_database(template=migrated_database.template)
    settings = {**SERVER_SETTINGS, **WITHOUT_SCANS}
    connection = await asyncpg.connect(driver_url(url), server_settings=settings)
    yield connection
    await connection.close()
    await postgres_server.drop_database(database_name(url))


@pytest.fixture(scope="module")
async def empty_sqlite(
    migrated_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[sqlite3.Connection]:
    """An empty file."""
    path = shutil.copy(migrated_file, tmp_path_factory.mktemp("empty"))
    connection = sqlite3.connect(path)
    yield connection
    connection.close()
