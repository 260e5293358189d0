"""Alerts about bookings, for operators."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from staffbooking_core.ports import Ports
from staffbooking_core.validation import validated

__all__ = ["list_alerts"]


@validated
async def list_alerts(
    ports: Ports, limit: int = 100, offset: int = 0
) -> Sequence[tuple[datetime, int, str | None, str]]:
    """Wall time, booking id, booking code and text of up to `limit` alerts after the newest
    `offset`, the newest first."""
    async with ports.store.read_view() as view:
        alerts = await view.alerts.alerts(limit, offset)
        codes = await view.alerts.codes_of({booking_id for _, booking_id, _ in alerts})
    return [(at, booking_id, codes.get(booking_id), text) for at, booking_id, text in alerts]
