"""Searching companions, on every store alike: held against a brute force over all of them.

Searches by date are in `test_store_days`.
"""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from staffbooking_adapters import codec
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.representations.companions import companion_summary
from tests.contract.companions.booked_days import change_companion
from tests.contract.companions.search_dataset import (
    OVERRIDE_DATES,
    add_companions,
    brute_force_search,
    make_companions,
)
from tests.contract.stores import read_store
from tests.support.builders import (
    POLICY,
    add_companion,
)

pytestmark = pytest.mark.anyio

LOCATIONS = [
    None,
    "",
    "sao",
    "SÃO",
    "sa\N{COMBINING TILDE}o",
    "istanbul",
    "İSTANBUL",
    "stan",
    "straße",
    "STRASSE",
    "österreich",
    "0%",
    "%",
    "_",
    "e_w",
    "\\",
    "'",
    '"land',
    "yo",
    "YORK",
    "united",
    "ΆΡΓΟΣ",
    "λλάσ",
    "京",
    "o p",
    "york united",
    "nowhere",
]


async def search(view, **given):
    """The ids that a search gives."""
    summaries = await view.companions.search(CompanionQuery(**{"limit": 100, **given}))
    return [msgspec.json.decode(summary)["id"] for summary in summaries]


# Filters ----------------------------------------------------------------------------------


async def test_every_combination_of_filters_gives_what_brute_force_gives(store):
    """Place, service, prices and date, each alone and with all others, in full order."""
    companions = await add_companions(store, make_companions(7))
    services = [None, "gala DINNER", "GRÖSSE", "größe", "dinner", "trade, fair"]
    prices = [(None, None), (5_000, None), (None, 4_999), (5_000, 5_000), (5_002, 19_999)]
    wrong = {}
    async with store.read_view() as view:
        for place, service, (low, high), day in product(
            LOCATIONS[:12], services, prices, (None, *OVERRIDE_DATES)
        ):
            query = CompanionQuery(place, service, low, high, day, limit=100)
            found = [
                msgspec.json.decode(summary)["id"]
                for summary in await view.companions.search(query)
            ]
            if found != (expected := brute_force_search(companions, query)):
                wrong[query] = (found, expected)
    assert wrong == {}


@pytest.mark.parametrize("seed", range(2))
async def test_places_match_by_any_part_in_any_case(store, seed):
    """City or country, partially; `%`, `_` and quotes mean themselves; accents count."""
    companions = await add_companions(store, make_companions(seed))
    async with store.read_view() as view:
        found = {place: await search(view, location=place) for place in LOCATIONS}
    assert found == {
        place: brute_force_search(companions, CompanionQuery(place)) for place in LOCATIONS
    }


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("são", True),
        ("SÃO PAULO", True),
        ("sa\N{COMBINING TILDE}o", True),
        ("sao", False),
        ("pa", True),
        ("razil", False),
        ("brasil", True),
        ("o pa", True),
        ("paulo brasil", False),
        ("%", False),
        ("S_o", False),
    ],
)
async def test_a_place_is_found(store, asked, found):
    """Some searches for a companion of São Paulo, Brasil."""
    companion = await add_companion(store, location_city="São Paulo", location_country="Brasil")
    ids = await read_store(store, lambda view: search(view, location=asked))
    assert ids == ([companion.id] if found else [])


@pytest.mark.parametrize(("low", "high"), [(5_000, 5_000), (None, 5_000), (5_000, None)])
async def test_prices_are_inclusive(store, low, high):
    """A companion whose rate is the bound itself is found."""
    companion = await add_companion(store, hourly_rate=5_000)
    ids = await read_store(store, lambda view: search(view, min_price=low, max_price=high))
    assert ids == [companion.id]


async def test_a_search_follows_a_change(store):
    """A companion saved anew is found by what it is now, not by what it was."""
    companion = await add_companion(store, location_city="Porto", service_types=("Gala",))
    await change_companion(store, companion, location_city="Faro", service_types=("Fair",))
    async with store.read_view() as view:
        assert await search(view, location="porto") == []
        assert await search(view, service="gala") == []
        assert await search(view, location="faro", service="fair") == [companion.id]


async def test_a_search_answers_ready_made_summaries(store):
    """The bytes of the one codec, with exact decimals."""
    companion = await add_companion(store, hourly_rate=12_345, daily_rate=None)
    found = await read_store(store, lambda view: view.companions.search(CompanionQuery()))
    assert list(found) == [codec.encode(companion_summary(companion, POLICY.currency))]


# Order and pages --------------------------------------------------------------------------


async def test_the_rounded_rating_orders(store):
    """Ratings that round to the same 2 decimals are equal: the reviews decide, then the id."""
    ratings = [(2, 1), (4_001, 1_000), (4, 1), (0, 0), (12, 3), (8, 2), (4, 1)]
    companions = [
        await add_companion(store, rating_sum=total, total_reviews=reviews)
        for total, reviews in ratings
    ]
    order = [companions[n].id for n in (1, 4, 5, 2, 6, 0, 3)]
    assert await read_store(store, search) == order


async def test_a_rating_rounds_half_up(store):
    """4.005 is 4.01, and so before a 4.00 with more reviews."""
    better = await add_companion(store, rating_sum=801, total_reviews=200)
    worse = await add_companion(store, rating_sum=1_600, total_reviews=400)
    assert await read_store(store, search) == [better.id, worse.id]


@pytest.mark.parametrize("limit", [1, 7, 50])
async def test_pages_join_without_a_gap_or_a_double(store, limit):
    """Each page has up to one row more than its limit: the first of the next page."""
    companions = await add_companions(store, make_companions(3))
    everybody = brute_force_search(companions, CompanionQuery())
    async with store.read_view() as view:
        for start in range(0, len(everybody) + limit, limit):
            page = await search(view, page=start // limit + 1, limit=limit)
            assert page == everybody[start : start + limit + 1]


async def test_a_page_far_beyond_the_end_is_empty(store):
    """The last page that the contract allows is no error."""
    await add_companion(store)
    assert await read_store(store, lambda view: search(view, page=100_000, limit=50)) == []
