"""Contract of the stores: the inbox of the processor's events."""

from __future__ import annotations

import asyncio

import pytest

from staffbooking_adapters.testing.builders import (
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    SECOND,
    make_lease,
    make_processor_event,
)
from staffbooking_adapters.testing.store.base import StoreContract

LEASE = POLICY.lease_duration


async def add(store, event, provider="fake", now=NOW):
    return await store.run_transaction(lambda unit: unit.inbox.add_event(provider, event, now))


async def claim(store, now=NOW, lease=None, limit=10):
    lease = lease or make_lease(now)
    return list(
        await store.run_transaction(lambda unit: unit.inbox.claim_events(now, lease, limit))
    )


async def finish(store, event, lease, retry_at=None, provider="fake"):
    await store.run_transaction(
        lambda unit: unit.inbox.finish_event(provider, event.event_id, lease, retry_at)
    )


async def has_unfinished(store, until=NOW):
    return await store.run_transaction(lambda unit: unit.inbox.has_unfinished_event(7, until))


class InboxContract(StoreContract):
    """The inbox of the processor's events."""

    async def test_an_event_is_stored_once(self, store):
        """A second event of the same id is a duplicate, whatever it refers to."""
        event = make_processor_event(intent_id=7)
        again = make_processor_event(event_id=event.event_id, intent_id=8)
        assert [await add(store, event), await add(store, again)] == [True, False]
        assert await claim(store) == [("fake", event)]

    @pytest.mark.parametrize(
        "where",
        [{"intent_id": 7}, {"payment_ref": "pi_\N{GRINNING FACE}"}, {"payee_ref": "acct_1"}],
    )
    async def test_an_event_keeps_its_reference(self, store, where):
        """An event keeps its reference to an intent, a payment or a payee."""
        event = make_processor_event(**{"intent_id": None, **where})
        await add(store, event)
        assert await claim(store) == [("fake", event)]

    async def test_a_finished_event_is_still_a_duplicate(self, store):
        """A finished event stays known: a late duplicate adds no work."""
        event, lease = make_processor_event(), make_lease()
        await add(store, event)
        await claim(store, lease=lease)
        await finish(store, event, lease)
        assert await add(store, event, now=NOW + HOUR) is False
        assert await claim(store, NOW + HOUR) == []

    async def test_each_provider_has_ids_of_its_own(self, store):
        """Two providers can use the same event id."""
        event = make_processor_event(intent_id=None, payee_ref="acct_3")
        assert [await add(store, event, name) for name in ("fake", "stripe")] == [True, True]
        assert sorted(await claim(store)) == [("fake", event), ("stripe", event)]

    async def test_the_oldest_event_is_claimed_first(self, store):
        """Events are claimed by the time of receipt, up to the limit."""
        events = [make_processor_event() for _ in range(4)]
        for event, minutes in zip(events, (3, 1, 2, 0), strict=True):
            await add(store, event, now=NOW + minutes * MINUTE)
        now = NOW + HOUR
        claimed = [await claim(store, now, limit=n) for n in (3, 3)]
        order = [[events[n] for n in numbers] for numbers in ((3, 1, 2), (0,))]
        assert [[event for _, event in batch] for batch in claimed] == order

    async def test_an_event_can_be_claimed_when_the_lease_ends(self, store):
        """A claimed event can be claimed again when the lease ends, and not before."""
        event = make_processor_event()
        await add(store, event)
        await claim(store)
        assert await claim(store, NOW + LEASE - SECOND) == []
        assert await claim(store, NOW + LEASE) == [("fake", event)]

    async def test_an_event_can_be_deferred(self, store):
        """A deferred event is due at the given time, which may be within the old lease."""
        event, lease = make_processor_event(), make_lease()
        await add(store, event)
        await claim(store, lease=lease)
        await finish(store, event, lease, retry_at=NOW + 5 * SECOND)
        assert await claim(store, NOW + 4 * SECOND) == []
        assert await claim(store, NOW + 5 * SECOND) == [("fake", event)]

    async def test_a_lost_event_cannot_be_finished(self, store):
        """Finishing an event that another worker claimed changes nothing."""
        event, lost = make_processor_event(), make_lease()
        await add(store, event)
        await claim(store, lease=lost)
        await claim(store, NOW + LEASE)
        await finish(store, event, lost)
        assert await claim(store, NOW + 2 * LEASE) == [("fake", event)]

    async def test_an_intent_has_an_unfinished_event_until_it_is_done(self, store):
        """An event of an intent is unfinished while it is claimed and deferred, until it is
        done."""
        event, lease = make_processor_event(intent_id=7), make_lease()
        await add(store, event)
        found = [await has_unfinished(store)]
        await claim(store, lease=lease)
        found.append(await has_unfinished(store))
        await finish(store, event, lease, retry_at=NOW + SECOND)
        found.append(await has_unfinished(store))
        again = make_lease(NOW + SECOND)
        await claim(store, NOW + SECOND, again)
        await finish(store, event, again)
        assert [*found, await has_unfinished(store)] == [True, True, True, False]

    async def test_an_unfinished_event_of_another_intent_does_not_count(self, store):
        """An intent has no unfinished event by those of other intents, payments and payees."""
        await add(store, make_processor_event(intent_id=8))
        await add(store, make_processor_event(intent_id=None, payment_ref="pi_7"))
        await add(store, make_processor_event(intent_id=None, payee_ref="acct_7"))
        assert not await has_unfinished(store)

    async def test_an_unfinished_event_counts_from_its_receipt(self, store):
        """An unfinished event counts for the moment of its receipt, and not for earlier ones."""
        await add(store, make_processor_event(intent_id=7))
        moments = (NOW, NOW - SECOND)
        assert [await has_unfinished(store, until) for until in moments] == [True, False]

    async def test_finishing_an_unknown_event_is_no_error(self, store):
        """Finishing an unknown event is no error."""
        await finish(store, make_processor_event(), make_lease())
        assert await claim(store) == []

    async def test_an_event_is_added_once_by_concurrent_calls(self, store):
        """Of concurrent receipts of one event exactly one is new."""
        event = make_processor_event()
        added = await asyncio.gather(*(add(store, event) for _ in range(10)))
        assert sorted(added) == [False] * 9 + [True]
