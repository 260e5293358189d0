"""The lanes of work: each does one kind of due work, and none holds up another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import frozen

from staffbooking_core.ports import Ports
from staffbooking_core.usecases import operations, payments, timers


@frozen
class Lane:
    """One kind of work: `run` does some of it and says how much there was."""

    name: str
    run: Callable[[Ports], Awaitable[int]]
    idle: float
    """Seconds to wait where nothing was due. Polling is the truth; hints only shorten it."""
    width: int = 1
    """How many run side by side."""


async def _sweep(ports: Ports) -> int:
    await ports.store.sweep(ports.clock.wall(), ports.policy)
    return 0


async def _nudge(ports: Ports) -> int:
    return await payments.follow_nudges(ports, 1)


SANDBOX_EVENTS = Lane("sandbox-events", payments.deliver_sandbox_events, idle=0.5)

LANES = (
    Lane("timers", timers.run_due, idle=0.5),
    Lane("operations", operations.run_due, idle=0.25, width=4),
    Lane("nudges", _nudge, idle=0.5, width=2),
    Lane("alerts", timers.tell_alerts, idle=2),
    Lane("sweep", _sweep, idle=600),
    SANDBOX_EVENTS,
)
