"""Contract of the stores: the requests of API keys are counted by the hour."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    add_api_key,
    add_subscriber,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.accounts.api_keys import Permission
from staffbooking_core.domain.shared.rate_limits import RateLimit
from staffbooking_core.errors import Forbidden

GENERAL = RateLimit("general", 2, HOUR)


async def use(store, key, at, permission=Permission.READ):
    return await store.admission.authenticate_api_key(key.digest, permission, (GENERAL,), at)


async def calls(store, *keys, since=NOW - DAY):
    ids = [key.id for key in keys]
    return dict(await read_store(store, lambda view: view.accounts.api_key_calls(ids, since)))


async def write(store):
    """Write what is recorded, where a store writes later."""
    if (usage := getattr(store.admission, "key_usage", None)) is not None:
        await usage._write_uses()


class ApiKeyCallsContract(StoreContract):
    """The requests of API keys are counted by the hour."""

    async def test_requests_are_counted_by_key_and_hour(self, store):
        """Each request counts in its hour, before and after it is written, also over the limit."""
        owner = await add_subscriber(store)
        key, other = [await add_api_key(store, owner.id) for _ in range(2)]
        unused = await add_api_key(store, owner.id)
        expected = {(key.id, NOW): 3, (key.id, NOW + HOUR): 1, (other.id, NOW): 1}
        for minutes in (0, 1, 59, 60):
            await use(store, key, NOW + minutes * MINUTE)
        await use(store, other, NOW)
        assert await calls(store, key, other, unused) == expected
        await write(store)
        assert await calls(store, key, other, unused) == expected
        await use(store, key, NOW + HOUR)
        await write(store)
        await write(store)
        assert await calls(store, key) == {(key.id, NOW): 3, (key.id, NOW + HOUR): 2}
        assert await calls(store, key, since=NOW + HOUR) == {(key.id, NOW + HOUR): 2}
        assert await calls(store) == {}

    async def test_refused_keys_are_not_counted(self, store):
        """A request that its key does not permit counts nothing."""
        owner = await add_subscriber(store)
        key = await add_api_key(store, owner.id, permissions=frozenset({Permission.READ}))
        with pytest.raises(Forbidden):
            await use(store, key, NOW, Permission.BOOK)
        assert await calls(store, key) == {}

    async def test_old_counts_are_deleted(self, store):
        """Counts are kept for the time of the policy."""
        key = await add_api_key(store, (await add_subscriber(store)).id)
        policy = evolve(POLICY, key_calls_retention=timedelta(hours=5))
        await use(store, key, NOW)
        await use(store, key, NOW + HOUR)
        await write(store)
        await store.delete_expired(NOW + 5 * HOUR, policy)
        assert await calls(store, key) == {(key.id, NOW + HOUR): 1}

    async def test_counts_of_erased_keys_are_gone(self, store):
        """With its owner's other data, the counts of a key are erased; late ones are not kept."""
        owner = await add_subscriber(store)
        key = await add_api_key(store, owner.id)
        await use(store, key, NOW)
        await write(store)
        await store.run_transaction(lambda tx: tx.personal_data.erase(owner, None))
        assert await calls(store, key) == {}
