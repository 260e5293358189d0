"""One budget of database time covers all waits of a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from sqlalchemy import BigInteger, column, func, select, text

from staffbooking_adapters.database_time import (
    DatabaseTime,
    current_database_time,
    renew_database_time,
)
from staffbooking_adapters.sql.engine.open import (
    Connection,
    Database,
    Statement,
    open_database,
)
from staffbooking_core.errors import StoreUnavailable
from tests.contract.engine.sample_schema import (
    COUNT_PEOPLE,
    INSERT_NAMED,
    METADATA,
    add_two_people,
    named_person,
)
from tests.support.postgres import PostgresServer, database_name

pytestmark = pytest.mark.anyio

_NUMBERS = select(column("n", BigInteger)).select_from(
    text("(WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c)")
)
SLOW_READ = Statement(
    postgresql=select(func.pg_sleep(60)), sqlite=select(func.max(_NUMBERS.subquery().c.n))
)
"""A read that takes much longer than any budget."""

GET_BACKEND = Statement(postgresql=text("SELECT pg_backend_pid()"))
GET_OTHER_STATEMENTS = Statement(
    postgresql=text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND query LIKE '%pg_sleep%' AND pid <> pg_backend_pid() AND state = 'active'"
    )
)


async def test_a_slow_statement_ends_with_the_budget(database: Database) -> None:
    """A statement that takes longer than the budget raises StoreUnavailable, and the next request
    is served."""
    with DatabaseTime(0.05), pytest.raises(StoreUnavailable):
        await database.fetch_all(SLOW_READ)
    assert await database.fetch_value(COUNT_PEOPLE) == 0


async def test_a_slow_statement_ends_its_transaction(database: Database) -> None:
    """A transaction whose budget is spent is rolled back."""

    async def work(unit: Connection) -> None:
        await unit.execute(INSERT_NAMED, **named_person("Ada"))
        await unit.fetch_all(SLOW_READ)

    with DatabaseTime(0.1), pytest.raises(StoreUnavailable):
        await database.run_transaction(work)
    assert await database.fetch_value(COUNT_PEOPLE) == 0
    assert await database.run_transaction(add_two_people) == "done"


async def test_a_spent_budget_reaches_no_database(database: Database) -> None:
    """Once the budget is spent, further statements of the request fail without a round trip."""
    with DatabaseTime(0.05):
        with pytest.raises(StoreUnavailable):
            await database.fetch_all(SLOW_READ)
        before = database.round_trips
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await database.fetch_value(COUNT_PEOPLE)
    assert database.round_trips == before


async def test_the_time_between_statements_is_not_counted(database: Database) -> None:
    """Work between two statements spends nothing."""
    with DatabaseTime(0.5):
        await database.fetch_value(COUNT_PEOPLE)
        spent = current_database_time().seconds
        await asyncio.sleep(0.05)
        assert current_database_time().seconds == spent
        assert 0 < spent < 0.5


async def test_a_stream_renews_the_budget_for_each_page(database: Database) -> None:
    """A stream whose reader renews the budget goes on as long as each page is in time."""
    await database.execute_many(INSERT_NAMED, [named_person(f"P{n}") for n in range(1001)])
    pages = 0
    with DatabaseTime(0.5):
        async for _ in database.stream(Statement(text("SELECT name FROM people"))):
            current_database_time().seconds -= 0.4 if pages % 500 == 0 else 0
            pages += 1
            renew_database_time()
    assert pages == 1001


async def test_the_server_stops_a_statement_whose_budget_is_spent(postgres: Database) -> None:
    """PostgreSQL is told to cancel the statement, and its connection is not used again."""
    backend = await postgres.fetch_value(GET_BACKEND)
    with DatabaseTime(0.05), pytest.raises(StoreUnavailable):
        await postgres.fetch_all(SLOW_READ)
    assert await postgres.fetch_value(GET_BACKEND) != backend
    async with asyncio.timeout(10):
        while await postgres.fetch_value(GET_OTHER_STATEMENTS):
            pass


@pytest.fixture
async def hanging_postgres(
    hanging_postgres_server: PostgresServer,
) -> AsyncIterator[tuple[PostgresServer, Database]]:
    """A server whose processes may be stopped, and a database of it with open connections."""
    url = await hanging_postgres_server.create_database()
    database = await open_database(url, METADATA, pool_size=2)
    await asyncio.gather(*(database.fetch_value(GET_BACKEND) for _ in range(2)))
    yield hanging_postgres_server, database
    await database.close()
    await hanging_postgres_server.drop_database(database_name(url))


async def _ask_in_vain(database: Database) -> None:
    with DatabaseTime(0.2), pytest.raises(StoreUnavailable):
        await database.run_transaction(lambda unit: unit.fetch_value(GET_BACKEND))


async def test_a_server_that_hangs_delays_nobody_beyond_the_budget(
    hanging_postgres: tuple[PostgresServer, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """While all processes of PostgreSQL are stopped, requests with open, new and awaited
    connections fail with their budgets, and wait for no rollback; they succeed once it goes on."""
    monkeypatch.setattr("staffbooking_adapters.sql.engine.postgres.RELEASE_TIMEOUT_SECONDS", 3600)
    server, database = hanging_postgres
    with server.hung():
        async with asyncio.timeout(20):
            for _ in range(2):
                await asyncio.gather(*(_ask_in_vain(database) for _ in range(6)))
    assert await database.fetch_value(GET_BACKEND)
