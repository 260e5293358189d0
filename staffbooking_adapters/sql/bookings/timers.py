"""Booking timers: claims due ones and defers them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import and_, bindparam, or_, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.leases import (
    BUSINESS_NOW_PARAM,
    LEASE_VALUES,
    MAX_CLAIM_SIZE,
    NOW_PARAM,
    RELEASED_LEASE_VALUES,
    claim_with_lease,
    is_held_by_caller,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.schema.bookings import timers
from staffbooking_core.domain.bookings.lifecycle import TimerKind
from staffbooking_core.ports import Lease, Timer

IS_TIMER_DUE = and_(
    timers.c.due_at <= BUSINESS_NOW_PARAM,
    or_(timers.c.not_before.is_(None), timers.c.not_before <= NOW_PARAM),
)


@cache
def claim_timers_statement(limit: int) -> Statement:
    return claim_with_lease(
        timers,
        IS_TIMER_DUE,
        (timers.c.due_at, timers.c.booking_id),
        limit,
        values={**LEASE_VALUES, "attempts": timers.c.attempts + 1},
        returning=(timers.c.booking_id, timers.c.kind, timers.c.due_at, timers.c.attempts),
    )


DEFER_TIMER = Statement(
    update(timers)
    .values(not_before=bindparam("put_off", type_=Instant), **RELEASED_LEASE_VALUES)
    .where(timers.c.booking_id == bindparam("booking"), is_held_by_caller(timers))
)


@frozen
class TimersWriter:
    """Claims and defers booking timers."""

    connection: Connection

    async def claim_timers(
        self, business_now: datetime, now: datetime, lease: Lease, limit: int
    ) -> Sequence[Timer]:
        statement = claim_timers_statement(min(limit, MAX_CLAIM_SIZE))
        rows = await self.connection.fetch_all(
            statement, business=business_now, now=now, **lease_parameters(lease)
        )
        claimed = [
            Timer(booking_id, TimerKind(kind), due_at, attempts)
            for booking_id, kind, due_at, attempts in rows
        ]
        return sorted(claimed, key=lambda timer: (timer.due_at, timer.booking_id))

    async def defer_timer(self, booking_id: int, lease: Lease, until: datetime) -> None:
        params = {"booking": booking_id, "held_by": lease.token, "put_off": until}
        await self.connection.execute(DEFER_TIMER, **params)
