"""The payment processors that the contract suite runs over, each with its outside world.

A `Bench` is a processor together with what a test does to it as the client, as a bank, or as
a bad network. Another processor joins by one more fixture in `conftest.py` that gives a
`Bench`, and its name in `PROCESSORS`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import count
from typing import Any, Protocol

from attrs import frozen
from sqlalchemy import create_mock_engine, text

from staffbooking_adapters.fake.book import FakeBook
from staffbooking_adapters.fake.processor import FakeProcessor
from staffbooking_adapters.memory.doubles import VirtualClock
from staffbooking_adapters.sql.engine import Database, Statement
from staffbooking_adapters.sql.fake_tables import fakepay_documents
from staffbooking_core.domain.payments import (
    Checkout,
    OpenCheckout,
    OpKey,
    OpKind,
    Payment,
    PayOut,
    PayoutState,
    Refund,
    RefundState,
)
from staffbooking_core.ports import Payments
from tests.support.builders import NOW

PROCESSORS = ("fake-memory", "fake-sqlite", "fake-postgresql")

WITHIN = 20.0
SECRET = b"a secret of the tests"
INTENT = 12

_operations = count(1)


class World(Protocol):
    """Everybody but us."""

    async def pay(self, checkout: Checkout) -> None:
        """The client pays on the hosted page."""

    async def decline(self, checkout: Checkout) -> None:
        """The client's card is declined."""

    async def charge_back(self, intent_id: int, outcome: str) -> None:
        """The client's bank takes the payment back (open), or decides: won, lost."""

    async def break_next(self, op: OpKind, kind: str) -> None:
        """The next call of this kind fails: timeout_before, timeout_after, error_500,
        error_500_after, rate_limit, conflict, or refuse:CODE."""

    async def unready(self, companion_id: int) -> None:
        """The payee cannot be paid for now."""

    async def events(self) -> Sequence[tuple[Mapping[str, str], bytes]]:
        """What the processor has sent since it was asked last: headers and bodies."""
        ...


@frozen
class FakeWorld:
    processor: FakeProcessor

    async def pay(self, checkout: Checkout) -> None:
        await self.processor.play(checkout.ref, "succeed")

    async def decline(self, checkout: Checkout) -> None:
        await self.processor.play(checkout.ref, "decline")

    async def charge_back(self, intent_id: int, outcome: str) -> None:
        await self.processor.chargeback(intent_id, outcome)

    async def break_next(self, op: OpKind, kind: str) -> None:
        await self.processor.add_fault(op, kind, 1)

    async def unready(self, companion_id: int) -> None:
        await self.processor.set_payee_ready(companion_id, False)

    async def events(self) -> Sequence[tuple[Mapping[str, str], bytes]]:
        return await self.processor.due_events(100)


@frozen
class Bench:
    """A processor, the world around it, and the clock of both."""

    payments: Payments
    world: World
    clock: VirtualClock

    async def opened(
        self, key: OpKey | None = None, intent_id: int = INTENT, amount: int = 20_000
    ) -> Checkout:
        key = key or make_key(OpKind.OPEN_CHECKOUT, intent_id)
        return await self.payments.open_checkout(make_checkout(amount), key, WITHIN)

    async def paid(self, intent_id: int = INTENT, amount: int = 20_000) -> Payment:
        """An intent with one payment."""
        await self.world.pay(await self.opened(intent_id=intent_id, amount=amount))
        snapshot = await self.payments.snapshot(intent_id, WITHIN)
        return snapshot.payments[0]

    async def refunded(
        self, payment: Payment, amount: int, key: OpKey | None = None
    ) -> RefundState:
        key = key or make_key(OpKind.REFUND)
        command = Refund(payment.ref, amount, payment.currency)
        return await self.payments.refund(command, key, WITHIN)

    async def paid_out(
        self, payment: Payment, amount: int, key: OpKey | None = None
    ) -> PayoutState:
        key = key or make_key(OpKind.PAY_OUT)
        command = PayOut(payment.ref, 2, amount, payment.currency)
        return await self.payments.pay_out(command, key, WITHIN)


def fake_bench(book: FakeBook, clock: VirtualClock | None = None) -> Bench:
    clock = clock or VirtualClock(NOW)
    processor = FakeProcessor(book, clock, base_url="http://test", secret=SECRET)
    return Bench(processor, FakeWorld(processor), clock)


def fake_of(bench: Bench) -> FakeProcessor:
    """The processor of a bench that is known to be the fake one."""
    assert isinstance(bench.payments, FakeProcessor)
    return bench.payments


async def ids_due(bench: Bench, limit: int = 100) -> list[str]:
    """The ids of the events that the fake processor brings now."""
    return [json.loads(body)["id"] for _, body in await fake_of(bench).due_events(limit)]


async def make_book(database: Database) -> None:
    """Make the table of the fake's book, and its index."""
    written: list[Any] = []
    engine = create_mock_engine(f"{database.dialect}://", lambda ddl, *_: written.append(ddl))
    fakepay_documents.create(engine, checkfirst=False)
    for ddl in written:
        await database.run(Statement(text(str(ddl.compile(dialect=engine.dialect)))))


def make_checkout(amount: int = 20_000, currency: str = "usd") -> OpenCheckout:
    """A page that lapses twelve hours after NOW."""
    return OpenCheckout(
        amount=amount,
        currency=currency,
        booking_code="BK0123456789AB",
        customer_email="ada@example.com",
        description="Gala dinner by Mia Lindqvist",
        success_url="http://test/bookings/12/return?done",
        cancel_url="http://test/bookings/12/return",
        expires_at=NOW + timedelta(hours=12),
    )


def make_key(kind: OpKind, intent_id: int = INTENT, generation: int = 1) -> OpKey:
    """The key of an operation, another one each time."""
    return OpKey(intent_id, next(_operations), kind, generation)
