"""Searches: companions that meet every filter, best first, in one statement each.

Several ways lead to the matching rows of `companion_search`, and each is cheap where others
are not; a statement has those of its filters, and looks first which of them it goes:

- along the rank, where many match;
- along the rank within each matching place, where few places match;
- by a sample of the rows of a price range, which is the whole where it comes out smaller
  than asked for;
- for a day on whose weekday hardly anybody works: along the rank among those who keep the
  same weekdays, for each such set of weekdays, and by the marks of those who are free then
  all the same.

`+ 0` keeps a filter from being taken for a way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from attrs import frozen
from sqlalchemy import (
    CTE,
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
    cast,
    func,
    literal_column,
    not_,
    or_,
    select,
    true,
    union_all,
)

from staffbooking_adapters.sql.engine.dialect import like
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, CivilDate, Dialect
from staffbooking_adapters.sql.schema.bookings import (
    companion_days,
    companion_search,
    companions,
    is_free,
    locations,
    services,
)

_Found = Select[tuple[int, int]]
"""`rank` and `companion_id`."""


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
    places: int = 100
    """Up to so many matching places are searched one by one."""
    sample: int = 1_000
    """How many rows are looked at to judge by."""


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
    ways = _Search(shape, dialect).ways()
    rows = union_all(*ways).subquery("ways") if len(ways) > 1 else ways[0].subquery("way")
    page = select(rows.c.rank, rows.c.companion_id).limit(shape.size)
    # SQLite would go all ways along the rank, were it asked for that order.
    page = page.order_by(rows.c.rank + 0, rows.c.companion_id)
    return (page.offset(_number("offset")) if shape.later else page).subquery("page")


@frozen
class _Search:
    """The ways of a statement. Together they lead to each match once."""

    shape: Shape
    dialect: Dialect

    def ways(self) -> Sequence[_Found]:
        sample = self._sample() if self.shape.place or self.shape.price else None
        if not self.shape.day:
            return self._by_filters(sample, true())
        marked = self._marked()
        are_many = true() if sample is None else not_(self._is_whole(sample))
        odd = and_(not_(self._is_usual()), self._is_whole(marked), are_many)
        judged = select(odd.label("is_odd")).cte("judged")
        is_odd = select(judged.c.is_odd).scalar_subquery()
        return [*self._by_filters(sample, not_(is_odd)), *self._by_weekdays(marked, is_odd)]

    def _by_filters(self, sample: CTE | None, when: ColumnElement[bool]) -> Sequence[_Found]:
        if self.shape.place:
            return self._by_place(when)
        if sample is None:
            return [self._ranked(when)]
        is_whole = self._is_whole(sample)
        in_sample = select(sample.c.rank, sample.c.companion_id)
        in_sample = in_sample.where(is_whole, *self._filters(sample))
        return [in_sample, self._ranked(and_(not_(is_whole), when))]

    def _by_place(self, when: ColumnElement[bool]) -> Sequence[_Found]:
        are_few = _count(_PLACES) <= self.shape.places
        there = companion_search.alias("there")
        here = self._wanted(there, there.c.location_id == _PLACES.c.id)
        return [
            self._best_of_each(_PLACES, here, and_(are_few, when)),
            self._ranked(and_(not_(are_few), when), *self._places_of(companion_search)),
        ]

    def _by_weekdays(self, marked: CTE, when: ColumnElement[bool]) -> Sequence[_Found]:
        masks = self._masks()
        there, other = companion_search.alias("there"), companion_search.alias("other")
        alike = self._wanted(there, there.c.weekday_mask == masks.c.mask, *self._places_of(there))
        free = self._wanted(other, not_(_works(other)), *self._places_of(other))
        all_marked = marked.join(other, other.c.companion_id == marked.c.companion_id)
        return [
            self._best_of_each(masks, alike, when),
            free.select_from(all_marked).where(when),
        ]

    def _ranked(self, when: ColumnElement[bool], *conditions: ColumnElement[bool]) -> _Found:
        """The best that meet the conditions, looked for along the rank."""
        best = self._first(self._wanted(companion_search, *conditions), when).subquery("ranked")
        return select(best.c.rank, best.c.companion_id)

    def _best_of_each(self, groups: CTE, rows: _Found, when: ColumnElement[bool]) -> _Found:
        """The best of the rows `there` of each group, which they refer to."""
        best = self._first(rows, true())
        if self.dialect == "postgresql":
            beside = best.lateral("best")
            each = select(beside.c.rank, beside.c.companion_id)
            return each.select_from(groups.join(beside, true())).where(when)
        # SQLite has no LATERAL.
        ids = best.with_only_columns(literal_column("there.rowid", BigInt)).correlate(groups)
        its = literal_column("one.rowid", BigInt).in_(ids.scalar_subquery())
        one = companion_search.alias("one")
        each = select(one.c.rank, one.c.companion_id)
        return each.select_from(groups.join(one, its)).where(when)

    def _first(self, rows: _Found, when: ColumnElement[bool]) -> _Found:
        """As many of the rows as the page may reach down to."""
        rows = rows.order_by(*rows.selected_columns)
        reach: ColumnElement[int] = literal_column(str(self.shape.size), BigInt)
        reach = _number("offset") + reach if self.shape.later else reach
        if self.dialect == "postgresql":
            return rows.where(when).limit(reach)
        # SQLite would look at such a condition with each row; at a LIMIT before the first.
        return rows.limit(case((when, reach), else_=0))

    def _wanted(self, rows: FromClause, *conditions: ColumnElement[bool]) -> _Found:
        wanted = (self._offers(rows.c.service_id), *conditions, *self._filters(rows))
        return select(rows.c.rank, rows.c.companion_id).where(*wanted)

    def _sample(self) -> CTE:
        """Of the rows in the places, or else in the range of prices."""
        row = companion_search.alias("near")
        near = between(row.c.hourly_rate, _number("low"), _number("high"))
        if self.shape.place:
            near = row.c.location_id.in_(select(_PLACES.c.id))
        columns = (row.c.rank, row.c.companion_id, row.c.hourly_rate, row.c.weekday_mask)
        rows = select(*columns).where(self._offers(row.c.service_id), near)
        return rows.limit(self.shape.sample).cte("sample")

    def _marked(self) -> CTE:
        """Of those who are free on the day against their weekly hours."""
        marked = select(companion_days.c.companion_id).where(_IS_DAY, is_free)
        return marked.limit(self.shape.sample).cte("marked")

    def _is_whole(self, sample: CTE) -> ColumnElement[bool]:
        return _count(sample) < self.shape.sample

    def _is_usual(self) -> ColumnElement[bool]:
        """Whether a page of the best work on that weekday."""
        best = select(companion_search.c.weekday_mask).where(
            self._offers(companion_search.c.service_id)
        )
        best = best.order_by(companion_search.c.rank, companion_search.c.companion_id)
        top = best.limit(self.shape.sample).subquery("top")
        working = select(top.c.weekday_mask).where(_works(top)).limit(self.shape.size)
        return _count(working.subquery("working")) == self.shape.size

    def _masks(self) -> CTE:
        """The masks with that weekday, each found behind the one before."""
        masks = select(cast(0, BigInt).label("mask")).cte("masks", recursive=True)
        row = companion_search.alias("next")
        behind = select(func.min(row.c.weekday_mask))
        behind = behind.where(self._offers(row.c.service_id), row.c.weekday_mask > masks.c.mask)
        following = select(behind.correlate(masks).scalar_subquery())
        masks = masks.union_all(following.where(masks.c.mask.is_not(None)))
        with_it = select(masks.c.mask).where(masks.c.mask.bitwise_and(_number("weekday_bit")) != 0)
        return with_it.cte("with_it")

    def _offers(self, service_id: ColumnElement[int]) -> ColumnElement[bool]:
        if not self.shape.service:
            return service_id == 0
        named = services.c.name_folded == bindparam("service", type_=Text())
        return service_id == select(services.c.id).where(named).scalar_subquery()

    def _places_of(self, rows: FromClause) -> Sequence[ColumnElement[bool]]:
        # Not a join: the planner would leave the order of the rank for it.
        near = rows.c.location_id.in_(select(_PLACES.c.id)).is_(true())
        return [near] if self.shape.place else []

    def _filters(self, rows: FromClause) -> Sequence[ColumnElement[bool]]:
        filters: list[ColumnElement[bool]] = []
        if self.shape.price:
            filters.append(between(rows.c.hourly_rate + 0, _number("low"), _number("high")))
        if self.shape.day:
            mark = select(companion_days.c.free).where(
                companion_days.c.companion_id == rows.c.companion_id, _IS_DAY
            )
            filters.append(func.coalesce(mark.scalar_subquery(), _works(rows)))
        return filters


def _number(name: str) -> BindParameter[int]:
    return bindparam(name, type_=BigInt)


def _count(rows: FromClause) -> ColumnElement[int]:
    return select(func.count()).select_from(rows).scalar_subquery()


def _works(rows: FromClause) -> ColumnElement[bool]:
    """On the weekday that is asked for."""
    works: ColumnElement[bool] = rows.c.weekday_mask.bitwise_and(_number("weekday_bit")) != 0
    return works


_NAMED = or_(like(locations.c.city_folded, "place"), like(locations.c.country_folded, "place"))
_PLACES = select(locations.c.id).where(_NAMED).cte("places")
_IS_DAY = companion_days.c.day == bindparam("day", type_=CivilDate)
