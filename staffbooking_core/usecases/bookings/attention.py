"""What needs an operator: counts of what waits, the newest alerts, and this machine's clock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.bookings import notes
from staffbooking_core.domain.bookings.alerts import StoredAlert
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.shared.clock_skew import find_clock_fault
from staffbooking_core.ports import Ports, Waiting
from staffbooking_core.usecases.bookings.alerts import list_alerts
from staffbooking_core.validation import validated

__all__ = ["AlertLine", "Attention", "get_attention"]


@frozen
class AlertLine:
    """An alert about a booking; `code` is None where the booking is unknown, and `is_settled` tells
    whether what it asks for has been done since."""

    at: datetime
    booking_id: int
    code: str | None
    text: str
    is_settled: bool


@frozen
class Attention:
    """What needs an operator now."""

    waiting: Sequence[Waiting]
    alerts: Sequence[AlertLine]
    """The newest first."""
    has_more_alerts: bool
    clock_fault: str | None
    """Why this process must not act by its clock; None if it may."""


@validated
async def get_attention(ports: Ports, page: int = 1, limit: int = 10) -> Attention:
    """What needs an operator, with a page of the alerts."""
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        waiting = await view.metrics.waiting(now)
    listed = await list_alerts(ports, page, limit)
    alerts = [_line_of(alert, booking) for alert, booking in listed]
    fault = find_clock_fault(ports.clock.skew(), ports.policy.max_clock_skew)
    return Attention(waiting, alerts[:limit], len(alerts) > limit, fault)


def _line_of(alert: StoredAlert, booking: Booking | None) -> AlertLine:
    is_settled = (
        booking is not None
        and alert.alarmed_at is not None
        and notes.is_settled(booking, alert.alarmed_at)
    )
    code = None if booking is None else booking.code
    return AlertLine(alert.at, alert.booking_id, code, alert.text, is_settled)
