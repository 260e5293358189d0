"""The whole service on one processor: bookings from their request to the last cent.

A `Play` is a `Scene` whose processor is any of the benches: what its people, its bank and its
network do is said once, and done at the fake as at Stripe. Time is real time here, since no
real processor knows of another. Events come in only when the play brings them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any

from attrs import evolve, frozen

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.ledger import OWED, Account, MovementKind, balances
from staffbooking_core.domain.payments.processor import (
    BadSignature,
    Checkout,
    OpenCheckout,
    OpKind,
    Snapshot,
    Unknown,
)
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Payments
from staffbooking_core.usecases.payments import (
    payees,
    reconciliation as payments_reconciliation,
    statement,
)
from staffbooking_core.usecases.payments.statement import Difference
from tests.money.processors import WITHIN, Bench, StripeWorld, fake_of, stub_of
from tests.support.builders import HOUR, MINUTE, POLICY, SECOND, add_companion
from tests.support.memory_deployment import Scene, actor_of, make_scene, memory_ports

Event = tuple[Any, bytes]

TOTAL, PAYOUT = 40_000, 34_000
"""Of four hours at 100.00, with a fee of 15 %."""
LATER = date(2027, 3, 14)
CALL_FAULTS = (
    *("timeout_before", "timeout_after", "error_500", "error_500_after"),
    *("rate_limit", "conflict", "slow"),
)

WAITS = (6 * MINUTE, 15 * MINUTE, 40 * MINUTE, HOUR, HOUR, 21 * HOUR)
"""After the first of them lost events have been caught up with, after the last all is done."""


NO_CALLS = ("name", "min_amount", "parse_webhook")


@frozen
class Dead:
    """A processor that does not answer."""

    real: Payments

    def __getattr__(self, name: str) -> Any:
        if name in NO_CALLS:
            return getattr(self.real, name)

        async def call(*_: Any) -> None:
            raise Unknown("no answer")

        return call


@frozen
class Play(Scene):
    bench: Bench

    @property
    def is_stripe(self) -> bool:
        return isinstance(self.bench.world, StripeWorld)

    # Time and work --------------------------------------------------------------------------

    async def jump_to(self, at: datetime) -> None:
        self.pass_time(max(at - self.bench.clock.wall(), 0 * SECOND))

    async def drain(self) -> int:
        """All due work, and the events that it brings about."""
        done = 0
        while step := await super().drain() + await self.bring(await self.events_due()):
            done += step
        return done

    async def events_due(self) -> Sequence[Event]:
        """What the processor sends now. Who takes it and does nothing has lost it."""
        return await self.bench.world.events()

    async def bring(self, events: Sequence[Event]) -> int:
        """Take events in, as the webhook does; how many were new. Forged ones are refused."""
        new = 0
        for headers, body in events:
            with suppress(BadSignature):
                new += await payments_reconciliation.receive(self.ports, headers, body)
        return new

    async def rest(self) -> None:
        """Let time pass until no work is left, over an hour at least where some was left."""
        for wait in WAITS:
            self.pass_time(wait)
            await self.drain()
            if not await self.unfinished():
                return
        raise AssertionError(f"still unfinished: {await self.unfinished()}")

    # The client, the bank, the payee, the Dashboard -------------------------------------------

    async def known(self, booking: Booking) -> Snapshot:
        """All that the processor has of a booking."""
        return await payments_reconciliation.snapshot_of(
            self.ports, booking.id, self.ports.policy.processor_deadline
        )

    async def page(self, booking: Booking) -> Checkout:
        """The hosted page of a booking that the client would be sent to now."""
        await self.checkout(booking)
        return (await self.known(booking)).checkouts[-1]

    async def play(self, booking: Booking, outcome: str = "succeed") -> None:
        page, world = await self.page(booking), self.bench.world
        await (world.decline(page) if outcome == "decline" else world.pay(page))

    async def pay_wrong(self, booking: Booking, amount: int) -> None:
        """Another amount is paid than was asked for: at the fake on a page of its own."""
        page = await self.page(booking)
        if self.is_stripe:
            stub_of(self.bench).pay(page.ref, amount)
            return
        [ordered] = await self.operations(booking)
        assert isinstance(ordered.command, OpenCheckout)
        command, key = evolve(ordered.command, amount=amount), evolve(ordered.key, generation=99)
        other = await self.bench.payments.open_checkout(command, key, WITHIN)
        await self.bench.world.pay(other)

    async def charge_back(self, booking: Booking, outcome: str = "open") -> Booking:
        await self.bench.world.charge_back(booking.id, outcome)
        await self.drain()
        return await self.booking(booking)

    async def refund_by_hand(self, booking: Booking, amount: int) -> None:
        if self.is_stripe:
            [payment] = (await self.known(booking)).payments
            await self.bench.world.refund_by_hand(payment, amount)
        else:
            await fake_of(self.bench).refund_by_hand(booking.id, amount)

    async def onboard(self, ready: bool = True) -> None:
        """The companion opens an account, which can be paid at once or not yet."""
        payee, _ = await payees.open_page(self.ports, self.staff, None)
        assert payee.ref is not None
        await self.set_ready(ready)

    async def set_ready(self, ready: bool) -> None:
        async with self.ports.store.reading() as view:
            payee = await view.payees.payee(self.ports.payments.name, self.staff.user_id)
        assert payee is not None
        assert payee.ref is not None
        if self.is_stripe:
            await self.bench.world.set_ready(payee.ref, ready)
        else:
            await fake_of(self.bench).set_payee_ready(self.staff.user_id, ready)

    # The network ----------------------------------------------------------------------------

    async def fault(self, op: str, kind: str, times: int = 1) -> None:
        if kind == "refuse" and self.is_stripe:
            kind = "refuse:charge_already_refunded"  # Any code that no waiting helps against.
        for _ in range(times):
            await self.bench.world.break_next(OpKind(op), kind)

    async def fault_all(self, kind: str) -> None:
        """The next call of each kind that moves money fails."""
        for op in OpKind:
            if op is not OpKind.OPEN_PAYEE:
                await self.fault(op, kind)

    async def lose_events(self) -> None:
        """What the processor sends now, and soon once more, gets lost."""
        for _ in range(2):
            await self.events_due()
            self.pass_time(31 * SECOND)

    def cut_off(self) -> Play:
        """The same play while the processor is out of reach."""
        dead: Any = Dead(self.bench.payments)
        return evolve(self, ports=evolve(self.ports, payments=dead))

    # Looking --------------------------------------------------------------------------------

    async def held(self) -> int:
        return await self.bench.world.balance()

    async def owed(self, booking: Booking) -> dict[Account, int]:
        """What the ledger says is owed for a booking, by account."""
        async with self.ports.store.reading() as view:
            sums = balances(await view.money.postings_of(booking.id))
        return {account: -sums[account] for account in (*OWED, Account.SUSPENSE) if sums[account]}

    async def moved(self, booking: Booking) -> dict[MovementKind, int]:
        """What the processor's statement says was moved for a booking, but for fees."""
        found: dict[MovementKind, int] = {}
        async for line in self.bench.payments.statement():
            if line.intent_id == booking.id and line.kind is not MovementKind.FEE:
                found[line.kind] = found.get(line.kind, 0) + line.amount
        return found

    async def differences(self) -> list[str]:
        """What a two-way reconciliation finds; nothing may be under way either."""
        found = [one async for one in statement.reconcile(self.ports)]
        under_way = [
            f"{one.in_flight} under way"
            for one in found[-1:]
            if not isinstance(one, Difference) and one.in_flight
        ]
        return [one.text for one in found if isinstance(one, Difference)] + under_way

    async def check(self) -> None:
        """The ledger is right, and it is the processor's book to the unit."""
        assert await self.faults() == []
        assert await self.differences() == []
        async with self.ports.store.reading() as view:
            assert await view.money.balance(Account.PROCESSOR_BALANCE) == await self.held()

    async def end(self, booking: Booking) -> Booking:
        """Let everything come to rest, check it, and see that nothing is owed any more."""
        await self.rest()
        await self.check()
        assert await self.owed(booking) == {}
        return await self.booking(booking)


async def make_play(bench: Bench, policy: Policy = POLICY, *, onboarded: bool = True) -> Play:
    """People of a deployment on this processor; the companion can be paid out unless said."""
    ports = memory_ports(policy, clock=bench.clock, payments=bench.payments, sandbox=None)
    scene = await make_scene(policy, ports)
    staff = await add_companion(ports.store, payout_account=None)
    play = Play(ports, scene.customer, actor_of(staff), scene.admin, bench)
    if onboarded:
        await play.onboard()
        await play.drain()
    return play
