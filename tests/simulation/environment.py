"""Actions of a history that are not people's: of the processor, banks, operators, receivers, time
and machines."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from attrs import define, field

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, SECOND
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.payments.processor import ProcessorError
from staffbooking_core.errors import ProcessorUnavailable, RuleBroken
from staffbooking_core.usecases import due_work, sandbox
from staffbooking_core.usecases.payments import payouts, refunds
from tests.simulation.clients import Client
from tests.simulation.cluster import Cluster
from tests.simulation.webhook_endpoints import RECEIVER_BEHAVIOURS, WebhookEndpoints

PROCESSOR_CALLS = (
    "open_checkout",
    "close_checkout",
    "refund",
    "pay_out",
    "reverse_payout",
    "open_payee",
)
CALL_FAULTS = (
    *("timeout_before", "timeout_after", "error_500", "error_500_after"),
    *("rate_limit", "conflict", "slow"),
)
EVENT_FAULTS = ("drop", "delay", "duplicate", "reorder", "bad_signature")
RARE_FAULTS = (
    *[("refund", f"{course}") for course in ("pending_then_settled", "pending_then_failed")],
    *[("refund", "settled_then_failed"), ("refund", "refuse:insufficient_funds")],
    *[("pay_out", f"refuse:{code}") for code in ("payee_not_ready", "insufficient_funds")],
    *[("pay_out", "refuse"), ("reverse_payout", "refuse"), ("reverse_payout", "refuse")],
    *[("reverse_payout", "refuse:insufficient_funds"), ("open_checkout", "refuse")],
)
BUSINESS_TIME_JUMPS = (5 * MINUTE, HOUR, HOUR, 12 * HOUR, DAY, 80 * HOUR, 21 * DAY)
WEEK = 7 * DAY
REAL_TIME_WAITS = (
    *(SECOND, 20 * SECOND, 20 * SECOND, 6 * MINUTE, 11 * MINUTE),
    *(HOUR, 21 * HOUR, 25 * HOUR),
)
PAYOUT_DECISIONS = (
    payouts.hold_payout,
    payouts.release_payout,
    payouts.retry_payout,
    refunds.retry_refunds,
)
REFUSALS = (RuleBroken, ProcessorError, ProcessorUnavailable)
"""Errors that operators and the processor's dashboard may get."""
SKEWS = (-20, -3, 3, 20, 600)
"""Seconds by which clocks are ahead. With the last one, a process must refuse to write."""
SMALL_SKEWS = (-3, 3)
"""Seconds by which the clock of the machine of a SQLite file is set: less than a lease."""


@define(eq=False)
class Environment:
    cluster: Cluster
    people: Sequence[Client]
    """The clients that sign in again when time has passed."""
    staff: Sequence[Client]
    webhooks: WebhookEndpoints
    booking_ids: list[int] = field(factory=list)
    """Bookings whose creation was acknowledged."""
    manually_moved: set[int] = field(factory=set)
    """Bookings whose money was moved manually at the processor."""
    overturned: Counter[int] = field(factory=Counter)
    """How often a bank changed its verdict, by booking."""
    has_lost_events: bool = False
    """Whether an event of the processor may never have been received."""

    async def charge_back(self, first: int, second: int) -> None:
        if (booking := await self.pick(first)) is not None:
            outcome = ("open", "open", "won", "lost")[second % 4]
            with suppress(*REFUSALS):
                await self.cluster.fake.sandbox.chargeback(booking.id, outcome)

    async def appeal(self, first: int, second: int) -> None:
        """A bank decides a chargeback, and changes its verdict several times in short intervals, so
        that an earlier state of the processor may be read late."""
        if (booking := await self.pick(first)) is None:
            return
        verdict = ("won", "lost")[second % 2]
        with suppress(*REFUSALS):
            await self.cluster.fake.sandbox.chargeback(booking.id, verdict)
        self.manually_moved.add(booking.id)
        for _ in range(1 + second % 6):
            await asyncio.sleep(0.25 + second % 3)
            self.overturned[booking.id] += 1
            await self.cluster.fake.dashboard.overturn_chargebacks(booking.id)

    async def move_money(self, first: int, second: int) -> None:
        """An operator moves money in the processor's own dashboard."""
        if (booking := await self.pick(first)) is not None:
            dashboard = self.cluster.fake.dashboard
            move = dashboard.refund if second % 2 else dashboard.reverse_payout
            self.manually_moved.add(booking.id)
            with suppress(*REFUSALS):
                await move(booking.id, 1 + second * 30)

    async def set_payee_readiness(self, first: int, second: int) -> None:
        """The processor permits or suspends payouts to a staff member."""
        number = self.staff[first % len(self.staff)].user_id
        await self.cluster.fake.dashboard.set_payee_ready(number, second % 2 == 0)

    async def operate_payout(self, first: int, second: int) -> None:
        if (booking := await self.pick(first)) is not None:
            decide = PAYOUT_DECISIONS[second % len(PAYOUT_DECISIONS)]
            with suppress(*REFUSALS):
                await decide(self.cluster.shared, booking.code)

    async def processor_fault(self, first: int, second: int) -> None:
        if first % 4 == 0:
            op, kind = RARE_FAULTS[second % len(RARE_FAULTS)]
        else:
            calls = (*PROCESSOR_CALLS, "any")
            op, kind = calls[first % len(calls)], CALL_FAULTS[second % len(CALL_FAULTS)]
        await self.cluster.fake.sandbox.add_fault(op, kind, 1 + second % 3)

    async def event_fault(self, first: int, second: int) -> None:
        kind = EVENT_FAULTS[second % len(EVENT_FAULTS)]
        self.has_lost_events |= kind in ("drop", "bad_signature")
        await self.cluster.fake.sandbox.add_fault("event", kind, 1 + first % 3)

    async def change_receiver(self, first: int, second: int) -> None:
        """A receiver changes its responses, or its owner pauses or enables it."""
        behaviours = [*RECEIVER_BEHAVIOURS, "pause", "enable"]
        match behaviours[second % len(behaviours)]:
            case "pause" | "enable" as change:
                await self.webhooks.set_active(first, active=change == "enable")
            case behaviour:
                self.webhooks.set_behaviour(first, behaviour)

    async def jump_business(self, first: int, second: int) -> None:
        """Move business time ahead, in half of the cases to the next deadline of a booking."""
        booking = await self.pick(first) if second % 2 else None
        now = await self.cluster.shared.clock.business()
        wanted = now + BUSINESS_TIME_JUMPS[second // 2 % len(BUSINESS_TIME_JUMPS)]
        if booking is not None:
            times = [booking.starts_at, booking.ends_at, booking.payout_due_at]
            times.append(booking.ends_at + 72 * HOUR)
            wanted = min([time for time in times if time and time > now], default=wanted)
        await self.jump_to(wanted)

    async def pass_time(self, first: int, _: int) -> None:
        await self.advance_wall(REAL_TIME_WAITS[first % len(REAL_TIME_WAITS)])

    async def advance_wall(self, by: timedelta) -> None:
        """Let time pass without work, as if the machines were off; then people sign in again."""
        self.cluster.world.advance(by)
        for client in self.people:
            await client.sign_in()

    async def jump_to(self, at: datetime) -> None:
        """Move business time to `at`. The service polls events before a jump of weeks: events that
        are lost for longer than the processor lists them are found by reconciliation only."""
        if at - await self.cluster.shared.clock.business() > WEEK:
            await self.advance_wall(self.cluster.shared.policy.processor_event_poll_interval)
            await due_work.run_all_due(self.cluster.shared)
        with suppress(RuleBroken):  # The time is past already.
            await sandbox.set_clock(self.cluster.shared, at)

    async def crash(self, first: int, _: int) -> None:
        self._process(first).kill()

    async def stop(self, first: int, _: int) -> None:
        self._process(first).stop()

    async def cut_off(self, first: int, second: int) -> None:
        """A process loses its connection to the store for some seconds."""
        until = self.cluster.world.loop.time() + 1 + second % 8
        self._process(first).cut_off_until = until

    async def skew(self, first: int, second: int) -> None:
        skews = SKEWS if self.cluster.storage.has_own_clock else SMALL_SKEWS
        self.cluster.skew(self._process(first), timedelta(seconds=skews[second % len(skews)]))
        self.webhooks.is_clock_steady = self.cluster.storage.has_own_clock

    async def lose_power(self, *_: int) -> None:
        """The machine with all processes and the store dies."""
        await self.cluster.lose_power()

    def _process(self, number: int) -> Any:
        return self.cluster.processes[number % len(self.cluster.processes)]

    async def aim(self, number: int, statuses: Collection[BookingStatus]) -> int:
        """A number for which `pick` returns a booking with one of the statuses, in four of five
        cases and if there is one; otherwise the given number."""
        async with self.cluster.shared.store.read_view() as view:
            found = [await view.bookings.booking(each) for each in self.booking_ids if statuses]
        fitting = [at for at, one in enumerate(found) if one is not None and one.status in statuses]
        return fitting[number % len(fitting)] if fitting and number % 5 else number

    async def pick(self, number: int) -> Any:
        """The stored booking of a number; None before the first acknowledged booking."""
        if not self.booking_ids:
            return None
        async with self.cluster.shared.store.read_view() as view:
            return await view.bookings.booking(self.booking_ids[number % len(self.booking_ids)])
