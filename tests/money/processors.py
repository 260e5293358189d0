"""The payment processors that the contract suite runs over, each with its outside world.

A processor is one entry of `PROCESSORS`: its name, and a context manager that opens it with empty
state and closes it. It can request other fixtures, such as a database, from the test.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import Any

import pytest
from attrs import frozen
from sqlalchemy import create_mock_engine, text
from stripe import HTTPXClient, StripeClient

from staffbooking_adapters.fake.documents import FakeDocumentStore
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.memory.sandbox.fake_documents import MemoryFakeDocumentStore
from staffbooking_adapters.sql.engine.open import Database, Statement, open_database
from staffbooking_adapters.sql.sandbox.fake_documents import SqlFakeDocumentStore
from staffbooking_adapters.sql.schema.metadata import metadata
from staffbooking_adapters.sql.schema.sandbox import fakepay_documents
from staffbooking_adapters.stripe.processor import API_VERSION, StripeProcessor
from staffbooking_adapters.testing.builders import NOW
from staffbooking_adapters.testing.processor import BenchOpener
from staffbooking_adapters.testing.processor.base import (
    COMPANION_ID,
    INTENT_ID,
    ProcessorBench,
)
from staffbooking_core.domain.payments.processor import (
    Checkout,
    OperationKind,
    Payment,
    PayoutState,
)
from tests.stripe_stub import StripeStub, open_stub
from tests.support.migrated_databases import MigratedDatabase

SIGNING_SECRET = b"a secret of the tests"
BASE_URL = "https://bookings.example.com"

_keys = count(1)


@frozen
class FakeProcessorWorld:
    """Acts as the customer, the bank and the operators of a fake processor."""

    processor: FakeProcessor

    async def pay(self, checkout: Checkout) -> None:
        await self.processor.sandbox.simulate_checkout(checkout.ref, "succeed")

    async def decline(self, checkout: Checkout) -> None:
        await self.processor.sandbox.simulate_checkout(checkout.ref, "decline")

    async def charge_back(self, intent_id: int, outcome: str) -> None:
        await self.processor.sandbox.chargeback(intent_id, outcome)

    async def refund_by_hand(self, payment: Payment, amount: int) -> None:
        await self.processor.dashboard.refund(INTENT_ID, amount)

    async def reverse_by_hand(self, payout: PayoutState, amount: int) -> None:
        await self.processor.dashboard.reverse_payout(INTENT_ID, amount)

    async def break_next(self, op: OperationKind, kind: str) -> None:
        await self.processor.sandbox.add_fault(op, kind, 1)

    async def set_ready(self, payee_ref: str, ready: bool) -> None:
        await self.processor.dashboard.set_payee_ready(COMPANION_ID, ready)

    async def events(self) -> Sequence[tuple[Mapping[str, str], bytes]]:
        return await self.processor.sandbox.take_due_events(100)

    async def balance(self) -> int:
        return await self.processor.sandbox.balance()


STRIPE_FAULT_NAMES = {
    "timeout_before": "reset_before",
    "timeout_after": "reset_after",
    "refuse:insufficient_funds": "refuse:balance_insufficient",
}


@frozen
class StripeStubWorld:
    """Acts as the customer, the bank and the operators of the stub of Stripe."""

    stub: StripeStub

    async def pay(self, checkout: Checkout) -> None:
        self.stub.pay(checkout.ref)

    async def decline(self, checkout: Checkout) -> None:
        self.stub.decline(checkout.ref)

    async def charge_back(self, intent_id: int, outcome: str) -> None:
        self.stub.charge_back(intent_id, outcome)

    async def refund_by_hand(self, payment: Payment, amount: int) -> None:
        self.stub.refund_by_hand(payment.ref, amount)

    async def reverse_by_hand(self, payout: PayoutState, amount: int) -> None:
        http, key = HTTPXClient(), f"by hand {next(_keys)}"
        dashboard = StripeClient(
            self.stub.api_key,
            stripe_version=API_VERSION,
            base_addresses={"api": self.stub.url},
            http_client=http,
        )
        await dashboard.v1.transfers.reversals.create_async(
            payout.ref, {"amount": amount}, {"idempotency_key": key}
        )
        await http.close_async()

    async def break_next(self, op: OperationKind, kind: str) -> None:
        self.stub.inject_fault(op, STRIPE_FAULT_NAMES.get(kind, kind))

    async def set_ready(self, payee_ref: str, ready: bool) -> None:
        self.stub.set_payee_ready(payee_ref, ready)

    async def events(self) -> Sequence[tuple[Mapping[str, str], bytes]]:
        return self.stub.events()

    async def balance(self) -> int:
        return self.stub.balance()


def make_bench_on_store(
    store: FakeDocumentStore, clock: VirtualClock | None = None, *, manual_payees: bool = False
) -> ProcessorBench:
    """A fake processor on a document store."""
    clock = clock or VirtualClock(NOW)
    processor = FakeProcessor(
        store, clock, base_url="http://test", secret=SIGNING_SECRET, manual_payees=manual_payees
    )
    return ProcessorBench(processor, FakeProcessorWorld(processor), clock)


def fake_processor_of(bench: ProcessorBench) -> FakeProcessor:
    """The fake processor of a bench."""
    assert isinstance(bench.payments, FakeProcessor)
    return bench.payments


def make_stripe_processor(stub: StripeStub, **given: Any) -> StripeProcessor:
    """A processor on the stub without retries, so that each fault is visible."""
    defaults = {
        "secret_key": stub.api_key,
        "webhook_secrets": stub.secrets,
        "environment": "test",
        "base_url": BASE_URL,
        "currency": "usd",
        "base_addresses": {"api": stub.url},
    }
    return StripeProcessor(**{**defaults, **given})


@asynccontextmanager
async def open_stripe_bench() -> AsyncIterator[ProcessorBench]:
    """Stripe's adapter on a stub of Stripe with a correctly configured account."""
    clock = VirtualClock(NOW)
    async with open_stub(clock.wall) as stub:
        url = f"{BASE_URL}/processor/stripe/webhook"
        stub.set_settings(endpoints=(url,), destinations=(url,))
        processor = make_stripe_processor(stub)
        try:
            yield ProcessorBench(processor, StripeStubWorld(stub), clock)
        finally:
            await processor.close()


@asynccontextmanager
async def open_memory_bench(
    _: pytest.FixtureRequest, *, manual_payees: bool = False
) -> AsyncIterator[ProcessorBench]:
    yield make_bench_on_store(MemoryFakeDocumentStore(), manual_payees=manual_payees)


@asynccontextmanager
async def open_sqlite_bench(
    request: pytest.FixtureRequest, *, manual_payees: bool = False
) -> AsyncIterator[ProcessorBench]:
    url = f"sqlite+aiosqlite:///{request.getfixturevalue('tmp_path') / 'fake.db'}"
    database = await open_database(url, metadata)
    try:
        await create_fake_documents_table(database)
        yield make_bench_on_store(SqlFakeDocumentStore(database), manual_payees=manual_payees)
    finally:
        await database.close()


@asynccontextmanager
async def open_postgresql_bench(
    request: pytest.FixtureRequest, *, manual_payees: bool = False
) -> AsyncIterator[ProcessorBench]:
    migrated: MigratedDatabase = request.getfixturevalue("migrated_database")
    migrated.execute("DELETE FROM fakepay_documents")
    database = await open_database(migrated.url, metadata, pool_size=16)
    try:
        yield make_bench_on_store(SqlFakeDocumentStore(database), manual_payees=manual_payees)
    finally:
        await database.close()


FAKES: dict[str, Any] = {
    "FakeInMemory": open_memory_bench,
    "FakeOnSqlite": open_sqlite_bench,
    "FakeOnPostgresql": open_postgresql_bench,
}
PROCESSORS: dict[str, BenchOpener] = {
    # As real processors, these pay nobody without an account.
    **{name: partial(opener, manual_payees=True) for name, opener in FAKES.items()},
    "Stripe": lambda _: open_stripe_bench(),
}


def stub_of(bench: ProcessorBench) -> StripeStub:
    """The Stripe stub of a bench."""
    assert isinstance(bench.outside_world, StripeStubWorld)
    return bench.outside_world.stub


async def due_event_ids(bench: ProcessorBench, limit: int = 100) -> list[str]:
    """Ids of the events that the fake processor delivers now."""
    return [
        json.loads(body)["id"]
        for _, body in await fake_processor_of(bench).sandbox.take_due_events(limit)
    ]


async def create_fake_documents_table(database: Database) -> None:
    """Create the table of the fake's documents and its index."""
    statements: list[Any] = []
    engine = create_mock_engine(f"{database.dialect}://", lambda ddl, *_: statements.append(ddl))
    fakepay_documents.create(engine, checkfirst=False)
    for ddl in statements:
        await database.execute(Statement(text(str(ddl.compile(dialect=engine.dialect)))))
