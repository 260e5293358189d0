"""Alerts: their list, and their sending.

An alert is saved with a transition of its booking (`BookingWrite.alerts`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.bookings.alerts import StoredAlert
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.ports.leases import Lease

__all__ = ["AlertsReadPort", "AlertsWritePort", "DueAlert"]


@frozen
class DueAlert:
    """A claimed alert that operators have not received yet."""

    id: int
    booking_id: int
    text: str


class AlertsReadPort(Protocol):
    """Queries on alerts."""

    async def alerts(self, limit: int, offset: int = 0) -> Sequence[StoredAlert]:
        """Up to `limit` alerts after the newest `offset`, the newest first."""
        ...

    async def bookings_of(self, booking_ids: Collection[int]) -> Mapping[int, Booking]:
        """The bookings that exist among these ids, by id."""
        ...


class AlertsWritePort(AlertsReadPort, Protocol):
    """Commands on alerts."""

    async def claim_alert(self, now: datetime, lease: Lease) -> DueAlert | None:
        """Claim the oldest alert that is not sent yet; None where there is none. `now` is wall
        time."""
        ...

    async def mark_alert_sent(self, alert_id: int) -> None:
        """Mark an alert as sent, so that nobody claims it again."""
        ...
