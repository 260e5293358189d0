"""Contract of the stores: hints given by commits."""

from __future__ import annotations

import pytest

from staffbooking_adapters.testing.builders import (
    HOUR,
    MINUTE,
    NOW,
    add_booking,
    add_companion,
    add_user,
    make_booking,
    make_booking_write,
    make_event,
    next_booking_id,
    next_revision,
)
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    add_event,
    claim_endpoint_batches,
    place_events,
)
from staffbooking_adapters.testing.store.base import StoreContract
from staffbooking_adapters.testing.store.webhooks.delivery_helpers import (
    STATUS_HELD,
    hold_endpoint,
    resume_endpoint,
    save_deliveries,
    succeeded,
    with_locked_endpoint,
)
from staffbooking_core.ports import Hint


class CommitHintsContract(StoreContract):
    """Hints given by commits."""

    @pytest.fixture
    def new_hints(self, store):
        """The hints given since the last call."""
        before = {hint: store.hints.count(hint) for hint in Hint}

        def since():
            new = {hint for hint in Hint if store.hints.count(hint) > before[hint]}
            before.update((hint, store.hints.count(hint)) for hint in Hint)
            return new

        return since

    async def test_an_event_gives_a_hint(self, store, new_hints):
        """Committing a booking's event gives an EVENTS hint."""
        booking = make_booking(
            id=await next_booking_id(store),
            companion_id=(await add_companion(store)).id,
            customer_id=(await add_user(store)).id,
        )
        assert new_hints() == set()
        await store.add_booking(make_booking_write(booking, event=make_event(booking)))
        assert new_hints() == {Hint.EVENTS}
        await add_event(store, booking)
        assert new_hints() == {Hint.EVENTS}

    async def test_a_hint_is_given_after_the_commit(self, store, new_hints):
        """The hint of an event is given after the commit, not during the transaction."""
        step = next_revision(await add_booking(store), events=2)

        async def unit(tx):
            await tx.bookings.save_booking(make_booking_write(step, event=make_event(step)))
            return new_hints()

        assert await store.run_transaction(unit) == set()
        assert new_hints() == {Hint.EVENTS}

    async def test_a_write_without_an_event_gives_no_hint(self, store, new_hints):
        """A booking write without an event gives no hint."""
        booking = await add_booking(store)
        await store.run_transaction(
            lambda unit: unit.bookings.save_booking(make_booking_write(next_revision(booking)))
        )
        await add_endpoint(store)
        assert new_hints() == set()

    async def test_a_rollback_gives_no_hint(self, store, new_hints):
        """A rolled-back transaction gives no hint, and neither does the next commit for it."""
        endpoint = await add_endpoint(store)
        step = next_revision(await add_booking(store), events=2)

        async def unit(tx):
            await tx.bookings.save_booking(make_booking_write(step, event=make_event(step)))
            await tx.webhooks.lock_endpoint(endpoint.id)
            await tx.webhooks.schedule_endpoint(endpoint.id, NOW)
            raise LookupError

        with pytest.raises(LookupError):
            await store.run_transaction(unit)
        await add_user(store)
        assert new_hints() == set()

    async def test_a_pending_delivery_gives_a_hint(self, store, new_hints):
        """A pending delivery gives a hint; a held one does not."""
        endpoint, events = await add_endpoint(store), [await add_event(store) for _ in range(2)]
        new_hints()
        await add_delivery(store, endpoint, events[0])
        assert new_hints() == {Hint.DELIVERIES}
        await add_delivery(store, endpoint, events[1], status=STATUS_HELD)
        assert new_hints() == set()

    async def test_scheduling_an_endpoint_gives_a_hint(self, store, new_hints):
        """Scheduling an endpoint gives a DELIVERIES hint."""
        endpoint = await add_endpoint(store)
        await with_locked_endpoint(
            store, endpoint, lambda webhooks: webhooks.schedule_endpoint(endpoint.id, NOW)
        )
        assert new_hints() == {Hint.DELIVERIES}

    @pytest.mark.parametrize(("wait", "expected"), [(-MINUTE, {Hint.DELIVERIES}), (HOUR, set())])
    async def test_resuming_due_deliveries_gives_a_hint(self, store, new_hints, wait, expected):
        """Resuming deliveries gives a hint if one is due; holding them gives none."""
        endpoint = await add_endpoint(store)
        await add_delivery(store, endpoint, next_at=NOW + wait)
        new_hints()
        await hold_endpoint(store, endpoint)
        assert new_hints() == set()
        await resume_endpoint(store, endpoint)
        assert new_hints() == expected

    @pytest.mark.parametrize(("sent", "expected"), [(1, {Hint.DELIVERIES}), (2, set())])
    async def test_releasing_an_endpoint_gives_a_hint(self, store, new_hints, sent, expected):
        """Releasing an endpoint gives a hint if more deliveries are due."""
        endpoint = await add_endpoint(store)
        for _ in range(2):
            await add_delivery(store, endpoint)
        (batch,) = await claim_endpoint_batches(store)
        new_hints()
        for due in batch.due_deliveries[:sent]:
            await save_deliveries(store, succeeded(due.delivery))

        async def unit(tx):
            await tx.webhooks.lock_claims([batch.claim])
            await tx.webhooks.release_endpoints([endpoint.id], NOW)

        await store.run_transaction(unit)
        assert new_hints() == expected

    async def test_feed_positions_give_no_hint(self, store, new_hints):
        """Assigning feed positions and claiming batches give no hint."""
        await add_event(store)
        new_hints()
        await place_events(store)
        await claim_endpoint_batches(store)
        assert new_hints() == set()
