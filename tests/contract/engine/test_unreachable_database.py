"""Databases that cannot be reached, for a while or at all."""

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
    """Reads, changes and units after all idle connections were killed work at once."""
    await asyncio.gather(*(postgres.fetch_value(COUNT_PEOPLE) for _ in range(4)))
    await terminate_connections(postgres_url)
    assert await postgres.fetch_value(COUNT_PEOPLE) == 0
    await terminate_connections(postgres_url)
    assert await postgres.execute(INSERT_NAMED, **named_person("Ada")) == 1
    await terminate_connections(postgres_url)
    assert await postgres.run_transaction(add_two_people) == "done"


async def test_a_unit_cut_off_before_its_end_is_run_again(
    postgres: Database, postgres_url: str
) -> None:
    """A connection killed in the middle of a unit undid it, so it is repeated."""
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


async def test_an_answer_lost_at_the_end_is_not_repeated(
    postgres: Database, postgres_url: str
) -> None:
    """Once COMMIT was to be sent, nobody runs the unit again: it is out of reach."""
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


async def test_a_lone_change_is_not_repeated_when_its_answer_is_lost(postgres: Database) -> None:
    """A statement that may have taken effect is sent once."""
    suicide = Statement(text("DO $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); END $$"))
    before = postgres.round_trips
    with pytest.raises(StoreUnavailable):
        await postgres.execute(suicide)
    assert postgres.round_trips == before + 1
    assert await postgres.fetch_value(COUNT_PEOPLE) == 0


@pytest.mark.parametrize(
    "url",
    [
        "postgresql+asyncpg://app@127.0.0.1:1/nowhere",
        "postgresql+asyncpg://app@/nowhere?host=/nonexistent",
    ],
)
async def test_a_server_that_is_not_there_is_unavailable(url: str) -> None:
    """Nothing is asked of the server before it is needed; then it is out of reach."""
    database = await open_database(url, METADATA)
    with pytest.raises(StoreUnavailable):
        await database.fetch_value(COUNT_PEOPLE)
    with pytest.raises(StoreUnavailable):
        await database.run_transaction(add_two_people)
    await database.close()


async def test_a_statement_that_takes_too_long_is_unavailable(postgres: Database) -> None:
    """A server's own limit of time ends as `Unavailable`, and is not repeated."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.execute(Statement(text("SET LOCAL statement_timeout = 20")))
        await unit.execute(Statement(text("SELECT pg_sleep(5)")))

    with pytest.raises(StoreUnavailable):
        await postgres.run_transaction(work)
    assert runs == 1


async def test_a_file_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    """SQLite needs its folder to be there."""
    with pytest.raises(StoreUnavailable):
        await open_sqlite(tmp_path / "missing" / "main.db", METADATA)


async def test_a_damaged_page_is_unavailable(sqlite: Database, tmp_path: Path) -> None:
    """A file that opens well may still turn out to be broken further on."""
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
    """After `close`, whoever comes late hears so at once."""
    await database.close()
    async with asyncio.timeout(1):
        with pytest.raises(StoreUnavailable):
            await database.fetch_value(COUNT_PEOPLE)


async def test_a_fault_of_ours_is_not_disguised(database: Database) -> None:
    """SQL that is wrong raises the driver's own error: no 503 hides a bug."""
    with pytest.raises(Exception, match=r"(?i)no_such") as raised:
        await database.fetch_all(Statement(text("SELECT no_such FROM people")))
    assert not isinstance(raised.value, StoreUnavailable | ConstraintViolated | InvalidField)
