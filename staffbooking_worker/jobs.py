"""The lanes of work: each does one kind of due work, and none holds up another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from attrs import frozen

from staffbooking_core.domain.payments.processor import OpKind
from staffbooking_core.ports import Hint, Ports
from staffbooking_core.usecases.bookings import timers
from staffbooking_core.usecases.companions import images
from staffbooking_core.usecases.messaging import offline_notifications
from staffbooking_core.usecases.notifications import notifications
from staffbooking_core.usecases.payments import event_polling, operations, payees, reconciliation
from staffbooking_core.usecases.webhooks import deliveries


@frozen
class Lane:
    """One kind of work: `run` does some of it and says how much there was."""

    name: str
    run: Callable[[Ports], Awaitable[int]]
    idle: float
    """Seconds to wait where nothing was due. Polling is the truth; hints only shorten it."""
    width: int = 1
    """How many run side by side."""
    hint: Hint | None = None
    """What ends the wait at once."""


async def _sweep(ports: Ports) -> int:
    await ports.store.sweep(ports.clock.wall(), ports.policy)
    await images.clear_files(ports)
    return 0


async def _nudge(ports: Ports) -> int:
    return await reconciliation.follow_nudges(ports, 1)


async def _tell(ports: Ports) -> int:
    """One mail, so that none is begun once the worker is told to stop."""
    return await notifications.tell_notices(ports, 1)


def _operations(*kinds: OpKind) -> Callable[[Ports], Awaitable[int]]:
    return partial(operations.run_due, kinds=frozenset(kinds))


_CHECKOUTS = _operations(OpKind.OPEN_CHECKOUT, OpKind.CLOSE_CHECKOUT)
_REFUNDS = _operations(OpKind.REFUND, OpKind.REVERSE_PAYOUT)
_PAYOUTS = _operations(OpKind.PAY_OUT)

SANDBOX_EVENTS = Lane("sandbox-events", reconciliation.deliver_sandbox_events, idle=0.5)

LANES = (
    Lane("timers", timers.run_due, idle=0.5),
    Lane("checkouts", _CHECKOUTS, idle=0.25, width=2),
    Lane("refunds", _REFUNDS, idle=0.5, width=2),
    Lane("payouts", _PAYOUTS, idle=0.5, width=2),
    Lane("payees", payees.run_due, idle=2),
    Lane("nudges", _nudge, idle=0.5, width=2),
    Lane("lost-events", event_polling.run, idle=30),
    Lane("alerts", timers.tell_alerts, idle=2),
    Lane("events", deliveries.publish, idle=0.25, hint=Hint.EVENTS),
    Lane("held-deliveries", deliveries.resume_held, idle=2),
    Lane("expired-deliveries", deliveries.give_up_held, idle=600),
    Lane("away", offline_notifications.tell_of_messages, idle=5),
    Lane("notices", _tell, idle=2),
    Lane("sweep", _sweep, idle=600),
    SANDBOX_EVENTS,
)
