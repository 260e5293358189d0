"""All due work of a deployment in one call: for tests, embedders, and a clock that jumped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

from staffbooking_core.ports import Ports
from staffbooking_core.usecases.bookings import alerts, timers
from staffbooking_core.usecases.companions import calendar_subscriptions, images
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
from staffbooking_core.validation import validated

__all__ = ["delete_expired", "run_all_due", "run_due_for"]


@validated
async def run_all_due(
    ports: Ports, deliver: Callable[[Ports], Awaitable[int]] = deliveries.deliver_all_due
) -> int:
    """Do all that a worker does, until nothing is due; returns the number of work items
    (CONTRACT 9, 10).

    Timers fire one at a time, the earliest first, and the work that one causes is done before the
    next. `deliver` sends the due webhook deliveries and returns the number of attempts; attempts
    that wait for a retry are not waited for. Expired rows and orphaned files are deleted last.

    Any number of processes may call it at any time. Raises NotificationsGivenUp where
    notifications exhausted their retries: the remaining work is left to the next call.
    """
    done = 0
    while count := await _run_due_item(ports) or await deliver(ports):
        done += count
    while await delete_expired(ports):
        pass
    return done


async def run_due_for(ports: Ports, seconds: float) -> None:
    """Do due work, except webhook deliveries, for about so long in real time. Workers do the
    rest."""
    end = ports.clock.wall() + timedelta(seconds=seconds)
    while await _run_due_item(ports) and ports.clock.wall() < end:
        pass


async def _run_due_item(ports: Ports) -> int:
    """Do the due work of the first kind that has any; returns the number of work items."""
    return (
        await operations.run_due_operation(ports)
        or await payees.run_due_payee(ports)
        or await reconciliation.deliver_sandbox_events(ports)
        or await reconciliation.process_event(ports)
        or await event_polling.poll_events(ports)
        or await timers.fire_due_timers(ports, 1)
        or await alerts.send_alert(ports)
        or await deliveries.publish_events(ports)
        or await deliveries.resume_held_deliveries(ports)
        or await deliveries.cancel_held_deliveries(ports)
        or await offline_notifications.notify_of_unread_messages(ports)
        or await offline_notifications.notify_departed_users(ports)
        or await calendar_subscriptions.read_due_calendar(ports)
        or await reconciliation_runs.make_asked_run(ports)
        or await notifications.send_notifications(ports)
    )


async def delete_expired(ports: Ports) -> int:
    """Delete a batch of the rows that are older than the policy keeps them, and returns their
    number. Where none is, delete the files that nothing refers to."""
    if count := await ports.store.delete_expired(ports.clock.wall(), ports.policy):
        return count
    await images.remove_orphaned_files(ports)
    return 0
