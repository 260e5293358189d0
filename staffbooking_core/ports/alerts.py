"""Alerts: texts about a booking that operators must look at.

An alert is saved with a step of its booking (`BookingWrite.alerts`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol


class AlertsReadPort(Protocol):
    """Queries on alerts."""

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        """Wall time, booking id and text of the newest `limit` alerts, the newest first."""
        ...


class AlertsWritePort(AlertsReadPort, Protocol):
    """Commands on alerts."""

    async def take_alerts(self, limit: int) -> Sequence[tuple[int, str]]:
        """Booking id and text of up to `limit` alerts that were not sent yet, the oldest first.
        They count as sent once this transaction commits."""
        ...
