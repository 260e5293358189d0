"""Ledger reads: postings of a booking, balances, and batches of bookings for audits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from attrs import frozen
from sqlalchemy import bindparam, select, text

from staffbooking_adapters.sql.bookings.postings import list_postings_of
from staffbooking_adapters.sql.bookings.reader import BOOKING_COLUMNS, to_booking
from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.dialect import sum_or_zero
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.payments.cash_books import read_cash_books
from staffbooking_adapters.sql.payments.operations import OPERATIONS_OF, to_operation
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_adapters.sql.schema.payments import ledger_legs
from staffbooking_core.domain.payments.ledger import Account, Posting
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.domain.reconciliation.statement import CashPostings
from staffbooking_core.ports import AuditedBooking

GET_IMBALANCE = Statement(select(sum_or_zero(ledger_legs.c.amount)))
GET_ACCOUNT_BALANCE = Statement(
    select(sum_or_zero(ledger_legs.c.amount)).where(ledger_legs.c.account == bindparam("account"))
)
SET_SNAPSHOT_ISOLATION = Statement(
    postgresql=text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
)


@cache
def bookings_after(size: int) -> Statement:
    return Statement(
        select(*BOOKING_COLUMNS)
        .where(bookings.c.id > bindparam("after_id"))
        .order_by(bookings.c.id)
        .limit(size)
    )


@frozen
class LedgerReader:
    """Reads postings, balances and audit batches."""

    connection: Connection

    async def postings_of(self, booking_id: int) -> Sequence[Posting]:
        return (await list_postings_of(self.connection, [booking_id])).get(booking_id, ())

    async def audited_bookings(self, after_id: int, limit: int) -> Sequence[AuditedBooking]:
        async def unit(connection: Connection) -> Sequence[AuditedBooking]:
            await connection.execute(SET_SNAPSHOT_ISOLATION)
            return await _read_audit_batch(connection, after_id, limit)

        if isinstance(self.connection, Database):
            return await self.connection.run_transaction(unit)
        return await _read_audit_batch(self.connection, after_id, limit)

    async def imbalance(self) -> int:
        amount: int = await self.connection.fetch_value(GET_IMBALANCE)
        return amount

    async def account_balance(self, account: Account) -> int:
        amount: int = await self.connection.fetch_value(GET_ACCOUNT_BALANCE, account=account)
        return amount

    async def cash_books(self, after_id: int, limit: int) -> Sequence[CashPostings]:
        return await read_cash_books(self.connection, after_id, limit)


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
