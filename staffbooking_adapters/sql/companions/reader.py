"""Companions: stored summaries and details, searches and availability."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date, datetime
from functools import cache
from itertools import groupby
from operator import itemgetter
from typing import Any

from attrs import field, fields, frozen
from sqlalchemy import (
    ColumnElement,
    and_,
    bindparam,
    func,
    literal_column,
    select,
    true,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.companions.common_weekdays import CommonWeekdays
from staffbooking_adapters.sql.companions.search import (
    DEEP_OFFSET,
    SearchVariant,
    join_companions,
    ranked_companions_page,
    summaries_page,
)
from staffbooking_adapters.sql.engine.composite import parameters_for
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array, substring_pattern
from staffbooking_adapters.sql.engine.page_size import OFFSET_PARAM, page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.schema.bookings import bookings, holds_slot
from staffbooking_adapters.sql.schema.companions import (
    companion_search,
    companions,
    services,
)
from staffbooking_core.domain.companions.availability import (
    MAX_CALENDAR_DATE,
    MIN_CALENDAR_DATE,
    Interval,
)
from staffbooking_core.domain.companions.booking_limits import ANY_DATE, DateBounds
from staffbooking_core.domain.companions.companion import (
    Approval,
    Badge,
    Companion,
    CompanionQuery,
    Tier,
    normalize_place,
    normalize_text,
)
from staffbooking_core.ports import CompanionAvailability, SearchCandidate, SearchPage

MAX_PRICE = 2**63 - 1
"""The highest price that a column can hold."""


def parse_texts(text: str) -> tuple[str, ...]:
    """Parse a JSON array of strings."""
    return tuple(codec.decode(text))


def _parse_badges(text: str) -> tuple[Badge, ...]:
    return tuple(map(Badge, parse_texts(text)))


awaits_approval = and_(
    companions.c.approval == Approval.PENDING,
    companions.c.active == true(),
    companions.c.hourly_rate > 0,
    companions.c.location_city != "",
    companions.c.location_country != "",
    companions.c.service_types != "[]",
)
COMPANION_COLUMNS = tuple(companions.c[each.name] for each in fields(Companion))
to_companion = RowMapper(
    Companion,
    COMPANION_COLUMNS,
    calendar=codec.load_calendar,
    service_types=parse_texts,
    languages=parse_texts,
    tier=Tier,
    badges=_parse_badges,
    approval=Approval,
)

is_listed = and_(companions.c.active, companions.c.approval == Approval.APPROVED)
_IS_COMPANION = companions.c.id == bindparam("companion_id")
_SLOT_COLUMNS = (bookings.c.starts_at, bookings.c.ends_at)


def holds_slot_of_companion(companion_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether a booking holds time of the companion between the parameters `first` and `last`."""
    return and_(
        bookings.c.companion_id == companion_id,
        holds_slot,
        bookings.c.starts_at < bindparam("last", type_=Instant),
        bookings.c.ends_at > bindparam("first", type_=Instant),
    )


_COMPANIONS_WITH_BUSY_SLOTS = companions.outerjoin(
    bookings, holds_slot_of_companion(companions.c.id)
)

GET_COMPANION = Statement(select(*COMPANION_COLUMNS).where(_IS_COMPANION))
GET_COMPANION_DETAIL = Statement(select(companions.c.detail).where(_IS_COMPANION, is_listed))
GET_COMPANION_AVAILABILITY = Statement(
    select(companions.c.calendar, *_SLOT_COLUMNS)
    .select_from(_COMPANIONS_WITH_BUSY_SLOTS)
    .where(_IS_COMPANION, is_listed)
    .order_by(bookings.c.starts_at)
)

COUNT_SERVICE_SPELLINGS = Statement(
    select(services.c.name_folded, companion_search.c.spelling, func.count())
    .join_from(companion_search, services, services.c.id == companion_search.c.service_id)
    .group_by(services.c.name_folded, companion_search.c.spelling)
)


def _service_names() -> Statement:
    """The names of the services of listed companions, as their best companions spell them. Each
    service is found as the next higher one (index skip scan); others cost nothing."""
    service_id = companion_search.c.service_id
    lowest = select(func.min(service_id).label("id"))
    found = lowest.where(service_id > literal_column("0")).cte("offered", recursive=True)
    following = lowest.where(service_id > found.c.id).scalar_subquery()
    offered = found.union_all(select(following).where(found.c.id.is_not(None)))
    spelling = (
        select(companion_search.c.spelling)
        .where(service_id == services.c.id)
        .order_by(companion_search.c.rank)
        .limit(literal_column("1"))
    )
    names = select(services.c.name_folded, spelling.scalar_subquery())
    return Statement(names.join_from(offered, services, services.c.id == offered.c.id))


LIST_SERVICE_NAMES = _service_names()
# Only listed companions have search rows. Without a condition on the service, both read the key.
LAST_LISTED_ID = Statement(select(func.max(companion_search.c.companion_id)))
LIST_LISTED_IDS = Statement(
    select(companion_search.c.companion_id)
    .distinct()
    .where(companion_search.c.companion_id.between(bindparam("first_id"), bindparam("last_id")))
    .order_by(companion_search.c.companion_id)
)
LIST_PHOTOS = Statement(
    select(companions.c.id, companions.c.profile_photo).where(
        in_array(companions.c.id, "companion_ids"), companions.c.profile_photo != ""
    )
)


@cache
def companions_after(size: int, approval: Approval | None) -> Statement:
    """Companions by id, optionally of one approval."""
    found = select(*COMPANION_COLUMNS).where(companions.c.id > bindparam("after_id"))
    if approval is not None:  # Part of the statement: the pending ones have an index.
        found = found.where(companions.c.approval == approval)
    return Statement(found.order_by(companions.c.id).limit(size).offset(OFFSET_PARAM))


@cache
def companions_to_approve_after(size: int) -> Statement:
    found = select(*COMPANION_COLUMNS).where(companions.c.id > bindparam("after_id"))
    return Statement(found.where(awaits_approval).order_by(companions.c.id).limit(size))


@cache
def most_common_cities(size: int) -> Statement:
    """The places with the most listed companions, each as its first companion spells it."""
    number, first = func.count(), func.min(companion_search.c.companion_id)
    places = select(number.label("number"), first.label("companion_id")).where(
        companion_search.c.service_id == literal_column("0")
    )
    places = places.group_by(companion_search.c.location_id).order_by(number.desc(), first)
    most = places.limit(size).subquery("most")
    named = select(companions.c.location_city, companions.c.location_country, most.c.number)
    named = named.join_from(most, companions, companions.c.id == most.c.companion_id)
    return Statement(named.order_by(most.c.number.desc(), most.c.companion_id))


_CANDIDATE_COLUMNS = (
    companions.c.id,
    companions.c.summary,
    companions.c.location_city,
    companions.c.location_country,
    companions.c.calendar,
)


@cache
def candidates_page(variant: SearchVariant) -> Statement:
    """The companions of a page of a search, with their places, calendars and busy slots."""

    def select_candidates(dialect: Any) -> Any:
        page = ranked_companions_page(variant, dialect)
        rows, columns = join_companions(
            page,
            dialect,
            (*_CANDIDATE_COLUMNS, *_SLOT_COLUMNS),
            lambda rows: rows.outerjoin(bookings, holds_slot_of_companion(companions.c.id)),
        )
        starts_at = columns[-2]
        ordered = select(*columns).select_from(rows)
        return ordered.order_by(page.c.rank, page.c.companion_id, starts_at)

    return Statement(postgresql=select_candidates("postgresql"), sqlite=select_candidates("sqlite"))


@frozen
class CompanionsReader:
    """Reads searches, companion details and availability."""

    connection: Connection
    _common_weekdays: CommonWeekdays = field(factory=CommonWeekdays, kw_only=True)

    async def search(self, query: CompanionQuery, bounds: DateBounds = ANY_DATE) -> SearchPage:
        if query.date is not None and not MIN_CALENDAR_DATE <= query.date <= MAX_CALENDAR_DATE:
            return SearchPage([])
        row_limit, offset = query.limit + 1, (query.page - 1) * query.limit
        is_weekday_common = query.date is not None and await self._is_weekday_common(
            query, query.date, page_size(row_limit)
        )
        variant = _search_variant(query, row_limit, offset, is_weekday_common)
        rows = await self.connection.fetch_all(
            summaries_page(variant), **search_parameters(query, variant, offset, bounds)
        )
        is_exact = not rows or rows[0][1]
        return SearchPage([*map(itemgetter(0), rows[:row_limit])], is_exact=is_exact)

    async def _is_weekday_common(self, query: CompanionQuery, day: date, size: int) -> bool:
        service = None if query.service is None else normalize_text(query.service)
        return await self._common_weekdays.is_common(
            self.connection, service, 1 << day.weekday(), size
        )

    async def detail(self, companion_id: int) -> bytes | None:
        found: bytes | None = await self.connection.fetch_value(
            GET_COMPANION_DETAIL, companion_id=companion_id
        )
        return found

    async def availability(
        self, companion_id: int, first: datetime, last: datetime
    ) -> CompanionAvailability | None:
        span = {"first": first, "last": last}
        rows = await self.connection.fetch_all(
            GET_COMPANION_AVAILABILITY, companion_id=companion_id, **span
        )
        if not rows:
            return None
        return CompanionAvailability(
            companion_id, codec.load_calendar(rows[0][0]), to_busy_intervals(rows)
        )

    async def service_type_counts(self) -> Sequence[tuple[str, int]]:
        rows = sorted(await self.connection.fetch_all(COUNT_SERVICE_SPELLINGS))
        return [
            _most_common_spelling(list(spelled)) for _, spelled in groupby(rows, key=itemgetter(0))
        ]

    async def service_names(self) -> Sequence[str]:
        rows = sorted(await self.connection.fetch_all(LIST_SERVICE_NAMES))
        return [name for _, name in rows]

    async def city_counts(self, limit: int) -> Sequence[tuple[str, str, int]]:
        rows = await self.connection.fetch_all(most_common_cities(page_size(limit)))
        return [(city, country, number) for city, country, number in rows[:limit]]

    async def last_listed_id(self) -> int:
        found: int | None = await self.connection.fetch_value(LAST_LISTED_ID)
        return found or 0

    async def listed_ids(self, first_id: int, last_id: int) -> Sequence[int]:
        rows = await self.connection.fetch_all(LIST_LISTED_IDS, first_id=first_id, last_id=last_id)
        return [number for (number,) in rows]

    async def profile_photos(self, companion_ids: Collection[int]) -> Mapping[int, str]:
        rows = await self.connection.fetch_all(LIST_PHOTOS, companion_ids=list(companion_ids))
        return dict(rows)

    async def search_candidates(
        self,
        query: CompanionQuery,
        first: datetime,
        last: datetime,
        bounds: DateBounds = ANY_DATE,
    ) -> Sequence[SearchCandidate]:
        offset = (query.page - 1) * query.limit
        variant = _search_variant(query, query.limit, offset)
        params = search_parameters(query, variant, offset, bounds)
        params |= {"first": first, "last": last}
        statement = candidates_page(variant)
        rows = await self.connection.fetch_all(
            statement, **parameters_for(statement, self.connection, params)
        )
        grouped = [list(some) for _, some in groupby(rows, key=itemgetter(0))]
        return [_to_candidate(some) for some in grouped[: query.limit]]

    async def companion(self, companion_id: int) -> Companion | None:
        return to_companion.map_optional(
            await self.connection.fetch_one(GET_COMPANION, companion_id=companion_id)
        )

    async def companions(
        self, after_id: int, limit: int, offset: int = 0, approval: Approval | None = None
    ) -> Sequence[Companion]:
        statement = companions_after(page_size(limit), approval)
        rows = await self.connection.fetch_all(statement, after_id=after_id, offset=offset)
        return [to_companion(row) for row in rows[:limit]]

    async def companions_to_approve(self, after_id: int, limit: int) -> Sequence[Companion]:
        statement = companions_to_approve_after(page_size(limit))
        rows = await self.connection.fetch_all(statement, after_id=after_id)
        return [to_companion(row) for row in rows[:limit]]


def _search_variant(
    query: CompanionQuery, row_limit: int, offset: int, is_weekday_common: bool = False
) -> SearchVariant:
    return _make_variant(
        has_location=query.location is not None,
        has_service=query.service is not None,
        has_price=query.min_price is not None or query.max_price is not None,
        has_date=query.date is not None,
        size=page_size(row_limit),
        has_offset=offset > 0,
        is_deep=query.date is not None and offset >= DEEP_OFFSET,
        is_weekday_common=is_weekday_common,
    )


_make_variant = cache(SearchVariant)
"""There are few variants, and each search looks one up."""


def search_parameters(
    query: CompanionQuery, variant: SearchVariant, offset: int, bounds: DateBounds = ANY_DATE
) -> dict[str, Any]:
    """The parameters of a search statement of this variant."""
    params: dict[str, Any] = {}
    if variant.has_location:
        params["place"] = substring_pattern(normalize_place(query.location or ""))
    if variant.has_service:
        params["service"] = normalize_text(query.service or "")
    if variant.has_price:
        params["low"] = min(query.min_price or 0, MAX_PRICE)
        params["high"] = MAX_PRICE if query.max_price is None else min(query.max_price, MAX_PRICE)
    if query.date is not None:
        params |= {
            "day": query.date,
            "weekday_bit": 1 << query.date.weekday(),
            "max_notice": bounds.max_notice_hours,
            "sure_notice": bounds.sure_notice_hours,
            "min_horizon": bounds.min_horizon_days,
            "sure_horizon": bounds.sure_horizon_days,
        }
    if variant.has_offset:
        params["offset"] = offset
    return params


def _most_common_spelling(spellings: Sequence[Row]) -> tuple[str, int]:
    """The most common spelling of a service, and the number of companions who offer it."""
    most_common = max(spellings, key=itemgetter(2))
    return most_common[1], sum(count for _, _, count in spellings)


def _to_candidate(rows: Sequence[Row]) -> SearchCandidate:
    companion_id, summary, city, country, calendar, *_ = rows[0]
    agenda = CompanionAvailability(
        companion_id, codec.load_calendar(calendar), to_busy_intervals(rows)
    )
    return SearchCandidate(summary, city, country, agenda)


def to_busy_intervals(rows: Iterable[Row]) -> tuple[Interval, ...]:
    """Build intervals from the last two columns of rows; rows without an interval are skipped."""
    return tuple(Interval(row[-2], row[-1]) for row in rows if row[-1] is not None)
