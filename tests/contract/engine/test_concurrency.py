"""Concurrent callers and processes on one database, and the settings of connections."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest
from sqlalchemy import (
    text,
)

from staffbooking_adapters.database_time import DatabaseTime
from staffbooking_adapters.sql.engine.open import Connection, Database, Statement, open_sqlite
from staffbooking_core.errors import StoreUnavailable
from tests.contract.engine.conftest import create_tables
from tests.contract.engine.sample_schema import (
    ADD_POINTS,
    COUNT_PEOPLE,
    INSERT_NAMED,
    METADATA,
    SELECT_POINTS,
    add_two_people,
    named_person,
)

pytestmark = pytest.mark.anyio


async def test_concurrent_openings_of_a_file_lose_no_write(tmp_path: Path) -> None:
    """Eight databases opened on one file lose no concurrent write."""
    path = tmp_path / "shared.db"
    openings = await asyncio.gather(*(open_sqlite(path, METADATA) for _ in range(8)))
    await create_tables(openings[0])
    await openings[0].execute(INSERT_NAMED, **named_person("Ada"))

    async def increment_after_reading(unit: Connection) -> None:
        points = await unit.fetch_value(SELECT_POINTS, who="Ada")
        await asyncio.sleep(0)
        await unit.execute(ADD_POINTS, who="Ada", by=1)
        assert await unit.fetch_value(SELECT_POINTS, who="Ada") == points + 1

    async def many_times(database: Database) -> None:
        for _ in range(5):
            await database.run_transaction(increment_after_reading)
            await database.execute(ADD_POINTS, who="Ada", by=1)

    await asyncio.gather(*(many_times(database) for database in openings))
    assert await openings[1].fetch_value(SELECT_POINTS, who="Ada") == 80
    for opening in openings:
        await opening.close()


async def test_a_busy_file_is_unavailable_after_a_timeout(tmp_path: Path) -> None:
    """A transaction on a file that another writer holds raises StoreUnavailable."""
    first, second = [await open_sqlite(tmp_path / "shared.db", METADATA) for _ in range(2)]
    await create_tables(first)

    async def hold(unit: Connection) -> None:
        with DatabaseTime(0.05), pytest.raises(StoreUnavailable):
            await second.run_transaction(add_two_people)

    await first.run_transaction(hold)
    assert await second.run_transaction(add_two_people) == "done"
    await first.close()
    await second.close()


async def test_more_callers_than_connections_are_served(database: Database) -> None:
    """Forty concurrent callers of a pool of four connections are all served."""
    await database.execute(INSERT_NAMED, **named_person("Ada"))
    await asyncio.gather(*(database.execute(ADD_POINTS, who="Ada", by=1) for _ in range(40)))
    assert await database.fetch_value(SELECT_POINTS, who="Ada") == 40


async def test_waiting_for_a_connection_times_out(postgres: Database) -> None:
    """When every connection stays busy, the next caller gets StoreUnavailable."""
    done = asyncio.Event()
    holders = [
        asyncio.ensure_future(postgres.run_transaction(lambda unit: done.wait())) for _ in range(4)
    ]
    await asyncio.sleep(0.05)
    with DatabaseTime(0.05), pytest.raises(StoreUnavailable):
        await postgres.fetch_value(COUNT_PEOPLE)
    done.set()
    await asyncio.gather(*holders)
    assert await postgres.fetch_value(COUNT_PEOPLE) == 0


async def pragmas(unit: Connection) -> list[Any]:
    shown = ("journal_mode", "synchronous", "foreign_keys", "cache_size")
    return [await unit.fetch_value(Statement(text(f"PRAGMA {name}"))) for name in shown]


@pytest.mark.parametrize("synchronous, level", [("FULL", 2), ("OFF", 0)])
async def test_sqlite_connections_have_their_pragmas(
    tmp_path: Path, synchronous: Literal["FULL", "OFF"], level: int
) -> None:
    """A connection has a WAL, the given `synchronous` level, foreign keys and 32 MiB of cache."""
    database = await open_sqlite(tmp_path / "main.db", METADATA, synchronous=synchronous)
    assert await database.run_transaction(pragmas) == ["wal", level, 1, -32_768]
    await database.close()


async def test_postgres_connections_have_their_settings(postgres: Database) -> None:
    """A connection has the timeouts, planner settings, time zone and isolation level required."""
    shown = {
        "application_name": "staffbooking",
        "plan_cache_mode": "force_generic_plan",
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "TimeZone": "UTC",
        "statement_timeout": "10s",
        "lock_timeout": "5s",
        "idle_in_transaction_session_timeout": "15s",
        "transaction_isolation": "read committed",
    }
    for name, value in shown.items():
        assert await postgres.fetch_value(Statement(text(f'SHOW "{name}"'))) == value
