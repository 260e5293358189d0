"""Writes companions in batches: stored summaries and details, search rows and day marks.

On PostgreSQL the number of statements does not depend on the size of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import cache, lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from attrs import frozen
from sqlalchemy import Insert, Text, and_, bindparam, delete, func, insert, select, true

from staffbooking_adapters import codec
from staffbooking_adapters.sql.companions.portfolio import PORTFOLIO_ITEM_COLUMNS, to_portfolio_item
from staffbooking_adapters.sql.companions.reviews import REVIEW_COLUMNS, to_review
from staffbooking_adapters.sql.engine.composite import BatchStatement
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import array_rows, batch_rows, in_array, upsert
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import field_values_getter
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.bookings import bookings, holds_slot
from staffbooking_adapters.sql.schema.companions import (
    companion_days,
    companion_limits,
    companion_search,
    companions,
    is_visible_review,
    locations,
    portfolio_items,
    reviews,
    services,
)
from staffbooking_core.domain.companions.availability import Calendar, Interval
from staffbooking_core.domain.companions.companion import Companion, normalize_place, normalize_text
from staffbooking_core.domain.companions.portfolio import PortfolioItem
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.companions.search_index import (
    MarkedDays,
    find_marked_days,
    is_cacheable,
    weekday_mask,
)
from staffbooking_core.policy import Policy
from staffbooking_core.representations.companions import companion_detail, companion_summary

V = TypeVar("V")

LOCK_COMPANIONS = Statement(
    select(companions.c.id)
    .where(in_array(companions.c.id, "ids"))
    .order_by(companions.c.id)
    .with_for_update(key_share=True)
)
LIST_BUSY_SLOTS_OF_COMPANIONS = Statement(
    select(bookings.c.companion_id, bookings.c.starts_at, bookings.c.ends_at)
    .where(in_array(bookings.c.companion_id, "known"), holds_slot)
    .order_by(bookings.c.companion_id)
)
LIST_PORTFOLIO_ITEMS = Statement(
    select(*PORTFOLIO_ITEM_COLUMNS)
    .where(in_array(portfolio_items.c.companion_id, "known"))
    .order_by(
        portfolio_items.c.companion_id, portfolio_items.c.position, portfolio_items.c.id.desc()
    )
)


@cache
def newest_reviews_statement(size: int) -> Statement:
    """The newest reviews of each companion. A window function would read all reviews."""
    companion_ids = array_rows("given", id=("known", BigInt))
    is_listed = and_(reviews.c.reviewee_id == companion_ids.c.id, is_visible_review)
    best = select(*REVIEW_COLUMNS).where(is_listed).order_by(reviews.c.id.desc()).limit(size)
    newest = best.lateral("best")
    ids = best.with_only_columns(reviews.c.id).correlate(companion_ids).scalar_subquery()
    found = reviews.alias("found")
    columns = [found.c[column.name] for column in REVIEW_COLUMNS]
    return Statement(
        postgresql=select(*newest.c)
        .select_from(companion_ids.join(newest, true()))
        .order_by(newest.c.reviewee_id, newest.c.id.desc()),
        sqlite=select(*columns)
        .select_from(companion_ids.join(found, found.c.id.in_(ids)))
        .order_by(found.c.reviewee_id, found.c.id.desc()),
    )


# Statements -------------------------------------------------------------------------------

_COMPANION_ROWS = batch_rows("given", **{column.name: column.type for column in companions.c})
_UPSERT_COMPANIONS = upsert(companions).from_select(
    list(_COMPANION_ROWS.c.keys()), select(_COMPANION_ROWS).where(true())
)
_LOCATION_ROWS = array_rows("places", city=("cities", Text()), country=("countries", Text()))
_SERVICE_ROWS = array_rows("offers", folded=("offers", Text()))
SAVE_COMPANIONS = BatchStatement(
    _UPSERT_COMPANIONS.on_conflict_do_update(
        index_elements=["id"],
        set_={column.name: _UPSERT_COMPANIONS.excluded[column.name] for column in companions.c[1:]},
    ),
    once=(
        upsert(locations)
        .from_select(["city_folded", "country_folded"], select(_LOCATION_ROWS).where(true()))
        .on_conflict_do_nothing(index_elements=["city_folded", "country_folded"]),
        upsert(services)
        .from_select(["name_folded"], select(_SERVICE_ROWS).where(true()))
        .on_conflict_do_nothing(index_elements=["name_folded"]),
        delete(companion_search).where(in_array(companion_search.c.companion_id, "known")),
        delete(companion_days).where(in_array(companion_days.c.companion_id, "known")),
        delete(companion_limits).where(in_array(companion_limits.c.companion_id, "known")),
    ),
)
_LIMIT_ROWS = batch_rows("given", **{column.name: column.type for column in companion_limits.c})
ADD_LIMITS = BatchStatement(
    insert(companion_limits).from_select(
        list(_LIMIT_ROWS.c.keys()), select(_LIMIT_ROWS).where(true())
    )
)


def _search_rows_statement() -> BatchStatement:
    text_columns = {"folded": Text(), "spelling": Text(), "city": Text(), "country": Text()}
    numbers = ("companion_id", "rank", "hourly_rate", "weekday_mask")
    search_rows = batch_rows("given", **text_columns, **dict.fromkeys(numbers, BigInt))
    is_location = and_(
        locations.c.city_folded == search_rows.c.city,
        locations.c.country_folded == search_rows.c.country,
    )
    search_columns = {
        "service_id": func.coalesce(services.c.id, 0),
        "location_id": locations.c.id,
        **{name: search_rows.c[name] for name in (*numbers, "spelling")},
    }
    rows = select(*search_columns.values()).select_from(
        search_rows.join(locations, is_location).outerjoin(
            services, services.c.name_folded == search_rows.c.folded
        )
    )
    return BatchStatement(
        insert(companion_search).from_select(list(search_columns), rows),
        sqlite=_insert_single_search_row(),
    )


def _insert_single_search_row() -> Insert:
    """The insert of one row. Without a join, for which SQLite would materialize the row."""
    is_location = and_(
        locations.c.city_folded == bindparam("city", type_=Text()),
        locations.c.country_folded == bindparam("country", type_=Text()),
    )
    is_service = services.c.name_folded == bindparam("folded", type_=Text())
    plain_columns = ("companion_id", "rank", "hourly_rate", "weekday_mask", "spelling")
    return insert(companion_search).values(
        service_id=func.coalesce(select(services.c.id).where(is_service).scalar_subquery(), 0),
        location_id=select(locations.c.id).where(is_location).scalar_subquery(),
        **{name: bindparam(name, type_=companion_search.c[name].type) for name in plain_columns},
    )


ADD_SEARCH_ROWS = _search_rows_statement()

_DAY_MARK_ROWS = batch_rows("given", **{column.name: column.type for column in companion_days.c})
_UPSERT_DAY_MARKS = upsert(companion_days).from_select(
    list(_DAY_MARK_ROWS.c.keys()), select(_DAY_MARK_ROWS).where(true())
)
MARK_DAYS = BatchStatement(
    _UPSERT_DAY_MARKS.on_conflict_do_update(
        index_elements=["companion_id", "day"], set_={"free": _UPSERT_DAY_MARKS.excluded.free}
    )
)


async def save_companions(
    connection: Connection, policy: Policy, companions_to_save: Sequence[Companion]
) -> None:
    """Insert or replace companions of different ids."""
    # Busy slots are read after locking: a later booking waits for the lock before marking days.
    locked_rows = await connection.fetch_all(
        LOCK_COMPANIONS, ids=[companion.id for companion in companions_to_save]
    )
    existing_ids = [companion_id for (companion_id,) in locked_rows]
    details = await _read_companion_details(connection, policy, existing_ids)
    companions_with_calendars = [
        (companion, _stored_calendar(companion.calendar, details.busy.get(companion.id, ())))
        for companion in companions_to_save
    ]
    await SAVE_COMPANIONS.execute(
        connection,
        [
            _companion_row(companion, stored, policy, details)
            for companion, stored in companions_with_calendars
        ],
        **_location_and_service_params(companions_to_save),
        known=existing_ids,
    )
    await ADD_SEARCH_ROWS.execute(
        connection,
        [
            row
            for companion, stored in companions_with_calendars
            for row in _search_rows(companion, stored)
        ],
    )
    await ADD_LIMITS.execute(
        connection,
        [
            {
                "companion_id": companion.id,
                "min_notice_hours": limits.min_notice_hours,
                "horizon_days": limits.horizon_days,
            }
            for companion in companions_to_save
            if (limits := companion.calendar.limits).restrict_dates
        ],
    )
    await mark_days(
        connection,
        (
            (companion.id, day, free)
            for companion, stored in companions_with_calendars
            for day, free in stored.marks.items()
        ),
    )


async def mark_days(connection: Connection, days: Iterable[tuple[int, date, bool]]) -> None:
    """Save day marks: whether a companion has a free hour on a day."""
    await MARK_DAYS.execute(
        connection,
        [
            {"companion_id": companion_id, "day": day, "free": free}
            for companion_id, day, free in days
        ],
    )


@frozen
class _CompanionDetails:
    """Related rows of existing companions, by companion id."""

    busy: Mapping[int, Sequence[Interval]]
    reviews: Mapping[int, Sequence[Review]]
    portfolio: Mapping[int, Sequence[PortfolioItem]]


_NO_DETAILS = _CompanionDetails({}, {}, {})


async def _read_companion_details(
    connection: Connection, policy: Policy, existing_ids: Sequence[int]
) -> _CompanionDetails:
    if not existing_ids:
        return _NO_DETAILS
    review_limit = policy.detail_reviews
    slot_rows = await connection.fetch_all(LIST_BUSY_SLOTS_OF_COMPANIONS, known=existing_ids)
    review_rows = await connection.fetch_all(
        newest_reviews_statement(page_size(review_limit)), known=existing_ids
    )
    item_rows = await connection.fetch_all(LIST_PORTFOLIO_ITEMS, known=existing_ids)
    return _CompanionDetails(
        busy={
            companion_id: [Interval(starts_at, ends_at) for _, starts_at, ends_at in rows]
            for companion_id, rows in _group_by(slot_rows, itemgetter(0))
        },
        reviews={
            companion_id: newest[:review_limit]
            for companion_id, newest in _group_by(
                map(to_review, review_rows), attrgetter("reviewee_id")
            )
        },
        portfolio=dict(_group_by(map(to_portfolio_item, item_rows), attrgetter("companion_id"))),
    )


def _group_by(rows: Iterable[V], key: Callable[[V], int]) -> Iterator[tuple[int, list[V]]]:
    """Rows by their companion's id, by which they must be ordered."""
    return ((companion_id, list(group)) for companion_id, group in groupby(rows, key=key))


# Rows -------------------------------------------------------------------------------------

_companion_field_values = field_values_getter(Companion)


@frozen
class _StoredCalendar:
    """The stored form of a calendar."""

    text: str
    weekday_mask: int
    marks: MarkedDays


def _stored_calendar(calendar: Calendar, busy: Sequence[Interval]) -> _StoredCalendar:
    has_busy_times = busy or calendar.busy or calendar.subscribed_busy
    if has_busy_times or not is_cacheable(calendar.weekly, calendar.overrides):
        return _compute_stored_calendar(calendar, busy)
    return _cached_stored_calendar(calendar)


def _compute_stored_calendar(calendar: Calendar, busy: Sequence[Interval] = ()) -> _StoredCalendar:
    return _StoredCalendar(
        codec.dump(calendar), weekday_mask(calendar), find_marked_days(calendar, busy)
    )


_cached_stored_calendar = lru_cache(maxsize=4096)(_compute_stored_calendar)


def _companion_row(
    companion: Companion,
    stored_calendar: _StoredCalendar,
    policy: Policy,
    details: _CompanionDetails,
) -> dict[str, Any]:
    currency = policy.currency
    reviews = details.reviews.get(companion.id, ())
    items = details.portfolio.get(companion.id, ())
    lists = {
        name: codec.encode(list(getattr(companion, name))).decode()
        for name in ("service_types", "languages", "badges")
    }
    return {
        **_companion_field_values(companion),
        **lists,
        "calendar": stored_calendar.text,
        "summary": codec.encode(companion_summary(companion, currency)),
        "detail": codec.encode(companion_detail(companion, currency, reviews, items)),
    }


def _location_and_service_params(
    companions_to_save: Sequence[Companion],
) -> dict[str, Sequence[str]]:
    """The distinct locations and services of listed companions, who alone have search rows. Sorted,
    so that all writers lock rows in the same order."""
    listed = [companion for companion in companions_to_save if companion.is_listed]
    places = sorted(set(map(_folded_location, listed)))
    return {
        "cities": [city for city, _ in places],
        "countries": [country for _, country in places],
        "offers": sorted({normalize_text(name) for one in listed for name in one.service_types}),
    }


def _search_rows(
    companion: Companion, stored_calendar: _StoredCalendar
) -> Iterator[dict[str, Any]]:
    """The search rows of a listed companion: one per service with its first spelling, and one for
    searches without a service."""
    if not companion.is_listed:
        return
    city, country = _folded_location(companion)
    common = {
        "companion_id": companion.id,
        "city": city,
        "country": country,
        "rank": _search_rank(companion),
        "hourly_rate": companion.hourly_rate,
        "weekday_mask": stored_calendar.weekday_mask,
    }
    yield {**common, "folded": None, "spelling": ""}
    services_by_folded_name = {
        normalize_text(name): name for name in reversed(companion.service_types)
    }
    for folded, name in services_by_folded_name.items():
        yield {**common, "folded": folded, "spelling": name}


def _folded_location(companion: Companion) -> tuple[str, str]:
    return normalize_place(companion.location_city), normalize_place(companion.location_country)


def _search_rank(companion: Companion) -> int:
    """A number that ascends in the search order of CONTRACT 3; ties are ordered by id."""
    return -(int(companion.rating_avg * 100) << 40) - companion.total_reviews
