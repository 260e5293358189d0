"""Very many bookings at once, one call in ten goes wrong, and events get lost on their way.

In the end the ledger is the processor's book to the unit, and each booking's money went where
its fate says.
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

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import Trigger
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.errors import ProcessorUnavailable
from tests.money.fake_helpers import make_fake_bench
from tests.money.payment_scenarios import (
    CALL_FAULTS,
    PaymentScenario,
    SignedEvent,
    make_payment_scenario,
)
from tests.money.processors import open_stripe_bench, stub_of
from tests.support.builders import DAY, HOUR, MINUTE, NOW, add_companion, add_user
from tests.support.memory_deployment import actor_of

pytestmark = pytest.mark.anyio

T = TypeVar("T")

RATE = 0.1
"""Of calls that go wrong, and of events."""
LEFT = {
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
"""What becomes of a booking, and what of its 400.00 the platform has in the end, fees aside."""
FATES = ("earned", "earned", *LEFT)
EACH = 10
"""Bookings of one companion, one every other day."""
FIRST_DAY = 4


@frozen
class Rough(PaymentScenario):
    """A play whose events get lost, doubled, and mixed up."""

    chance: random.Random

    async def events_due(self) -> Sequence[SignedEvent]:
        found = [
            event
            for event in await super().events_due()
            for _ in range(self.chance.choices([0, 1, 2], [RATE / 2, 1 - RATE, RATE / 2])[0])
        ]
        self.chance.shuffle(found)
        return found

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the processor answers, as people do."""
        for _ in range(9):
            with suppress(ProcessorUnavailable):
                return await ask()
            self.pass_time(MINUTE)
            await self.drain()
        return await ask()


@frozen
class Story:
    """One booking among many, with its own people."""

    play: Rough
    booking: Booking
    fate: str


async def _begin(play: Rough, count: int) -> list[Story]:
    """Requested and accepted; each companion has an account, and bookings two days apart."""
    stories = []
    for number in range(count):
        day, fate = FIRST_DAY + 2 * (number % EACH), FATES[number % len(FATES)]
        if number % EACH == 0:
            staff = await add_companion(play.ports.store, payout_account=None)
            customer = await add_user(play.ports.store)
            play = evolve(play, staff=actor_of(staff), customer=actor_of(customer))
            await play.insist(play.onboard)
        booking = await play.accepted(event_date=date.fromordinal(NOW.toordinal() + day))
        stories.append(Story(play, booking, fate))
    return stories


async def _pay(story: Story) -> None:
    play, booking = story.play, story.booking
    match story.fate:
        case "not paid":
            await play.cancel(booking)
        case _:
            await play.insist(lambda: play.play(booking))


async def _before(story: Story) -> None:
    """What happens 30 hours before the event."""
    play, booking = story.play, story.booking
    match story.fate:
        case "cancelled late":
            await play.cancel(booking)
        case "cancelled by staff":
            await play.cancel(booking, play.staff)


async def _after(story: Story) -> None:
    """What happens when it has ended."""
    play, booking = story.play, story.booking
    match story.fate:
        case "earned" | "charged back" | "charged back in vain":
            await play.move(booking, Trigger.CONFIRM, play.customer)
        case "split" | "refunded":
            await play.dispute(booking)
            split = story.fate == "split"
            trigger, amount = (Trigger.SPLIT, 10_000) if split else (Trigger.REFUND, 0)
            await play.resolve(booking, trigger, amount)


async def _much_later(stories: Sequence[Story], outcome: str | None) -> None:
    """What the banks do when all is paid out: open, and then decide."""
    for story in stories:
        world, booking_id = story.play.bench.outside_world, story.booking.id
        match story.fate:
            case "charged back":
                await world.charge_back(booking_id, outcome or "lost")
            case "charged back in vain":
                await world.charge_back(booking_id, outcome or "won")


async def _live(play: Rough, count: int) -> list[Story]:
    stories = await _begin(play, count)
    for story in stories:
        await _pay(story)
    await play.settle()
    for story in stories:
        if story.fate == "cancelled early":
            await story.play.cancel(story.booking)
    by_day: defaultdict[timedelta, list[Story]] = defaultdict(list)
    for story in stories:
        by_day[story.booking.starts_at - NOW].append(story)
    for day in sorted(by_day):
        await play.jump_to(NOW + day - 30 * HOUR)
        for story in by_day[day]:
            await _before(story)
        await play.drain()
        await play.jump_to(by_day[day][0].booking.ends_at)
        for story in by_day[day]:
            await _after(story)
        await play.drain()
    for outcome in ("open", None):
        play.pass_time(2 * DAY)
        await play.settle()
        await _much_later(stories, outcome)
    await play.settle()
    play.pass_time(2 * DAY)
    await play.settle()
    return stories


async def _endure(play: PaymentScenario, count: int) -> None:
    rough = Rough(play.ports, play.customer, play.staff, play.admin, play.bench, random.Random(7))
    stories = await _live(rough, count)

    await rough.check()
    left: defaultdict[int | None, int] = defaultdict(int)
    async for line in play.bench.payments.statement():
        if line.kind is not MovementKind.FEE:
            left[line.intent_id] += line.amount
    wrong = [
        f"{story.fate}: {left[story.booking.id]}"
        for story in stories
        if left[story.booking.id] != LEFT[story.fate]
    ]
    assert wrong == []


async def _endure_on_fake(count: int) -> None:
    chance = random.Random(11)

    def strike(op: str) -> str:
        strikes = op != "event" and chance.random() < RATE
        return chance.choice(CALL_FAULTS) if strikes else ""

    play = await make_payment_scenario(
        make_fake_bench(fee_ppm=29_000, injector=strike), onboarded=False
    )
    await _endure(play, count)


async def _endure_on_stripe(count: int) -> None:
    async with open_stripe_bench() as bench:
        play = await make_payment_scenario(bench, onboarded=False)
        stub_of(bench).set_fault_rate(11, RATE)
        await _endure(play, count)


async def test_many_bookings_on_the_fake() -> None:
    """On the fake processor the ledger is its book after all faults."""
    await _endure_on_fake(300)


async def test_many_bookings_on_stripe() -> None:
    """On Stripe likewise."""
    await _endure_on_stripe(33)


@pytest.mark.soak
async def test_a_thousand_bookings_on_the_fake() -> None:
    """A thousand bookings on the fake processor, likewise."""
    await _endure_on_fake(1_000)


@pytest.mark.soak
async def test_a_thousand_bookings_on_stripe() -> None:
    """A thousand bookings on Stripe, likewise."""
    await _endure_on_stripe(1_000)
