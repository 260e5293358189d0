"""Backlog figures over the work of all families, for health checks and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import frozen
from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    case,
    func,
    literal,
    or_,
    select,
    union_all,
)

from staffbooking_adapters.sql.bookings.timers import IS_TIMER_DUE
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.leases import BUSINESS_NOW_PARAM
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.payments.inbox import IS_EVENT_DUE
from staffbooking_adapters.sql.sandbox.clock import read_clock_offset
from staffbooking_adapters.sql.schema.bookings import bookings, is_unpaid_payout, timers
from staffbooking_adapters.sql.schema.payments import (
    is_operation_due,
    is_payee_due,
    payees,
    payment_operations,
    processor_inbox,
)
from staffbooking_core.ports import Backlog

_IS_PAYOUT_PAST_DUE = bookings.c.payout_due_at <= BUSINESS_NOW_PARAM
IS_PAYOUT_DUE = and_(
    is_unpaid_payout,
    or_(_IS_PAYOUT_PAST_DUE, bookings.c.payout_released_at.is_not(None)),
)
_PAYOUT_DUE_SINCE = case(
    (_IS_PAYOUT_PAST_DUE, bookings.c.payout_due_at), else_=bookings.c.payout_released_at
)


def _select_backlog(
    kind: ColumnElement[str], due_since: ColumnElement[datetime], is_due: ColumnElement[bool]
) -> Select[str, int, datetime]:
    return select(kind, func.count(), func.min(due_since)).where(is_due)


_BUSINESS_TIME_KINDS = ("timer", "payout")
"""Kinds of work that are due by business time."""

GET_BACKLOG = Statement(
    union_all(
        _select_backlog(
            payment_operations.c.kind, payment_operations.c.next_at, is_operation_due
        ).group_by(payment_operations.c.kind),
        _select_backlog(literal("timer", Text()), timers.c.due_at, IS_TIMER_DUE),
        _select_backlog(literal("event", Text()), processor_inbox.c.next_at, IS_EVENT_DUE),
        _select_backlog(literal("payee", Text()), payees.c.next_at, is_payee_due),
        _select_backlog(literal("payout", Text()), _PAYOUT_DUE_SINCE, IS_PAYOUT_DUE),
    )
)


@frozen
class MetricsReader:
    """Reads the backlog figures of health checks and metrics."""

    connection: Connection

    async def backlog(self, now: datetime) -> Sequence[Backlog]:
        business = now + await read_clock_offset(self.connection)
        rows = await self.connection.fetch_all(GET_BACKLOG, now=now, business=business)
        return [
            Backlog(
                kind,
                count,
                ((business if kind in _BUSINESS_TIME_KINDS else now) - since).total_seconds(),
            )
            for kind, count, since in rows
            if count
        ]
