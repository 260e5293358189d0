"""Fixtures: each processor with empty state."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text

from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.sql.engine.open import Database, Statement, open_database
from staffbooking_adapters.sql.sandbox.fake_documents import SqlFakeDocumentStore
from staffbooking_adapters.sql.schema.metadata import metadata
from tests.money.fake_helpers import make_fake_bench
from tests.money.payment_scenarios import PaymentScenario, make_payment_scenario
from tests.money.processors import (
    FAKES,
    ProcessorBench,
    create_fake_book_table,
    make_bench_on_book,
    open_stripe_bench,
)
from tests.support.postgres import PostgresServer, database_name

DELETE_DOCUMENTS = Statement(text("DELETE FROM fakepay_documents"))


@pytest.fixture
def fake_memory() -> ProcessorBench:
    return make_bench_on_book(MemoryFakeDocumentStore())


@pytest.fixture
async def sqlite_books(tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    """One file opened twice, as by two processes."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'book.db'}"
    first = await open_database(url, metadata)
    second = await open_database(url, metadata)
    await create_fake_book_table(first)
    yield first, second
    await first.close()
    await second.close()


@pytest.fixture(scope="module")
async def postgres_url(postgres_server: PostgresServer) -> AsyncIterator[str]:
    url = await postgres_server.create_database()
    database = await open_database(url, metadata)
    await create_fake_book_table(database)
    await database.close()
    yield url
    await postgres_server.drop_database(database_name(url))


@pytest.fixture
async def postgres_books(postgres_url: str) -> AsyncIterator[tuple[Database, Database]]:
    """One database opened twice, as by two processes."""
    first = await open_database(postgres_url, metadata, pool_size=16)
    second = await open_database(postgres_url, metadata, pool_size=16)
    await first.execute(DELETE_DOCUMENTS)
    yield first, second
    await first.close()
    await second.close()


@pytest.fixture
async def fake_sqlite(sqlite_books: tuple[Database, Database]) -> ProcessorBench:
    return make_bench_on_book(SqlFakeDocumentStore(sqlite_books[0]))


@pytest.fixture
async def fake_postgresql(postgres_books: tuple[Database, Database]) -> ProcessorBench:
    return make_bench_on_book(SqlFakeDocumentStore(postgres_books[0]))


@pytest.fixture
async def stripe() -> AsyncIterator[ProcessorBench]:
    """Stripe's adapter on its stub."""
    async with open_stripe_bench() as bench:
        yield bench


@pytest.fixture(params=FAKES)
def bench(request: pytest.FixtureRequest) -> ProcessorBench:
    """An empty fake processor; the contract suite adds Stripe."""
    found = request.getfixturevalue(request.param.replace("-", "_"))
    assert isinstance(found, ProcessorBench)
    return found


@pytest.fixture(params=["sqlite", "postgres"])
def two(request: pytest.FixtureRequest) -> tuple[ProcessorBench, ProcessorBench]:
    """Two fake processors on one book, as of two processes."""
    first, second = (
        SqlFakeDocumentStore(each) for each in request.getfixturevalue(f"{request.param}_books")
    )
    one = make_bench_on_book(first)
    return one, make_bench_on_book(second, one.clock)


@pytest.fixture
def fake(fake_memory: ProcessorBench) -> ProcessorBench:
    """The fake processor in memory only."""
    return fake_memory


@pytest.fixture(params=["fake", "stripe"])
async def play(request: pytest.FixtureRequest) -> AsyncIterator[PaymentScenario]:
    """A payment scenario on a processor with a fee per payment."""
    if request.param == "fake":
        yield await make_payment_scenario(make_fake_bench(fee_ppm=29_000))
        return
    async with open_stripe_bench() as bench:
        yield await make_payment_scenario(bench)
