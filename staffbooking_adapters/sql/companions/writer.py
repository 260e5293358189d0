"""Companions into their tables, many at a time: ready-made answers, what searches look at, and
the marks on their days.

However many there are, the statements are as many as for one.
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
from staffbooking_adapters.sql.companions.portfolio import ITEM, to_item
from staffbooking_adapters.sql.companions.reviews import REVIEW, to_review
from staffbooking_adapters.sql.engine.composite import Batch
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import given_rows, in_array, rowset, upsert
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import fields_of
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.accounts import portfolio_items
from staffbooking_adapters.sql.schema.bookings import (
    bookings,
    companion_days,
    companion_search,
    companions,
    holds_slot,
    is_shown,
    locations,
    reviews,
    services,
)
from staffbooking_core.domain.companions.availability import Calendar, Interval, are_common
from staffbooking_core.domain.companions.companion import Companion, fold
from staffbooking_core.domain.companions.portfolio import PortfolioItem
from staffbooking_core.domain.companions.reviews import Review
from staffbooking_core.domain.companions.search_index import MarkedDays, marks, weekday_mask
from staffbooking_core.policy import Policy
from staffbooking_core.representations.records import companion_detail, companion_summary

V = TypeVar("V")

HOLD = Statement(
    select(companions.c.id)
    .where(in_array(companions.c.id, "ids"))
    .order_by(companions.c.id)
    .with_for_update(key_share=True)
)
ALL_BUSY = Statement(
    select(bookings.c.companion_id, bookings.c.starts_at, bookings.c.ends_at)
    .where(in_array(bookings.c.companion_id, "known"), holds_slot)
    .order_by(bookings.c.companion_id)
)
PORTFOLIOS = Statement(
    select(*ITEM)
    .where(in_array(portfolio_items.c.companion_id, "known"))
    .order_by(portfolio_items.c.companion_id, portfolio_items.c.id.desc())
)


@cache
def newest_reviews(size: int) -> Statement:
    """The newest reviews of each of some people; not windows, which would read all of them."""
    given = rowset("given", id=("known", BigInt))
    shown = and_(reviews.c.reviewee_id == given.c.id, is_shown)
    best = select(*REVIEW).where(shown).order_by(reviews.c.id.desc()).limit(size)
    beside = best.lateral("best")
    ids = best.with_only_columns(reviews.c.id).correlate(given).scalar_subquery()
    found = reviews.alias("found")
    columns = [found.c[column.name] for column in REVIEW]
    return Statement(
        postgresql=select(*beside.c)
        .select_from(given.join(beside, true()))
        .order_by(beside.c.reviewee_id, beside.c.id.desc()),
        sqlite=select(*columns)
        .select_from(given.join(found, found.c.id.in_(ids)))
        .order_by(found.c.reviewee_id, found.c.id.desc()),
    )


# What is written --------------------------------------------------------------------------

_COMPANIONS = given_rows("given", **{column.name: column.type for column in companions.c})
_SAVE = upsert(companions).from_select(
    list(_COMPANIONS.c.keys()), select(_COMPANIONS).where(true())
)
_PLACES = rowset("places", city=("cities", Text()), country=("countries", Text()))
_SERVICES = rowset("offers", folded=("offers", Text()))
SAVE = Batch(
    _SAVE.on_conflict_do_update(
        index_elements=["id"],
        set_={column.name: _SAVE.excluded[column.name] for column in companions.c[1:]},
    ),
    upsert(locations)
    .from_select(["city_folded", "country_folded"], select(_PLACES).where(true()))
    .on_conflict_do_nothing(index_elements=["city_folded", "country_folded"]),
    upsert(services)
    .from_select(["name_folded"], select(_SERVICES).where(true()))
    .on_conflict_do_nothing(index_elements=["name_folded"]),
    delete(companion_search).where(in_array(companion_search.c.companion_id, "known")),
    delete(companion_days).where(in_array(companion_days.c.companion_id, "known")),
)


def _make_found() -> Batch:
    kinds = {"folded": Text(), "spelling": Text(), "city": Text(), "country": Text()}
    numbers = ("companion_id", "rank", "hourly_rate", "weekday_mask")
    given = given_rows("given", **kinds, **dict.fromkeys(numbers, BigInt))
    place = and_(
        locations.c.city_folded == given.c.city, locations.c.country_folded == given.c.country
    )
    found = {
        "service_id": func.coalesce(services.c.id, 0),
        "location_id": locations.c.id,
        **{name: given.c[name] for name in (*numbers, "spelling")},
    }
    rows = select(*found.values()).select_from(
        given.join(locations, place).outerjoin(services, services.c.name_folded == given.c.folded)
    )
    return Batch(
        insert(companion_search).from_select(list(found), rows), sqlite=_found_one_by_one()
    )


def _found_one_by_one() -> Insert:
    """The same of a single row, without a join: SQLite would make a table of the row for it."""
    place = and_(
        locations.c.city_folded == bindparam("city", type_=Text()),
        locations.c.country_folded == bindparam("country", type_=Text()),
    )
    offer = services.c.name_folded == bindparam("folded", type_=Text())
    plain = ("companion_id", "rank", "hourly_rate", "weekday_mask", "spelling")
    return insert(companion_search).values(
        service_id=func.coalesce(select(services.c.id).where(offer).scalar_subquery(), 0),
        location_id=select(locations.c.id).where(place).scalar_subquery(),
        **{name: bindparam(name, type_=companion_search.c[name].type) for name in plain},
    )


MAKE_FOUND = _make_found()

_DAYS = given_rows("given", **{column.name: column.type for column in companion_days.c})
_MARK = upsert(companion_days).from_select(list(_DAYS.c.keys()), select(_DAYS).where(true()))
MARK = Batch(
    _MARK.on_conflict_do_update(
        index_elements=["companion_id", "day"], set_={"free": _MARK.excluded.free}
    )
)


async def save_companions(
    connection: Connection, policy: Policy, saved: Sequence[Companion]
) -> None:
    """Insert or replace companions of different ids."""
    # What is taken is read once the rows are held: who takes more then waits to mark it.
    held = await connection.all(HOLD, ids=[companion.id for companion in saved])
    known = [companion_id for (companion_id,) in held]
    shown = await _read_shown(connection, policy, known)
    both = [(one, _hours(one.calendar, shown.busy.get(one.id, ()))) for one in saved]
    await SAVE.run(
        connection,
        [_to_row(companion, hours, policy, shown) for companion, hours in both],
        **_named(saved),
        known=known,
    )
    await MAKE_FOUND.run(
        connection, [row for companion, hours in both for row in _found_rows(companion, hours)]
    )
    await mark_days(
        connection,
        (
            (companion.id, day, free)
            for companion, hours in both
            for day, free in hours.marks.items()
        ),
    )


async def mark_days(connection: Connection, days: Iterable[tuple[int, date, bool]]) -> None:
    """Say of days of companions whether they have a free hour."""
    await MARK.run(
        connection,
        [{"companion_id": number, "day": day, "free": free} for number, day, free in days],
    )


@frozen
class _Shown:
    """What belongs to companions that are known already, by their ids."""

    busy: Mapping[int, Sequence[Interval]]
    reviews: Mapping[int, Sequence[Review]]
    portfolio: Mapping[int, Sequence[PortfolioItem]]


_NOTHING = _Shown({}, {}, {})


async def _read_shown(connection: Connection, policy: Policy, known: Sequence[int]) -> _Shown:
    if not known:
        return _NOTHING
    most = policy.detail_reviews
    busy = await connection.all(ALL_BUSY, known=known)
    told = await connection.all(newest_reviews(page_size(most)), known=known)
    items = await connection.all(PORTFOLIOS, known=known)
    return _Shown(
        {one: [Interval(*span) for _, *span in rows] for one, rows in _grouped(busy, _first)},
        {one: some[:most] for one, some in _grouped(map(to_review, told), _reviewee)},
        dict(_grouped(map(to_item, items), _owner)),
    )


_first, _reviewee, _owner = itemgetter(0), attrgetter("reviewee_id"), attrgetter("companion_id")


def _grouped(rows: Iterable[V], key: Callable[[V], int]) -> Iterator[tuple[int, list[V]]]:
    return ((one, list(some)) for one, some in groupby(rows, key=key))


# Rows -------------------------------------------------------------------------------------

_fields = fields_of(Companion)


@frozen
class _Hours:
    """What is kept of a calendar."""

    text: str
    weekday_mask: int
    marks: MarkedDays


def _hours(calendar: Calendar, busy: Sequence[Interval]) -> _Hours:
    is_common = not (busy or calendar.busy) and are_common(calendar.weekly, calendar.overrides)
    return _shared(calendar) if is_common else _worked_out(calendar, busy)


def _worked_out(calendar: Calendar, busy: Sequence[Interval] = ()) -> _Hours:
    return _Hours(codec.dump(calendar), weekday_mask(calendar), marks(calendar, busy))


_shared = lru_cache(maxsize=4096)(_worked_out)


def _to_row(companion: Companion, hours: _Hours, policy: Policy, shown: _Shown) -> dict[str, Any]:
    money, number = policy.currency, companion.id
    reviews, items = shown.reviews.get(number, ()), shown.portfolio.get(number, ())
    lists = {
        name: codec.encode(list(getattr(companion, name))).decode()
        for name in ("service_types", "languages", "badges")
    }
    return {
        **_fields(companion),
        **lists,
        "calendar": hours.text,
        "summary": codec.encode(companion_summary(companion, money)),
        "detail": codec.encode(companion_detail(companion, money, reviews, items)),
    }


def _named(saved: Sequence[Companion]) -> dict[str, Sequence[str]]:
    """The places and services that they name, each once, in one order for all who write."""
    places = sorted({_place(companion) for companion in saved})
    return {
        "cities": [city for city, _ in places],
        "countries": [country for _, country in places],
        "offers": sorted({fold(name) for one in saved for name in one.service_types}),
    }


def _found_rows(companion: Companion, hours: _Hours) -> Iterator[dict[str, Any]]:
    """A row for each service of a listed companion, by its first spelling, and one for any."""
    if not companion.is_listed:
        return
    city, country = _place(companion)
    common = {
        "companion_id": companion.id,
        "city": city,
        "country": country,
        "rank": _rank(companion),
        "hourly_rate": companion.hourly_rate,
        "weekday_mask": hours.weekday_mask,
    }
    yield {**common, "folded": None, "spelling": ""}
    offers = {fold(name): name for name in reversed(companion.service_types)}
    for folded, name in offers.items():
        yield {**common, "folded": folded, "spelling": name}


def _place(companion: Companion) -> tuple[str, str]:
    return fold(companion.location_city), fold(companion.location_country)


def _rank(companion: Companion) -> int:
    """Ascending in the order of CONTRACT 3, but for the id."""
    return -(int(companion.rating_avg * 100) << 40) - companion.total_reviews
