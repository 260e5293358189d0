"""Admission of the SQL stores with several processes and with databases out of reach."""

from __future__ import annotations

import asyncio

import pytest

from staffbooking_adapters.testing.builders import (
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    add_api_key,
    add_subscriber,
)
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import StoreUnavailable, Unauthenticated
from tests.contract.stores import STORES, open_sql_store, store_url

pytestmark = pytest.mark.anyio

RULE = RateLimit("general", 5, HOUR)


@pytest.fixture(params=["sqlite", "postgresql"])
async def sql_store(request):
    """An empty store of either database."""
    async with STORES[request.param](request) as store:
        yield store


@pytest.fixture
async def other(sql_store, request):
    """A second process on the same database."""
    name = sql_store.database.dialect
    async with open_sql_store(store_url(request, name)) as store:
        yield store


async def by_key(store, key, now=NOW):
    return await store.admission.authenticate_api_key(key.digest, Permission.READ, (RULE,), now)


async def test_processes_share_the_window_of_a_key(sql_store, other):
    """Hits that one process counts are visible to the other."""
    key = await add_api_key(sql_store, (await add_subscriber(sql_store)).id)
    remaining = [(await by_key(each, key))[1][0].remaining for each in (sql_store, other) * 2]
    assert remaining == [4, 3, 2, 1]
    assert (await other.admission.peek(f"general:key:{key.id}", RULE, NOW)).remaining == 1


async def test_a_revocation_holds_for_every_process(sql_store, other):
    """A revocation takes effect in every process at once, also for a key in use."""
    key = await add_api_key(sql_store, (await add_subscriber(sql_store)).id)
    await by_key(other, key)
    await sql_store.run_transaction(lambda unit: unit.accounts.revoke_api_key(key.id, NOW))
    with pytest.raises(Unauthenticated):
        await by_key(other, key)


async def test_closing_a_store_saves_the_last_use_of_keys(sql_store, request):
    """Closing the store writes the newest time of use of each key."""
    key = await add_api_key(sql_store, (await add_subscriber(sql_store)).id)
    async with open_sql_store(store_url(request, sql_store.database.dialect)) as process:
        for now in (NOW, NOW + HOUR, NOW + MINUTE):
            await by_key(process, key, now)
    found = await read_store(sql_store, lambda view: view.accounts.api_key(key.id))
    assert found.last_used_at == NOW + HOUR


async def test_a_cancelled_caller_blocks_no_other(sql_store):
    """A cancelled caller's hit is counted, and concurrent hits get their verdicts."""
    hits = [
        asyncio.ensure_future(sql_store.admission.count_hit("scope", RULE, NOW)) for _ in range(4)
    ]
    await asyncio.sleep(0)
    hits[1].cancel()
    await asyncio.wait([hits[1]])
    verdicts = [await hit for hit in hits if not hit.cancelled()]
    assert [verdict.remaining for verdict in verdicts] == [4, 2, 1]


# Out of reach -----------------------------------------------------------------------------


async def test_without_windows_hits_are_counted_in_memory(sql_store):
    """Without the windows' database a process counts hits in memory, up to the same limit."""
    await sql_store.admission.counter_database.close()
    hits = [sql_store.admission.count_hit("scope", RULE, NOW) for _ in range(8)]
    verdicts = await asyncio.gather(*hits)
    looked = await sql_store.admission.peek("scope", RULE, NOW)
    fresh = await sql_store.admission.count_hit("scope", RULE, NOW + HOUR)
    assert [verdict.allowed for verdict in verdicts] == [True] * 5 + [False] * 3
    assert (looked.remaining, looked.allowed, fresh.remaining) == (0, False, 4)


async def test_without_windows_only_sqlite_admits_keys(sql_store):
    """Without the windows' database SQLite counts keys in memory, and PostgreSQL raises."""
    key = await add_api_key(sql_store, (await add_subscriber(sql_store)).id)
    await sql_store.admission.counter_database.close()
    if sql_store.database.dialect == "sqlite":
        verdicts = [(await by_key(sql_store, key))[1][0] for _ in range(6)]
        assert [verdict.allowed for verdict in verdicts] == [True] * 5 + [False]
    else:
        with pytest.raises(StoreUnavailable):
            await by_key(sql_store, key)


async def test_a_lost_database_is_unavailable(sql_store):
    """Without its databases a store raises StoreUnavailable for keys, sessions and deletion."""
    key = await add_api_key(sql_store, (await add_subscriber(sql_store)).id)
    await sql_store.admission.counter_database.close()
    await sql_store.database.close()
    asked = [by_key(sql_store, key), sql_store.admission.authenticate_session(b"\x00" * 32, NOW)]
    results = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(result) for result in results] == [StoreUnavailable, StoreUnavailable]
    with pytest.raises(StoreUnavailable):
        await sql_store.delete_expired(NOW, POLICY)
