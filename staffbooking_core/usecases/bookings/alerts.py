"""Alerts of bookings to the operators, sent from their queue."""

from __future__ import annotations

from staffbooking_core.ports import DueAlert, Lease, Ports, Transaction


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
