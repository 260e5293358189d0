"""A search takes the smaller statement where the weekday was common a short time ago."""

from __future__ import annotations

import pytest

from staffbooking_adapters.sql.companions import common_weekdays
from staffbooking_adapters.sql.companions.common_weekdays import CommonWeekdays
from staffbooking_adapters.testing.builders import add_companion, make_calendar
from tests.contract.stores import STORES

pytestmark = pytest.mark.anyio

MONDAY, SUNDAY = 1 << 0, 1 << 6
SIZE = 3


@pytest.fixture(params=["postgresql", "sqlite"])
async def store(request):
    """A store with three companions who work on Mondays, two of whom speak at galas."""
    async with STORES[request.param](request) as opened:
        for number in range(SIZE):
            await add_companion(
                opened,
                calendar=make_calendar(days=[0]),
                service_types=("Gala",) if number else ("Fair",),
            )
        yield opened


async def test_a_weekday_is_common_where_a_page_of_the_best_work_on_it(store):
    """A weekday is common if a full page of the companions of a service, or of any, work on it."""
    known = CommonWeekdays()
    asked = [
        (None, MONDAY, SIZE),
        (None, MONDAY, SIZE + 1),
        (None, SUNDAY, SIZE),
        ("gala", MONDAY, SIZE),
        ("gala", MONDAY, SIZE - 1),
        ("unknown", MONDAY, 1),
    ]
    found = [await known.is_common(store.database, *each) for each in asked]
    assert found == [True, False, False, False, True, False]


async def test_what_is_known_of_a_weekday_is_read_again(store, monkeypatch):
    """What is known of a weekday is kept for a while and read again after that, or when too many
    services are known."""
    known, now = CommonWeekdays(), [0.0]
    monkeypatch.setattr(common_weekdays, "monotonic", lambda: now[0])

    async def trips(service=None):
        before = store.database.round_trips
        await known.is_common(store.database, service, MONDAY, SIZE)
        return store.database.round_trips - before

    age = common_weekdays._MAX_AGE_SECONDS
    assert [await trips(), await trips(), await trips("gala")] == [1, 0, 1]
    now[0] = age - 0.001
    assert await trips() == 0
    now[0] = age
    assert await trips() == 1
    monkeypatch.setattr(common_weekdays, "_MAX_ENTRIES", 2)
    assert [await trips("fair"), await trips()] == [1, 1]
