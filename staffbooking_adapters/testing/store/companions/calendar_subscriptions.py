"""Contract of the stores: calendar subscriptions, and the claims on them."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    NOW,
    POLICY,
    add_companion,
    add_user,
    make_lease,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_adapters.testing.store.companions.booked_days import change_companion
from staffbooking_core.domain.companions.availability import Calendar, Interval
from staffbooking_core.domain.companions.calendar_subscriptions import (
    CalendarReadFault,
    CalendarSubscription,
)
from staffbooking_core.domain.companions.companion import CompanionQuery
from staffbooking_core.domain.privacy import erase_user
from staffbooking_core.errors import Conflict

FINE = NOW + timedelta(microseconds=123_456)


def make_subscription(companion_id, **given):
    usual = {
        "id": 0,
        "companion_id": companion_id,
        "name": "Work",
        "host": "calendar.example",
        "address": b"sealed",
        "created_at": NOW,
        "next_read_at": NOW,
        "tried_at": NOW,
        "read_at": NOW,
        "parsed_at": NOW,
        "timezone": "Europe/Zurich",
    }
    return CalendarSubscription(**{**usual, **given})


async def add(store, companion, **given):
    new = make_subscription(companion.id, **given)
    return await store.run_transaction(lambda tx: tx.calendar_subscriptions.add_subscription(new))


async def of(store, companion):
    return await read_store(
        store, lambda view: view.calendar_subscriptions.subscriptions_of(companion.id)
    )


async def claim(store, now=NOW, limit=10, subscription_id=None):
    """The ids of the claimed subscriptions, and the lease."""
    lease = make_lease(now)
    found = await store.run_transaction(
        lambda tx: tx.calendar_subscriptions.claim_subscriptions(now, lease, limit, subscription_id)
    )
    return [each.id for each in found], lease


async def lock(store, subscription, lease):
    return await store.run_transaction(
        lambda tx: tx.calendar_subscriptions.lock_subscription(subscription.id, lease)
    )


async def save(store, subscription):
    await store.run_transaction(
        lambda tx: tx.calendar_subscriptions.save_subscription(subscription)
    )


async def remove(store, companion_id, subscription):
    return await store.run_transaction(
        lambda tx: tx.calendar_subscriptions.remove_subscription(companion_id, subscription.id)
    )


class CalendarSubscriptionsContract(StoreContract):
    """Calendar subscriptions, and the claims on them."""

    async def test_a_subscription_comes_back_as_it_was_saved(self, store):
        """A subscription is stored with every field."""
        companion = await add_companion(store)
        added = await add(store, companion)
        busy = tuple(Interval(NOW + n * DAY, NOW + n * DAY + HOUR) for n in range(3))
        changed = evolve(
            added,
            name="Mía \N{GRINNING FACE}",
            address=b"\x00\xff",
            next_read_at=None,
            tried_at=FINE,
            etag='"1"',
            last_modified="Mon, 01 Mar 2027 12:00:00 GMT",
            fault=CalendarReadFault.NOT_A_CALENDAR,
            failures=3,
            failing_since=FINE,
            busy=busy,
        )
        await save(store, changed)
        assert await of(store, companion) == [changed]

    async def test_subscriptions_are_listed_by_their_owner(self, store):
        """A companion's subscriptions are listed from the oldest on, without those of others."""
        mine, other = await add_companion(store), await add_companion(store)
        first, _, third = [await add(store, each) for each in (mine, other, mine)]
        assert await of(store, mine) == [first, third]

    async def test_all_subscriptions_are_read_in_pages(self, store):
        """Subscriptions of all companions are read by id."""
        companion = await add_companion(store)
        ids = [(await add(store, companion)).id for _ in range(3)]

        async def page(after, limit):
            found = await read_store(
                store, lambda view: view.calendar_subscriptions.subscriptions(after, limit)
            )
            return [each.id for each in found]

        assert (await page(0, 2), await page(ids[1], 2)) == (ids[:2], ids[2:])

    async def test_ids_of_removed_subscriptions_are_not_reused(self, store):
        """A new subscription does not get the id of a removed one, to which an address was
        sealed."""
        companion = await add_companion(store)
        first = await add(store, companion)
        assert await remove(store, companion.id, first)
        assert (await add(store, companion)).id > first.id

    async def test_only_the_owner_removes_a_subscription(self, store):
        """Another companion removes nothing, nor does a second removal."""
        mine, other = await add_companion(store), await add_companion(store)
        subscription = await add(store, mine)
        assert not await remove(store, other.id, subscription)
        assert await remove(store, mine.id, subscription)
        assert not await remove(store, mine.id, subscription)
        assert await of(store, mine) == []

    # Claims -----------------------------------------------------------------------------------
    async def test_due_subscriptions_are_claimed_the_earliest_first(self, store):
        """Claims take what is due in its order, up to the limit, and nothing disabled."""
        companion = await add_companion(store)
        late = await add(store, companion, next_read_at=NOW)
        early = await add(store, companion, next_read_at=NOW - HOUR)
        await add(store, companion, next_read_at=NOW + timedelta(microseconds=1))
        await add(store, companion, next_read_at=None)
        assert (await claim(store, limit=1))[0] == [early.id]
        assert (await claim(store))[0] == [late.id]

    async def test_a_claim_expires(self, store):
        """A claimed subscription is claimed again once its lease has expired, and then the first
        holder holds nothing: so a reader that was killed loses nothing, and nothing is saved
        twice."""
        subscription = await add(store, await add_companion(store))
        _, lost = await claim(store)
        assert (await claim(store, NOW + POLICY.lease_duration - timedelta(microseconds=1)))[
            0
        ] == []
        found, held = await claim(store, NOW + POLICY.lease_duration)
        assert found == [subscription.id]
        with pytest.raises(Conflict):
            await lock(store, subscription, lost)
        assert await lock(store, subscription, held) == subscription

    async def test_one_subscription_is_claimed_before_it_is_due(self, store):
        """A claim of one subscription takes it when it is not due or disabled, unless it is
        claimed."""
        companion = await add_companion(store)
        ids = [(await add(store, companion, next_read_at=at)).id for at in (None, NOW + DAY)]
        for number in ids:
            assert (await claim(store, subscription_id=number))[0] == [number]
            assert (await claim(store, subscription_id=number))[0] == []

    async def test_saving_ends_the_claim(self, store):
        """A saved subscription can be claimed again when it is due."""
        subscription = await add(store, await add_companion(store))
        _, lease = await claim(store)
        await save(store, evolve(subscription, next_read_at=NOW + HOUR))
        with pytest.raises(Conflict):
            await lock(store, subscription, lease)
        assert (await claim(store))[0] == []
        assert (await claim(store, NOW + HOUR))[0] == [subscription.id]

    async def test_a_removed_subscription_stays_removed(self, store):
        """The reader of a subscription that was removed meanwhile saves nothing."""
        companion = await add_companion(store)
        subscription = await add(store, companion)
        _, lease = await claim(store)
        await remove(store, companion.id, subscription)
        with pytest.raises(Conflict):
            await lock(store, subscription, lease)
        await save(store, subscription)
        assert await of(store, companion) == []

    async def test_an_address_is_sealed_anew(self, store):
        """A sealed address is replaced if it is the expected one; a claim continues."""
        companion = await add_companion(store)
        subscription = await add(store, companion)
        _, lease = await claim(store)

        async def reseal(before, after):
            return await store.run_transaction(
                lambda tx: tx.calendar_subscriptions.reseal_subscription(
                    subscription.id, before, after
                )
            )

        assert await reseal(b"sealed", b"new")
        assert not await reseal(b"sealed", b"newer")
        assert (await lock(store, subscription, lease)).address == b"new"

    # What they are for ------------------------------------------------------------------------
    async def test_busy_times_of_subscriptions_are_not_found_by_searches(self, store):
        """A day that is taken by a subscribed calendar is not found, like that of an imported
        one."""
        companion = await add_companion(store, calendar=Calendar("UTC"))
        day = datetime(2027, 3, 2, tzinfo=UTC)
        busy = evolve(companion.calendar, subscribed_busy=(Interval(day, day + DAY),))
        saved = await change_companion(store, companion, calendar=busy)
        assert saved.calendar.subscribed_busy == busy.subscribed_busy

        async def count(day):
            query = CompanionQuery(date=day)
            return len(
                (await read_store(store, lambda view: view.companions.search(query))).summaries
            )

        found = [await count(date(2027, 3, n)) for n in (1, 2, 3)]
        assert found == [1, 0, 1]

    async def test_subscriptions_are_erased_with_their_owner(self, store):
        """Erasure deletes a person's subscriptions, and not those of others."""
        mine, other = await add_companion(store), await add_companion(store)
        await add(store, mine)
        kept = await add(store, other)
        user = await read_store(store, lambda view: view.accounts.user(mine.id))

        async def erase(tx):
            erased = erase_user(user, NOW, "t0ken")
            await tx.accounts.save_user(erased)
            await tx.personal_data.erase(erased, None)

        await store.run_transaction(erase)
        assert (await of(store, mine), await of(store, other)) == ([], [kept])

    async def test_a_subscription_needs_a_user_alone(self, store):
        """A subscription may exist before its owner's companion."""
        user = await add_user(store)
        assert (await add(store, user)).companion_id == user.id
