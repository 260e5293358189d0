"""Contract of the stores: companion search, compared with a brute-force search.

Searches by date are in `test_search_by_date`.
"""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from staffbooking_adapters import codec
from staffbooking_adapters.testing.builders import (
    POLICY,
    add_companion,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_adapters.testing.store.companions.booked_days import change_companion
from staffbooking_adapters.testing.store.companions.search_dataset import (
    OVERRIDE_DATES,
    add_companions,
    brute_force_search,
    make_companions,
)
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.representations.companions import companion_summary

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
    """The ids in the result of a search."""
    summaries = (await view.companions.search(CompanionQuery(**{"limit": 100, **given}))).summaries
    return [msgspec.json.decode(summary)["id"] for summary in summaries]


class SearchContract(StoreContract):
    """Companion search, compared with a brute-force search. Searches by date are in
    `test_search_by_date`."""

    # Filters ----------------------------------------------------------------------------------
    async def test_combined_filters_give_the_brute_force_result(self, store):
        """Each combination of filters gives the ids of a brute-force search, in order."""
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
                    for summary in (await view.companions.search(query)).summaries
                ]
                if found != (expected := brute_force_search(companions, query)):
                    wrong[query] = (found, expected)
        assert wrong == {}

    @pytest.mark.parametrize("seed", range(2))
    async def test_places_match_by_any_part_in_any_case(self, store, seed):
        """A search by part of a city or country gives the ids of a brute-force search."""
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
            ("sao", True),
            ("SAÓ p", True),
            ("pa", True),
            ("razil", False),
            ("brasil", True),
            ("o pa", True),
            ("paulo brasil", False),
            ("%", False),
            ("S_o", False),
        ],
    )
    async def test_a_place_is_found(self, store, asked, found):
        """A companion of São Paulo, Brasil is found by parts of one of these names, in any case."""
        companion = await add_companion(store, location_city="São Paulo", location_country="Brasil")
        ids = await read_store(store, lambda view: search(view, location=asked))
        assert ids == ([companion.id] if found else [])

    @pytest.mark.parametrize(
        ("city", "asked"),
        [("Zurich", "Zürich"), ("Zürich", "zurich"), ("Łódź", "lodz"), ("Malmo", "MALMØ")],
    )
    async def test_accents_of_places_are_ignored(self, store, city, asked):
        """A city is found without the accents of its name, and with accents that it does not
        have."""
        companion = await add_companion(store, location_city=city)
        ids = await read_store(store, lambda view: search(view, location=asked))
        assert ids == [companion.id]

    @pytest.mark.parametrize(("low", "high"), [(5_000, 5_000), (None, 5_000), (5_000, None)])
    async def test_prices_are_inclusive(self, store, low, high):
        """A companion whose rate is the bound itself is found."""
        companion = await add_companion(store, hourly_rate=5_000)
        ids = await read_store(store, lambda view: search(view, min_price=low, max_price=high))
        assert ids == [companion.id]

    @pytest.mark.parametrize(("low", "high", "found"), [(10**30, None, 0), (None, 10**30, 1)])
    async def test_a_price_may_be_higher_than_any(self, store, low, high, found):
        """A bound above what a column can hold is compared as it is."""
        await add_companion(store, hourly_rate=5_000)
        ids = await read_store(store, lambda view: search(view, min_price=low, max_price=high))
        assert len(ids) == found

    async def test_a_search_follows_a_change(self, store):
        """A changed companion is found by its new fields, and not by its old ones."""
        companion = await add_companion(store, location_city="Porto", service_types=("Gala",))
        await change_companion(store, companion, location_city="Faro", service_types=("Fair",))
        async with store.read_view() as view:
            assert await search(view, location="porto") == []
            assert await search(view, service="gala") == []
            assert await search(view, location="faro", service="fair") == [companion.id]

    async def test_a_search_gives_encoded_summaries(self, store):
        """A search gives encoded summary records."""
        companion = await add_companion(store, hourly_rate=12_345, daily_rate=None)
        found = await read_store(store, lambda view: view.companions.search(CompanionQuery()))
        assert list(found.summaries) == [
            codec.encode(companion_summary(companion, POLICY.currency))
        ]

    # Order and pages --------------------------------------------------------------------------
    async def test_results_are_ordered_by_rounded_rating(self, store):
        """Results are ordered by rating rounded to 2 decimals, number of reviews, then id."""
        ratings = [(2, 1), (4_001, 1_000), (4, 1), (0, 0), (12, 3), (8, 2), (4, 1)]
        companions = [
            await add_companion(store, rating_sum=total, total_reviews=reviews)
            for total, reviews in ratings
        ]
        order = [companions[n].id for n in (1, 4, 5, 2, 6, 0, 3)]
        assert await read_store(store, search) == order

    async def test_a_rating_rounds_half_up(self, store):
        """A rating of 4.005 ranks as 4.01, above a 4.00 with more reviews."""
        better = await add_companion(store, rating_sum=801, total_reviews=200)
        worse = await add_companion(store, rating_sum=1_600, total_reviews=400)
        assert await read_store(store, search) == [better.id, worse.id]

    @pytest.mark.parametrize("limit", [1, 7, 50])
    async def test_pages_join_without_gaps_or_duplicates(self, store, limit):
        """Each page has its `limit` rows and the first row of the next page."""
        companions = await add_companions(store, make_companions(3))
        all_ids = brute_force_search(companions, CompanionQuery())
        async with store.read_view() as view:
            for start in range(0, len(all_ids) + limit, limit):
                page = await search(view, page=start // limit + 1, limit=limit)
                assert page == all_ids[start : start + limit + 1]

    async def test_a_page_far_beyond_the_end_is_empty(self, store):
        """Page 100,000 is empty when there is one companion."""
        await add_companion(store)
        assert await read_store(store, lambda view: search(view, page=100_000, limit=50)) == []
