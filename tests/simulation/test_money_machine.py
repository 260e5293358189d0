"""Everything at once, by chance: parties, clocks, faults of the processor, crashes.

After each step the books are right, no time is sold twice, and nothing is paid out under
dispute. When the faults end, all work ends, and the ledger is the processor's book.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import date
from typing import Any, TypeVar

import pytest
from attrs import evolve
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from staffbooking_core.domain.accounts import Role
from staffbooking_core.domain.audit import faults_of
from staffbooking_core.domain.bookings import Booking, PayoutStatus
from staffbooking_core.domain.ledger import OWED, balances
from staffbooking_core.domain.lifecycle import Status, Trigger
from staffbooking_core.domain.payments import (
    Chargeback,
    ChargebackStatus,
    OpKey,
    OpStatus,
    PayOut,
    PayoutState,
    Snapshot,
)
from staffbooking_core.errors import (
    Forbidden,
    InvalidField,
    ProcessorUnavailable,
    RuleBroken,
)
from staffbooking_core.ports import Audited, Payments
from staffbooking_core.usecases import bookings as acts
from staffbooking_core.usecases import payments
from tests.support.builders import DAY, HOUR, MINUTE, POLICY, SECOND, add_companion, add_user
from tests.support.ports import Scene, actor_of, memory_ports

T = TypeVar("T")

CALLS = ("open_checkout", "close_checkout", "refund", "pay_out", "reverse_payout")
FAULTS = (
    *("timeout_before", "timeout_after", "error_500", "error_500_after"),
    *("rate_limit", "conflict", "slow"),
)
EXPECTED = (RuleBroken, Forbidden, InvalidField, ProcessorUnavailable)
PICKS = st.integers(0, 1000)
STAGES = {
    "accepted": "accepted",
    "paid": "paid",
    "paid and charged": "paid",
    "completed": "completed",
    "due": "completed",
    "paid out": "paid_out",
    "paid out and charged": "paid_out",
}
"""How far a booking may be when a history begins, and how it gets there."""


class Crash(BaseException):
    """The process dies here."""


class Watched:
    """The processor, on which a process may die before or after a call, and which sees that
    no payout is ever asked of it that the booking does not owe at that moment."""

    def __init__(self, real: Payments, machine: MoneyMachine) -> None:
        self._real = real
        self._machine = machine
        self.crash: str | None = None

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in CALLS:
            return found

        async def call(*args: Any) -> Any:
            when, self.crash = self.crash, None
            if when == "before":
                raise Crash
            result = await found(*args)
            if when == "after":
                raise Crash
            return result

        return call

    async def pay_out(self, command: PayOut, key: OpKey, within: float) -> PayoutState:
        booking = await self._machine.scene.booking_of(key.intent_id)
        assert booking.status in (Status.COMPLETED, Status.CANCELLED)
        assert booking.payout_status in (PayoutStatus.SCHEDULED, PayoutStatus.FAILED)
        assert command.amount == booking.payout_left
        state: PayoutState = await self.__getattr__("pay_out")(command, key, within)
        return state


class MoneyMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.made: list[Booking] = []

    def do(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Run a call as a process would: refusals are answers, a crash ends the process."""
        try:
            return self.runner.run(work)
        except (*EXPECTED, Crash):
            return None

    @initialize(begun=st.lists(st.sampled_from(sorted(STAGES)), min_size=1, max_size=3))
    def open(self, begun: list[str]) -> None:
        """Some bookings are on their way already, so that every history sees all of it."""
        self.runner.run(self.compose())
        for number, stage in enumerate(begun):
            self.made.append(self.runner.run(self.begin(self.scenes[number], number, stage)))

    async def begin(self, scene: MachineScene, number: int, stage: str) -> Booking:
        day = date.fromordinal((await scene.now()).date().toordinal() + 4 + 9 * number)
        make = getattr(scene, STAGES[stage])
        booking: Booking = await make(event_date=day, cancellation_insurance=number == 1)
        if stage == "due":
            await scene.jump_to(booking.ends_at + DAY)
        if stage.endswith("charged"):
            await scene.bench.chargeback(booking.id, "open")
        return booking

    async def compose(self) -> None:
        ports = memory_ports(POLICY)
        self.watched = Watched(ports.payments, self)
        ports = evolve(ports, payments=self.watched)
        self.staff = [await add_companion(ports.store) for _ in range(2)]
        customers = [await add_user(ports.store) for _ in range(2)]
        admin = actor_of(await add_user(ports.store, role=Role.ADMIN))
        self.scenes = [
            MachineScene(ports, actor_of(customer), actor_of(companion), admin)
            for customer in customers
            for companion in self.staff
        ]
        self.scene = self.scenes[0]

    def pick(self, number: int) -> tuple[MachineScene, Booking]:
        """One of the bookings as it is now, with its own people."""
        booking = self.runner.run(self.scene.booking(self.made[number % len(self.made)]))
        scene = next(
            scene
            for scene in self.scenes
            if scene.customer.user_id == booking.customer_id
            and scene.staff.user_id == booking.companion_id
        )
        return scene, booking

    # People -------------------------------------------------------------------------------

    @precondition(lambda self: len(self.made) < 6)
    @rule(
        scene=PICKS,
        day=st.integers(1, 3),
        hour=st.sampled_from([8, 10, 12, 22]),
        hours=st.sampled_from([1, 3, 24]),
        insured=st.booleans(),
    )
    def request(self, scene: int, day: int, hour: int, hours: int, insured: bool) -> None:
        chosen = self.scenes[scene % len(self.scenes)]
        today = self.runner.run(chosen.now()).date()
        made = self.do(
            chosen.request(
                event_date=date.fromordinal(today.toordinal() + day),
                start_time=f"{hour:02}:00",
                duration_hours=hours,
                cancellation_insurance=insured,
            )
        )
        if made is not None:
            self.made.append(made)

    @precondition(lambda self: self.made)
    @rule(number=PICKS)
    def go_on(self, number: int) -> None:
        """The next step of the usual way, and what it brings about."""
        self.go(number)
        self.do(self.scene.drain())

    @precondition(lambda self: self.made)
    @rule(number=PICKS)
    def go(self, number: int) -> None:
        """The next step of the usual way."""
        scene, booking = self.pick(number)
        match booking.status:
            case Status.PENDING:
                self.do(scene.accept(booking))
            case Status.ACCEPTED:
                self.do(scene.play(booking))
            case Status.PAID:
                self.do(scene.end_of(booking))
                self.do(scene.move(booking, Trigger.CONFIRM, scene.customer))
            case Status.COMPLETED | Status.CANCELLED if booking.payout_due_at is not None:
                self.do(scene.jump_to(booking.payout_due_at))

    @precondition(lambda self: self.made)
    @rule(number=PICKS, by=st.sampled_from(["customer", "staff", "admin"]), quoted=st.booleans())
    def cancel(self, number: int, by: str, quoted: bool) -> None:
        scene, booking = self.pick(number)
        actor, text = getattr(scene, by), None
        if quoted and (said := self.do(acts.quote(scene.ports, actor, booking.id))):
            text = said["quote"]
            self.do(scene.jump_to(self.runner.run(scene.now()) + 9 * MINUTE))
        self.do(scene.cancel(booking, actor, text))

    @precondition(lambda self: self.made)
    @rule(number=PICKS, outcome=st.sampled_from(["succeed", "succeed", "decline", "expire"]))
    def visit_checkout(self, number: int, outcome: str) -> None:
        scene, booking = self.pick(number)
        self.do(scene.play(booking, outcome))

    @precondition(lambda self: self.made)
    @rule(number=PICKS, by=st.sampled_from(["customer", "staff"]))
    def dispute(self, number: int, by: str) -> None:
        scene, booking = self.pick(number)
        self.do(scene.dispute(booking, getattr(scene, by)))

    @precondition(lambda self: self.made)
    @rule(
        number=PICKS,
        trigger=st.sampled_from([Trigger.RELEASE, Trigger.REFUND, Trigger.SPLIT]),
        amount=st.integers(1, 30_000),
    )
    def resolve(self, number: int, trigger: Trigger, amount: int) -> None:
        scene, booking = self.pick(number)
        self.do(scene.resolve(booking, trigger, amount))

    @precondition(lambda self: self.made)
    @rule(number=PICKS, trigger=st.sampled_from([Trigger.DECLINE, Trigger.CHECK_IN]))
    def act(self, number: int, trigger: Trigger) -> None:
        scene, booking = self.pick(number)
        self.do(scene.move(booking, trigger, scene.staff))

    # The world ----------------------------------------------------------------------------

    @precondition(lambda self: self.made)
    @rule(number=PICKS, outcome=st.sampled_from(["open", "open", "won", "lost"]))
    def charge_back(self, number: int, outcome: str) -> None:
        scene, booking = self.pick(number)
        self.do(scene.bench.chargeback(booking.id, outcome))

    @rule(hours=st.sampled_from([1, 12, 24, 80]))
    def jump(self, hours: int) -> None:
        self.do(self.scene.jump_to(self.runner.run(self.scene.now()) + hours * HOUR))

    @rule(by=st.sampled_from([SECOND, 20 * SECOND, 11 * MINUTE, HOUR, 21 * HOUR]))
    def wait(self, by: Any) -> None:
        self.scene.pass_time(by)

    @rule(
        op=st.sampled_from([*CALLS, "any"]),
        kind=st.sampled_from(FAULTS),
        times=st.sampled_from([1, 1, 2, 4]),
    )
    def fault(self, op: str, kind: str, times: int) -> None:
        self.do(self.scene.fault(op, kind, times))

    @rule(
        what=st.sampled_from(
            [
                *[("event", kind) for kind in ("drop", "delay", "duplicate", "reorder")],
                ("refund", "pending_then_settled"),
                ("pay_out", "refuse:payee_not_ready"),
                ("pay_out", "refuse:insufficient_funds"),
                ("open_checkout", "refuse"),
            ]
        )
    )
    def rarer_fault(self, what: tuple[str, str]) -> None:
        self.do(self.scene.fault(*what))

    @rule(when=st.sampled_from(["before", "after"]))
    def crash_at_the_next_call(self, when: str) -> None:
        self.watched.crash = when

    @rule()
    def drain(self) -> None:
        self.do(self.scene.drain())

    # What always holds --------------------------------------------------------------------

    @invariant()
    def books_are_right(self) -> None:
        for one in self.everything():
            found = list(faults_of(one.booking, one.postings, one.operations))
            assert found == [], found

    @invariant()
    def no_time_is_sold_twice(self) -> None:
        holders = [one.booking for one in self.everything() if one.booking.holds_slot]
        for one in holders:
            for other in holders:
                if one.id < other.id and one.companion_id == other.companion_id:
                    assert other.ends_at <= one.starts_at or one.ends_at <= other.starts_at

    @invariant()
    def the_processor_gave_no_more_than_it_took(self) -> None:
        for one in self.everything():
            if one.booking.intent is not None:
                known = self.snapshot(one.booking)
                taken = sum(payment.amount for payment in known.payments)
                refunded = sum(refund.amount for refund in known.refunds)
                paid_out = sum(payout.amount for payout in known.payouts)
                reversed_ = sum(reversal.amount for reversal in known.reversals)
                assert refunded <= taken
                assert 0 <= paid_out - reversed_ <= one.booking.total_amount

    def everything(self) -> list[Audited]:
        async def read() -> list[Audited]:
            async with self.scene.ports.store.reading() as view:
                return list(await view.money.audit(0, 1000))

        return self.runner.run(read()) if hasattr(self, "scene") else []

    def snapshot(self, booking: Booking) -> Snapshot:
        return self.runner.run(self.watched._real.snapshot(booking.id, 5.0))

    # The end ------------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            if hasattr(self, "scene"):
                self.runner.run(self.finish())
        finally:
            self.runner.close()

    async def finish(self) -> None:
        """The faults end, disputes are decided: all that is due gets done, and is right."""
        self.watched.crash = None
        await self.scene.clear_faults()
        for _ in range(6):
            self.scene.pass_time(HOUR)
            await self.scene.settle_down()
            await self.decide()
            await self.scene.jump_to(await self.scene.now() + 20 * DAY)
        await self.scene.settle_down()
        assert await self.scene.faults() == []
        for one in await self.scene.audited():
            self.check_finished(one)

    async def decide(self) -> None:
        for one in await self.scene.audited():
            booking = one.booking
            if booking.intent is not None:
                await payments.look(self.scene.ports, booking.id, POLICY.processor_deadline)
                for chargeback in (await self.watched.snapshot(booking.id, 5.0)).chargebacks:
                    await self.win(booking, chargeback)
            booking = await self.scene.booking(booking)
            if booking.status is Status.DISPUTED:
                await self.scene.resolve(booking, Trigger.RELEASE)

    async def win(self, booking: Booking, chargeback: Chargeback) -> None:
        if chargeback.status is ChargebackStatus.OPEN:
            await self.scene.charge_back(booking, "won")
            await payments.look(self.scene.ports, booking.id, POLICY.processor_deadline)

    def check_finished(self, one: Audited) -> None:
        booking, owed = one.booking, balances(one.postings)
        assert booking.status in (Status.COMPLETED, Status.CANCELLED)
        assert {op.status for op in one.operations} <= {
            OpStatus.DONE,
            OpStatus.VOID,
            OpStatus.REFUSED,
        }
        refused = any(op.status is OpStatus.REFUSED for op in one.operations)
        assert refused or not any(owed[account] for account in OWED)
        assert refused or booking.owed_by_staff == 0


class MachineScene(Scene):
    @property
    def bench(self) -> Any:
        return self.ports.sandbox

    async def booking_of(self, booking_id: int) -> Booking:
        async with self.ports.store.reading() as view:
            found = await view.bookings.booking(booking_id)
        assert found is not None
        return found

    async def audited(self) -> list[Audited]:
        async with self.ports.store.reading() as view:
            return list(await view.money.audit(0, 1000))

    async def end_of(self, booking: Booking) -> None:
        await self.jump_to(booking.ends_at)


CHECKS = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)


def test_no_history_loses_money() -> None:
    """Of random histories with faults and crashes each ends with the books right."""
    run_state_machine_as_test(MoneyMachine, settings=CHECKS)


@pytest.mark.soak
def test_no_long_history_loses_money() -> None:
    """The same for many more and longer ones."""
    more = settings(CHECKS, max_examples=1500, stateful_step_count=100)
    run_state_machine_as_test(MoneyMachine, settings=more)
