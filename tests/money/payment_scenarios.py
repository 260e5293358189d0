"""The whole service on one processor: bookings from their request to the last cent.

A `PaymentScenario` is a `BookingScenario` on any `ProcessorBench`. Actions of people, banks
and the network are written once and run on the fake processor and on Stripe alike. Time is real
time, since a real processor has no other clock. Events arrive only when the scenario delivers
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any

from attrs import evolve, frozen

from staffbooking_adapters.testing.builders import HOUR, MINUTE, POLICY, SECOND, add_companion
from staffbooking_adapters.testing.processor.base import CALL_TIMEOUT_SECONDS, ProcessorBench
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.ledger import (
    LIABILITY_ACCOUNTS,
    Account,
    MovementKind,
    account_balances,
)
from staffbooking_core.domain.payments.processor import (
    BadEventSignature,
    Checkout,
    OpenCheckout,
    OperationKind,
    OutcomeUnknown,
    Snapshot,
)
from staffbooking_core.policy import Policy
from staffbooking_core.ports import PaymentProcessor
from staffbooking_core.usecases.payments import (
    payees,
    reconciliation as payments_reconciliation,
    statement,
)
from staffbooking_core.usecases.payments.statement import StatementDifference
from tests.money.processors import StripeStubWorld, fake_processor_of, stub_of
from tests.support.memory_deployment import (
    BookingScenario,
    actor_of,
    make_booking_scenario,
    memory_ports,
)

SignedEvent = tuple[Any, bytes]

TOTAL_AMOUNT, PAYOUT_AMOUNT = 40_000, 34_000
"""Of four hours at 100.00, with a fee of 15 %."""
LATER_DATE = date(2027, 3, 14)
CALL_FAULTS = (
    *("timeout_before", "timeout_after", "error_500", "error_500_after"),
    *("rate_limit", "conflict", "slow"),
)

REST_INTERVALS = (6 * MINUTE, 15 * MINUTE, 40 * MINUTE, HOUR, HOUR, 21 * HOUR)
"""Lost events are recovered after the first one; all work is done after the last one."""


NON_CALL_ATTRIBUTES = ("name", "min_amount", "max_amount", "parse_webhook")


@frozen
class UnreachableProcessor:
    """A processor that does not answer."""

    inner: PaymentProcessor

    def __getattr__(self, name: str) -> Any:
        if name in NON_CALL_ATTRIBUTES:
            return getattr(self.inner, name)

        async def call(*_: Any) -> None:
            raise OutcomeUnknown("no answer")

        return call


@frozen
class PaymentScenario(BookingScenario):
    """A booking scenario on the payment processor of a bench."""

    bench: ProcessorBench

    @property
    def is_stripe(self) -> bool:
        return isinstance(self.bench.outside_world, StripeStubWorld)

    # Time and work --------------------------------------------------------------------------

    async def jump_to(self, at: datetime) -> None:
        self.pass_time(max(at - self.bench.clock.wall(), 0 * SECOND))

    async def drain(self) -> int:
        """Run all due work and receive the resulting events."""
        done = 0
        while step := await super().drain() + await self.receive_events(await self.events_due()):
            done += step
        return done

    async def events_due(self) -> Sequence[SignedEvent]:
        """Take the events that the processor sends now. Events not received are lost."""
        return await self.bench.outside_world.events()

    async def receive_events(self, events: Sequence[SignedEvent]) -> int:
        """Receive events as the webhook does and return the number of new ones."""
        new = 0
        for headers, body in events:
            with suppress(BadEventSignature):
                new += await payments_reconciliation.receive_webhook(self.ports, headers, body)
        return new

    async def settle(self) -> None:
        """Let time pass in `REST_INTERVALS` until no work is left; fail if some is left."""
        for wait in REST_INTERVALS:
            self.pass_time(wait)
            await self.drain()
            if not await self.unfinished():
                return
        raise AssertionError(f"still unfinished: {await self.unfinished()}")

    # The client, the bank, the payee, the Dashboard -------------------------------------------

    async def processor_snapshot(self, booking: Booking) -> Snapshot:
        """The processor's snapshot of a booking."""
        snapshot, _ = await payments_reconciliation.get_snapshot(
            self.ports, booking.id, self.ports.policy.processor_timeout
        )
        return snapshot

    async def checkout_page(self, booking: Booking) -> Checkout:
        """The hosted page to which the client of a booking is redirected now."""
        await self.checkout(booking)
        return (await self.processor_snapshot(booking)).checkouts[-1]

    async def simulate_checkout(self, booking: Booking, outcome: str = "succeed") -> None:
        page, world = await self.checkout_page(booking), self.bench.outside_world
        await (world.decline(page) if outcome == "decline" else world.pay(page))

    async def pay_wrong_amount(self, booking: Booking, amount: int) -> None:
        """Pay an amount other than the requested one; the fake uses a separate page."""
        page = await self.checkout_page(booking)
        if self.is_stripe:
            stub_of(self.bench).pay(page.ref, amount)
            return
        [ordered] = await self.operations(booking)
        assert isinstance(ordered.command, OpenCheckout)
        command, key = evolve(ordered.command, amount=amount), evolve(ordered.key, generation=99)
        other = await self.bench.payments.open_checkout(command, key, CALL_TIMEOUT_SECONDS)
        await self.bench.outside_world.pay(other)

    async def charge_back(self, booking: Booking, outcome: str = "open") -> Booking:
        await self.bench.outside_world.charge_back(booking.id, outcome)
        await self.drain()
        return await self.booking(booking)

    async def refund_by_hand(self, booking: Booking, amount: int) -> None:
        if self.is_stripe:
            [payment] = (await self.processor_snapshot(booking)).payments
            await self.bench.outside_world.refund_by_hand(payment, amount)
        else:
            await fake_processor_of(self.bench).dashboard.refund(booking.id, amount)

    async def onboard(self, ready: bool = True) -> None:
        """The companion opens an account, which can be paid at once or not yet."""
        payee, _ = await payees.open_onboarding(self.ports, self.staff, None)
        assert payee.ref is not None
        await self.set_ready(ready)

    async def set_ready(self, ready: bool) -> None:
        async with self.ports.store.read_view() as view:
            payee = await view.payees.payee(self.ports.payments.name, self.staff.user_id)
        assert payee is not None
        assert payee.ref is not None
        if self.is_stripe:
            await self.bench.outside_world.set_ready(payee.ref, ready)
        else:
            await fake_processor_of(self.bench).dashboard.set_payee_ready(self.staff.user_id, ready)

    # The network ----------------------------------------------------------------------------

    async def fault(self, op: str, kind: str, times: int = 1) -> None:
        if kind == "refuse" and self.is_stripe:
            kind = "refuse:charge_already_refunded"  # Any code that no waiting helps against.
        for _ in range(times):
            await self.bench.outside_world.break_next(OperationKind(op), kind)

    async def fault_all(self, kind: str) -> None:
        """The next call of each kind that moves money fails."""
        for op in OperationKind:
            if op is not OperationKind.OPEN_PAYEE:
                await self.fault(op, kind)

    async def lose_events(self) -> None:
        """Lose the events that the processor sends now, and their redelivery."""
        for _ in range(2):
            await self.events_due()
            self.pass_time(31 * SECOND)

    def with_unreachable_processor(self) -> PaymentScenario:
        """The same scenario with an unreachable processor."""
        dead: Any = UnreachableProcessor(self.bench.payments)
        return evolve(self, ports=evolve(self.ports, payments=dead))

    # Looking --------------------------------------------------------------------------------

    async def processor_balance(self) -> int:
        return await self.bench.outside_world.balance()

    async def owed_by_account(self, booking: Booking) -> dict[Account, int]:
        """Ledger balances of a booking by account."""
        async with self.ports.store.read_view() as view:
            sums = account_balances(await view.ledger.postings_of(booking.id))
        return {
            account: -sums[account]
            for account in (*LIABILITY_ACCOUNTS, Account.SUSPENSE)
            if sums[account]
        }

    async def moved_by_kind(self, booking: Booking) -> dict[MovementKind, int]:
        """Processor statement totals of a booking by movement kind, without fees."""
        found: dict[MovementKind, int] = {}
        async for line in self.bench.payments.statement():
            if line.intent_id == booking.id and line.kind is not MovementKind.FEE:
                found[line.kind] = found.get(line.kind, 0) + line.amount
        return found

    async def differences(self) -> list[str]:
        """Differences found by a two-way reconciliation, including pending operations."""
        found = [one async for one in statement.reconcile_statement(self.ports)]
        under_way = [
            f"{one.in_flight} under way"
            for one in found[-1:]
            if not isinstance(one, StatementDifference) and one.in_flight
        ]
        return [one.text for one in found if isinstance(one, StatementDifference)] + under_way

    async def check(self) -> None:
        """The ledger is consistent, and equals the processor's statement and balance."""
        assert await self.faults() == []
        assert await self.differences() == []
        async with self.ports.store.read_view() as view:
            assert (
                await view.ledger.account_balance(Account.PROCESSOR_BALANCE)
                == await self.processor_balance()
            )

    async def finish(self, booking: Booking) -> Booking:
        """Settle, check the ledger, and assert that nothing is owed any more."""
        await self.settle()
        await self.check()
        assert await self.owed_by_account(booking) == {}
        return await self.booking(booking)


async def make_payment_scenario(
    bench: ProcessorBench, policy: Policy = POLICY, *, onboarded: bool = True
) -> PaymentScenario:
    """A scenario on this processor; the companion can receive payouts by default."""
    ports = memory_ports(policy, clock=bench.clock, payments=bench.payments, sandbox=None)
    scene = await make_booking_scenario(policy, ports)
    staff = await add_companion(ports.store, payout_account=None)
    scenario = PaymentScenario(ports, scene.customer, actor_of(staff), scene.admin, bench)
    if onboarded:
        await scenario.onboard()
        await scenario.drain()
    return scenario
