"""What people are to be told, on every store alike."""

from __future__ import annotations

import asyncio

import pytest

from staffbooking_core.ports import Notice
from tests.support.builders import NOW, POLICY, SECOND, make_lease

pytestmark = pytest.mark.anyio

LEASE = POLICY.lease


def make_notice(subject="Your webhook endpoint was disabled"):
    return Notice(7, "webhook_disabled", subject, "It failed\nten times: \N{PILE OF POO}.")


async def add(store, *subjects):
    """Notices of these subjects, each a second after the one before."""
    notices = [make_notice(subject) for subject in subjects]
    for n, notice in enumerate(notices):
        at = NOW + n * SECOND
        await store.write(lambda tx, notice=notice, at=at: tx.accounts.add_notice(notice, at))
    return notices


async def claim(store, now=NOW, lease=None, limit=10):
    lease = lease or make_lease(now)
    return list(await store.write(lambda tx: tx.accounts.claim_notices(now, lease, limit)))


async def finish(store, notice_id, lease):
    await store.write(lambda tx: tx.accounts.finish_notice(notice_id, lease))


async def subjects_of(store, now=NOW, limit=10):
    return [notice.subject for _, notice in await claim(store, now, limit=limit)]


async def test_a_notice_is_claimed_as_it_was_added(store):
    """Under an id of its own; not again while the claim runs."""
    notices = await add(store, "one", "two")
    claimed = await claim(store)
    assert [notice for _, notice in claimed] == notices
    assert len({number for number, _ in claimed}) == 2
    assert await claim(store, NOW + LEASE - SECOND) == []


async def test_the_oldest_notice_is_claimed_first(store):
    """As many as asked for."""
    await add(store, "one", "two", "three")
    assert [await subjects_of(store, limit=2), await subjects_of(store)] == [
        ["one", "two"],
        ["three"],
    ]


async def test_a_claimed_notice_comes_back(store):
    """When the lease has run out, in its old place."""
    await add(store, "one", "two")
    [(first, _)] = await claim(store, limit=1)
    again = await claim(store, NOW + LEASE)
    assert [notice.subject for _, notice in again] == ["one", "two"]
    assert again[0][0] == first


async def test_a_told_notice_goes_away(store):
    """For good, and no other with it."""
    await add(store, "one", "two")
    lease = make_lease()
    (first, _), _ = await claim(store, lease=lease)
    await finish(store, first, lease)
    assert await subjects_of(store, NOW + LEASE) == ["two"]


async def test_a_lost_claim_finishes_nothing(store):
    """What another has claimed since is that one's to finish."""
    await add(store, "one")
    lost = make_lease()
    [(number, _)] = await claim(store, lease=lost)
    lease = make_lease(NOW + LEASE)
    await claim(store, NOW + LEASE, lease)
    await finish(store, number, lost)
    assert await subjects_of(store, NOW + 2 * LEASE) == ["one"]


async def test_finishing_twice_does_nothing(store):
    """Nor does finishing what nobody has claimed, or what never was."""
    await add(store, "one", "two")
    lease = make_lease()
    [(number, _)] = await claim(store, lease=lease, limit=1)
    for each in (number, number, number + 1, 404):
        await finish(store, each, lease)
    assert await subjects_of(store, NOW + LEASE) == ["two"]


async def test_a_notice_is_claimed_with_its_unit_of_work(store):
    """A unit of work that fails gives back what it has claimed."""
    await add(store, "one")

    async def unit(tx):
        assert len(await tx.accounts.claim_notices(NOW, make_lease(), 10)) == 1
        raise LookupError

    with pytest.raises(LookupError):
        await store.write(unit)
    assert await subjects_of(store) == ["one"]


async def test_notices_are_shared_by_workers(store):
    """Each is claimed by one of those that ask at the same moment."""
    await add(store, *(f"No. {n:02}" for n in range(12)))
    batches = await asyncio.gather(*(subjects_of(store, limit=3) for _ in range(6)))
    batches.append(await subjects_of(store, limit=20))
    assert sorted(each for batch in batches for each in batch) == [f"No. {n:02}" for n in range(12)]
