"""The PostgreSQL server of the tests."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from tests.support.postgres import (
    PostgresServer,
    database_name,
    driver_url,
    find_wheel_binaries,
    run_postgres_server,
)

pytestmark = pytest.mark.anyio


async def query(url: str, statement: str) -> object:
    connection = await asyncpg.connect(driver_url(url))
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_a_new_database_answers(postgres_server: PostgresServer) -> None:
    """A new database runs a query, and does not exist after it is dropped."""
    url = await postgres_server.create_database()
    assert await query(url, "SELECT 1 + 1") == 2
    await postgres_server.drop_database(database_name(url))
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await query(url, "SELECT 1")


async def test_databases_are_separate(postgres_server: PostgresServer) -> None:
    """A table of one database does not exist in another."""
    first, second = [await postgres_server.create_database() for _ in range(2)]
    await query(first, "CREATE TABLE only_here (id int)")
    assert await query(first, "SELECT to_regclass('only_here')::text") == "only_here"
    assert await query(second, "SELECT to_regclass('only_here')::text") is None


async def test_a_template_is_copied(postgres_server: PostgresServer) -> None:
    """A database made from a template has its rows."""
    template = await postgres_server.create_database()
    await query(template, "CREATE TABLE seeded AS SELECT 7 AS id")
    copy = await postgres_server.create_database(template=database_name(template))
    assert await query(copy, "SELECT id FROM seeded") == 7


async def test_the_wheel_alone_is_enough() -> None:
    """The programs of the wheel run PostgreSQL 18, and its folder is removed at the end."""
    binaries = find_wheel_binaries()
    assert binaries is not None, "the development lock brings the wheel"
    with run_postgres_server(binaries) as server:
        url = await server.create_database()
        assert await query(url, "SELECT current_setting('server_version_num')::int / 10000") == 18
    [folder] = parse_qs(urlsplit(url).query)["host"]
    assert not Path(folder).exists()
