"""Alerts about bookings in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_adapters.memory.state import MemoryTransaction


@frozen
class AlertsReader:
    """Reads alerts."""

    tx: MemoryTransaction

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        alerts = self.tx.state.alerts
        newest = sorted(alerts, key=lambda number: (alerts[number].at, number), reverse=True)
        rows = (alerts[number] for number in newest[:limit])
        return [(row.at, row.booking_id, row.text) for row in rows]


@frozen
class AlertsWriter(AlertsReader):
    """Reads and writes alerts."""

    async def take_alerts(self, limit: int) -> Sequence[tuple[int, str]]:
        alerts = self.tx.state.alerts
        untold = [number for number in sorted(alerts) if not alerts[number].is_sent][:limit]
        for number in untold:
            alerts[number] = evolve(alerts[number], is_sent=True)
        return [(alerts[number].booking_id, alerts[number].text) for number in untold]
