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
from staffbooking_adapters.sql.bookings.ledger import IMBALANCE, postings_of
from staffbooking_adapters.sql.bookings.reader import BOOKING, to_booking
from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.dialect import in_array, json_integer
from staffbooking_adapters.sql.engine.leases import NOW
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import Reader
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.payments.statement_reader import BALANCE, cash_books
from staffbooking_adapters.sql.sandbox.clock import clock_offset
from staffbooking_adapters.sql.schema.bookings import (
    alerts,
    bookings,
    is_indebted,
    is_open_payout,
    is_unsettled,
    timers,
)
from staffbooking_adapters.sql.schema.payments import (
    is_failed_refund,
    is_unfinished,
    payees,
    payment_operations,
    processor_cursors,
    processor_inbox,
)
from staffbooking_adapters.sql.schema.upgrade import HAS_VERSION
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.payments.ledger import Account, Posting
from staffbooking_core.domain.payments.processor import Operation, OpKind, OpStatus, Settlement
from staffbooking_core.domain.reconciliation.statement import CashBook
from staffbooking_core.errors import Unavailable
from staffbooking_core.ports import Audited, Backlog

OPERATION = tuple(payment_operations.c)[:-2]
_READ_OPERATION = Reader(Operation, OPERATION, kind=OpKind, status=OpStatus, settlement=Settlement)

OPERATIONS_OF = Statement(
    select(*OPERATION)
    .where(in_array(payment_operations.c.booking_id, "booking_ids"))
    .order_by(payment_operations.c.booking_id, payment_operations.c.n)
)
CURSOR = Statement(
    select(processor_cursors.c.cursor, processor_cursors.c.at).where(
        processor_cursors.c.provider == bindparam("provider")
    )
)
AS_OF_ONE_MOMENT = Statement(
    postgresql=text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
)

# What is due ------------------------------------------------------------------------------

_BUSINESS = bindparam("business", type_=Instant)

TIMER_IS_DUE = and_(
    timers.c.due_at <= _BUSINESS, or_(timers.c.not_before.is_(None), timers.c.not_before <= NOW)
)
NUDGE_IS_DUE = and_(processor_inbox.c.done == false(), processor_inbox.c.next_at <= NOW)
_OPERATION_IS_DUE = and_(is_unfinished, payment_operations.c.next_at <= NOW)
_PAYEE_IS_DUE = payees.c.next_at <= NOW
_PAYOUT_WAS_DUE = bookings.c.payout_due_at <= _BUSINESS
_PAYOUT_IS_DUE = and_(
    is_open_payout,
    bookings.c.payout_status != PayoutStatus.FROZEN,
    or_(_PAYOUT_WAS_DUE, bookings.c.payout_released_at.is_not(None)),
)
_PAYOUT_SINCE = case(
    (_PAYOUT_WAS_DUE, bookings.c.payout_due_at), else_=bookings.c.payout_released_at
)


def _count(table: Table, due: ColumnElement[bool]) -> ColumnElement[int]:
    return select(func.count()).select_from(table).where(due).scalar_subquery()


PENDING = Statement(
    select(
        _count(payment_operations, _OPERATION_IS_DUE)
        + _count(timers, TIMER_IS_DUE)
        + _count(processor_inbox, NUDGE_IS_DUE)
        + _count(payees, _PAYEE_IS_DUE)
    )
)


def _backlog(
    kind: ColumnElement[str], since: ColumnElement[datetime], due: ColumnElement[bool]
) -> Select[str, int, datetime]:
    return select(kind, func.count(), func.min(since)).where(due)


_OF_BUSINESS = ("timer", "payout")
"""Kinds that are due by business time."""

BACKLOG = Statement(
    union_all(
        _backlog(
            payment_operations.c.kind, payment_operations.c.next_at, _OPERATION_IS_DUE
        ).group_by(payment_operations.c.kind),
        _backlog(literal("timer", Text()), timers.c.due_at, TIMER_IS_DUE),
        _backlog(literal("event", Text()), processor_inbox.c.next_at, NUDGE_IS_DUE),
        _backlog(literal("payee", Text()), payees.c.next_at, _PAYEE_IS_DUE),
        _backlog(literal("payout", Text()), _PAYOUT_SINCE, _PAYOUT_IS_DUE),
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
def payouts(size: int) -> Statement:
    due_at, created_at = bookings.c.payout_due_at, bookings.c.created_at
    earliest = (due_at.is_(None), func.coalesce(due_at, created_at), bookings.c.id)
    return Statement(select(*BOOKING).where(is_open_payout).order_by(*earliest).limit(size))


_AFTER = bookings.c.id > bindparam("after_id")


@cache
def bookings_after(size: int) -> Statement:
    return Statement(select(*BOOKING).where(_AFTER).order_by(bookings.c.id).limit(size))


@cache
def unsettled(size: int) -> Statement:
    is_nudged = exists().where(
        processor_inbox.c.intent_id == bookings.c.id, processor_inbox.c.done == false()
    )
    found = select(*BOOKING).where(is_unsettled, _AFTER, ~is_nudged)
    return Statement(found.order_by(bookings.c.id).limit(size))


DEBTS_OF = Statement(
    select(bookings.c.id)
    .where(is_indebted, bookings.c.companion_id == bindparam("companion_id"))
    .order_by(bookings.c.id)
)

_LATER = payment_operations.alias("later")
_IS_REPLACED = exists().where(
    _LATER.c.booking_id == payment_operations.c.booking_id,
    _LATER.c.kind == OpKind.REFUND,
    json_integer(_LATER.c.command, "replaces") == payment_operations.c.n,
)


@cache
def failed_refunds(size: int) -> Statement:
    return Statement(
        select(*BOOKING, *OPERATION)
        .join_from(payment_operations, bookings)
        .where(is_failed_refund, ~_IS_REPLACED)
        .order_by(payment_operations.c.id)
        .limit(size)
    )


@frozen
class MoneyReader:
    connection: Connection

    async def operations_of(self, booking_id: int) -> Sequence[Operation]:
        rows = await self.connection.all(OPERATIONS_OF, booking_ids=[booking_id])
        return [to_operation(row) for row in rows]

    async def postings_of(self, booking_id: int) -> Sequence[Posting]:
        return (await postings_of(self.connection, [booking_id])).get(booking_id, ())

    async def audit(self, after_id: int, limit: int) -> Sequence[Audited]:
        async def unit(connection: Connection) -> Sequence[Audited]:
            await connection.run(AS_OF_ONE_MOMENT)
            return await _audit(connection, after_id, limit)

        if isinstance(self.connection, Database):
            return await self.connection.write(unit)
        return await _audit(self.connection, after_id, limit)

    async def imbalance(self) -> int:
        amount: int = await self.connection.value(IMBALANCE)
        return amount

    async def balance(self, account: Account) -> int:
        amount: int = await self.connection.value(BALANCE, account=account)
        return amount

    async def cash_books(self, after_id: int, limit: int) -> Sequence[CashBook]:
        return await cash_books(self.connection, after_id, limit)

    async def payouts(self, limit: int) -> Sequence[Booking]:
        rows = await self.connection.all(payouts(page_size(limit)))
        return [to_booking(row) for row in rows[:limit]]

    async def failed_refunds(self, limit: int) -> Sequence[tuple[Booking, Operation]]:
        rows = await self.connection.all(failed_refunds(page_size(limit)))
        return [(to_booking(row), to_operation(row[len(BOOKING) :])) for row in rows[:limit]]

    async def debts_of(self, companion_id: int) -> Sequence[int]:
        rows = await self.connection.all(DEBTS_OF, companion_id=companion_id)
        return [booking_id for (booking_id,) in rows]

    async def unsettled(self, after_id: int, limit: int) -> Sequence[Booking]:
        rows = await self.connection.all(unsettled(page_size(limit)), after_id=after_id)
        return [to_booking(row) for row in rows[:limit]]

    async def cursor(self, provider: str) -> tuple[str, datetime] | None:
        row = await self.connection.one(CURSOR, provider=provider)
        return None if row is None else (row[0], row[1])

    async def pending(self, now: datetime) -> int:
        if not await self.connection.value(HAS_VERSION):
            raise Unavailable("the database has no schema yet")
        business = now + await clock_offset(self.connection)
        count: int = await self.connection.value(PENDING, now=now, business=business)
        return count

    async def backlog(self, now: datetime) -> Sequence[Backlog]:
        business = now + await clock_offset(self.connection)
        rows = await self.connection.all(BACKLOG, now=now, business=business)
        return [
            Backlog(
                kind, count, ((business if kind in _OF_BUSINESS else now) - since).total_seconds()
            )
            for kind, count, since in rows
            if count
        ]

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        rows = await self.connection.all(newest_alerts(page_size(limit)))
        return [(at, booking_id, told) for at, booking_id, told in rows[:limit]]


async def _audit(connection: Connection, after_id: int, limit: int) -> Sequence[Audited]:
    rows = await connection.all(bookings_after(page_size(limit)), after_id=after_id)
    batch = [to_booking(row) for row in rows[:limit]]
    numbers = [booking.id for booking in batch]
    postings = await postings_of(connection, numbers)
    operations: dict[int, tuple[Operation, ...]] = {}
    for row in await connection.all(OPERATIONS_OF, booking_ids=numbers):
        operation = to_operation(row)
        operations[operation.booking_id] = (*operations.get(operation.booking_id, ()), operation)
    return [
        Audited(booking, postings.get(booking.id, ()), operations.get(booking.id, ()))
        for booking in batch
    ]


def to_operation(row: Row) -> Operation:
    """From the columns of OPERATION."""
    command = codec.load_command(OpKind(row[2]), row[4])
    return _READ_OPERATION((*row[:4], command, *row[5:]))
