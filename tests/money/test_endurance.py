"""Many overlapping bookings with 10 % failed calls and with lost, repeated and reordered events.

In the end the ledger equals the processor's statement to the minor unit, and the platform's rest of
each booking is the one in `OUTCOMES`.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import date, timedelta
from typing import TypeVar

import pytest
from attrs import evolve, frozen

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, NOW, add_companion, add_user
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.errors import ProcessorUnavailable
from staffbooking_core.operator_inputs import ResolutionOutcome
from tests.money.fake_helpers import make_fake_bench
from tests.money.payment_scenarios import (
    CALL_FAULTS,
    PaymentScenario,
    SignedEvent,
    make_payment_scenario,
)
from tests.money.processors import open_stripe_bench, stub_of
from tests.support.memory_deployment import actor_of

pytestmark = pytest.mark.anyio

T = TypeVar("T")

FAULT_RATE = 0.1
"""The share of failed calls, and of lost and repeated events together."""
OUTCOMES = {
    "earned": 6_000,
    "not paid": 0,
    "cancelled early": 0,
    "cancelled late": 3_000,
    "cancelled by staff": 0,
    "split": 4_500,
    "refunded": 0,
    "charged back": 0,
    "charged back in vain": 6_000,
}
"""By outcome of a booking of 400.00: the platform's rest in minor units, without fees."""
OUTCOME_CYCLE = ("earned", "earned", *OUTCOMES)
BOOKINGS_PER_COMPANION = 10
"""The number of bookings per companion, one every other day."""
FIRST_DAY = 4


@frozen
class UnreliableScenario(PaymentScenario):
    """A scenario whose events are lost, repeated and shuffled."""

    rng: random.Random

    async def events_due(self) -> Sequence[SignedEvent]:
        found = [
            event
            for event in await super().events_due()
            for _ in range(
                self.rng.choices([0, 1, 2], [FAULT_RATE / 2, 1 - FAULT_RATE, FAULT_RATE / 2])[0]
            )
        ]
        self.rng.shuffle(found)
        return found

    async def retry(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Repeat a call until the processor is available, up to ten times."""
        for _ in range(9):
            with suppress(ProcessorUnavailable):
                return await ask()
            self.pass_time(MINUTE)
            await self.drain()
        return await ask()


@frozen
class BookingRun:
    """One booking with the scenario of its client and companion."""

    scenario: UnreliableScenario
    booking: Booking
    outcome_name: str


async def _begin(scenario: UnreliableScenario, count: int) -> list[BookingRun]:
    """Request and accept bookings; each companion has an account, and bookings two days apart."""
    runs = []
    for number in range(count):
        day, outcome_name = (
            FIRST_DAY + 2 * (number % BOOKINGS_PER_COMPANION),
            OUTCOME_CYCLE[number % len(OUTCOME_CYCLE)],
        )
        if number % BOOKINGS_PER_COMPANION == 0:
            staff = await add_companion(scenario.ports.store, payout_account=None)
            customer = await add_user(scenario.ports.store)
            scenario = evolve(scenario, staff=actor_of(staff), customer=actor_of(customer))
            await scenario.retry(scenario.onboard)
        booking = await scenario.accepted(event_date=date.fromordinal(NOW.toordinal() + day))
        runs.append(BookingRun(scenario, booking, outcome_name))
    return runs


async def _pay(run: BookingRun) -> None:
    scenario, booking = run.scenario, run.booking
    match run.outcome_name:
        case "not paid":
            await scenario.cancel(booking)
        case _:
            await scenario.retry(lambda: scenario.simulate_checkout(booking))


async def _before(run: BookingRun) -> None:
    """The actions 30 hours before the event."""
    scenario, booking = run.scenario, run.booking
    match run.outcome_name:
        case "cancelled late":
            await scenario.cancel(booking)
        case "cancelled by staff":
            await scenario.cancel(booking, scenario.staff)


async def _after(run: BookingRun) -> None:
    """The actions at the end of the event."""
    scenario, booking = run.scenario, run.booking
    match run.outcome_name:
        case "earned" | "charged back" | "charged back in vain":
            await scenario.apply_trigger(booking, Trigger.CONFIRM, scenario.customer)
        case "split" | "refunded":
            await scenario.dispute(booking)
            if run.outcome_name == "split":
                await scenario.resolve(booking, ResolutionOutcome.SPLIT, 10_000)
            else:
                await scenario.resolve(booking, ResolutionOutcome.REFUND)


async def _after_payouts(runs: Sequence[BookingRun], outcome: str | None) -> None:
    """Open (`outcome` is "open") or decide the chargebacks, after all payouts."""
    for run in runs:
        world, booking_id = run.scenario.bench.outside_world, run.booking.id
        match run.outcome_name:
            case "charged back":
                await world.charge_back(booking_id, outcome or "lost")
            case "charged back in vain":
                await world.charge_back(booking_id, outcome or "won")


async def _run_all(scenario: UnreliableScenario, count: int) -> list[BookingRun]:
    runs = await _begin(scenario, count)
    for run in runs:
        await _pay(run)
    await scenario.settle()
    for run in runs:
        if run.outcome_name == "cancelled early":
            await run.scenario.cancel(run.booking)
    by_day: defaultdict[timedelta, list[BookingRun]] = defaultdict(list)
    for run in runs:
        by_day[run.booking.starts_at - NOW].append(run)
    for day in sorted(by_day):
        await scenario.jump_to(NOW + day - 30 * HOUR)
        for run in by_day[day]:
            await _before(run)
        await scenario.drain()
        await scenario.jump_to(by_day[day][0].booking.ends_at)
        for run in by_day[day]:
            await _after(run)
        await scenario.drain()
    for outcome in ("open", None):
        scenario.pass_time(2 * DAY)
        await scenario.settle()
        await _after_payouts(runs, outcome)
    await scenario.settle()
    scenario.pass_time(2 * DAY)
    await scenario.settle()
    return runs


async def _run_and_check(scenario: PaymentScenario, count: int) -> None:
    unreliable = UnreliableScenario(
        scenario.ports,
        scenario.customer,
        scenario.staff,
        scenario.admin,
        scenario.bench,
        random.Random(7),
    )
    runs = await _run_all(unreliable, count)

    await unreliable.check()
    left: defaultdict[int | None, int] = defaultdict(int)
    async for line in scenario.bench.payments.statement():
        if line.kind is not MovementKind.FEE:
            left[line.intent_id] += line.amount
    wrong = [
        f"{run.outcome_name}: {left[run.booking.id]}"
        for run in runs
        if left[run.booking.id] != OUTCOMES[run.outcome_name]
    ]
    assert wrong == []


async def _run_on_fake(count: int) -> None:
    rng = random.Random(11)

    def next_fault(op: str) -> str:
        fails = op != "event" and rng.random() < FAULT_RATE
        return rng.choice(CALL_FAULTS) if fails else ""

    scenario = await make_payment_scenario(
        make_fake_bench(fee_ppm=29_000, injector=next_fault), onboarded=False
    )
    await _run_and_check(scenario, count)


async def _run_on_stripe(count: int) -> None:
    async with open_stripe_bench() as bench:
        scenario = await make_payment_scenario(bench, onboarded=False)
        stub_of(bench).set_fault_rate(11, FAULT_RATE)
        await _run_and_check(scenario, count)


async def test_many_bookings_on_the_fake() -> None:
    """300 bookings on the fake processor end with a consistent ledger and the expected rests."""
    await _run_on_fake(300)


async def test_many_bookings_on_stripe() -> None:
    """33 bookings on Stripe end with a consistent ledger and the expected rests."""
    await _run_on_stripe(33)


@pytest.mark.soak
async def test_a_thousand_bookings_on_the_fake() -> None:
    """1,000 bookings on the fake processor end with a consistent ledger and the expected rests."""
    await _run_on_fake(1_000)


@pytest.mark.soak
async def test_a_thousand_bookings_on_stripe() -> None:
    """1,000 bookings on Stripe end with a consistent ledger and the expected rests."""
    await _run_on_stripe(1_000)
