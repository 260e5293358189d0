"""The cash postings of all bookings, for the comparison with the processor's statement.

All bookings are gone through, so a batch is one statement, of one moment: rows of several
sorts, put together by booking.
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
from staffbooking_adapters.sql.engine.dialect import total
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_adapters.sql.schema.payments import (
    is_unfinished,
    ledger_legs,
    ledger_postings,
    payment_operations,
    processor_inbox,
)
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.processor import OpStatus
from staffbooking_core.domain.reconciliation.statement import CashBook

_POSTED, _AMOUNT = ledger_postings.c.booking_id, ledger_legs.c.amount
_IS_CASH = ledger_legs.c.account == Account.PROCESSOR_BALANCE
BALANCE = Statement(select(total(_AMOUNT)).where(ledger_legs.c.account == bindparam("account")))

_BOOKING, _POSTING, _REF, _IN_FLIGHT = range(4)
"""The sorts of rows, in the order in which they come of each booking."""

_NONE = literal_column("0", BigInt)
_NEVER = literal_column("NULL", Instant)


@cache
def rows_of_cash_books(size: int) -> Statement:
    batch = (
        select(bookings.c.id, bookings.c.code)
        .where(bookings.c.id > bindparam("after_id"), bookings.c.intent.is_not(None))
        .order_by(bookings.c.id)
        .limit(size)
        .cte("batch")
    )
    in_batch = select(batch.c.id)
    operations, inbox = payment_operations.c, processor_inbox.c
    is_its = operations.booking_id.in_(in_batch)
    return Statement(
        union_all(
            _rows(_BOOKING, batch.c.id, name=batch.c.code),
            _rows(
                *(_POSTING, _POSTED, ledger_postings.c.id, ledger_postings.c.key),
                *(_AMOUNT, ledger_postings.c.at),
            )
            .join(ledger_legs, ledger_legs.c.posting_key == ledger_postings.c.key)
            .where(_POSTED.in_(in_batch), _IS_CASH),
            _rows(_REF, operations.booking_id, operations.id, operations.result_ref).where(
                is_its, operations.status == OpStatus.DONE, operations.result_ref.is_not(None)
            ),
            _rows(_IN_FLIGHT, operations.booking_id).where(
                is_its, is_unfinished, operations.first_sent_at.is_not(None)
            ),
            _rows(_IN_FLIGHT, inbox.intent_id).where(
                inbox.intent_id.in_(in_batch), inbox.done == false()
            ),
        ).order_by("booking_id", "sort", "number")
    )


def _rows(
    sort: int,
    booking_id: ColumnElement[int],
    number: ColumnElement[int] = _NONE,
    name: ColumnElement[str] | None = None,
    amount: ColumnElement[int] = _NONE,
    at: ColumnElement[Any] = _NEVER,
) -> Select[int, int, int, str | None, int, Any]:
    return select(
        booking_id.label("booking_id"),
        literal_column(str(sort), BigInt).label("sort"),
        number.label("number"),
        (null() if name is None else name).label("name"),
        amount.label("amount"),
        at.label("at"),
    )


async def cash_books(connection: Connection, after_id: int, limit: int) -> Sequence[CashBook]:
    """A batch of bookings that have an intent, by id."""
    rows = await connection.all(rows_of_cash_books(page_size(limit)), after_id=after_id)
    return [_to_book(booking_id, found) for booking_id, found in groupby(rows, itemgetter(0))][
        :limit
    ]


def _to_book(booking_id: int, rows: Iterable[Row]) -> CashBook:
    code, in_flight, changed_at = "", False, None
    postings: list[tuple[str, int]] = []
    refs: dict[int, str] = {}
    for _, sort, number, name, amount, at in rows:
        if sort == _POSTING:
            postings.append((name, amount))
            changed_at = at if changed_at is None else max(changed_at, at)
        elif sort == _REF:
            refs[number] = name
        elif sort == _BOOKING:
            code = name
        else:
            in_flight = True
    return CashBook(booking_id, code, tuple(postings), refs, in_flight, changed_at)
