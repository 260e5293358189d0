"""The worker's jobs: each runs one kind of due work, independently of the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from attrs import frozen

from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.ports import Hint, Ports
from staffbooking_core.usecases import due_work
from staffbooking_core.usecases.bookings import alerts, timers
from staffbooking_core.usecases.companions import calendar_subscriptions
from staffbooking_core.usecases.messaging import offline_notifications
from staffbooking_core.usecases.notifications import notifications
from staffbooking_core.usecases.payments import (
    event_polling,
    operations,
    payees,
    reconciliation,
    reconciliation_runs,
)
from staffbooking_core.usecases.webhooks import deliveries


@frozen
class Job:
    """One kind of due work: `run` does a batch and returns the number of items done."""

    name: str
    run: Callable[..., Awaitable[int]]
    """Called with the ports and, if it `checks_stop`, with `should_stop`."""
    idle_seconds: float
    """Seconds to wait when nothing was due. Polling is authoritative; hints only shorten it."""
    concurrency: int = 1
    """The number of concurrent runs."""
    hint: Hint | None = None
    """The hint that ends the wait early."""
    checks_stop: bool = False
    """Whether a run asks if the worker is stopping before each item that must not be interrupted.
    Its `should_stop` is a function."""


_MAX_NOTIFICATIONS_PER_RUN = 1_000


async def _send_notifications(ports: Ports, should_stop: Callable[[], bool] = lambda: False) -> int:
    return await notifications.send_notifications(ports, _MAX_NOTIFICATIONS_PER_RUN, should_stop)


def _run_operations(*kinds: OperationKind) -> Callable[[Ports], Awaitable[int]]:
    return partial(operations.run_due_operation, kinds=frozenset(kinds))


_run_checkouts = _run_operations(OperationKind.OPEN_CHECKOUT, OperationKind.CLOSE_CHECKOUT)
_run_refunds = _run_operations(OperationKind.REFUND, OperationKind.REVERSE_PAYOUT)
_run_payouts = _run_operations(OperationKind.PAY_OUT)

SANDBOX_EVENTS_JOB = Job("sandbox-events", reconciliation.deliver_sandbox_events, idle_seconds=0.5)

TIMERS_JOB = Job("timers", timers.fire_due_timers, idle_seconds=0.5)

JOBS = (
    TIMERS_JOB,
    Job("checkouts", _run_checkouts, idle_seconds=0.25, concurrency=2),
    Job("refunds", _run_refunds, idle_seconds=0.5, concurrency=2),
    Job("payouts", _run_payouts, idle_seconds=0.5, concurrency=2),
    Job("payees", payees.run_due_payee, idle_seconds=2),
    Job("processor-events", reconciliation.process_event, idle_seconds=0.5, concurrency=2),
    Job("lost-events", event_polling.poll_events, idle_seconds=30),
    Job("reconciliation", reconciliation_runs.make_asked_run, idle_seconds=5),
    Job("alerts", alerts.send_alert, idle_seconds=2),
    Job("events", deliveries.publish_events, idle_seconds=0.25, hint=Hint.EVENTS),
    Job("held-deliveries", deliveries.resume_held_deliveries, idle_seconds=2),
    Job("expired-deliveries", deliveries.cancel_held_deliveries, idle_seconds=600),
    Job(
        "calendar-addresses",
        calendar_subscriptions.read_due_calendar,
        idle_seconds=5,
        concurrency=4,
    ),
    Job("away", offline_notifications.notify_of_unread_messages, idle_seconds=5),
    Job("departed", offline_notifications.notify_departed_users, idle_seconds=30),
    Job("notices", _send_notifications, idle_seconds=2, checks_stop=True),
    Job("sweep", due_work.delete_expired, idle_seconds=600),
    SANDBOX_EVENTS_JOB,
)
