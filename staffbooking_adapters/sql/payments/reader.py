"""What is read of money: of one booking, for operators, for health and for the audits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import (
    ColumnElement,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    case,
    exists,
    false,
    func,
    literal,
    or_,
    select,
    text,
    union_all,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.bookings.ledger import GET_LEDGER_IMBALANCE, list_postings_of
from staffbooking_adapters.sql.bookings.reader import BOOKING_COLUMNS, to_booking
from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.dialect import in_array, json_integer
from staffbooking_adapters.sql.engine.leases import NOW_PARAM
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.payments.statement_reader import ACCOUNT_BALANCE, read_cash_books
from staffbooking_adapters.sql.sandbox.clock import read_clock_offset
from staffbooking_adapters.sql.schema.bookings import (
    alerts,
    bookings,
    has_staff_debt,
    is_open_payout,
    is_unpaid_payout,
    is_unsettled,
    timers,
)
from staffbooking_adapters.sql.schema.payments import (
    is_failed_refund,
    is_operation_due,
    is_payee_due,
    payees,
    payment_operations,
    processor_cursors,
    processor_inbox,
)
from staffbooking_adapters.sql.schema.upgrade import HAS_VERSION_TABLE
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.ledger import Account, Posting
from staffbooking_core.domain.payments.processor import (
    Operation,
    OperationKind,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.reconciliation.statement import CashPostings
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import AuditedBooking, Backlog

OPERATION_COLUMNS = tuple(payment_operations.c)[:-2]
_map_operation = RowMapper(
    Operation,
    OPERATION_COLUMNS,
    kind=OperationKind,
    status=OperationStatus,
    settlement=SettlementStatus,
)

OPERATIONS_OF = Statement(
    select(*OPERATION_COLUMNS)
    .where(in_array(payment_operations.c.booking_id, "booking_ids"))
    .order_by(payment_operations.c.booking_id, payment_operations.c.n)
)
GET_PROCESSOR_CURSOR = Statement(
    select(processor_cursors.c.cursor, processor_cursors.c.at).where(
        processor_cursors.c.provider == bindparam("provider")
    )
)
SET_SNAPSHOT_ISOLATION = Statement(
    postgresql=text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
)

# What is due ------------------------------------------------------------------------------

_BUSINESS_NOW = bindparam("business", type_=Instant)

IS_TIMER_DUE = and_(
    timers.c.due_at <= _BUSINESS_NOW,
    or_(timers.c.not_before.is_(None), timers.c.not_before <= NOW_PARAM),
)
IS_PROCESSOR_EVENT_DUE = and_(
    processor_inbox.c.done == false(), processor_inbox.c.next_at <= NOW_PARAM
)
_IS_PAYOUT_PAST_DUE = bookings.c.payout_due_at <= _BUSINESS_NOW
IS_PAYOUT_DUE = and_(
    is_unpaid_payout,
    or_(_IS_PAYOUT_PAST_DUE, bookings.c.payout_released_at.is_not(None)),
)
PAYOUT_DUE_SINCE = case(
    (_IS_PAYOUT_PAST_DUE, bookings.c.payout_due_at), else_=bookings.c.payout_released_at
)


def _count_due(table: Table, is_due: ColumnElement[bool]) -> ColumnElement[int]:
    return select(func.count()).select_from(table).where(is_due).scalar_subquery()


COUNT_PENDING = Statement(
    select(
        _count_due(payment_operations, is_operation_due)
        + _count_due(timers, IS_TIMER_DUE)
        + _count_due(processor_inbox, IS_PROCESSOR_EVENT_DUE)
        + _count_due(payees, is_payee_due)
    )
)


def _select_backlog(
    kind: ColumnElement[str], due_since: ColumnElement[datetime], is_due: ColumnElement[bool]
) -> Select[str, int, datetime]:
    return select(kind, func.count(), func.min(due_since)).where(is_due)


_BUSINESS_TIME_KINDS = ("timer", "payout")
"""Kinds that are due by business time."""

GET_BACKLOG = Statement(
    union_all(
        _select_backlog(
            payment_operations.c.kind, payment_operations.c.next_at, is_operation_due
        ).group_by(payment_operations.c.kind),
        _select_backlog(literal("timer", Text()), timers.c.due_at, IS_TIMER_DUE),
        _select_backlog(
            literal("event", Text()), processor_inbox.c.next_at, IS_PROCESSOR_EVENT_DUE
        ),
        _select_backlog(literal("payee", Text()), payees.c.next_at, is_payee_due),
        _select_backlog(literal("payout", Text()), PAYOUT_DUE_SINCE, IS_PAYOUT_DUE),
    )
)

# Lists ------------------------------------------------------------------------------------


@cache
def newest_alerts(size: int) -> Statement:
    newest = (alerts.c.at.desc(), alerts.c.id.desc())
    return Statement(
        select(alerts.c.at, alerts.c.booking_id, alerts.c.text).order_by(*newest).limit(size)
    )


@cache
def open_payouts(size: int) -> Statement:
    due_at, created_at = bookings.c.payout_due_at, bookings.c.created_at
    earliest = (due_at.is_(None), func.coalesce(due_at, created_at), bookings.c.id)
    return Statement(select(*BOOKING_COLUMNS).where(is_open_payout).order_by(*earliest).limit(size))


_IS_AFTER_ID = bookings.c.id > bindparam("after_id")


@cache
def bookings_after(size: int) -> Statement:
    return Statement(
        select(*BOOKING_COLUMNS).where(_IS_AFTER_ID).order_by(bookings.c.id).limit(size)
    )


@cache
def unsettled_bookings(size: int) -> Statement:
    has_open_processor_event = exists().where(
        processor_inbox.c.intent_id == bookings.c.id, processor_inbox.c.done == false()
    )
    unsettled_rows = select(*BOOKING_COLUMNS).where(
        is_unsettled, _IS_AFTER_ID, ~has_open_processor_event
    )
    return Statement(unsettled_rows.order_by(bookings.c.id).limit(size))


DEBTS_OF = Statement(
    select(bookings.c.id)
    .where(has_staff_debt, bookings.c.companion_id == bindparam("companion_id"))
    .order_by(bookings.c.id)
)

_REPLACEMENT = payment_operations.alias("later")
_IS_REPLACED = exists().where(
    _REPLACEMENT.c.booking_id == payment_operations.c.booking_id,
    _REPLACEMENT.c.kind == OperationKind.REFUND,
    json_integer(_REPLACEMENT.c.command, "replaces") == payment_operations.c.n,
)


@cache
def failed_refunds_statement(size: int) -> Statement:
    return Statement(
        select(*BOOKING_COLUMNS, *OPERATION_COLUMNS)
        .join_from(payment_operations, bookings)
        .where(is_failed_refund, ~_IS_REPLACED)
        .order_by(payment_operations.c.id)
        .limit(size)
    )


@frozen
class PaymentsReader:
    connection: Connection

    async def operations_of(self, booking_id: int) -> Sequence[Operation]:
        rows = await self.connection.fetch_all(OPERATIONS_OF, booking_ids=[booking_id])
        return [to_operation(row) for row in rows]

    async def postings_of(self, booking_id: int) -> Sequence[Posting]:
        return (await list_postings_of(self.connection, [booking_id])).get(booking_id, ())

    async def audited_bookings(self, after_id: int, limit: int) -> Sequence[AuditedBooking]:
        async def unit(connection: Connection) -> Sequence[AuditedBooking]:
            await connection.execute(SET_SNAPSHOT_ISOLATION)
            return await _read_audit_batch(connection, after_id, limit)

        if isinstance(self.connection, Database):
            return await self.connection.run_transaction(unit)
        return await _read_audit_batch(self.connection, after_id, limit)

    async def ledger_imbalance(self) -> int:
        amount: int = await self.connection.fetch_value(GET_LEDGER_IMBALANCE)
        return amount

    async def account_balance(self, account: Account) -> int:
        amount: int = await self.connection.fetch_value(ACCOUNT_BALANCE, account=account)
        return amount

    async def cash_books(self, after_id: int, limit: int) -> Sequence[CashPostings]:
        return await read_cash_books(self.connection, after_id, limit)

    async def payouts(self, limit: int) -> Sequence[Booking]:
        rows = await self.connection.fetch_all(open_payouts(page_size(limit)))
        return [to_booking(row) for row in rows[:limit]]

    async def failed_refunds(self, limit: int) -> Sequence[tuple[Booking, Operation]]:
        rows = await self.connection.fetch_all(failed_refunds_statement(page_size(limit)))
        return [
            (to_booking(row), to_operation(row[len(BOOKING_COLUMNS) :])) for row in rows[:limit]
        ]

    async def indebted_booking_ids(self, companion_id: int) -> Sequence[int]:
        rows = await self.connection.fetch_all(DEBTS_OF, companion_id=companion_id)
        return [booking_id for (booking_id,) in rows]

    async def unsettled_bookings(self, after_id: int, limit: int) -> Sequence[Booking]:
        rows = await self.connection.fetch_all(
            unsettled_bookings(page_size(limit)), after_id=after_id
        )
        return [to_booking(row) for row in rows[:limit]]

    async def event_cursor(self, provider: str) -> tuple[str, datetime] | None:
        row = await self.connection.fetch_one(GET_PROCESSOR_CURSOR, provider=provider)
        return None if row is None else (row[0], row[1])

    async def count_pending_work(self, now: datetime) -> int:
        if not await self.connection.fetch_value(HAS_VERSION_TABLE):
            raise StoreUnavailable("the database has no schema yet")
        business = now + await read_clock_offset(self.connection)
        count: int = await self.connection.fetch_value(COUNT_PENDING, now=now, business=business)
        return count

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

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        rows = await self.connection.fetch_all(newest_alerts(page_size(limit)))
        return [(at, booking_id, alert_text) for at, booking_id, alert_text in rows[:limit]]


async def _read_audit_batch(
    connection: Connection, after_id: int, limit: int
) -> Sequence[AuditedBooking]:
    rows = await connection.fetch_all(bookings_after(page_size(limit)), after_id=after_id)
    batch = [to_booking(row) for row in rows[:limit]]
    booking_ids = [booking.id for booking in batch]
    postings = await list_postings_of(connection, booking_ids)
    operations: dict[int, tuple[Operation, ...]] = {}
    for row in await connection.fetch_all(OPERATIONS_OF, booking_ids=booking_ids):
        operation = to_operation(row)
        operations[operation.booking_id] = (*operations.get(operation.booking_id, ()), operation)
    return [
        AuditedBooking(booking, postings.get(booking.id, ()), operations.get(booking.id, ()))
        for booking in batch
    ]


def to_operation(row: Row) -> Operation:
    """From the columns of OPERATION."""
    command = codec.load_command(OperationKind(row[2]), row[4])
    return _map_operation((*row[:4], command, *row[5:]))
