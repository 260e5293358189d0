"""Statements for the bookings of a companion in a span of time."""

from __future__ import annotations

from functools import cache

from sqlalchemy import ColumnElement, Select, bindparam, case, select, union_all

from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_core.domain.bookings.lifecycle import CONFIRMED_STATUSES, BookingStatus

_SOONEST_FIRST = (bookings.c.starts_at, bookings.c.id)


@cache
def companion_bookings_since(size: int) -> Statement:
    """A companion's bookings: confirmed ones by start, then pending ones by start."""
    requests = bookings.c.status == BookingStatus.PENDING
    is_confirmed = bookings.c.status.in_(sorted(CONFIRMED_STATUSES))
    page_ids = union_all(
        _select_soonest_ids(size, is_confirmed), _select_soonest_ids(size, requests)
    ).subquery("chosen")
    page = select(*bookings.c).join_from(page_ids, bookings, bookings.c.id == page_ids.c.id)
    return Statement(page.order_by(case((requests, 1), else_=0), *_SOONEST_FIRST).limit(size))


def _select_soonest_ids(size: int, condition: ColumnElement[bool]) -> Select[tuple[int]]:
    soonest = (
        select(bookings.c.id)
        .where(
            bookings.c.companion_id == bindparam("companion_id", type_=BigInt),
            bookings.c.starts_at > bindparam("first", type_=Instant),
            bookings.c.ends_at > bindparam("since", type_=Instant),
            condition,
        )
        .order_by(*_SOONEST_FIRST)
        .limit(size)
        .subquery()
    )
    return select(soonest.c.id)


@cache
def companion_bookings_within(size: int) -> Statement:
    overlapping = select(*bookings.c).where(
        bookings.c.companion_id == bindparam("companion_id", type_=BigInt),
        bookings.c.starts_at > bindparam("first", type_=Instant),
        bookings.c.starts_at < bindparam("until", type_=Instant),
        bookings.c.ends_at > bindparam("since", type_=Instant),
        bookings.c.status != BookingStatus.CANCELLED,
    )
    return Statement(overlapping.order_by(*_SOONEST_FIRST).limit(size))
