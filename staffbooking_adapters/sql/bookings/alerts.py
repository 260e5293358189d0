"""Alerts about bookings, for operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import bindparam, false, select, update

from staffbooking_adapters.sql.bookings.reader import BOOKING_COLUMNS, to_booking
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array
from staffbooking_adapters.sql.engine.leases import (
    RELEASED_LEASE_VALUES,
    claim_with_lease,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.page_size import OFFSET_PARAM, page_size
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.bookings import alerts, bookings
from staffbooking_core.domain.bookings.alerts import StoredAlert
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.ports import DueAlert, Lease

_ALERT_COLUMNS = (alerts.c.at, alerts.c.booking_id, alerts.c.text, alerts.c.alarmed_at)


@cache
def newest_alerts(size: int) -> Statement:
    newest = (alerts.c.at.desc(), alerts.c.id.desc())
    found = select(*_ALERT_COLUMNS).order_by(*newest)
    return Statement(found.limit(size).offset(OFFSET_PARAM))


LIST_BOOKINGS = Statement(select(*BOOKING_COLUMNS).where(in_array(bookings.c.id, "booking_ids")))
CLAIM_ALERT = claim_with_lease(
    alerts,
    alerts.c.told == false(),
    [alerts.c.id],
    limit=1,
    returning=(alerts.c.id, alerts.c.booking_id, alerts.c.text),
)
MARK_ALERT_SENT = Statement(
    update(alerts)
    .where(alerts.c.id == bindparam("alert"))
    .values(told=True, **RELEASED_LEASE_VALUES)
)


@frozen
class AlertsReader:
    """Reads alerts."""

    connection: Connection

    async def alerts(self, limit: int, offset: int = 0) -> Sequence[StoredAlert]:
        rows = await self.connection.fetch_all(newest_alerts(page_size(limit)), offset=offset)
        return [StoredAlert(*row) for row in rows[:limit]]

    async def bookings_of(self, booking_ids: Collection[int]) -> Mapping[int, Booking]:
        rows = await self.connection.fetch_all(LIST_BOOKINGS, booking_ids=list(booking_ids))
        return {booking.id: booking for booking in map(to_booking, rows)}


@frozen
class AlertsWriter(AlertsReader):
    """Claims alerts that operators have not received yet, and marks them as sent."""

    async def claim_alert(self, now: datetime, lease: Lease) -> DueAlert | None:
        rows = await self.connection.fetch_all(CLAIM_ALERT, now=now, **lease_parameters(lease))
        return DueAlert(*rows[0]) if rows else None

    async def mark_alert_sent(self, alert_id: int) -> None:
        await self.connection.execute(MARK_ALERT_SENT, alert=alert_id)
