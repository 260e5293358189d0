"""Fixtures: each processor with empty state, and Stripe's client on its stub."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from stripe import StripeClient

from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.sql.engine.open import Database, open_database
from staffbooking_adapters.sql.sandbox.fake_documents import SqlFakeDocumentStore
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_adapters.testing.builders import NOW
from staffbooking_adapters.testing.processor.base import ProcessorBench
from tests.money.fake_helpers import make_fake_bench
from tests.money.payment_scenarios import PaymentScenario, make_payment_scenario
from tests.money.processors import (
    FAKES,
    create_fake_documents_table,
    make_bench_on_store,
    open_stripe_bench,
)
from tests.stripe_stub import StripeStub, open_stub
from tests.stripe_stub.client import open_stripe_client
from tests.support.migrated_databases import MigratedDatabase


@pytest.fixture
async def sqlite_databases(tmp_path: Path) -> AsyncIterator[tuple[Database, Database]]:
    """One file opened twice, as by two processes."""
    url = f"sqlite+aiosqlite:///{tmp_path / 'fake.db'}"
    first = await open_database(url, metadata)
    second = await open_database(url, metadata)
    await create_fake_documents_table(first)
    yield first, second
    await first.close()
    await second.close()


@pytest.fixture
async def postgres_databases(
    migrated_database: MigratedDatabase,
) -> AsyncIterator[tuple[Database, Database]]:
    """One database opened twice, as by two processes."""
    migrated_database.execute("DELETE FROM fakepay_documents")
    first = await open_database(migrated_database.url, metadata, pool_size=16)
    second = await open_database(migrated_database.url, metadata, pool_size=16)
    yield first, second
    await first.close()
    await second.close()


@pytest.fixture
async def stripe() -> AsyncIterator[ProcessorBench]:
    """Stripe's adapter on its stub."""
    async with open_stripe_bench() as bench:
        yield bench


@pytest.fixture(params=FAKES.values(), ids=list(FAKES))
async def bench(request: pytest.FixtureRequest) -> AsyncIterator[ProcessorBench]:
    """An empty fake processor."""
    async with request.param(request) as opened:
        yield opened


@pytest.fixture(params=["sqlite", "postgres"])
def benches(request: pytest.FixtureRequest) -> tuple[ProcessorBench, ProcessorBench]:
    """Two fake processors on one document store, as of two processes."""
    first, second = (
        SqlFakeDocumentStore(each) for each in request.getfixturevalue(f"{request.param}_databases")
    )
    one = make_bench_on_store(first)
    return one, make_bench_on_store(second, one.clock)


@pytest.fixture
def fake() -> ProcessorBench:
    """The fake processor in memory only."""
    return make_bench_on_store(MemoryFakeDocumentStore())


@pytest.fixture(params=["fake", "stripe"])
async def scenario(request: pytest.FixtureRequest) -> AsyncIterator[PaymentScenario]:
    """A payment scenario on a processor with a fee per payment."""
    if request.param == "fake":
        yield await make_payment_scenario(make_fake_bench(fee_ppm=29_000))
        return
    async with open_stripe_bench() as bench:
        yield await make_payment_scenario(bench)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOW)


@pytest.fixture
async def stub(clock: VirtualClock) -> AsyncIterator[StripeStub]:
    async with open_stub(clock.wall) as opened:
        yield opened


@pytest.fixture
async def client(stub: StripeStub) -> AsyncIterator[StripeClient]:
    """Stripe's own client, which calls the stub."""
    async with open_stripe_client(stub) as opened:
        yield opened
