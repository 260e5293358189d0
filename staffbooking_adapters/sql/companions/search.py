"""Companion search: one page of the companions that match every filter, in one statement.

The statement contains the access paths that its filters allow and chooses between them by
looking at a bounded number of rows. In order:

1. Find out whether fewer than `sample` rows are in the matching locations, or else in the price
   range.
2. For a date, judge its weekday. It is rare when less than a page of the best `sample` rows
   work on it, the days marked as free are completely sampled, and step 1, if there is one,
   has found `sample` rows or more.
3. Unless the weekday is rare, choose by the filters:
   at most `places` matching locations: the best rows of each location, along the rank;
   more locations: along the rank, filtered by location;
   a price range of few rows: all of them;
   otherwise: along the rank.
4. If the weekday is rare, take the best rows of each weekday mask that contains it, and the
   companions who are marked as free on that date without working on that weekday.
5. Combine the paths, which find each match exactly once, sort by rank and companion ID, and
   cut the page.

Where `common_weekdays` has found a weekday common a short time ago, its statement has no step 2 and
no step 4, of which the planner's nodes alone cost as much as a page. The result is the same.

A page behind many companions reads the exceptions of its date once, as sets, unless there are too
many: the marks of the day, and the limits that refuse the date. One look-up for each companion
that the page skips would cost ten times as much as reading that companion's entry of the index.

`+ 0` keeps the planner from using an index for that column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

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
    exists,
    false,
    func,
    literal_column,
    not_,
    or_,
    select,
    true,
    union_all,
)

from staffbooking_adapters.sql.engine.dialect import matches_pattern
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, CivilDate, Dialect
from staffbooking_adapters.sql.schema.companions import (
    companion_days,
    companion_limits,
    companion_search,
    companions,
    is_day_marked_free,
    locations,
    services,
)

_RankedSelect = Select[tuple[int, int]]
"""`rank` and `companion_id`."""


SAMPLE_SIZE = 1_000
DEEP_OFFSET = 1_000
"""From this offset on, a search by date reads the day's exceptions as a whole."""


@frozen(cache_hash=True)
class SearchVariant:
    """The filters and page size of a search. Each variant is one statement."""

    has_location: bool = False
    has_service: bool = False
    has_price: bool = False
    has_date: bool = False
    size: int = 13
    """Maximum number of rows."""
    has_offset: bool = False
    """Whether the page starts at an offset."""
    places: int = 100
    """Maximum number of locations that are searched one by one."""
    sample: int = SAMPLE_SIZE
    """Maximum number of rows in a sample."""
    is_deep: bool = False
    """Whether the page starts so late that the day's exceptions are read as a whole: up to
    `exceptions` rows for the page instead of one or two for each companion before it."""
    exceptions: int = 10_000
    """Maximum number of exceptions of a day that are read as a whole."""
    is_weekday_common: bool = False
    """Whether the weekday of a date is taken to be common."""


@cache
def summaries_page(variant: SearchVariant) -> Statement:
    """Statement for the stored summaries of a page, each with whether the page is exact."""
    is_exact = select(_ARE_LIMITS_CLEAR).scalar_subquery() if variant.has_date else true()

    def select_summaries(dialect: Dialect) -> Select[tuple[bytes, bool]]:
        page = ranked_companions_page(variant, dialect)
        rows, columns = join_companions(page, dialect, [companions.c.summary])
        ordered = select(*columns, is_exact).select_from(rows)
        return ordered.order_by(page.c.rank, page.c.companion_id)

    return Statement(postgresql=select_summaries("postgresql"), sqlite=select_summaries("sqlite"))


def join_companions(
    page: Subquery,
    dialect: Dialect,
    columns: Sequence[ColumnElement[Any]],
    join_more: Callable[[FromClause], FromClause] = lambda rows: rows,
) -> tuple[FromClause, Sequence[ColumnElement[Any]]]:
    """A page joined to its companions and what `join_more` joins to these, and its columns."""
    is_companion = companions.c.id == page.c.companion_id
    if dialect == "sqlite":
        return join_more(page.join(companions, is_companion)), columns
    # `OFFSET 0` keeps the planner from a scan of the table: it expects a page to cost so much that
    # the scan makes no difference.
    its = select(*columns).select_from(join_more(companions)).where(is_companion)
    its_rows = its.offset(literal_column("0")).lateral("its")
    return page.join(its_rows, true()), tuple(its_rows.c)


def ranked_companions_page(variant: SearchVariant, dialect: Dialect) -> Subquery:
    """`rank` and `companion_id` of a page's companions."""
    branches = _SearchBranches(variant, dialect).branches()
    rows = (
        union_all(*branches).subquery("ways") if len(branches) > 1 else branches[0].subquery("way")
    )
    page = select(rows.c.rank, rows.c.companion_id).limit(variant.size)
    # `+ 0`: SQLite would otherwise scan every branch along the rank. PostgreSQL would sort rows
    # that are already in order.
    rank = rows.c.rank + 0 if dialect == "sqlite" else rows.c.rank
    page = page.order_by(rank, rows.c.companion_id)
    return (page.offset(_bigint_param("offset")) if variant.has_offset else page).subquery("page")


@frozen
class _SearchBranches:
    """The access paths of a statement. Together they find each match exactly once."""

    variant: SearchVariant
    dialect: Dialect

    def branches(self) -> Sequence[_RankedSelect]:
        is_whole = self._is_range_whole()
        if not self.variant.has_date or self.variant.is_weekday_common:
            return self._by_filters(is_whole, true())
        free_by_mark = self._free_by_mark()
        has_many_matches = true() if is_whole is None else not_(is_whole)
        is_odd_weekday = and_(
            not_(self._is_common_weekday()), self._is_complete(free_by_mark), has_many_matches
        )
        weekday_check = select(is_odd_weekday.label("is_odd")).cte("judged")
        is_rare_weekday = select(weekday_check.c.is_odd).scalar_subquery()
        return [
            *self._by_filters(is_whole, not_(is_rare_weekday)),
            *self._by_weekdays(free_by_mark, is_rare_weekday),
        ]

    def _by_filters(
        self, is_whole: ColumnElement[bool] | None, condition: ColumnElement[bool]
    ) -> Sequence[_RankedSelect]:
        if self.variant.has_location:
            return self._by_location(condition)
        if is_whole is None:
            return [self._ranked_rows(condition)]
        return [self._range_rows(is_whole), self._ranked_rows(and_(not_(is_whole), condition))]

    def _by_location(self, condition: ColumnElement[bool]) -> Sequence[_RankedSelect]:
        has_few_locations = _row_count(_LOCATIONS) <= self.variant.places
        location_rows = companion_search.alias("there")
        in_location = self._matching_rows(
            location_rows, location_rows.c.location_id == _LOCATIONS.c.id
        )
        return [
            self._best_of_each_group(_LOCATIONS, in_location, and_(has_few_locations, condition)),
            self._ranked_rows(
                and_(not_(has_few_locations), condition), *self._location_filters(companion_search)
            ),
        ]

    def _by_weekdays(
        self, free_by_mark: CTE, condition: ColumnElement[bool]
    ) -> Sequence[_RankedSelect]:
        masks = self._weekday_masks()
        mask_rows, other = companion_search.alias("there"), companion_search.alias("other")
        with_same_mask = self._matching_rows(
            mask_rows, mask_rows.c.weekday_mask == masks.c.mask, *self._location_filters(mask_rows)
        )
        free = self._matching_rows(
            other, not_(_works_on_weekday(other)), *self._location_filters(other)
        )
        all_marked = free_by_mark.join(other, other.c.companion_id == free_by_mark.c.companion_id)
        return [
            self._best_of_each_group(masks, with_same_mask, condition),
            free.select_from(all_marked).where(condition),
        ]

    def _ranked_rows(
        self, condition: ColumnElement[bool], *conditions: ColumnElement[bool]
    ) -> _RankedSelect:
        """The best rows that meet the conditions, scanned along the rank."""
        best = self._limit_to_page(
            self._matching_rows(companion_search, *conditions), condition
        ).subquery("ranked")
        return select(best.c.rank, best.c.companion_id)

    def _best_of_each_group(
        self, groups: CTE, rows: _RankedSelect, condition: ColumnElement[bool]
    ) -> _RankedSelect:
        """The best rows of each group; `rows` is aliased `there` and refers to `groups`."""
        best = self._limit_to_page(rows, true())
        if self.dialect == "postgresql":
            beside = best.lateral("best")
            each = select(beside.c.rank, beside.c.companion_id)
            return each.select_from(groups.join(beside, true())).where(condition)
        # SQLite has no LATERAL.
        ids = best.with_only_columns(literal_column("there.rowid", BigInt)).correlate(groups)
        its = literal_column("one.rowid", BigInt).in_(ids.scalar_subquery())
        one = companion_search.alias("one")
        each = select(one.c.rank, one.c.companion_id)
        return each.select_from(groups.join(one, its)).where(condition)

    def _limit_to_page(self, rows: _RankedSelect, condition: ColumnElement[bool]) -> _RankedSelect:
        """The first `offset` + `size` rows, all that the page can contain."""
        rows = rows.order_by(*rows.selected_columns)
        row_limit: ColumnElement[int] = literal_column(str(self.variant.size), BigInt)
        row_limit = _bigint_param("offset") + row_limit if self.variant.has_offset else row_limit
        if self.dialect == "postgresql":
            return rows.where(condition).limit(row_limit)
        # SQLite evaluates a WHERE condition for each row, but a LIMIT once, before the first row.
        return rows.limit(case((condition, row_limit), else_=0))

    def _matching_rows(self, rows: FromClause, *conditions: ColumnElement[bool]) -> _RankedSelect:
        wanted = (self._has_service(rows.c.service_id), *conditions, *self._filters(rows))
        return select(rows.c.rank, rows.c.companion_id).where(*wanted)

    def _is_range_whole(self) -> ColumnElement[bool] | None:
        """Whether fewer than `sample` rows are in the locations, or else in the price range."""
        if not (self.variant.has_location or self.variant.has_price):
            return None
        row = companion_search.alias("near")
        is_near = self._is_in_range(row)
        if self.variant.has_location:
            is_near = row.c.location_id.in_(select(_LOCATIONS.c.id))
        rows = select(row.c.companion_id).where(self._has_service(row.c.service_id), is_near)
        # Only the last row of a sample: counting a CTE would store all of them first.
        last = rows.limit(1).offset(literal_column(str(self.variant.sample - 1)))
        judged = select(not_(exists(last.subquery("end_of_sample").select())).label("is_whole"))
        return select(judged.cte("range_size").c.is_whole).scalar_subquery()

    def _range_rows(self, is_whole: ColumnElement[bool]) -> _RankedSelect:
        """All matches in the price range if its rows are few, else none."""
        row = companion_search.alias("near")
        rows = self._matching_rows(row, self._is_in_range(row))
        if self.dialect == "postgresql":
            rows = rows.where(is_whole).limit(self.variant.sample)
        else:  # as in `_limit_to_page`
            rows = rows.limit(case((is_whole, self.variant.sample), else_=0))
        few = rows.subquery("few")
        return select(few.c.rank, few.c.companion_id)

    def _is_in_range(self, row: FromClause) -> ColumnElement[bool]:
        return between(row.c.hourly_rate, _bigint_param("low"), _bigint_param("high"))

    def _free_by_mark(self) -> CTE:
        """A sample of the companions marked as free on the date."""
        marked = select(companion_days.c.companion_id).where(_IS_SEARCHED_DAY, is_day_marked_free)
        return marked.limit(self.variant.sample).cte("marked")

    def _is_complete(self, sample: CTE) -> ColumnElement[bool]:
        return _row_count(sample) < self.variant.sample

    def _is_common_weekday(self) -> ColumnElement[bool]:
        """Whether a full page of the best companions work on that weekday."""
        return _is_common_weekday(
            self._has_service(companion_search.c.service_id), self.variant.sample, self.variant.size
        )

    def _weekday_masks(self) -> CTE:
        """The masks with that weekday. Each is found as the next higher one (index skip scan)."""
        masks = select(cast(0, BigInt).label("mask")).cte("masks", recursive=True)
        row = companion_search.alias("next")
        behind = select(func.min(row.c.weekday_mask))
        behind = behind.where(
            self._has_service(row.c.service_id), row.c.weekday_mask > masks.c.mask
        )
        following = select(behind.correlate(masks).scalar_subquery())
        masks = masks.union_all(following.where(masks.c.mask.is_not(None)))
        with_it = select(masks.c.mask).where(
            masks.c.mask.bitwise_and(_bigint_param("weekday_bit")) != 0
        )
        return with_it.cte("with_it")

    def _has_service(self, service_id: ColumnElement[int]) -> ColumnElement[bool]:
        return _has_service(service_id) if self.variant.has_service else service_id == 0

    def _location_filters(self, rows: FromClause) -> Sequence[ColumnElement[bool]]:
        # Not a join: with one, the planner would abandon the rank order.
        is_in_location = rows.c.location_id.in_(select(_LOCATIONS.c.id)).is_(true())
        return [is_in_location] if self.variant.has_location else []

    def _filters(self, rows: FromClause) -> Sequence[ColumnElement[bool]]:
        filters: list[ColumnElement[bool]] = []
        if self.variant.has_price:
            filters.append(
                between(rows.c.hourly_rate + 0, _bigint_param("low"), _bigint_param("high"))
            )
        if self.variant.has_date:
            # One condition, for which the planner expects half of the rows, as for a single one.
            filters.append(case((self._is_allowed(rows), self._is_free(rows)), else_=false()))
        return filters

    def _is_free(self, rows: FromClause) -> ColumnElement[bool]:
        # Not a join, as with locations.
        mark = select(companion_days.c.free).where(
            companion_days.c.companion_id == rows.c.companion_id, _IS_SEARCHED_DAY
        )
        by_row = func.coalesce(mark.scalar_subquery(), _works_on_weekday(rows))
        if not self.variant.is_deep:
            return by_row
        marks = _marks(self.variant.exceptions)
        free = select(marks.c.companion_id).where(marks.c.free.is_(true()))
        taken = select(marks.c.companion_id).where(marks.c.free.is_(false()))
        by_set = case(
            (_works_on_weekday(rows), rows.c.companion_id.not_in(taken)),
            else_=rows.c.companion_id.in_(free),
        )
        return case((_row_count(marks) < self.variant.exceptions, by_set), else_=by_row)

    def _is_allowed(self, rows: FromClause) -> ColumnElement[bool]:
        limits = select(_LIMITS_MAY_ALLOW).where(
            companion_limits.c.companion_id == rows.c.companion_id
        )
        by_row = func.coalesce(limits.scalar_subquery(), true())
        if not self.variant.is_deep:
            return by_row
        refused = _refused(self.variant.exceptions)
        by_set = rows.c.companion_id.not_in(select(refused.c.companion_id))
        return case((_row_count(refused) < self.variant.exceptions, by_set), else_=by_row)


def _is_common_weekday(
    has_service: ColumnElement[bool], sample: int, size: int
) -> ColumnElement[bool]:
    """Whether at least `size` of the best `sample` rows of `companion_search` work on the weekday
    in `weekday_bit`."""
    best = select(companion_search.c.weekday_mask).where(has_service)
    best = best.order_by(companion_search.c.rank, companion_search.c.companion_id)
    top = best.limit(sample).subquery("top")
    working = select(top.c.weekday_mask).where(_works_on_weekday(top)).limit(size)
    return _row_count(working.subquery("working")) == size


def _has_service(service_id: ColumnElement[int]) -> ColumnElement[bool]:
    named = services.c.name_folded == bindparam("service", type_=Text())
    return service_id == select(services.c.id).where(named).scalar_subquery()


@cache
def common_weekday_check(has_service: bool, size: int) -> Statement:
    """Statement for whether a weekday is common among the companions of a service, or of any: a
    page of this size is full after few of the best."""
    column = companion_search.c.service_id
    wanted = _has_service(column) if has_service else column == 0
    return Statement(select(_is_common_weekday(wanted, SAMPLE_SIZE, size)))


def _bigint_param(name: str) -> BindParameter[int]:
    return bindparam(name, type_=BigInt)


def _row_count(rows: FromClause) -> ColumnElement[int]:
    return select(func.count()).select_from(rows).scalar_subquery()


def _works_on_weekday(rows: FromClause) -> ColumnElement[bool]:
    """Whether the companion works on the weekday in `weekday_bit`."""
    works: ColumnElement[bool] = rows.c.weekday_mask.bitwise_and(_bigint_param("weekday_bit")) != 0
    return works


_MATCHES_LOCATION = or_(
    matches_pattern(locations.c.city_folded, "place"),
    matches_pattern(locations.c.country_folded, "place"),
)
_LOCATIONS = select(locations.c.id).where(_MATCHES_LOCATION).cte("places")
_LIMITS_MAY_ALLOW = and_(
    companion_limits.c.min_notice_hours <= _bigint_param("max_notice"),
    companion_limits.c.horizon_days >= _bigint_param("min_horizon"),
)
_ARE_LIMITS_CLEAR = not_(
    or_(
        exists().where(
            companion_limits.c.min_notice_hours > _bigint_param("sure_notice"),
            companion_limits.c.min_notice_hours <= _bigint_param("max_notice"),
        ),
        exists().where(
            companion_limits.c.horizon_days >= _bigint_param("min_horizon"),
            companion_limits.c.horizon_days < _bigint_param("sure_horizon"),
        ),
    )
)
"""Whether no limit of any companion leaves open if it allows the date."""
_IS_SEARCHED_DAY = companion_days.c.day == bindparam("day", type_=CivilDate)


# One CTE for all branches that refer to it.
@cache
def _marks(size: int) -> CTE:
    """The marks of the date, at most `size`."""
    marks = select(companion_days.c.companion_id, companion_days.c.free).where(_IS_SEARCHED_DAY)
    return marks.limit(size).cte("marks")


@cache
def _refused(size: int) -> CTE:
    """The companions whose limits refuse the date, at most `size` for each limit."""
    is_notice_longer = companion_limits.c.min_notice_hours > _bigint_param("max_notice")
    is_horizon_nearer = companion_limits.c.horizon_days < _bigint_param("min_horizon")
    refused = [
        select(companion_limits.c.companion_id).where(condition).limit(size).subquery().select()
        for condition in (is_notice_longer, is_horizon_nearer)
    ]
    return union_all(*refused).cte("refused")
