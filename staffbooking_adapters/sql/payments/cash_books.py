"""The cash postings of all bookings, for the comparison with the processor's statement.

A batch is one statement, so that its data is consistent: rows of several types, grouped by
booking.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    bindparam,
    false,
    literal_column,
    null,
    select,
    union_all,
)

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_adapters.sql.schema.payments import (
    is_in_flight,
    ledger_legs,
    ledger_postings,
    payment_operations,
    processor_inbox,
)
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.operations import OperationStatus
from staffbooking_core.domain.reconciliation.statement import CashPostings

_POSTING_BOOKING_ID, _AMOUNT = ledger_postings.c.booking_id, ledger_legs.c.amount
_IS_CASH = ledger_legs.c.account == Account.PROCESSOR_BALANCE

_BOOKING_ROW, _POSTING_ROW, _REFERENCE_ROW, _IN_FLIGHT_ROW = range(4)
"""Types of rows, in their order within a booking."""

_ZERO = literal_column("0", BigInt)
_NO_TIME = literal_column("NULL", Instant)


@cache
def cash_book_rows(size: int) -> Statement:
    batch = (
        select(bookings.c.id, bookings.c.code)
        .where(bookings.c.id > bindparam("after_id"), bookings.c.intent.is_not(None))
        .order_by(bookings.c.id)
        .limit(size)
        .cte("batch")
    )
    in_batch = select(batch.c.id)
    operations, inbox = payment_operations.c, processor_inbox.c
    is_in_batch = operations.booking_id.in_(in_batch)
    return Statement(
        union_all(
            _select_cash_book_rows(_BOOKING_ROW, batch.c.id, name=batch.c.code),
            _select_cash_book_rows(
                *(_POSTING_ROW, _POSTING_BOOKING_ID, ledger_postings.c.id, ledger_postings.c.key),
                *(_AMOUNT, ledger_postings.c.at),
            )
            .join(ledger_legs, ledger_legs.c.posting_key == ledger_postings.c.key)
            .where(_POSTING_BOOKING_ID.in_(in_batch), _IS_CASH),
            _select_cash_book_rows(
                _REFERENCE_ROW, operations.booking_id, operations.id, operations.result_ref
            ).where(
                is_in_batch,
                operations.status == OperationStatus.DONE,
                operations.result_ref.is_not(None),
            ),
            _select_cash_book_rows(_IN_FLIGHT_ROW, operations.booking_id).where(
                is_in_batch, is_in_flight
            ),
            _select_cash_book_rows(_IN_FLIGHT_ROW, inbox.intent_id).where(
                inbox.intent_id.in_(in_batch), inbox.done == false()
            ),
        ).order_by("booking_id", "sort", "number")
    )


def _select_cash_book_rows(
    row_type: int,
    booking_id: ColumnElement[int],
    number: ColumnElement[int] = _ZERO,
    name: ColumnElement[str] | None = None,
    amount: ColumnElement[int] = _ZERO,
    at: ColumnElement[Any] = _NO_TIME,
) -> Select[int, int, int, str | None, int, Any]:
    return select(
        booking_id.label("booking_id"),
        literal_column(str(row_type), BigInt).label("sort"),
        number.label("number"),
        (null() if name is None else name).label("name"),
        amount.label("amount"),
        at.label("at"),
    )


async def read_cash_books(
    connection: Connection, after_id: int, limit: int
) -> Sequence[CashPostings]:
    """The cash postings of the next bookings that have a payment intent, by id."""
    rows = await connection.fetch_all(cash_book_rows(page_size(limit)), after_id=after_id)
    return [_to_cash_book(booking_id, found) for booking_id, found in groupby(rows, itemgetter(0))][
        :limit
    ]


def _to_cash_book(booking_id: int, rows: Iterable[Row]) -> CashPostings:
    code, in_flight, changed_at = "", False, None
    postings: list[tuple[str, int]] = []
    refs: dict[int, str] = {}
    for _, row_type, number, name, amount, at in rows:
        if row_type == _POSTING_ROW:
            postings.append((name, amount))
            changed_at = at if changed_at is None else max(changed_at, at)
        elif row_type == _REFERENCE_ROW:
            refs[number] = name
        elif row_type == _BOOKING_ROW:
            code = name
        else:
            in_flight = True
    return CashPostings(booking_id, code, tuple(postings), refs, in_flight, changed_at)
