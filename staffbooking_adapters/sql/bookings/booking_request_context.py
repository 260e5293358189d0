"""The context of a booking request: the companion with its busy times, the customer, and the
sandbox clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, literal_column, select

from staffbooking_adapters import codec
from staffbooking_adapters.sql.companions.reader import (
    holds_slot_of_companion,
    is_listed,
    parse_texts,
    to_busy_intervals,
)
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.accounts import USER_COLUMNS, users
from staffbooking_adapters.sql.schema.bookings import booking_numbers, bookings
from staffbooking_adapters.sql.schema.companions import companions
from staffbooking_adapters.sql.schema.sandbox import sandbox_clock
from staffbooking_core.domain.accounts.users import full_name
from staffbooking_core.ports import BookableCompanion

_OWNERS = users.alias("owners")
"""The companions' rows of `users`."""
BOOKABLE_COLUMNS = (
    *(
        companions.c[name]
        for name in "id first_name last_name hourly_rate daily_rate service_types calendar".split()
    ),
    _OWNERS.c.acceptances,
)


def _request_context_statement(customer: ColumnElement[bool]) -> Statement:
    def select_context(booking_id: ColumnElement[int]) -> Select[Any]:
        id_row = select(booking_id.label("number")).subquery("given")
        companion = and_(companions.c.id == bindparam("companion_id", type_=BigInt), is_listed)
        return (
            select(
                id_row.c.number,
                select(sandbox_clock.c.offset_us).scalar_subquery(),
                *BOOKABLE_COLUMNS,
                *USER_COLUMNS,
                bookings.c.starts_at,
                bookings.c.ends_at,
            )
            .select_from(
                id_row.outerjoin(companions, companion)
                .outerjoin(_OWNERS, _OWNERS.c.id == companions.c.id)
                .outerjoin(users, customer)
                .outerjoin(bookings, holds_slot_of_companion(companions.c.id))
            )
            .order_by(bookings.c.starts_at)
        )

    # On SQLite `BookingIdAllocator` provides the id.
    select_with_next_id = select_context(booking_numbers.next_value())
    return Statement(
        postgresql=select_with_next_id, sqlite=select_context(literal_column("0", BigInt))
    )


REQUEST_CONTEXT_BY_EMAIL = _request_context_statement(users.c.email_folded == bindparam("customer"))
REQUEST_CONTEXT_BY_ID = _request_context_statement(
    users.c.id == bindparam("customer", type_=BigInt)
)


def to_bookable(row: Sequence[Any], rows: Sequence[Row]) -> BookableCompanion:
    """The companion of a context, with the busy intervals of all its rows."""
    number, first_name, last_name, hourly_rate, daily_rate, services, calendar, acceptances = row[
        : len(BOOKABLE_COLUMNS)
    ]
    return BookableCompanion(
        id=number,
        name=full_name(first_name, last_name),
        hourly_rate=hourly_rate,
        daily_rate=daily_rate,
        service_types=parse_texts(services),
        calendar=codec.load_calendar(calendar),
        busy=to_busy_intervals(rows),
        acceptances=acceptances,
    )
