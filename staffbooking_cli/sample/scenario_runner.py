"""Runs the sample's scenarios in the past: the clock of an empty sandbox is set back, goes from one
moment of the scenarios to the next, and ends at the present.

Everything happens through use-cases, so the sample obeys every rule of the service.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime, timedelta
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TypeAlias

from anyio.lowlevel import checkpoint
from attrs import evolve

from staffbooking_core.ports import Clock, Email, Ports, Transaction
from staffbooking_core.usecases import due_work, sandbox
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.payments import operations, reconciliation

Scenario: TypeAlias = AsyncGenerator[datetime, None]
"""Acts, then waits until the time that it yields, and so on."""


class _SilentNotifier:
    """Implements `Notifier`: sends nothing, since nobody waits for the mails of the past."""

    async def alert_operators(self, booking_id: int, text: str) -> None:
        pass

    async def send_email(self, email: Email) -> None:
        pass


def without_notifications(ports: Ports) -> Ports:
    """The ports with a notifier that sends nothing, of which nothing is kept."""
    policy = evolve(ports.policy, keeps_mails=False)
    return evolve(ports, notifier=_SilentNotifier(), policy=policy)


async def set_clock_back(ports: Ports, to: datetime) -> None:
    """Set business time to the past. Only for a database in which nothing has happened."""

    async def unit(tx: Transaction) -> None:
        await tx.sandbox.lock_clock()
        await tx.sandbox.set_clock_offset(to - ports.clock.wall())

    await ports.store.run_transaction(unit)


async def return_to_present(ports: Ports) -> None:
    """Set business time to real time if it is behind, and do what came due."""

    async def unit(tx: Transaction) -> None:
        await tx.sandbox.set_clock_offset(max(await tx.sandbox.lock_clock(), timedelta()))

    await ports.store.run_transaction(unit)
    async with _with_kept_offset(ports.clock):
        await due_work.run_all_due(without_notifications(ports))


async def run_scenarios(ports: Ports, scenarios: Iterable[Scenario], until: datetime) -> None:
    """Run all scenarios in the order of their moments, each to its end or to `until`. What comes
    due in between is done first."""
    order = count()
    begin = datetime.min.replace(tzinfo=UTC)
    waiting = [(begin, next(order), scenario) for scenario in scenarios]
    heapify(waiting)
    reached = begin
    while waiting:
        moment, _, scenario = heappop(waiting)
        if moment > until:
            await scenario.aclose()
            continue
        if moment > await ports.clock.business():
            await sandbox.set_clock(ports, moment)
        async with _with_kept_offset(ports.clock):
            if moment != reached:
                await _do_due_work(ports)
                reached = moment
            next_moment = await anext(scenario, None)
        if next_moment is not None:
            heappush(waiting, (max(next_moment, reached), next(order), scenario))
        # A database that is being filled never makes the loop wait: let signals be heard.
        await checkpoint()


async def _do_due_work(ports: Ports) -> None:
    """Do the due work that changes bookings. Events and mails are left to `return_to_present`.

    Timers come last: a payout is made before the alert that it is late, though the clock has passed
    the times of both."""
    while (
        await operations.run_due_operation(ports)
        or await reconciliation.deliver_sandbox_events(ports)
        or await timers.fire_due_timers(ports)
    ):
        pass


def _with_kept_offset(clock: Clock) -> AbstractAsyncContextManager[None]:
    """A time in which nobody moves the clock, so that a sandbox's clock reads its offset once."""
    keeping_offset: Callable[[], AbstractAsyncContextManager[None]] = getattr(
        clock, "keeping_offset", nullcontext
    )
    return keeping_offset()
