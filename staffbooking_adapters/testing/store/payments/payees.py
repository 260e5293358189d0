"""Contract of the stores: payout accounts (payees) and the work on them."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    SECOND,
    add_companion,
    add_payee,
    make_lease,
    make_payee,
)
from staffbooking_adapters.testing.store.base import StoreContract, count_due_work, read_store
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import PAYEE_REF_TAKEN, Lease

LEASE = POLICY.lease_duration
FINE = NOW + timedelta(microseconds=123_456)


async def find(store, payee):
    return await read_store(
        store, lambda view: view.payees.payee(payee.provider, payee.companion_id)
    )


async def find_by_ref(store, ref, provider="fake"):
    return await read_store(store, lambda view: view.payees.payee_by_ref(provider, ref))


async def claim(store, now=NOW, lease=None, limit=10, companion_id=None, provider="fake"):
    """Claims payees and returns them with the lease."""
    lease = lease or make_lease(now)
    found = await store.run_transaction(
        lambda unit: unit.payees.claim_payees(provider, now, lease, limit, companion_id)
    )
    return list(found), lease


async def claimed(store, now=NOW, **given):
    return (await claim(store, now, **given))[0]


async def lock(store, payee, lease):
    return await store.run_transaction(
        lambda unit: unit.payees.lock_payee(payee.provider, payee.companion_id, lease)
    )


async def save(store, payee, lease=None):
    await store.run_transaction(lambda unit: unit.payees.save_payee(payee, lease))


class PayeesContract(StoreContract):
    """Payout accounts (payees) and the work on them."""

    # One payee --------------------------------------------------------------------------------
    async def test_a_payee_comes_back_as_it_was_saved(self, store):
        """A payee is stored with every field and is found by companion and by reference."""
        command = evolve(make_payee().command, name="Mía \N{GRINNING FACE}")
        payee = await add_payee(
            store,
            command=command,
            created_at=FINE,
            next_at=FINE + SECOND,
            generation=2,
            attempts=3,
            first_sent_at=FINE + MINUTE,
            ref="acct_1",
            ready=True,
            needs=("iban", "date of birth, place"),
            last_error="no such country",
        )
        assert await find(store, payee) == payee
        assert await find_by_ref(store, "acct_1") == payee

    async def test_an_unset_field_stays_unset(self, store):
        """A payee that is neither opened nor due is stored without reference and times."""
        payee = await add_payee(store, next_at=None)
        assert await find(store, payee) == payee

    async def test_an_unknown_payee_is_none(self, store):
        """An unknown payee is None; each provider has its own payees and references."""
        payee = await add_payee(store, ref="acct_1")
        assert await find(store, evolve(payee, provider="stripe")) is None
        assert await find(store, evolve(payee, companion_id=payee.companion_id + 1)) is None
        assert await find_by_ref(store, "acct_1", "stripe") is None
        assert await find_by_ref(store, "ACCT_1") is None

    async def test_saving_replaces_a_payee(self, store):
        """A companion has one payee at a provider, found by its last reference."""
        payee = await add_payee(store, ref="acct_1")
        changed = evolve(payee, ref="acct_2", ready=True, next_at=None)
        await save(store, changed)
        assert await find(store, payee) == changed
        assert await find_by_ref(store, "acct_1") is None
        assert await find_by_ref(store, "acct_2") == changed

    async def test_a_reference_is_unique_at_a_provider(self, store):
        """A reference that another companion has at the same provider is refused."""
        payee = await add_payee(store, ref="acct_1")
        with pytest.raises(ConstraintViolated) as caught:
            await add_payee(store, ref="acct_1")
        assert caught.value.constraint == PAYEE_REF_TAKEN
        assert await find(store, payee) == payee
        await add_payee(store, ref="acct_1", provider="stripe")

    # Claims -----------------------------------------------------------------------------------
    async def test_a_due_payee_is_claimed_once(self, store):
        """A payee is claimed as stored, exactly from its due time on, once per lease."""
        payee = await add_payee(store)
        assert [await claimed(store, NOW - SECOND), await claimed(store)] == [[], [payee]]
        assert await claimed(store) == []

    async def test_the_earliest_payee_is_claimed_first(self, store):
        """Payees are claimed by their next time, up to the limit; undated ones never."""
        payees = [
            await add_payee(store, next_at=NOW + minutes * MINUTE) for minutes in (3, 1, 2, 2, 9)
        ]
        await add_payee(store, next_at=None)
        now = NOW + 5 * MINUTE
        assert await claimed(store, now, limit=2) == [payees[1], payees[2]]
        assert await claimed(store, now) == [payees[3], payees[0]]

    async def test_a_claim_is_of_one_provider(self, store):
        """A claim returns the payees of one provider only."""
        payee = await add_payee(store, provider="stripe")
        assert await claimed(store) == []
        assert await claimed(store, companion_id=payee.companion_id) == []
        assert await claimed(store, provider="stripe") == [payee]

    @pytest.mark.parametrize("next_at", [NOW, NOW + DAY, None])
    async def test_a_claim_may_be_of_one_companion(self, store, next_at):
        """A claim for one companion ignores due times, and respects the leases of others."""
        payee = await add_payee(store, next_at=next_at)
        other = await add_payee(store)
        number = payee.companion_id
        assert await claimed(store, companion_id=number) == [payee]
        assert await claimed(store, companion_id=number) == []
        assert await claimed(store, NOW + LEASE, companion_id=number) == [payee]
        assert await claimed(store) == [other]

    async def test_a_payee_can_be_claimed_when_the_lease_ends(self, store):
        """Another worker can claim the payee when the lease ends."""
        payee = await add_payee(store)
        await claim(store)
        assert await claimed(store, NOW + LEASE - SECOND) == []
        assert await claimed(store, NOW + LEASE) == [payee]

    async def test_many_workers_share_the_payees(self, store):
        """Concurrent claims give each payee to one worker."""
        payees = [await add_payee(store) for _ in range(12)]
        claims = await asyncio.gather(*(claim(store, limit=3) for _ in range(8)))
        numbers = [payee.companion_id for found, _ in claims for payee in found]
        numbers += [payee.companion_id for payee in await claimed(store, limit=50)]
        assert sorted(numbers) == [payee.companion_id for payee in payees]

    async def test_one_of_many_claims_a_companions_payee(self, store):
        """Of concurrent claims for one companion's payee exactly one gets it."""
        payee = await add_payee(store, next_at=None)
        number = payee.companion_id
        claims = await asyncio.gather(*(claim(store, companion_id=number) for _ in range(8)))
        assert [found for found, _ in claims if found] == [[payee]]

    async def test_the_holder_can_lock_its_payee(self, store):
        """The holder of the lease can lock its payee, before and after saving it."""
        payee = await add_payee(store)
        _, lease = await claim(store)
        assert await lock(store, payee, lease) == payee
        sent = evolve(payee, attempts=1, first_sent_at=NOW)
        await save(store, sent, lease)
        assert await lock(store, payee, lease) == sent

    async def test_a_lost_payee_is_a_conflict(self, store):
        """Locking or saving a payee that another worker has claimed is a conflict."""
        payee = await add_payee(store)
        _, lost = await claim(store)
        _, lease = await claim(store, NOW + LEASE)
        with pytest.raises(Conflict):
            await lock(store, payee, lost)
        with pytest.raises(Conflict):
            await save(store, evolve(payee, ref="acct_1"), lost)
        assert await lock(store, payee, lease) == payee

    async def test_an_unclaimed_payee_cannot_be_locked(self, store):
        """An unclaimed or unknown payee cannot be locked."""
        payee = await add_payee(store)
        for companion_id in (payee.companion_id, 404):
            with pytest.raises(Conflict):
                await lock(store, make_payee(companion_id), make_lease())

    async def test_nothing_new_is_saved_under_a_lease(self, store):
        """Saving an unknown payee under a lease is a conflict."""
        companion = await add_companion(store)
        payee = make_payee(companion.id)
        with pytest.raises(Conflict):
            await save(store, payee, make_lease())
        assert await find(store, payee) is None

    async def test_a_lease_may_be_renewed(self, store):
        """Saving with the same token and a later end prolongs the lease."""
        payee = await add_payee(store)
        _, lease = await claim(store)
        await save(store, payee, Lease(lease.token, lease.until + HOUR))
        assert await claimed(store, NOW + LEASE) == []
        assert await claimed(store, NOW + LEASE + HOUR) == [payee]

    async def test_saving_releases_a_payee(self, store):
        """A payee saved without a lease can be claimed at once."""
        payee = await add_payee(store)
        _, lease = await claim(store)
        await save(store, payee)
        with pytest.raises(Conflict):
            await lock(store, payee, lease)
        assert await claimed(store) == [payee]

    async def test_due_payees_are_counted(self, store):
        """Due payees of every provider are counted, claimed or not."""
        await add_payee(store)
        await add_payee(store, provider="stripe", next_at=NOW + HOUR)
        await add_payee(store, next_at=None)
        await claim(store)
        waits = (-SECOND, 0 * DAY, HOUR)
        assert [await count_due_work(store, NOW + wait) for wait in waits] == [0, 1, 2]
