"""Backlog figures over the work of all families, for health checks and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

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
from staffbooking_adapters.sql.notifications.store import IS_NOTIFICATION_DUE
from staffbooking_adapters.sql.payments.inbox import IS_EVENT_DUE
from staffbooking_adapters.sql.payments.operations import IS_OPEN_FAILED_REFUND
from staffbooking_adapters.sql.sandbox.clock import read_clock_offset
from staffbooking_adapters.sql.schema.bookings import (
    bookings,
    is_disputed,
    is_open_payout,
    is_unpaid_payout,
    timers,
)
from staffbooking_adapters.sql.schema.companions import (
    companions,
    is_pending_companion,
    is_pending_item,
    portfolio_items,
)
from staffbooking_adapters.sql.schema.notifications import inquiries, is_waiting_inquiry, notices
from staffbooking_adapters.sql.schema.payments import (
    is_operation_due,
    is_payee_due,
    payees,
    payment_operations,
    processor_inbox,
)
from staffbooking_adapters.sql.schema.webhooks import endpoints, is_silent_endpoint
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.ports import MAX_COUNTED_WAITING, Backlog, Waiting, WaitingKind

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
        _select_backlog(literal("notification", Text()), notices.c.due_at, IS_NOTIFICATION_DUE),
        _select_backlog(literal("payout", Text()), _PAYOUT_DUE_SINCE, IS_PAYOUT_DUE),
    )
)


def _select_waiting(
    kind: WaitingKind,
    since: ColumnElement[Any],
    is_waiting: ColumnElement[bool],
    *in_order: ColumnElement[Any],
) -> Select[str, int, datetime]:
    """Count the first rows in the order of an index that has the waiting rows alone."""
    first = (
        select(since.label("since"))
        .where(is_waiting)
        .order_by(*in_order)
        .limit(MAX_COUNTED_WAITING)
        .subquery()
    )
    counted = select(literal(kind.value, Text()), func.count(), func.min(first.c.since))
    return counted.select_from(first)


def _payouts_of(status: PayoutStatus) -> ColumnElement[bool]:
    return and_(is_open_payout, bookings.c.payout_status == status)


_BY_DEADLINE = (bookings.c.dispute_respond_by, bookings.c.id)
_BY_DUE_TIME = (bookings.c.payout_due_at, bookings.c.id)
LIST_WAITING = Statement(
    union_all(
        _select_waiting(WaitingKind.DISPUTE, bookings.c.disputed_at, is_disputed, *_BY_DEADLINE),
        _select_waiting(
            *(WaitingKind.OVERDUE_DISPUTE, bookings.c.dispute_respond_by),
            and_(is_disputed, bookings.c.dispute_respond_by <= BUSINESS_NOW_PARAM),
            *_BY_DEADLINE,
        ),
        _select_waiting(
            *(WaitingKind.FAILED_PAYOUT, bookings.c.payout_due_at),
            *(_payouts_of(PayoutStatus.FAILED), *_BY_DUE_TIME),
        ),
        _select_waiting(
            *(WaitingKind.HELD_PAYOUT, bookings.c.payout_due_at),
            *(and_(_payouts_of(PayoutStatus.FROZEN), ~is_disputed), *_BY_DUE_TIME),
        ),
        _select_waiting(
            *(WaitingKind.FAILED_REFUND, payment_operations.c.created_at),
            *(IS_OPEN_FAILED_REFUND, payment_operations.c.id),
        ),
        _select_waiting(
            *(WaitingKind.COMPANION, companions.c.member_since),
            *(is_pending_companion, companions.c.id),
        ),
        _select_waiting(
            *(WaitingKind.PORTFOLIO_ITEM, portfolio_items.c.created_at),
            *(is_pending_item, portfolio_items.c.id),
        ),
        _select_waiting(
            *(WaitingKind.INQUIRY, inquiries.c.created_at), is_waiting_inquiry, inquiries.c.id
        ),
        _select_waiting(
            *(WaitingKind.SILENT_ENDPOINT, endpoints.c.disabled_at),
            *(is_silent_endpoint, endpoints.c.id),
        ),
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

    async def waiting(self, now: datetime) -> Sequence[Waiting]:
        rows = await self.connection.fetch_all(LIST_WAITING, business=now)
        found = {
            kind: Waiting(WaitingKind(kind), count, since) for kind, count, since in rows if count
        }
        return [found[kind] for kind in WaitingKind if kind in found]
