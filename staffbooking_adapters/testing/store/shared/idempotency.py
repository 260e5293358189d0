"""Stored responses of idempotent calls, and the claims of calls in progress, on every store."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    HOUR,
    NOW,
    POLICY,
    SECOND,
    make_lease,
    make_stored_response,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import IDEMPOTENCY_KEY_TAKEN, IN_PROGRESS


async def add_response(store, answer):
    await store.run_transaction(lambda unit: unit.idempotency.save_response(answer))
    return answer


async def find_response(store, answer, now=NOW):
    return await read_store(
        store, lambda view: view.idempotency.stored_response(answer.scope, answer.key, now)
    )


# Calls in progress ------------------------------------------------------------------------


def make_claim(**given):
    return make_stored_response(status=IN_PROGRESS, body=b"", **given)


async def claim(store, row, lease, now=NOW):
    return await store.run_transaction(lambda unit: unit.idempotency.claim_key(row, lease, now))


async def finish(store, row, lease):
    return await store.run_transaction(lambda unit: unit.idempotency.finish_call(row, lease))


class IdempotencyContract(StoreContract):
    """Stored responses of idempotent calls, and the claims of calls in progress, on every store."""

    async def test_a_response_is_stored_byte_for_byte(self, store):
        """A response is stored byte for byte, and found by its exact scope and key."""
        answer = await add_response(
            store, make_stored_response(body=bytes(range(256)), fingerprint=b"\xff\x00" * 16)
        )
        assert await find_response(store, answer) == answer
        assert await find_response(store, evolve(answer, scope="key:2")) is None
        assert await find_response(store, evolve(answer, key=answer.key.upper())) is None

    async def test_a_response_expires(self, store):
        """A stored response is found before `expires_at`, and not at it."""
        answer = await add_response(store, make_stored_response())
        assert await find_response(store, answer, answer.expires_at - SECOND) == answer
        assert await find_response(store, answer, answer.expires_at) is None

    async def test_the_first_response_stays(self, store):
        """A second response for a scope and key raises IDEMPOTENCY_KEY_TAKEN and changes
        nothing."""
        answer = await add_response(store, make_stored_response())
        await add_response(store, evolve(answer, scope="key:2", body=b"another"))
        with pytest.raises(ConstraintViolated) as caught:
            await add_response(
                store, evolve(answer, body=b"second", expires_at=answer.expires_at + HOUR)
            )
        assert caught.value.constraint == IDEMPOTENCY_KEY_TAKEN
        assert await find_response(store, answer) == answer

    async def test_an_expired_response_is_replaced(self, store):
        """A response that expires a lifetime later replaces an expired one."""
        answer = await add_response(store, make_stored_response())
        later = answer.expires_at + POLICY.idempotency_lifetime
        second = await add_response(store, evolve(answer, body=b"second", expires_at=later))
        assert await find_response(store, answer, answer.expires_at) == second

    async def test_a_free_key_is_claimed_once(self, store):
        """A free key can be claimed; another claim fails while the lease lasts, and so does
        saving."""
        row, lease = make_claim(), make_lease()
        assert await claim(store, row, lease)
        assert await find_response(store, row) == row
        assert not await claim(store, row, make_lease(), lease.until - SECOND)
        with pytest.raises(ConstraintViolated) as caught:
            await add_response(store, evolve(row, status=200))
        assert caught.value.constraint == IDEMPOTENCY_KEY_TAKEN

    async def test_an_abandoned_claim_is_taken_over(self, store):
        """A claim whose lease is over can be taken over by the same request alone."""
        row, lease = make_claim(), make_lease()
        await claim(store, row, lease)
        assert not await claim(store, evolve(row, fingerprint=b"other"), make_lease(), lease.until)
        assert await claim(store, row, make_lease(), lease.until)

    async def test_an_expired_row_is_claimed(self, store):
        """A claim replaces a response or a claim that has expired, whatever its request."""
        row = await add_response(store, make_stored_response())
        other = evolve(make_claim(), key=row.key, fingerprint=b"other")
        assert not await claim(store, other, make_lease(), row.expires_at - SECOND)
        assert await claim(store, other, make_lease(), row.expires_at)
        assert await find_response(store, row) == other

    async def test_the_holder_finishes_its_call(self, store):
        """The response replaces the claim of the lease that presents it, and cannot be claimed."""
        row, lease = make_claim(), make_lease()
        await claim(store, row, lease)
        response = evolve(row, status=200, headers="etag: 1", body=b"sealed", is_sealed=True)
        assert not await finish(store, response, make_lease())
        assert await find_response(store, row) == row
        assert await finish(store, response, lease)
        assert await find_response(store, row) == response
        assert not await claim(store, row, make_lease(), lease.until)
        assert not await finish(store, response, lease)

    async def test_the_holder_releases_its_key(self, store):
        """A key is given back by the lease that holds it, and by no other."""
        row, lease = make_claim(), make_lease()
        await claim(store, row, lease)
        for held_by, left in ((make_lease(), row), (lease, None)):
            await store.run_transaction(
                lambda unit, held_by=held_by: unit.idempotency.release_key(
                    row.scope, row.key, held_by
                )
            )
            assert await find_response(store, row) == left

    async def test_concurrent_claims_succeed_once(self, store):
        """Of concurrent claims of a key one succeeds."""
        row = make_claim()
        claims = await asyncio.gather(*(claim(store, row, make_lease()) for _ in range(8)))
        assert claims.count(True) == 1
