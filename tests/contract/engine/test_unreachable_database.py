"""Behaviour on lost connections, unreachable servers, and broken files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from sqlalchemy import (
    text,
)

from staffbooking_adapters.sql.engine.open import (
    Connection,
    Database,
    Statement,
    open_database,
    open_sqlite,
)
from staffbooking_core.errors import ConstraintViolated, InvalidField, StoreUnavailable
from tests.contract.engine.sample_schema import (
    COUNT_PEOPLE,
    INSERT_NAMED,
    METADATA,
    add_two_people,
    list_names,
    named_person,
    terminate_connections,
)

pytestmark = pytest.mark.anyio


async def test_a_killed_idle_connection_is_replaced(postgres: Database, postgres_url: str) -> None:
    """Reads, writes and transactions succeed after all idle connections were killed."""
    await asyncio.gather(*(postgres.fetch_value(COUNT_PEOPLE) for _ in range(4)))
    await terminate_connections(postgres_url)
    assert await postgres.fetch_value(COUNT_PEOPLE) == 0
    await terminate_connections(postgres_url)
    assert await postgres.execute(INSERT_NAMED, **named_person("Ada")) == 1
    await terminate_connections(postgres_url)
    assert await postgres.run_transaction(add_two_people) == "done"


async def test_a_connection_lost_before_commit_is_retried(
    postgres: Database, postgres_url: str
) -> None:
    """A transaction whose connection is killed before COMMIT runs again."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.execute(INSERT_NAMED, **named_person("Ada"))
        if runs == 1:
            await terminate_connections(postgres_url)
        await unit.execute(INSERT_NAMED, **named_person("Bob"))

    await postgres.run_transaction(work)
    assert runs == 2
    assert await list_names(postgres) == ["Ada", "Bob"]


async def test_a_connection_lost_at_commit_is_not_retried(
    postgres: Database, postgres_url: str
) -> None:
    """A connection lost at COMMIT raises StoreUnavailable, and the work is not run again."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.execute(INSERT_NAMED, **named_person("Ada"))
        await terminate_connections(postgres_url)

    with pytest.raises(StoreUnavailable):
        await postgres.run_transaction(work)
    assert runs == 1
    assert await list_names(postgres) == []


async def test_a_single_write_is_not_retried(postgres: Database) -> None:
    """A write whose connection is lost raises StoreUnavailable after one round trip."""
    terminate_itself = Statement(
        text("DO $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); END $$")
    )
    before = postgres.round_trips
    with pytest.raises(StoreUnavailable):
        await postgres.execute(terminate_itself)
    assert postgres.round_trips == before + 1
    assert await postgres.fetch_value(COUNT_PEOPLE) == 0


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+asyncpg://app@127.0.0.1:1/nowhere",
        "postgresql+asyncpg://app@/nowhere?host=/nonexistent",
    ],
)
async def test_an_unreachable_server_is_unavailable(url: str) -> None:
    """Opening connects to no server, and the first statement raises StoreUnavailable."""
    database = await open_database(url, METADATA)
    with pytest.raises(StoreUnavailable):
        await database.fetch_value(COUNT_PEOPLE)
    with pytest.raises(StoreUnavailable):
        await database.run_transaction(add_two_people)
    await database.close()


async def test_a_statement_that_takes_too_long_is_unavailable(postgres: Database) -> None:
    """A statement timeout raises StoreUnavailable, and the work is not run again."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.execute(Statement(text("SET LOCAL statement_timeout = 20")))
        await unit.execute(Statement(text("SELECT pg_sleep(5)")))

    with pytest.raises(StoreUnavailable):
        await postgres.run_transaction(work)
    assert runs == 1


async def test_a_file_in_a_missing_folder_is_unavailable(tmp_path: Path) -> None:
    """Opening a file in a missing folder raises StoreUnavailable."""
    with pytest.raises(StoreUnavailable):
        await open_sqlite(tmp_path / "missing" / "main.db", METADATA)


async def test_a_damaged_page_is_unavailable(sqlite: Database, tmp_path: Path) -> None:
    """Reading a damaged page raises StoreUnavailable."""
    await sqlite.execute_many(INSERT_NAMED, [named_person("Ada" * 1000) for _ in range(20)])
    await sqlite.close()
    path = tmp_path / "main.db"
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[:half] + b"\xab" * (len(content) - half))
    damaged = await open_sqlite(path, METADATA)
    with pytest.raises(StoreUnavailable):
        await list_names(damaged)
    await damaged.close()


async def test_a_closed_database_is_unavailable(database: Database) -> None:
    """A statement after `close` raises StoreUnavailable at once."""
    await database.close()
    async with asyncio.timeout(1):
        with pytest.raises(StoreUnavailable):
            await database.fetch_value(COUNT_PEOPLE)


async def test_invalid_sql_raises_the_driver_error(database: Database) -> None:
    """Invalid SQL raises the driver's own error, and none of the store's."""
    with pytest.raises(Exception, match=r"(?i)no_such") as raised:
        await database.fetch_all(Statement(text("SELECT no_such FROM people")))
    assert not isinstance(raised.value, StoreUnavailable | ConstraintViolated | InvalidField)
