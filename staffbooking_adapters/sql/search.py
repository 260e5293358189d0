"""Searches: companions that meet every filter, best first, in one statement each.

Three ways lead to the matching rows of `companion_search`, and each is cheap where another
is not: along the rank (many match); along the rank within each matching place (few places
match; PostgreSQL alone); and a sample of the rows of a price range or of the places, which
is the whole where it comes out smaller than asked for. `+ 0` keeps a filter from being
taken for a way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from attrs import frozen
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    FromClause,
    Select,
    Subquery,
    Text,
    and_,
    between,
    bindparam,
    case,
    func,
    literal_column,
    or_,
    select,
    true,
    union_all,
)

from staffbooking_adapters.sql.dialect import like
from staffbooking_adapters.sql.statements import Statement
from staffbooking_adapters.sql.tables import (
    companion_days,
    companion_search,
    companions,
    locations,
    services,
)
from staffbooking_adapters.sql.types import BigInt, CivilDate, Dialect

PLACES = 100
"""Up to so many matching places are searched one by one."""
SAMPLE = 1_000


@frozen
class Shape:
    """Which filters a search has; each shape is one statement."""

    place: bool = False
    service: bool = False
    price: bool = False
    day: bool = False
    size: int = 13
    """How many rows it gives at most."""
    later: bool = False
    """Whether it begins after an offset."""


def _number(name: str) -> BindParameter[int]:
    return bindparam(name, type_=BigInt)


@cache
def summaries(shape: Shape) -> Statement:
    """The ready-made summaries of a page."""

    def written(dialect: Dialect) -> Select[tuple[bytes]]:
        page = found(shape, dialect)
        rows = page.join(companions, companions.c.id == page.c.companion_id)
        ordered = select(companions.c.summary).select_from(rows)
        return ordered.order_by(page.c.rank, page.c.companion_id)

    return Statement(postgresql=written("postgresql"), sqlite=written("sqlite"))


def found(shape: Shape, dialect: Dialect) -> Subquery:
    """`rank` and `companion_id` of a page's companions."""
    if shape.place and dialect == "postgresql":
        ways = _by_place(shape)
    elif shape.place or shape.price:
        ways = _by_sample(shape, dialect)
    else:
        ways = [_ranked(shape)]
    rows = union_all(*ways).subquery("ways") if len(ways) > 1 else ways[0].subquery("way")
    page = select(rows.c.rank, rows.c.companion_id).order_by(rows.c.rank, rows.c.companion_id)
    page = page.limit(shape.size)
    return (page.offset(_number("offset")) if shape.later else page).subquery("page")


def _by_place(shape: Shape) -> list[Select[tuple[int, int]]]:
    places = _places().cte("places")
    few = select(func.count()).select_from(places).scalar_subquery() <= PLACES
    there = companion_search.alias("there")
    here = _wanted(shape, there, there.c.location_id == places.c.id)
    best = _first(here, _reach(shape)).lateral("best")
    in_places = select(best.c.rank, best.c.companion_id).select_from(places.join(best, true()))
    # Not a join: the planner would leave the order of the rank for it.
    matches = companion_search.c.location_id.in_(select(places.c.id)).is_(true())
    return [in_places.where(few), _ranked(shape, matches, ~few)]


def _by_sample(shape: Shape, dialect: Dialect) -> list[Select[tuple[int, int]]]:
    row = companion_search.alias("near")
    if shape.place:
        near = row.c.location_id.in_(_places())
    else:
        near = between(row.c.hourly_rate, _number("low"), _number("high"))
    columns = (row.c.rank, row.c.companion_id, row.c.hourly_rate, row.c.weekday_mask)
    sample = select(*columns).where(_service(shape, row), near).limit(SAMPLE).cte("sample")
    whole = select(func.count()).select_from(sample).scalar_subquery() < SAMPLE
    in_sample = select(sample.c.rank, sample.c.companion_id).where(whole, *_filters(shape, sample))
    matches = [(companion_search.c.location_id + 0).in_(_places())] if shape.place else []
    if dialect == "postgresql":
        return [in_sample, _ranked(shape, ~whole, *matches)]
    # SQLite would look at such a condition with each row; at a LIMIT it looks before the first.
    return [in_sample, _ranked(shape, *matches, reach=case((~whole, _reach(shape)), else_=0))]


def _ranked(
    shape: Shape, *conditions: ColumnElement[bool], reach: ColumnElement[int] | None = None
) -> Select[tuple[int, int]]:
    """The best that meet the conditions, looked for along the rank."""
    wanted = _wanted(shape, companion_search, *conditions)
    best = _first(wanted, _reach(shape) if reach is None else reach).subquery("ranked")
    return select(best.c.rank, best.c.companion_id)


def _wanted(
    shape: Shape, rows: FromClause, *conditions: ColumnElement[bool]
) -> Select[tuple[int, int]]:
    wanted = and_(_service(shape, rows), *conditions, *_filters(shape, rows))
    return select(rows.c.rank, rows.c.companion_id).where(wanted)


def _first(rows: Select[tuple[int, int]], reach: ColumnElement[int]) -> Select[tuple[int, int]]:
    return rows.order_by(*rows.selected_columns).limit(reach)


def _reach(shape: Shape) -> ColumnElement[int]:
    """How far down the rank the page ends."""
    size: ColumnElement[int] = literal_column(str(shape.size), BigInt)
    return _number("offset") + size if shape.later else size


def _places() -> Select[tuple[int]]:
    named = or_(like(locations.c.city_folded, "place"), like(locations.c.country_folded, "place"))
    return select(locations.c.id).where(named)


def _service(shape: Shape, rows: FromClause) -> ColumnElement[bool]:
    column: ColumnElement[int] = rows.c.service_id
    if not shape.service:
        return column == 0
    named = services.c.name_folded == bindparam("service", type_=Text())
    return column == select(services.c.id).where(named).scalar_subquery()


def _filters(shape: Shape, rows: FromClause) -> Sequence[ColumnElement[bool]]:
    filters: list[ColumnElement[bool]] = []
    if shape.price:
        filters.append(between(rows.c.hourly_rate + 0, _number("low"), _number("high")))
    if shape.day:
        day = companion_days.c.day == bindparam("day", type_=CivilDate)
        marked = select(companion_days.c.free).where(
            companion_days.c.companion_id == rows.c.companion_id, day
        )
        usual = rows.c.weekday_mask.bitwise_and(_number("weekday_bit")) != 0
        filters.append(func.coalesce(marked.scalar_subquery(), usual))
    return filters
