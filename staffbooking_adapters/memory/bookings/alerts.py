"""Alerts about bookings in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_adapters.memory.state import MemoryTransaction, is_lease_active
from staffbooking_core.domain.bookings.alerts import StoredAlert
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.ports import DueAlert, Lease


@frozen
class AlertsReader:
    """Reads alerts."""

    tx: MemoryTransaction

    async def alerts(self, limit: int, offset: int = 0) -> Sequence[StoredAlert]:
        rows = self.tx.state.alerts
        newest = sorted(rows, key=lambda number: (rows[number].alert.at, number), reverse=True)
        return [rows[number].alert for number in newest[offset : offset + limit]]

    async def bookings_of(self, booking_ids: Collection[int]) -> Mapping[int, Booking]:
        bookings = self.tx.state.bookings
        return {number: bookings[number] for number in booking_ids if number in bookings}


@frozen
class AlertsWriter(AlertsReader):
    """Reads and writes alerts."""

    async def claim_alert(self, now: datetime, lease: Lease) -> DueAlert | None:
        alerts = self.tx.state.alerts
        for number, row in sorted(alerts.items()):
            if not row.is_sent and not is_lease_active(row.lease, now):
                alerts[number] = evolve(row, lease=lease)
                return DueAlert(number, row.alert.booking_id, row.alert.text)
        return None

    async def mark_alert_sent(self, alert_id: int) -> None:
        alerts = self.tx.state.alerts
        alerts[alert_id] = evolve(alerts[alert_id], is_sent=True, lease=None)
