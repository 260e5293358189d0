"""The base of the payment processor's contract suites, and the world outside of a processor.

Amounts are in minor units.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from itertools import count
from typing import Protocol

import pytest
from attrs import Factory, frozen

from staffbooking_adapters.memory.doubles import VirtualClock
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

__all__ = [
    "CALL_TIMEOUT_SECONDS",
    "COMPANION_ID",
    "INTENT_ID",
    "PaymentProcessorContract",
    "ProcessorBench",
    "ProcessorWorld",
    "make_checkout_command",
    "make_operation_key",
    "make_payee_command",
]

CALL_TIMEOUT_SECONDS = 20.0
INTENT_ID = 12
COMPANION_ID = 2

_operation_ids = count(1)


class ProcessorWorld(Protocol):
    """Actions of everybody outside the platform. Time is the wall time of the bench's clock."""

    async def pay(self, checkout: Checkout) -> None:
        """The client pays on the hosted page. Where it is paid, closed or expired, nothing happens,
        and nothing is raised."""

    async def decline(self, checkout: Checkout) -> None:
        """The client's card is declined."""

    async def charge_back(self, intent_id: int, outcome: str) -> None:
        """The client's bank opens a chargeback of all that is left of the payment (open), or closes
        the open one: won, lost."""

    async def refund_by_hand(self, payment: Payment, amount: int) -> None:
        """An operator refunds a payment outside the platform."""

    async def reverse_by_hand(self, payout: PayoutState, amount: int) -> None:
        """An operator reverses a payout outside the platform."""

    async def break_next(self, op: OperationKind, kind: str) -> None:
        """The next call of this kind fails: timeout_before, timeout_after, error_500,
        error_500_after, rate_limit, conflict, or refuse:CODE (a RefusalCode). Timeouts
        and busy answers are over with the call; a refusal stays the answer under its key. The
        command was executed where the kind says `after`, else not."""

    async def set_ready(self, payee_ref: str, ready: bool) -> None:
        """Enable or disable payouts to the payee."""

    async def events(self) -> Sequence[tuple[Mapping[str, str], bytes]]:
        """Headers and bodies of the events sent since the previous call."""
        ...

    async def balance(self) -> int:
        """The platform's balance at the processor."""
        ...


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


class PaymentProcessorContract:
    """The base of the suites. A subclass names its processor: `open_bench` opens it with empty
    books and the world outside of it, and closes it after each test."""

    pytestmark = pytest.mark.anyio

    def open_bench(
        self, request: pytest.FixtureRequest
    ) -> AbstractAsyncContextManager[ProcessorBench]:
        """The bench of one test. It can ask the request for fixtures."""
        pytest.fail(f"{type(self).__name__} does not override PaymentProcessorContract.open_bench")

    @pytest.fixture
    async def bench(self, request: pytest.FixtureRequest) -> AsyncIterator[ProcessorBench]:
        async with self.open_bench(request) as opened:
            yield opened
