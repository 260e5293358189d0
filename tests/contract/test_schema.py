"""The schema: its migrations make what the statements expect, and it guards itself."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from staffbooking_adapters.sql import fake_tables, money_tables, tables
from staffbooking_adapters.sql.engine import Statement, open_database
from staffbooking_adapters.sql.metadata import metadata
from staffbooking_adapters.sql.schema import HEAD, check, config, on_connection, upgrade
from staffbooking_adapters.sql.windows import windows_metadata
from staffbooking_core.domain.lifecycle import HOLDS_SLOT, Status
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import OVERLAP
from tests.support.builders import DAY, HOUR, NOW, add_booking, add_companion, make_posting
from tests.support.builders import moved as next_version
from tests.support.builders import save
from tests.support.postgres import PostgresServer, database_name

pytestmark = pytest.mark.anyio

ALL_TABLES = {*fake_tables.metadata.tables, *money_tables.metadata.tables, *tables.metadata.tables}


@pytest.fixture(params=["sqlite", "postgresql"])
async def empty_url(request, tmp_path):
    """The address of a database without a schema."""
    if request.param == "sqlite":
        yield f"sqlite+aiosqlite:///{tmp_path / 'fresh.db'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = await server.create_database()
    yield url
    await server.drop_database(database_name(url))


@pytest.fixture
def sql_store(store):
    """The store, where it is one with a schema."""
    return store


# Migrations -------------------------------------------------------------------------------


def is_described(item, name, kind, is_reflected, _):
    """Whether the tables' descriptions know of a thing: of all but the exclusion constraint."""
    return name not in ("ex_bookings_overlap", "alembic_version")


async def test_migrations_make_the_tables_that_statements_expect(empty_url):
    """Tables, columns, keys and indexes are those of the descriptions, no more, no less."""
    await upgrade(empty_url)
    described = [metadata]
    if empty_url.startswith("postgresql"):
        described.append(windows_metadata)

    def differences(connection: Connection):
        options = {"include_object": is_described, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), described)

    found = []
    await on_connection(empty_url, lambda connection: found.extend(differences(connection)))
    assert found == []


async def test_check_says_what_is_missing(empty_url):
    """One line for a database without a schema, nothing for one that is up to date."""
    before = await check(empty_url)
    await upgrade(empty_url)
    assert before == "the database has no schema yet: run `staffbooking db upgrade`"
    assert await check(empty_url) is None


async def test_check_tells_an_older_schema(empty_url):
    """It names the version that is there and the one that is needed."""
    await upgrade(empty_url)
    database = await open_database(empty_url, metadata)
    await database.run(Statement(text("UPDATE alembic_version SET version_num = '0001'")))
    await database.close()
    found = await check(empty_url)
    assert found == f"the schema is of version 0001, not {HEAD}: run `staffbooking db upgrade`"


async def test_the_version_is_that_of_the_newest_migration(tmp_path):
    """What `check` compares with is where the migrations lead."""
    heads = []

    def look(connection: Connection) -> None:
        heads.append(ScriptDirectory.from_config(config(connection)).get_current_head())

    await on_connection(f"sqlite+aiosqlite:///{tmp_path / 'any.db'}", look)
    assert heads == [HEAD]


async def test_several_upgrades_at_once_are_one(empty_url):
    """Those that come late find nothing to do."""
    await asyncio.gather(*(upgrade(empty_url) for _ in range(3)))
    await upgrade(empty_url)
    assert await check(empty_url) is None
