"""Statements that select what bookings bring to a companion."""

from __future__ import annotations

from functools import cache

from sqlalchemy import bindparam, select

from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, CivilDate, Instant
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_adapters.sql.schema.earnings import has_earning, has_open_earning

_COLUMNS = tuple(bookings.c)
_IS_COMPANION = bookings.c.companion_id == bindparam("companion_id", type_=BigInt)


@cache
def earnings_of(size: int) -> Statement:
    """A companion's bookings that bring money, of a range of dates. The bounds of their starts let
    the index be used."""
    found = select(*_COLUMNS).where(
        _IS_COMPANION,
        bookings.c.starts_at >= bindparam("since", type_=Instant),
        bookings.c.starts_at < bindparam("until", type_=Instant),
        bookings.c.event_date.between(
            bindparam("first", type_=CivilDate), bindparam("last", type_=CivilDate)
        ),
        has_earning,
    )
    newest_first = (bookings.c.starts_at.desc(), bookings.c.id.desc())
    return Statement(found.order_by(*newest_first).limit(size))


@cache
def open_earnings_of(size: int) -> Statement:
    """A companion's bookings of which money is to come or is owed."""
    found = select(*_COLUMNS).where(has_open_earning, _IS_COMPANION)
    return Statement(found.order_by(bookings.c.starts_at, bookings.c.id).limit(size))
