"""Every access path of the SQL search gives the same companions.

With the production limits, a small dataset uses few of the paths, so the limits here are much
smaller.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from staffbooking_adapters.sql.companions.reader import search_parameters
from staffbooking_adapters.sql.companions.search import SearchVariant, summaries_page
from staffbooking_adapters.testing.store.companions.search_dataset import (
    OVERRIDE_DATES,
    add_companions,
    brute_force_search,
    make_companions,
)
from staffbooking_core.domain.companions.companion import CompanionQuery
from tests.contract.stores import STORES

pytestmark = pytest.mark.anyio

QUERIES: dict[str, dict[str, Any]] = {
    "day": {},
    "place": {"location": "united"},
    "small place": {"location": "new york"},
    "service": {"service": "gala"},
    "price": {"min_price": 5_000},
    "narrow price": {"min_price": 4_999, "max_price": 4_999},
    "place and price": {"location": "o", "max_price": 5_000},
    "all": {"location": "t", "service": "GALA dinner", "min_price": 2},
}
PAGES = ((1, 0, 100), (5, 3, 100), (5, 0, 0), (200, 0, 100))
"""Page size, offset, and the maximum number of locations that are searched one by one."""


@pytest.fixture(params=["postgresql", "sqlite"])
async def filled(request):
    """A store and its companions."""
    async with STORES[request.param](request) as store:
        yield store, await add_companions(store, make_companions(11, 90))


async def searched(database, query, offset, figures):
    """The ids of a page, by the search statement with these limits."""
    shape = SearchVariant(
        has_location=query.location is not None,
        has_service=query.service is not None,
        has_price=query.min_price is not None or query.max_price is not None,
        has_date=query.date is not None,
        has_offset=offset > 0,
        **figures,
    )
    rows = await database.fetch_all(
        summaries_page(shape), **search_parameters(query, shape, offset)
    )
    return [msgspec.json.decode(summary)["id"] for summary, _ in rows]


@pytest.mark.parametrize("sample", [1, 15, 1_000])
async def test_every_path_gives_the_brute_force_result(filled, sample):
    """Each query, date, page and sample size gives the companions of a brute-force search."""
    store, all_companions = filled
    wrong: dict[tuple[Any, ...], Any] = {}
    for name, day, (size, offset, places) in product(QUERIES, (None, *OVERRIDE_DATES), PAGES):
        query = CompanionQuery(**QUERIES[name], date=day)
        figures = {"size": size, "sample": sample, "places": places}
        found = await searched(store.database, query, offset, figures)
        by_the_smaller_statement = await searched(
            store.database, query, offset, {**figures, "is_weekday_common": True}
        )
        if by_the_smaller_statement != found:
            wrong[name, day, size, offset, places, "smaller"] = (found, by_the_smaller_statement)
        if found != (expected := brute_force_search(all_companions, query)[offset : offset + size]):
            wrong[name, day, size, offset, places] = (found, expected)
    assert wrong == {}


@pytest.mark.parametrize("exceptions", [1, 1_000], ids=["one_by_one", "as_sets"])
async def test_a_deep_page_gives_the_brute_force_result(filled, exceptions):
    """A deep page by date gives the companions of a brute-force search, whether the exceptions of
    the date are looked up one by one or read as sets."""
    store, all_companions = filled
    wrong: dict[tuple[Any, ...], Any] = {}
    pages = ((200, 0, 100), (5, 3, 0))
    for name, day, (size, offset, places) in product(QUERIES, OVERRIDE_DATES, pages):
        query = CompanionQuery(**QUERIES[name], date=day)
        figures = {"size": size, "places": places, "is_deep": True, "exceptions": exceptions}
        found = await searched(store.database, query, offset, figures)
        if found != (expected := brute_force_search(all_companions, query)[offset : offset + size]):
            wrong[name, day, size, offset, places] = (found, expected)
    assert wrong == {}
