"""Search times among the companions of a database, for all combinations of filters."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing
from datetime import date
from itertools import product
from statistics import median
from time import monotonic, perf_counter
from typing import Any

import asyncpg
from attrs import evolve
from sqlalchemy import make_url

from staffbooking_adapters.sql.store import open_store
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.policy import Policy
from staffbooking_core.ports import CompanionsReadPort
from tests.support.postgres import driver_url

SEARCHED_DATE = date(2030, 6, 12)
"""A Wednesday on which some companions have a day off."""
SEARCHED_SUNDAY = date(2030, 6, 16)
LATER_PAGE = 1_000
"""A page number; 11,988 companions precede the page."""
MAX_CALLS_PER_SEARCH, MAX_SECONDS_PER_SEARCH = 200, 1.0
"""Each search is repeated until one of these is reached, but at least three times."""

# Imported companions have no ratings; with ratings the order differs from that of ids.
RATED_SQL = """
    UPDATE companion_search SET rank = CASE companion_id % 3 WHEN 0 THEN 0 ELSE
    -(300 + companion_id * 7919 % 201) * 1099511627776 - companion_id % 97 END
"""
NO_SUNDAYS_SQL = (
    "UPDATE companion_search SET weekday_mask = weekday_mask - 64 WHERE weekday_mask > 63"
)


async def search_cost_report(url: str) -> str:
    """A table of median times. Changes ranks and hours in the search tables."""
    await _run_sql(url, RATED_SQL)
    lines = [f"| filters | page 1 | page {LATER_PAGE:,} |", "|---|--:|--:|"]
    async with _measure_searches(url) as view:
        for name, query in _filter_queries():
            later = evolve(query, page=LATER_PAGE)
            lines.append(
                f"| {name} | {await _median_ms(view, query)} | {await _median_ms(view, later)} |"
            )
        lines += ["", "| nothing to find | page 1 |", "|---|--:|"]
        for name, query in _no_match_queries():
            lines.append(f"| {name} | {await _median_ms(view, query)} |")
    await _run_sql(url, NO_SUNDAYS_SQL)
    async with _measure_searches(url) as view:
        for name, query in _filter_queries():
            if query.date:
                nobody = evolve(query, date=SEARCHED_SUNDAY)
                lines.append(f"| {name} on which nobody works | {await _median_ms(view, nobody)} |")
    return "\n".join([*lines, ""])


@asynccontextmanager
async def _measure_searches(url: str) -> AsyncIterator[CompanionsReadPort]:
    store = await open_store(url, Policy())
    try:
        async with store.read_view() as view:
            yield view.companions
    finally:
        await store.close()


async def _run_sql(url: str, change: str) -> None:
    """Run a statement by the driver, since a store would time out. SQLite is not analysed, like
    most SQLite files."""
    if not url.startswith("postgresql"):
        with closing(sqlite3.connect(make_url(url).database or "")) as connection, connection:
            connection.execute("PRAGMA cache_size = -1000000")  # takes minutes otherwise
            connection.execute(change)
        return
    connection = await asyncpg.connect(driver_url(url))
    try:
        await connection.execute(change)
        await connection.execute("VACUUM (ANALYZE)")
    finally:
        await connection.close()


def _filter_queries() -> Iterator[tuple[str, CompanionQuery]]:
    """All sets of filters; those with a place also with one place that is the same at every size,
    since `berlin` matches more districts in larger datasets."""
    given: dict[str, dict[str, Any]] = {
        "place": {"location": "berlin"},
        "service": {"service": "gala dinner"},
        "price": {"min_price": 4_000, "max_price": 5_000},
        "date": {"date": SEARCHED_DATE},
    }
    for chosen in product((False, True), repeat=len(given)):
        named = [name for name, is_chosen in zip(given, chosen, strict=True) if is_chosen]
        asked = {key: value for name in named for key, value in given[name].items()}
        query = CompanionQuery(**asked)
        yield " + ".join(named) or "none", query
        if query.location:
            yield " + ".join(("one place", *named[1:])), evolve(query, location="ibadan station")


def _no_match_queries() -> Iterator[tuple[str, CompanionQuery]]:
    yield "unknown place", CompanionQuery("atlantis")
    yield "unknown service", CompanionQuery(service="falconry")
    yield "no such price", CompanionQuery(min_price=99_999_900)
    yield "rare service in a small place", CompanionQuery("tokyo abbey", "driving (at sea)")
    yield "rare service for little", CompanionQuery(service="hosting (at sea)", max_price=1_001)
    yield "place, dear, by date", CompanionQuery("berlin", None, 89_000, None, SEARCHED_DATE)


async def _median_ms(view: CompanionsReadPort, query: CompanionQuery) -> str:
    samples: list[float] = []
    await view.search(query)
    until = monotonic() + MAX_SECONDS_PER_SEARCH
    while len(samples) < 3 or (len(samples) < MAX_CALLS_PER_SEARCH and monotonic() < until):
        began = perf_counter()
        await view.search(query)
        samples.append(1_000 * (perf_counter() - began))
    return f"{median(samples):.2f}"
