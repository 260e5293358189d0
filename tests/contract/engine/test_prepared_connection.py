"""Statements that a connection of PostgreSQL has prepared."""

from __future__ import annotations

from itertools import count

import asyncpg
import pytest
from sqlalchemy import text

from staffbooking_adapters.sql.engine import prepared_connection
from staffbooking_adapters.sql.engine.connection import Database
from staffbooking_adapters.sql.engine.prepared_connection import PreparedConnection
from staffbooking_adapters.sql.engine.statements import Statement
from tests.support.postgres import driver_url

pytestmark = pytest.mark.anyio


async def test_a_statement_survives_a_changed_column(postgres: Database) -> None:
    """A statement that a connection has prepared still runs once the type of its column changed."""
    await postgres.execute(Statement(text("CREATE TABLE changing (a INTEGER)")))
    read = Statement(text("SELECT a FROM changing"))
    assert await postgres.fetch_all(read) == []
    await postgres.execute(Statement(text("ALTER TABLE changing ALTER COLUMN a TYPE TEXT")))
    await postgres.execute(Statement(text("INSERT INTO changing VALUES ('one')")))
    assert [tuple(row) for row in await postgres.fetch_all(read)] == [("one",)]


async def test_preparing_and_reading_share_the_time(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the preparation of a statement took is not given to its first run again."""
    given: list[float] = []

    class Prepared:
        async def fetch(self, *_: object, **options: float) -> list[object]:
            given.append(options["timeout"])
            return []

    async def prepare(*_: object, **options: float) -> Prepared:
        given.append(options["timeout"])
        return Prepared()

    monkeypatch.setattr(PreparedConnection, "prepare", prepare)
    clock = count(100, 2)  # Each reading is two seconds later.
    monkeypatch.setattr(prepared_connection, "monotonic", lambda: next(clock))
    connection = await asyncpg.connect(
        driver_url(postgres_url), connection_class=PreparedConnection
    )
    try:
        for _ in range(2):
            await connection.fetch_prepared("SELECT 1", (), 5)
    finally:
        await connection.close()
    assert given == [5, 3, 5]
