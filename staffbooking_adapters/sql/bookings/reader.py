"""Bookings: single reads, lists, and the context of booking requests."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache, lru_cache
from typing import Any

from attrs import frozen
from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    exists,
    false,
    func,
    literal_column,
    or_,
    select,
    union,
    union_all,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.accounts.store import to_user
from staffbooking_adapters.sql.bookings.booking_request_context import (
    BOOKABLE_COLUMNS,
    REQUEST_CONTEXT_BY_EMAIL,
    REQUEST_CONTEXT_BY_ID,
    to_bookable,
)
from staffbooking_adapters.sql.bookings.earnings import earnings_of, open_earnings_of
from staffbooking_adapters.sql.bookings.ids import BookingIdAllocator
from staffbooking_adapters.sql.bookings.spans import (
    companion_bookings_since,
    companion_bookings_within,
)
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array
from staffbooking_adapters.sql.engine.page_size import OFFSET_PARAM, page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper, field_values_getter
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Duration
from staffbooking_adapters.sql.schema.bookings import (
    bookings,
    events,
    has_staff_debt,
    is_cancellable,
    is_disputed,
    is_open_payout,
    is_unsettled,
    is_urgent,
    rebooking_credits,
)
from staffbooking_adapters.sql.schema.earnings import has_open_earning
from staffbooking_adapters.sql.schema.payments import processor_inbox
from staffbooking_core.domain.accounts.users import normalize_email
from staffbooking_core.domain.bookings.booking import (
    Booking,
    PaymentIntent,
    PaymentStatus,
    PayoutStatus,
    TimelineEntry,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party
from staffbooking_core.domain.bookings.refunds import Refund
from staffbooking_core.domain.companions.availability import DAY, Interval
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.ports import (
    BookingQuery,
    BookingRequestContext,
    RebookingCredit,
)


@lru_cache(maxsize=2048)
def _parse_timeline(text: str) -> tuple[TimelineEntry, ...]:
    return codec.load(text, tuple[TimelineEntry, ...])


@lru_cache(maxsize=64)
def _parse_refunds(text: str) -> tuple[Refund, ...]:
    """Most bookings have none: their text is parsed once."""
    return codec.load(text, tuple[Refund, ...])


def _parse_intent(text: str) -> PaymentIntent:
    return codec.load(text, PaymentIntent)


BOOKING_COLUMNS = tuple(bookings.c)
to_booking = RowMapper(
    Booking,
    BOOKING_COLUMNS,
    status=BookingStatus,
    timeline=_parse_timeline,
    completed_by=Party,
    cancelled_by=Party,
    disputed_by=Party,
    payment_status=PaymentStatus,
    payout_status=PayoutStatus,
    chargeback_status=ChargebackStatus,
    intent=_parse_intent,
    refunds=_parse_refunds,
)
to_credit = RowMapper(RebookingCredit, tuple(rebooking_credits.c))

_START = (bookings.c.starts_at, bookings.c.id)
_SELECT_BOOKING_BY_ID = select(*BOOKING_COLUMNS).where(bookings.c.id == bindparam("booking_id"))
GET_BOOKING = Statement(_SELECT_BOOKING_BY_ID)
GET_BOOKING_BY_CODE = Statement(
    select(*BOOKING_COLUMNS).where(bookings.c.code == bindparam("booking_code"))
)
LOCK_BOOKING = Statement(_SELECT_BOOKING_BY_ID.with_for_update(key_share=True))

_TARGET, _BUFFER = bookings.alias("mine"), bindparam("buffer", type_=Duration)
_LONGEST = bindparam("longest", type_=Duration)
_STARTS_NEAR_TARGET = (  # So does the target itself: these bounds let the index be used.
    bookings.c.starts_at < _TARGET.c.ends_at + _BUFFER,
    bookings.c.starts_at > _TARGET.c.starts_at - _BUFFER - _LONGEST,
)
_OVERLAPS_TARGET = and_(
    bookings.c.status == BookingStatus.PENDING,
    bookings.c.ends_at > _TARGET.c.starts_at - _BUFFER,
)
LOCK_CONTENDERS = Statement(
    select(*BOOKING_COLUMNS)
    .join_from(_TARGET, bookings, bookings.c.companion_id == _TARGET.c.companion_id)
    .where(
        _TARGET.c.id == bindparam("booking_id"),
        *_STARTS_NEAR_TARGET,
        or_(bookings.c.id == _TARGET.c.id, _OVERLAPS_TARGET),
    )
    .order_by(bookings.c.id)
    .with_for_update(of=bookings, key_share=True)
)

GET_CREDIT = Statement(
    select(*rebooking_credits.c).where(rebooking_credits.c.booking_id == bindparam("booking_id"))
)
EVENTS_OF = Statement(
    select(events.c.sequence, events.c.body)
    .where(events.c.booking_id == bindparam("booking_id"))
    .order_by(events.c.sequence)
)

# Lists ------------------------------------------------------------------------------------

_SIDE_COLUMNS = {
    Party.CUSTOMER: bookings.c.customer_id,
    Party.STAFF: bookings.c.companion_id,
    Party.API: bookings.c.booked_by,
}
_IS_PARTY = {
    party: column == bindparam("user_id", type_=BigInt) for party, column in _SIDE_COLUMNS.items()
}


@frozen
class BookingListVariant:
    """The filters and page size of a list. Each variant is one statement."""

    parties: frozenset[Party] | None
    """The parties that the user may be; None for the bookings of all users."""
    has_status: bool
    priority_first: bool
    size: int
    has_offset: bool
    """Whether the page starts at an offset."""
    earliest_first: bool = False

    def order(self, *columns: ColumnElement[Any]) -> Sequence[ColumnElement[Any]]:
        return columns if self.earliest_first else [column.desc() for column in columns]


@cache
def bookings_page(variant: BookingListVariant) -> Statement:
    """A page of bookings: the ids of the first of each party are combined and sorted, all from
    indexes; only the rows of the page are read.

    Where all bookings are listed, the first of each status are combined instead.
    """
    parties = [_IS_PARTY[party] for party in sorted(variant.parties or ())]
    is_of_status = bookings.c.status == bindparam("status")
    statuses = [bookings.c.status == status for status in BookingStatus]
    if parties:
        kinds = [and_(each, is_of_status) if variant.has_status else each for each in parties]
    else:
        kinds = [is_of_status] if variant.has_status else statuses
    candidates = [_select_first_ids(variant, kind) for kind in kinds]
    if variant.priority_first:
        urgent = select(bookings.c.id, bookings.c.starts_at, literal_column("0").label("place"))
        # Without a hint SQLite would read all pending bookings.
        urgent = urgent.with_hint(bookings, "INDEXED BY ix_bookings_urgent", "sqlite")
        candidates.append(urgent.where(is_urgent, or_(*kinds)))
    found = union_all(*candidates).subquery("found")
    place = func.min(found.c.place)
    in_order = (place, *variant.order(found.c.starts_at, found.c.id))
    page_ids = select(found.c.id).group_by(found.c.id, found.c.starts_at).order_by(*in_order)
    page_ids = page_ids.add_columns(place.label("place")).limit(variant.size)
    if variant.has_offset:
        page_ids = page_ids.offset(bindparam("offset", type_=BigInt))
    chosen = page_ids.subquery("chosen")
    page = select(*BOOKING_COLUMNS).join_from(chosen, bookings, bookings.c.id == chosen.c.id)
    return Statement(page.order_by(chosen.c.place, *variant.order(*_START)))


def _select_first_ids(
    variant: BookingListVariant, condition: ColumnElement[bool]
) -> Select[tuple[int, datetime, int]]:
    offset = bindparam("offset", type_=BigInt)
    row_limit = offset + literal_column(str(variant.size)) if variant.has_offset else variant.size
    first = (
        select(bookings.c.id, bookings.c.starts_at)
        .where(condition)
        .order_by(*variant.order(*_START))
        .limit(row_limit)
        .subquery()
    )
    return select(first.c.id, first.c.starts_at, literal_column("1").label("place"))


@cache
def bookings_between(size: int) -> Statement:
    newest = select(*BOOKING_COLUMNS).where(
        bookings.c.customer_id == bindparam("customer_id", type_=BigInt),
        in_array(bookings.c.companion_id, "companion_ids"),
    )
    return Statement(newest.order_by(*(each.desc() for each in _START)).limit(size))


@cache
def open_payouts(size: int, status: PayoutStatus | None = None) -> Statement:
    due_at = func.coalesce(bookings.c.payout_due_at, bookings.c.created_at)
    found = select(*BOOKING_COLUMNS).where(is_open_payout).limit(size).offset(OFFSET_PARAM)
    if status is not None:
        found = found.where(bookings.c.payout_status == status)
    return Statement(found.order_by(bookings.c.payout_due_at.is_(None), due_at, bookings.c.id))


@cache
def open_bookings_of_user(size: int) -> Statement:
    is_customer = _IS_PARTY[Party.CUSTOMER]
    is_companion = _IS_PARTY[Party.STAFF]
    kinds = (
        and_(is_customer, is_cancellable),
        and_(is_companion, is_cancellable),
        and_(is_companion, is_open_payout, has_open_earning),  # The index of the latter is used.
    )
    after = bookings.c.id > bindparam("after_id")
    open_ids = union(*(select(bookings.c.id).where(kind, after) for kind in kinds)).subquery("open")
    page_ids = select(open_ids.c.id).order_by(open_ids.c.id).limit(size).subquery("chosen")
    page = select(*BOOKING_COLUMNS).join_from(page_ids, bookings, bookings.c.id == page_ids.c.id)
    return Statement(page.order_by(bookings.c.id))


@cache
def disputed_bookings(size: int) -> Statement:
    """A page of disputed bookings, the earliest deadline first."""
    page = select(*BOOKING_COLUMNS).where(is_disputed)
    page = page.order_by(bookings.c.dispute_respond_by, bookings.c.id).limit(size)
    return Statement(page.offset(bindparam("offset", type_=BigInt)))


@cache
def unsettled_bookings(size: int) -> Statement:
    has_open_processor_event = exists().where(
        processor_inbox.c.intent_id == bookings.c.id, processor_inbox.c.done == false()
    )
    unsettled_rows = select(*BOOKING_COLUMNS).where(
        is_unsettled, bookings.c.id > bindparam("after_id"), ~has_open_processor_event
    )
    return Statement(unsettled_rows.order_by(bookings.c.id).limit(size))


DEBTS_OF = Statement(
    select(bookings.c.id)
    .where(has_staff_debt, bookings.c.companion_id == bindparam("companion_id"))
    .order_by(bookings.c.id)
)


@frozen
class BookingsReader:
    """Reads bookings and the context of booking requests."""

    connection: Connection
    booking_ids: BookingIdAllocator

    async def booking(self, booking_id: int) -> Booking | None:
        return to_booking.map_optional(
            await self.connection.fetch_one(GET_BOOKING, booking_id=booking_id)
        )

    async def booking_by_code(self, code: str) -> Booking | None:
        return to_booking.map_optional(
            await self.connection.fetch_one(GET_BOOKING_BY_CODE, booking_code=code)
        )

    async def bookings(self, query: BookingQuery) -> Sequence[Booking]:
        row_limit, offset = query.limit + 1, (query.page - 1) * query.limit
        variant = BookingListVariant(
            parties=None if query.user_id is None else query.parties,
            has_status=query.status is not None,
            priority_first=query.priority_first,
            size=page_size(row_limit),
            has_offset=offset > 0,
            earliest_first=query.earliest_first,
        )
        if variant.parties is not None and not variant.parties:
            return []
        params = {"user_id": query.user_id, "status": query.status, "offset": offset}
        parameter_names = (
            bookings_page(variant).compile_for(self.connection.dialect).parameter_names
        )
        rows = await self.connection.fetch_all(
            bookings_page(variant), **{name: params[name] for name in parameter_names}
        )
        return [to_booking(row) for row in rows[:row_limit]]

    async def bookings_between(
        self, customer_id: int, companion_ids: Collection[int], limit: int
    ) -> Sequence[Booking]:
        params = {"customer_id": customer_id, "companion_ids": list(companion_ids)}
        rows = await self.connection.fetch_all(bookings_between(page_size(limit)), **params)
        return [to_booking(row) for row in rows[:limit]]

    async def disputed_bookings(self, page: int, limit: int) -> Sequence[Booking]:
        row_limit, offset = limit + 1, (page - 1) * limit
        rows = await self.connection.fetch_all(
            disputed_bookings(page_size(row_limit)), offset=offset
        )
        return [to_booking(row) for row in rows[:row_limit]]

    async def bookings_since(
        self, companion_id: int, since: datetime, limit: int
    ) -> Sequence[Booking]:
        # A booking lasts at most a day. The lower bound of its start lets the index be used.
        params = {"companion_id": companion_id, "first": since - DAY, "since": since}
        rows = await self.connection.fetch_all(companion_bookings_since(page_size(limit)), **params)
        found = [to_booking(row) for row in rows[:limit]]
        return sorted(found, key=lambda booking: (booking.starts_at, booking.id))

    async def bookings_within(
        self, companion_id: int, span: Interval, limit: int
    ) -> Sequence[Booking]:
        rows = await self.connection.fetch_all(
            companion_bookings_within(page_size(limit)),
            companion_id=companion_id,
            first=span.starts_at - DAY,
            since=span.starts_at,
            until=span.ends_at,
        )
        return [to_booking(row) for row in rows[:limit]]

    async def request_context(
        self,
        companion_id: int,
        customer_email: str | None,
        customer_id: int | None,
        day: date,
    ) -> BookingRequestContext:
        # The local day starts within 24 h of the UTC day, and a booking ends within 24 h after it.
        midnight = datetime.combine(day, time(), UTC)
        by_email = customer_email is not None
        rows = await self.connection.fetch_all(
            REQUEST_CONTEXT_BY_EMAIL if by_email else REQUEST_CONTEXT_BY_ID,
            companion_id=companion_id,
            customer=customer_id if customer_email is None else normalize_email(customer_email),
            first=midnight - DAY,
            last=midnight + 3 * DAY,
        )
        number, offset_us, *first = rows[0]
        if self.connection.dialect == "sqlite":
            number = await self.booking_ids.allocate(self.connection)
        user = first[len(BOOKABLE_COLUMNS) :]
        return BookingRequestContext(
            booking_id=number,
            companion=None if first[0] is None else to_bookable(first, rows),
            customer=None if user[0] is None else to_user(tuple(user)),
            clock_offset=timedelta(microseconds=offset_us),
        )

    async def rebooking_credit(self, booking_id: int) -> RebookingCredit | None:
        return to_credit.map_optional(
            await self.connection.fetch_one(GET_CREDIT, booking_id=booking_id)
        )

    async def events_of(self, booking_id: int) -> Sequence[tuple[int, bytes]]:
        rows = await self.connection.fetch_all(EVENTS_OF, booking_id=booking_id)
        return [(sequence, body) for sequence, body in rows]

    async def open_payouts(
        self, limit: int, offset: int = 0, status: PayoutStatus | None = None
    ) -> Sequence[Booking]:
        statement = open_payouts(page_size(limit), status)
        rows = await self.connection.fetch_all(statement, offset=offset)
        return [to_booking(row) for row in rows[:limit]]

    async def open_bookings_of(self, user_id: int, after_id: int, limit: int) -> Sequence[Booking]:
        params = {"user_id": user_id, "after_id": after_id}
        rows = await self.connection.fetch_all(open_bookings_of_user(page_size(limit)), **params)
        return [to_booking(row) for row in rows[:limit]]

    async def earnings_of(
        self, companion_id: int, first: date, last: date, limit: int
    ) -> Sequence[Booking]:
        # A local day begins and ends within a day of the one in UTC.
        since = datetime.combine(first, time(), UTC) - DAY
        until = datetime.combine(last, time(), UTC) + 2 * DAY
        params = {"companion_id": companion_id, "since": since, "until": until}
        rows = await self.connection.fetch_all(
            earnings_of(page_size(limit)), first=first, last=last, **params
        )
        return [to_booking(row) for row in rows[:limit]]

    async def open_earnings_of(self, companion_id: int, limit: int) -> Sequence[Booking]:
        rows = await self.connection.fetch_all(
            open_earnings_of(page_size(limit)), companion_id=companion_id
        )
        return [to_booking(row) for row in rows[:limit]]

    async def indebted_booking_ids(self, companion_id: int) -> Sequence[int]:
        rows = await self.connection.fetch_all(DEBTS_OF, companion_id=companion_id)
        return [booking_id for (booking_id,) in rows]

    async def unsettled_bookings(self, after_id: int, limit: int) -> Sequence[Booking]:
        rows = await self.connection.fetch_all(
            unsettled_bookings(page_size(limit)), after_id=after_id
        )
        return [to_booking(row) for row in rows[:limit]]


# Rows -------------------------------------------------------------------------------------


_get_booking_values = field_values_getter(Booking)


def booking_row(booking: Booking) -> dict[str, Any]:
    """The values of `BOOKING_COLUMNS` by name."""
    row = _get_booking_values(booking)
    row["timeline"] = codec.dump(booking.timeline, tuple[TimelineEntry, ...])
    row["refunds"] = codec.dump(booking.refunds, tuple[Refund, ...])
    row["intent"] = None if booking.intent is None else codec.dump(booking.intent)
    return row
