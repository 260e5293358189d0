"""Companions with their ready-made answers, and what searches look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from attrs import asdict, frozen
from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    true,
    union_all,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.connection import Connection
from staffbooking_adapters.sql.dialect import containing, in_array, rowset, upsert
from staffbooking_adapters.sql.pages import page_size
from staffbooking_adapters.sql.reviews import ReviewsReader
from staffbooking_adapters.sql.rows import Reader
from staffbooking_adapters.sql.search import Shape, found, summaries
from staffbooking_adapters.sql.staff import StaffReader
from staffbooking_adapters.sql.statements import Row, Statement
from staffbooking_adapters.sql.tables import (
    bookings,
    companion_days,
    companion_search,
    companions,
    holds_slot,
    locations,
    services,
)
from staffbooking_adapters.sql.together import Together
from staffbooking_adapters.sql.types import BigInt, CivilDate, Instant
from staffbooking_core.domain.calendar import FIRST_DAY, LAST_DAY, Interval
from staffbooking_core.domain.companions import (
    Approval,
    Badge,
    Companion,
    CompanionQuery,
    Tier,
    fold,
)
from staffbooking_core.domain.portfolio import PortfolioItem
from staffbooking_core.domain.records import companion_detail, companion_summary
from staffbooking_core.domain.reviews import Review
from staffbooking_core.domain.searchable import marks, weekday_mask
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
HOLD = Statement(select(companions.c.id).where(_IS_IT).with_for_update(key_share=True))
ALL_BUSY = Statement(
    select(*_SPAN).where(bookings.c.companion_id == bindparam("companion_id"), holds_slot)
)

SERVICES = Statement(
    select(services.c.name_folded, companion_search.c.spelling, func.count())
    .join_from(companion_search, services, services.c.id == companion_search.c.service_id)
    .group_by(services.c.name_folded, companion_search.c.spelling)
)


def _save_companion() -> Any:
    new = upsert(companions).values(
        {column.name: bindparam(column.name, type_=column.type) for column in companions.c}
    )
    changed = {column.name: new.excluded[column.name] for column in companions.c[1:]}
    return new.on_conflict_do_update(index_elements=["id"], set_=changed)


_OFFERS = rowset("offers", folded=("folded", Text()), spelling=("spellings", Text()))
_ADD_PLACE = (
    upsert(locations)
    .from_select(
        ["city_folded", "country_folded"],
        select(bindparam("city", type_=Text()), bindparam("country", type_=Text())).where(true()),
    )
    .on_conflict_do_nothing(index_elements=["city_folded", "country_folded"])
)
_ADD_SERVICES = (
    upsert(services)
    .from_select(["name_folded"], select(_OFFERS.c.folded).where(true()))
    .on_conflict_do_nothing(index_elements=["name_folded"])
)
_MINE = companion_search.c.companion_id == bindparam("id", type_=BigInt)
_MY_DAYS = companion_days.c.companion_id == bindparam("id", type_=BigInt)
ADD = Together(_save_companion(), _ADD_PLACE, _ADD_SERVICES)
REPLACE = Together(
    _save_companion(),
    _ADD_PLACE,
    _ADD_SERVICES,
    delete(companion_search).where(_MINE),
    delete(companion_days).where(_MY_DAYS),
)


def _make_found() -> Statement:
    place = select(locations.c.id).where(
        locations.c.city_folded == bindparam("city", type_=Text()),
        locations.c.country_folded == bindparam("country", type_=Text()),
    )
    common = (
        bindparam("companion_id", type_=BigInt),
        place.scalar_subquery(),
        *(bindparam(name, type_=BigInt) for name in ("rank", "hourly_rate", "weekday_mask")),
    )
    offered = select(services.c.id, *common, _OFFERS.c.spelling).join_from(
        _OFFERS, services, services.c.name_folded == _OFFERS.c.folded
    )
    anything = select(literal_column("0"), *common, literal_column("''"))
    names = "service_id companion_id location_id rank hourly_rate weekday_mask spelling".split()
    return Statement(insert(companion_search).from_select(names, union_all(offered, anything)))


MAKE_FOUND = _make_found()

_DAYS = rowset("days", day=("days", CivilDate), free=("free", companion_days.c.free.type))
_MARK = upsert(companion_days).from_select(
    ["companion_id", "day", "free"],
    select(bindparam("companion_id", type_=BigInt), _DAYS.c.day, _DAYS.c.free).where(true()),
)
MARK = Statement(
    _MARK.on_conflict_do_update(
        index_elements=["companion_id", "day"], set_={"free": _MARK.excluded.free}
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
        rows = await self.connection.all(summaries(shape), **_filters(query, shape, offset))
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

    async def candidates(
        self, service: str, day: date, first: datetime, last: datetime, limit: int
    ) -> Sequence[Candidate]:
        query = CompanionQuery(service=service, date=day)
        given = _filters(query, Shape(service=True, day=True), 0)
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
        # What is taken is read once the row is held: who takes more then waits to mark it.
        known = await self.connection.one(HOLD, companion_id=companion.id)
        taken = await self.connection.all(ALL_BUSY, companion_id=companion.id) if known else []
        offers = {fold(name): name for name in reversed(companion.service_types)}
        place = {
            "city": fold(companion.location_city),
            "country": fold(companion.location_country),
        }
        named = {"folded": sorted(offers), "spellings": [offers[name] for name in sorted(offers)]}
        reviews = await self._shown_reviews(companion.id) if known else []
        portfolio = await StaffReader(self.connection).portfolio_of(companion.id) if known else []
        row = _to_row(companion, self.policy, reviews, portfolio)
        await (REPLACE if known else ADD).run(self.connection, {**row, **place, **named})
        if companion.is_listed:
            await self.connection.run(
                MAKE_FOUND,
                **place,
                **named,
                companion_id=companion.id,
                rank=_rank(companion),
                hourly_rate=companion.hourly_rate,
                weekday_mask=weekday_mask(companion.calendar),
            )
        await self._mark(companion.id, marks(companion.calendar, to_busy(taken)))

    async def _shown_reviews(self, companion_id: int) -> Sequence[Review]:
        reviews = ReviewsReader(self.connection)
        return await reviews.reviews_of(companion_id, 1, self.policy.detail_reviews)

    async def busy(self, companion_id: int, first: datetime, last: datetime) -> Sequence[Interval]:
        span = {"first": first, "last": last}
        rows = await self.connection.all(BUSY, companion_id=companion_id, **span)
        return to_busy(rows)

    async def mark_days(self, companion_id: int, days: Mapping[date, bool | None]) -> None:
        plain = sorted(day for day, free in days.items() if free is None)
        if plain:
            await self.connection.run(UNMARK, companion_id=companion_id, days=plain)
        marked = {day: free for day, free in days.items() if free is not None}
        await self._mark(companion_id, marked)

    async def _mark(self, companion_id: int, days: Mapping[date, bool]) -> None:
        if days:
            named = {"days": list(days), "free": list(days.values())}
            await self.connection.run(MARK, companion_id=companion_id, **named)


def _filters(query: CompanionQuery, shape: Shape, offset: int) -> dict[str, Any]:
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


def _rank(companion: Companion) -> int:
    """Ascending in the order of CONTRACT 3, but for the id."""
    return -(int(companion.rating_avg * 100) << 40) - companion.total_reviews


def _candidate(rows: Sequence[Row]) -> Candidate:
    companion_id, summary, calendar, *_ = rows[0]
    agenda = Agenda(companion_id, codec.load_calendar(calendar), to_busy(rows))
    return Candidate(summary, agenda)


def to_busy(rows: Iterable[Row]) -> tuple[Interval, ...]:
    """From rows that end with a span of time, or with none where nothing is held."""
    return tuple(Interval(row[-2], row[-1]) for row in rows if row[-1] is not None)


def _to_row(
    companion: Companion,
    policy: Policy,
    reviews: Sequence[Review],
    portfolio: Sequence[PortfolioItem],
) -> dict[str, Any]:
    lists = {
        name: codec.encode(list(getattr(companion, name))).decode()
        for name in ("service_types", "languages", "badges")
    }
    return {
        **asdict(companion, recurse=False),
        **lists,
        "calendar": codec.dump(companion.calendar),
        "summary": codec.encode(companion_summary(companion, policy.currency)),
        "detail": codec.encode(companion_detail(companion, policy.currency, reviews, portfolio)),
    }
