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
from staffbooking_core.errors import ConstraintViolated, InvalidField, Unavailable
from tests.contract.engine.sample_schema import (
    ADD_NAMED,
    COUNT,
    METADATA,
    add_two,
    kill_all,
    named,
    names,
)

pytestmark = pytest.mark.anyio


async def test_a_killed_idle_connection_is_replaced(postgres: Database, postgres_url: str) -> None:
    """Reads, changes and units after all idle connections were killed work at once."""
    await asyncio.gather(*(postgres.value(COUNT) for _ in range(4)))
    await kill_all(postgres_url)
    assert await postgres.value(COUNT) == 0
    await kill_all(postgres_url)
    assert await postgres.run(ADD_NAMED, **named("Ada")) == 1
    await kill_all(postgres_url)
    assert await postgres.write(add_two) == "done"


async def test_a_unit_cut_off_before_its_end_is_run_again(
    postgres: Database, postgres_url: str
) -> None:
    """A connection killed in the middle of a unit undid it, so it is repeated."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.run(ADD_NAMED, **named("Ada"))
        if runs == 1:
            await kill_all(postgres_url)
        await unit.run(ADD_NAMED, **named("Bob"))

    await postgres.write(work)
    assert runs == 2
    assert await names(postgres) == ["Ada", "Bob"]


async def test_an_answer_lost_at_the_end_is_not_repeated(
    postgres: Database, postgres_url: str
) -> None:
    """Once COMMIT was to be sent, nobody runs the unit again: it is out of reach."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.run(ADD_NAMED, **named("Ada"))
        await kill_all(postgres_url)

    with pytest.raises(Unavailable):
        await postgres.write(work)
    assert runs == 1
    assert await names(postgres) == []


async def test_a_lone_change_is_not_repeated_when_its_answer_is_lost(postgres: Database) -> None:
    """A statement that may have taken effect is sent once."""
    suicide = Statement(text("DO $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); END $$"))
    before = postgres.round_trips
    with pytest.raises(Unavailable):
        await postgres.run(suicide)
    assert postgres.round_trips == before + 1
    assert await postgres.value(COUNT) == 0


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
    with pytest.raises(Unavailable):
        await database.value(COUNT)
    with pytest.raises(Unavailable):
        await database.write(add_two)
    await database.close()


async def test_a_statement_that_takes_too_long_is_unavailable(postgres: Database) -> None:
    """A server's own limit of time ends as `Unavailable`, and is not repeated."""
    runs = 0

    async def work(unit: Connection) -> None:
        nonlocal runs
        runs += 1
        await unit.run(Statement(text("SET LOCAL statement_timeout = 20")))
        await unit.run(Statement(text("SELECT pg_sleep(5)")))

    with pytest.raises(Unavailable):
        await postgres.write(work)
    assert runs == 1


async def test_a_file_that_cannot_be_made_is_unavailable(tmp_path: Path) -> None:
    """SQLite needs its folder to be there."""
    with pytest.raises(Unavailable):
        await open_sqlite(tmp_path / "missing" / "main.db", METADATA)


async def test_a_damaged_page_is_unavailable(sqlite: Database, tmp_path: Path) -> None:
    """A file that opens well may still turn out to be broken further on."""
    await sqlite.many(ADD_NAMED, [named("Ada" * 1000) for _ in range(20)])
    await sqlite.close()
    path = tmp_path / "main.db"
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(content[:half] + b"\xab" * (len(content) - half))
    damaged = await open_sqlite(path, METADATA)
    with pytest.raises(Unavailable):
        await names(damaged)
    await damaged.close()


async def test_a_closed_database_is_unavailable(database: Database) -> None:
    """After `close`, whoever comes late hears so at once."""
    await database.close()
    async with asyncio.timeout(1):
        with pytest.raises(Unavailable):
            await database.value(COUNT)


async def test_a_fault_of_ours_is_not_disguised(database: Database) -> None:
    """SQL that is wrong raises the driver's own error: no 503 hides a bug."""
    with pytest.raises(Exception, match=r"(?i)no_such") as raised:
        await database.all(Statement(text("SELECT no_such FROM people")))
    assert not isinstance(raised.value, Unavailable | ConstraintViolated | InvalidField)
