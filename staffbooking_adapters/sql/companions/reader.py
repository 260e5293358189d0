"""Companions with their ready-made answers, and what searches look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from attrs import frozen
from sqlalchemy import (
    ColumnElement,
    and_,
    bindparam,
    delete,
    func,
    literal_column,
    select,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.companions.search import Shape, found, summaries
from staffbooking_adapters.sql.companions.writer import mark_days, save_companions
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import containing, in_array
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import Reader
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import (
    bookings,
    companion_days,
    companion_search,
    companions,
    holds_slot,
    services,
)
from staffbooking_core.domain.companions.availability import FIRST_DAY, LAST_DAY, Interval
from staffbooking_core.domain.companions.companion import (
    Approval,
    Badge,
    Companion,
    CompanionQuery,
    Tier,
    fold,
)
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Agenda, Candidate

HIGHEST = 2**63 - 1
"""Above every price."""


def to_texts(text: str) -> tuple[str, ...]:
    """From a JSON array of texts."""
    return tuple(codec.decode(text))


def _badges(text: str) -> tuple[Badge, ...]:
    return tuple(map(Badge, to_texts(text)))


COMPANION = tuple(companions.c)[:-2]
to_companion = Reader(
    Companion,
    COMPANION,
    calendar=codec.load_calendar,
    service_types=to_texts,
    languages=to_texts,
    tier=Tier,
    badges=_badges,
    approval=Approval,
)

is_listed = and_(companions.c.active, companions.c.approval == Approval.APPROVED)
_IS_IT = companions.c.id == bindparam("companion_id")
_SPAN = (bookings.c.starts_at, bookings.c.ends_at)


def holds_time_of(companion_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Of a booking: it holds time of that companion, within `first` and `last`."""
    return and_(
        bookings.c.companion_id == companion_id,
        holds_slot,
        bookings.c.starts_at < bindparam("last", type_=Instant),
        bookings.c.ends_at > bindparam("first", type_=Instant),
    )


_WITH_BUSY = companions.outerjoin(bookings, holds_time_of(companions.c.id))

GET = Statement(select(*COMPANION).where(_IS_IT))
LOCK = Statement(select(*COMPANION).where(_IS_IT).with_for_update(key_share=True))
DETAIL = Statement(select(companions.c.detail).where(_IS_IT, is_listed))
AGENDA = Statement(
    select(companions.c.calendar, *_SPAN)
    .select_from(_WITH_BUSY)
    .where(_IS_IT, is_listed)
    .order_by(bookings.c.starts_at)
)
BUSY = Statement(
    select(*_SPAN)
    .where(holds_time_of(bindparam("companion_id", type_=BigInt)))
    .order_by(bookings.c.starts_at)
)

SERVICES = Statement(
    select(services.c.name_folded, companion_search.c.spelling, func.count())
    .join_from(companion_search, services, services.c.id == companion_search.c.service_id)
    .group_by(services.c.name_folded, companion_search.c.spelling)
)
NAMES = Statement(
    select(
        services.c.name_folded,
        select(companion_search.c.spelling)
        .where(companion_search.c.service_id == services.c.id)
        .order_by(companion_search.c.rank)
        .limit(literal_column("1"))
        .scalar_subquery(),
    )
)
UNMARK = Statement(
    delete(companion_days).where(
        companion_days.c.companion_id == bindparam("companion_id"),
        in_array(companion_days.c.day, "days"),
    )
)


@cache
def companions_after(size: int) -> Statement:
    after = companions.c.id > bindparam("after_id")
    return Statement(select(*COMPANION).where(after).order_by(companions.c.id).limit(size))


@cache
def candidates(size: int) -> Statement:
    """Companions of a service with a free hour on a day, and what is taken of their time."""

    def written(dialect: Any) -> Any:
        page = found(Shape(service=True, day=True, size=size), dialect)
        rows = page.join(companions, companions.c.id == page.c.companion_id)
        return (
            select(companions.c.id, companions.c.summary, companions.c.calendar, *_SPAN)
            .select_from(rows.outerjoin(bookings, holds_time_of(companions.c.id)))
            .order_by(page.c.rank, page.c.companion_id, bookings.c.starts_at)
        )

    return Statement(postgresql=written("postgresql"), sqlite=written("sqlite"))


@frozen
class CompanionsReader:
    connection: Connection

    async def search(self, query: CompanionQuery) -> Sequence[bytes]:
        if query.date is not None and not FIRST_DAY <= query.date <= LAST_DAY:
            return []
        wanted, offset = query.limit + 1, (query.page - 1) * query.limit
        shape = Shape(
            place=query.location is not None,
            service=query.service is not None,
            price=query.min_price is not None or query.max_price is not None,
            day=query.date is not None,
            size=page_size(wanted),
            later=offset > 0,
        )
        rows = await self.connection.all(summaries(shape), **parameters(query, shape, offset))
        return [summary for (summary,) in rows[:wanted]]

    async def detail(self, companion_id: int) -> bytes | None:
        found: bytes | None = await self.connection.value(DETAIL, companion_id=companion_id)
        return found

    async def agenda(self, companion_id: int, first: datetime, last: datetime) -> Agenda | None:
        span = {"first": first, "last": last}
        rows = await self.connection.all(AGENDA, companion_id=companion_id, **span)
        if not rows:
            return None
        return Agenda(companion_id, codec.load_calendar(rows[0][0]), to_busy(rows))

    async def service_types(self) -> Sequence[tuple[str, int]]:
        rows = sorted(await self.connection.all(SERVICES))
        return [_usual(list(spelled)) for _, spelled in groupby(rows, key=itemgetter(0))]

    async def services(self) -> Sequence[str]:
        rows = sorted(await self.connection.all(NAMES))
        return [name for _, name in rows if name is not None]

    async def candidates(
        self, service: str, day: date, first: datetime, last: datetime, limit: int
    ) -> Sequence[Candidate]:
        query = CompanionQuery(service=service, date=day)
        given = parameters(query, Shape(service=True, day=True), 0)
        statement = candidates(page_size(limit))
        rows = await self.connection.all(statement, **given, first=first, last=last)
        grouped = [list(some) for _, some in groupby(rows, key=itemgetter(0))]
        return [_candidate(some) for some in grouped[:limit]]

    async def companion(self, companion_id: int) -> Companion | None:
        return to_companion.optional(await self.connection.one(GET, companion_id=companion_id))

    async def companions(self, after_id: int, limit: int) -> Sequence[Companion]:
        rows = await self.connection.all(companions_after(page_size(limit)), after_id=after_id)
        return [to_companion(row) for row in rows[:limit]]


@frozen
class CompanionsWriter(CompanionsReader):
    policy: Policy

    async def lock_companion(self, companion_id: int) -> Companion | None:
        return to_companion.optional(await self.connection.one(LOCK, companion_id=companion_id))

    async def save_companion(self, companion: Companion) -> None:
        await save_companions(self.connection, self.policy, [companion])

    async def busy(self, companion_id: int, first: datetime, last: datetime) -> Sequence[Interval]:
        span = {"first": first, "last": last}
        rows = await self.connection.all(BUSY, companion_id=companion_id, **span)
        return to_busy(rows)

    async def mark_days(self, companion_id: int, days: Mapping[date, bool | None]) -> None:
        plain = sorted(day for day, free in days.items() if free is None)
        if plain:
            await self.connection.run(UNMARK, companion_id=companion_id, days=plain)
        marked = ((companion_id, day, free) for day, free in days.items() if free is not None)
        await mark_days(self.connection, marked)


def parameters(query: CompanionQuery, shape: Shape, offset: int) -> dict[str, Any]:
    """What a statement of this shape asks for."""
    given: dict[str, Any] = {}
    if shape.place:
        given["place"] = containing(fold(query.location or ""))
    if shape.service:
        given["service"] = fold(query.service or "")
    if shape.price:
        given["low"] = query.min_price or 0
        given["high"] = HIGHEST if query.max_price is None else query.max_price
    if query.date is not None:
        given["day"], given["weekday_bit"] = query.date, 1 << query.date.weekday()
    if shape.later:
        given["offset"] = offset
    return given


def _usual(spelled: Sequence[Row]) -> tuple[str, int]:
    """The most usual spelling of a service, and how many offer it."""
    usual = max(spelled, key=itemgetter(2))
    return usual[1], sum(count for _, _, count in spelled)


def _candidate(rows: Sequence[Row]) -> Candidate:
    companion_id, summary, calendar, *_ = rows[0]
    agenda = Agenda(companion_id, codec.load_calendar(calendar), to_busy(rows))
    return Candidate(summary, agenda)


def to_busy(rows: Iterable[Row]) -> tuple[Interval, ...]:
    """From rows that end with a span of time, or with none where nothing is held."""
    return tuple(Interval(row[-2], row[-1]) for row in rows if row[-1] is not None)
