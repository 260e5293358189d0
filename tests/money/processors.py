"""The payment processors that the contract suite runs over, each with its outside world.

A `ProcessorBench` is a processor plus the actions of its client, its bank and a bad network.
To add a processor, add a fixture to `conftest.py` that returns a `ProcessorBench`, and add its
name to `PROCESSORS`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Protocol

import pytest
from attrs import Factory, frozen
from sqlalchemy import create_mock_engine, text
from stripe import HTTPXClient, StripeClient

from staffbooking_adapters.fake.book import FakeDocumentStore
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.sql.engine.open import Database, Statement
from staffbooking_adapters.sql.schema.sandbox import fakepay_documents
from staffbooking_adapters.stripe.processor import API_VERSION, StripeProcessor
from staffbooking_adapters.testing.builders import NOW
from staffbooking_core.domain.payments.payees import OpenPayee, PayeeState
from staffbooking_core.domain.payments.processor import (
    Checkout,
    IntentRefs,
    OpenCheckout,
    OperationKey,
    OperationKind,
    Payment,
    PayOut,
    PayoutState,
    RefundPayment,
    RefundState,
    Snapshot,
)
from staffbooking_core.ports import PaymentProcessor
from tests.stripe_stub import StripeStub, open_stub

FAKES = ("fake-memory", "fake-sqlite", "fake-postgresql")
PROCESSORS = (*FAKES, "stripe")

CALL_TIMEOUT_SECONDS = 20.0
SIGNING_SECRET = b"a secret of the tests"
INTENT_ID = 12
COMPANION_ID = 2
BASE_URL = "https://bookings.example.com"

ON_EACH_PROCESSOR = pytest.mark.parametrize("bench", PROCESSORS, indirect=True)
"""Processors over which every contract test runs."""

_operation_ids = count(1)


class ProcessorWorld(Protocol):
    """Actions of everybody outside the platform."""

    async def pay(self, checkout: Checkout) -> None:
        """The client pays on the hosted page."""

    async def decline(self, checkout: Checkout) -> None:
        """The client's card is declined."""

    async def charge_back(self, intent_id: int, outcome: str) -> None:
        """The client's bank opens a chargeback (open) or closes it: won, lost."""

    async def refund_by_hand(self, payment: Payment, amount: int) -> None:
        """An operator refunds a payment outside the platform."""

    async def reverse_by_hand(self, payout: PayoutState, amount: int) -> None:
        """An operator reverses a payout outside the platform."""

    async def break_next(self, op: OperationKind, kind: str) -> None:
        """The next call of this kind fails: timeout_before, timeout_after, error_500,
        error_500_after, rate_limit, conflict, or refuse:CODE."""

    async def set_ready(self, payee_ref: str, ready: bool) -> None:
        """Enable or disable payouts to the payee."""

    async def events(self) -> Sequence[tuple[Mapping[str, str], bytes]]:
        """Headers and bodies of the events sent since the previous call."""
        ...

    async def balance(self) -> int:
        """The platform's balance at the processor."""
        ...


@frozen
class FakeProcessorWorld:
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
        http, key = HTTPXClient(), f"by hand {next(_operation_ids)}"
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


@frozen
class ProcessorBench:
    """A processor, its outside world, and their common clock."""

    payments: PaymentProcessor
    outside_world: ProcessorWorld
    clock: VirtualClock
    checkouts: dict[int, tuple[tuple[str, int], ...]] = Factory(lambda: defaultdict(tuple))
    payment_refs: dict[int, tuple[str, ...]] = Factory(lambda: defaultdict(tuple))
    """Pages of each intent, and payments without a page, as the core records them."""

    async def open_checkout(
        self, key: OperationKey | None = None, intent_id: int = INTENT_ID, amount: int = 20_000
    ) -> Checkout:
        key = key or make_operation_key(OperationKind.OPEN_CHECKOUT, intent_id)
        command = make_checkout_command(amount, now=self.clock.wall())
        opened = await self.payments.open_checkout(command, key, CALL_TIMEOUT_SECONDS)
        known = dict(self.checkouts[intent_id]) | {opened.ref: opened.op_id}
        self.checkouts[intent_id] = tuple(known.items())
        return opened

    async def snapshot(self, intent_id: int = INTENT_ID) -> Snapshot:
        refs = IntentRefs(intent_id, self.checkouts[intent_id], self.payment_refs[intent_id])
        return await self.payments.snapshot(refs, CALL_TIMEOUT_SECONDS)

    async def make_payment(self, intent_id: int = INTENT_ID, amount: int = 20_000) -> Payment:
        """An intent with one payment."""
        await self.outside_world.pay(await self.open_checkout(intent_id=intent_id, amount=amount))
        return (await self.snapshot(intent_id)).payments[0]

    async def refund(
        self, payment: Payment, amount: int, key: OperationKey | None = None
    ) -> RefundState:
        key = key or make_operation_key(OperationKind.REFUND)
        command = RefundPayment(payment.ref, amount, payment.currency)
        return await self.payments.refund(command, key, CALL_TIMEOUT_SECONDS)

    async def open_payee(self, ready: bool = True) -> PayeeState:
        """The companion's account, opened on the first call."""
        key = OperationKey(0, COMPANION_ID, OperationKind.OPEN_PAYEE, 1)
        opened = await self.payments.open_payee(make_payee_command(), key, CALL_TIMEOUT_SECONDS)
        await self.outside_world.set_ready(opened.ref, ready)
        return await self.payments.payee(opened.ref, CALL_TIMEOUT_SECONDS)

    async def pay_out(
        self,
        payment: Payment,
        amount: int,
        key: OperationKey | None = None,
        payee: PayeeState | None = None,
    ) -> PayoutState:
        key = key or make_operation_key(OperationKind.PAY_OUT)
        ref = (payee or await self.open_payee()).ref
        command = PayOut(payment.ref, COMPANION_ID, amount, payment.currency, ref)
        return await self.payments.pay_out(command, key, CALL_TIMEOUT_SECONDS)


def make_bench_on_book(
    book: FakeDocumentStore, clock: VirtualClock | None = None
) -> ProcessorBench:
    clock = clock or VirtualClock(NOW)
    processor = FakeProcessor(book, clock, base_url="http://test", secret=SIGNING_SECRET)
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


async def create_fake_book_table(database: Database) -> None:
    """Create the table of the fake's book and its index."""
    written: list[Any] = []
    engine = create_mock_engine(f"{database.dialect}://", lambda ddl, *_: written.append(ddl))
    fakepay_documents.create(engine, checkfirst=False)
    for ddl in written:
        await database.execute(Statement(text(str(ddl.compile(dialect=engine.dialect)))))


def make_checkout_command(
    amount: int = 20_000, currency: str = "usd", now: datetime = NOW
) -> OpenCheckout:
    """A command for a page that expires after twelve hours."""
    return OpenCheckout(
        amount=amount,
        currency=currency,
        booking_code="BK0123456789AB",
        customer_email="ada@example.com",
        description="Gala dinner by Mia Lindqvist",
        success_url="http://test/bookings/12/return?done",
        cancel_url="http://test/bookings/12/return",
        expires_at=now + timedelta(hours=12),
    )


def make_payee_command(companion_id: int = COMPANION_ID) -> OpenPayee:
    return OpenPayee(companion_id, "mia@example.com", "Mia Lindqvist", "US", "usd")


def make_operation_key(
    kind: OperationKind, intent_id: int = INTENT_ID, generation: int = 1
) -> OperationKey:
    """A new operation key on each call."""
    return OperationKey(intent_id, next(_operation_ids), kind, generation)
