"""Alerts about bookings, for operators: the list, and their sending from the queue."""

from __future__ import annotations

from collections.abc import Sequence

from staffbooking_core.domain.bookings.alerts import StoredAlert
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.ports import DueAlert, Lease, Ports, Transaction
from staffbooking_core.validation import validated

__all__ = ["list_alerts"]


@validated
async def list_alerts(
    ports: Ports, page: int = 1, limit: int = 50
) -> Sequence[tuple[StoredAlert, Booking | None]]:
    """A page of alerts, the newest first, up to `limit + 1`, each with its booking; None where that
    is unknown."""
    async with ports.store.read_view() as view:
        alerts = await view.alerts.alerts(limit + 1, (page - 1) * limit)
        bookings = await view.alerts.bookings_of({alert.booking_id for alert in alerts})
    return [(alert, bookings.get(alert.booking_id)) for alert in alerts]


async def send_alert(ports: Ports) -> int:
    """Send the oldest due alert to the operators; returns 1 if there was one, else 0. It is marked
    as sent after that: a crash in between repeats the alert and never loses it."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + ports.policy.lease_duration)

    async def claim(tx: Transaction) -> DueAlert | None:
        return await tx.alerts.claim_alert(now, lease)

    alert = await ports.store.run_transaction(claim)
    if alert is None:
        return 0
    await ports.notifier.alert_operators(alert.booking_id, alert.text)

    async def mark_sent(tx: Transaction) -> None:
        await tx.alerts.mark_alert_sent(alert.id)

    await ports.store.run_transaction(mark_sent)
    return 1
