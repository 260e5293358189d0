"""Alerts to operators about bookings."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import false, select

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import claim_rows
from staffbooking_adapters.sql.engine.leases import MAX_CLAIM_SIZE
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.bookings import alerts


@cache
def newest_alerts(size: int) -> Statement:
    newest = (alerts.c.at.desc(), alerts.c.id.desc())
    return Statement(
        select(alerts.c.at, alerts.c.booking_id, alerts.c.text).order_by(*newest).limit(size)
    )


@cache
def take_alerts_statement(limit: int) -> Statement:
    return Statement(
        claim_rows(
            alerts,
            is_due=alerts.c.told == false(),
            order_by=[alerts.c.id],
            limit=limit,
            values={"told": True},
            returning=(alerts.c.id, alerts.c.booking_id, alerts.c.text),
        )
    )


@frozen
class AlertsReader:
    """Reads alerts."""

    connection: Connection

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        rows = await self.connection.fetch_all(newest_alerts(page_size(limit)))
        return [(at, booking_id, alert_text) for at, booking_id, alert_text in rows[:limit]]


@frozen
class AlertsWriter(AlertsReader):
    """Takes alerts that are not sent yet and marks them as sent."""

    async def take_alerts(self, limit: int) -> Sequence[tuple[int, str]]:
        rows = await self.connection.fetch_all(take_alerts_statement(min(limit, MAX_CLAIM_SIZE)))
        return [(booking_id, text) for _, booking_id, text in sorted(rows)]
