"""Bookings as they are read: one, many, and what a request is decided on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from functools import cache, lru_cache
from typing import Any

from attrs import frozen
from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    bindparam,
    case,
    literal_column,
    or_,
    select,
    union,
    union_all,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.accounts.store import USER, to_user
from staffbooking_adapters.sql.bookings.ids import BookingNumbers
from staffbooking_adapters.sql.companions.reader import holds_time_of, is_listed, to_busy, to_texts
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import Reader
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import (
    answers,
    booking_numbers,
    bookings,
    companions,
    events,
    is_urgent,
    rebooking_credits,
    users,
)
from staffbooking_core.domain.accounts.users import fold_email, full_name
from staffbooking_core.domain.bookings.booking import (
    Booking,
    Intent,
    PaymentStatus,
    PayoutStatus,
    TimelineEntry,
)
from staffbooking_core.domain.bookings.lifecycle import Party, Status
from staffbooking_core.domain.companions.availability import DAY
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.ports import Answer, Bookable, BookingQuery, Credit, RequestContext


@lru_cache(maxsize=2048)
def _timeline(text: str) -> tuple[TimelineEntry, ...]:
    return codec.load(text, tuple[TimelineEntry, ...])


def _intent(text: str) -> Intent:
    return codec.load(text, Intent)


BOOKING = tuple(bookings.c)
to_booking = Reader(
    Booking,
    BOOKING,
    status=Status,
    timeline=_timeline,
    completed_by=Party,
    cancelled_by=Party,
    disputed_by=Party,
    payment_status=PaymentStatus,
    payout_status=PayoutStatus,
    chargeback_status=ChargebackStatus,
    intent=_intent,
)
to_credit = Reader(Credit, tuple(rebooking_credits.c))
to_answer = Reader(Answer, tuple(answers.c))

_NEWEST = (bookings.c.starts_at.desc(), bookings.c.id.desc())
_SOONEST = (bookings.c.starts_at, bookings.c.id)
_BY_ID = select(*BOOKING).where(bookings.c.id == bindparam("booking_id"))
GET = Statement(_BY_ID)
GET_BY_CODE = Statement(select(*BOOKING).where(bookings.c.code == bindparam("booking_code")))
LOCK = Statement(_BY_ID.with_for_update(key_share=True))

_MINE = bookings.alias("mine")
_OVERLAPS = and_(
    bookings.c.status == Status.PENDING,
    bookings.c.starts_at < _MINE.c.ends_at,
    bookings.c.ends_at > _MINE.c.starts_at,
)
LOCK_CONTENDERS = Statement(
    select(*BOOKING)
    .join_from(_MINE, bookings, bookings.c.companion_id == _MINE.c.companion_id)
    .where(
        _MINE.c.id == bindparam("booking_id"),
        or_(bookings.c.id == _MINE.c.id, _OVERLAPS),
    )
    .order_by(bookings.c.id)
    .with_for_update(of=bookings, key_share=True)
)

GET_CREDIT = Statement(
    select(*rebooking_credits.c).where(rebooking_credits.c.booking_id == bindparam("booking_id"))
)
GET_ANSWER = Statement(
    select(*answers.c).where(
        answers.c.scope == bindparam("answer_scope"),
        answers.c.key == bindparam("answer_key"),
        answers.c.expires_at > bindparam("now", type_=Instant),
    )
)
EVENTS_OF = Statement(
    select(events.c.sequence, events.c.body)
    .where(events.c.booking_id == bindparam("booking_id"))
    .order_by(events.c.sequence)
)

# The context of a request -----------------------------------------------------------------

_BOOKABLE = tuple(
    companions.c[name]
    for name in "id first_name last_name hourly_rate daily_rate service_types calendar".split()
)


def _context(customer: ColumnElement[bool]) -> Statement:
    def written(number: ColumnElement[int]) -> Select[Any]:
        given = select(number.label("number")).subquery("given")
        companion = and_(companions.c.id == bindparam("companion_id", type_=BigInt), is_listed)
        return (
            select(given.c.number, *_BOOKABLE, *USER, bookings.c.starts_at, bookings.c.ends_at)
            .select_from(
                given.outerjoin(companions, companion)
                .outerjoin(users, customer)
                .outerjoin(bookings, holds_time_of(companions.c.id))
            )
            .order_by(bookings.c.starts_at)
        )

    # SQLite's number is drawn before.
    numbered = written(booking_numbers.next_value())
    return Statement(postgresql=numbered, sqlite=written(literal_column("0", BigInt)))


CONTEXT_BY_EMAIL = _context(users.c.email_folded == bindparam("customer"))
CONTEXT_BY_ID = _context(users.c.id == bindparam("customer", type_=BigInt))

# Lists ------------------------------------------------------------------------------------

_SIDES = {
    Party.CUSTOMER: bookings.c.customer_id,
    Party.STAFF: bookings.c.companion_id,
    Party.API: bookings.c.booked_by,
}
_IS_ITS = {party: column == bindparam("user_id", type_=BigInt) for party, column in _SIDES.items()}


@frozen
class Shape:
    """What sort of list it is; each shape is one statement."""

    sides: frozenset[Party] | None
    """None: everybody's bookings."""
    status: bool
    priority_first: bool
    size: int
    later: bool
    """Whether it begins after an offset."""


@cache
def listing(shape: Shape) -> Statement:
    """A page of bookings: the newest of each side are put together, then sorted."""
    sides = [] if shape.sides is None else [_IS_ITS[side] for side in sorted(shape.sides)]
    wanted = [bookings.c.status == bindparam("status")] if shape.status else []
    ways = [_newest(shape, side, *wanted) for side in sides] or [_newest(shape, *wanted)]
    if shape.priority_first:
        mine = [or_(*sides)] if sides else []
        ways.append(select(bookings.c.id).where(is_urgent, *mine, *wanted))
    chosen = (union(*ways) if len(ways) > 1 else ways[0]).subquery("chosen")
    urgent = [case((is_urgent, 0), else_=1)] if shape.priority_first else []
    page = select(*BOOKING).join_from(chosen, bookings, bookings.c.id == chosen.c.id)
    page = page.order_by(*urgent, *_NEWEST).limit(shape.size)
    return Statement(page.offset(bindparam("offset", type_=BigInt)) if shape.later else page)


def _newest(shape: Shape, *conditions: ColumnElement[bool]) -> Select[tuple[int]]:
    offset = bindparam("offset", type_=BigInt)
    reach = offset + literal_column(str(shape.size)) if shape.later else shape.size
    best = select(bookings.c.id).where(*conditions).order_by(*_NEWEST).limit(reach).subquery()
    return select(best.c.id)


@cache
def listing_since(size: int) -> Statement:
    """Bookings of a companion, the soonest first, and behind them requests."""
    requests = bookings.c.status == Status.PENDING
    others = bookings.c.status.not_in([Status.CANCELLED, Status.PENDING])
    chosen = union_all(_soonest(size, others), _soonest(size, requests)).subquery("chosen")
    page = select(*BOOKING).join_from(chosen, bookings, bookings.c.id == chosen.c.id)
    return Statement(page.order_by(case((requests, 1), else_=0), *_SOONEST).limit(size))


def _soonest(size: int, condition: ColumnElement[bool]) -> Select[tuple[int]]:
    best = (
        select(bookings.c.id)
        .where(
            bookings.c.companion_id == bindparam("companion_id", type_=BigInt),
            bookings.c.starts_at > bindparam("first", type_=Instant),
            bookings.c.ends_at > bindparam("since", type_=Instant),
            condition,
        )
        .order_by(*_SOONEST)
        .limit(size)
        .subquery()
    )
    return select(best.c.id)


@frozen
class BookingsReader:
    connection: Connection
    numbers: BookingNumbers

    async def booking(self, booking_id: int) -> Booking | None:
        return to_booking.optional(await self.connection.one(GET, booking_id=booking_id))

    async def booking_by_code(self, code: str) -> Booking | None:
        return to_booking.optional(await self.connection.one(GET_BY_CODE, booking_code=code))

    async def bookings(self, query: BookingQuery) -> Sequence[Booking]:
        wanted, offset = query.limit + 1, (query.page - 1) * query.limit
        shape = Shape(
            sides=None if query.user_id is None else query.sides,
            status=query.status is not None,
            priority_first=query.priority_first,
            size=page_size(wanted),
            later=offset > 0,
        )
        if shape.sides is not None and not shape.sides:
            return []
        given = {"user_id": query.user_id, "status": query.status, "offset": offset}
        asked = listing(shape).on(self.connection.dialect).parameters
        rows = await self.connection.all(listing(shape), **{name: given[name] for name in asked})
        return [to_booking(row) for row in rows[:wanted]]

    async def bookings_since(
        self, companion_id: int, since: datetime, limit: int
    ) -> Sequence[Booking]:
        # A booking lasts a day at most, and the index knows when it starts.
        given = {"companion_id": companion_id, "first": since - DAY, "since": since}
        rows = await self.connection.all(listing_since(page_size(limit)), **given)
        found = [to_booking(row) for row in rows[:limit]]
        return sorted(found, key=lambda booking: (booking.starts_at, booking.id))

    async def request_context(
        self,
        companion_id: int,
        customer_email: str | None,
        customer_id: int | None,
        day: date,
    ) -> RequestContext:
        # The local day begins at most a day from UTC's, and the booking ends 24 h after it.
        midnight = datetime.combine(day, time(), UTC)
        by_email = customer_email is not None
        rows = await self.connection.all(
            CONTEXT_BY_EMAIL if by_email else CONTEXT_BY_ID,
            companion_id=companion_id,
            customer=customer_id if customer_email is None else fold_email(customer_email),
            first=midnight - DAY,
            last=midnight + 3 * DAY,
        )
        number, *first = rows[0]
        if self.connection.dialect == "sqlite":
            number = await self.numbers.draw(self.connection)
        user = first[len(_BOOKABLE) :]
        return RequestContext(
            booking_id=number,
            companion=None if first[0] is None else _to_bookable(first, rows),
            customer=None if user[0] is None else to_user(tuple(user)),
        )

    async def credit(self, booking_id: int) -> Credit | None:
        return to_credit.optional(await self.connection.one(GET_CREDIT, booking_id=booking_id))

    async def answer(self, scope: str, key: str, now: datetime) -> Answer | None:
        row = await self.connection.one(GET_ANSWER, answer_scope=scope, answer_key=key, now=now)
        return to_answer.optional(row)

    async def events_of(self, booking_id: int) -> Sequence[tuple[int, bytes]]:
        rows = await self.connection.all(EVENTS_OF, booking_id=booking_id)
        return [(sequence, body) for sequence, body in rows]


def _to_bookable(row: Sequence[Any], rows: Sequence[Row]) -> Bookable:
    number, first_name, last_name, hourly_rate, daily_rate, offered, hours = row[: len(_BOOKABLE)]
    return Bookable(
        id=number,
        name=full_name(first_name, last_name),
        hourly_rate=hourly_rate,
        daily_rate=daily_rate,
        service_types=to_texts(offered),
        calendar=codec.load_calendar(hours),
        busy=to_busy(rows),
    )


# Rows -------------------------------------------------------------------------------------


def to_row(booking: Booking) -> dict[str, Any]:
    """The values of BOOKING by name."""
    row = {column.name: getattr(booking, column.name) for column in BOOKING}
    row["timeline"] = codec.dump(booking.timeline, tuple[TimelineEntry, ...])
    row["intent"] = None if booking.intent is None else codec.dump(booking.intent)
    return row
