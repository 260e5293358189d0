"""Contract of the stores: deliveries and their attempts."""

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
    SECOND,
    add_booking,
)
from staffbooking_adapters.testing.builders_webhooks import (
    FINAL_STATUSES,
    add_delivery,
    add_endpoint,
    add_event,
    claim_endpoint_batches,
    make_attempt,
    make_new_delivery,
    place_events,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_adapters.testing.store.webhooks.delivery_helpers import (
    STATUS_HELD,
    add_attempts,
    add_deliveries,
    deliveries_of,
    delivery_page,
    find_deliveries,
    find_delivery,
    next_batch_time,
    save_deliveries,
    with_locked_endpoint,
)
from staffbooking_core.domain.webhooks.deliveries import Delivery, DeliveryAttempt, DeliveryStatus

FINE = NOW + timedelta(microseconds=123_456)


# Test deliveries --------------------------------------------------------------------------

ENVELOPE = {"id": "evt_test", "event": "webhook.test", "data": {"name": "Mía"}}


async def add_test(store, endpoint, **given):
    event = {"event_id": "evt_test", "event": "webhook.test", "status": DeliveryStatus.CANCELLED}
    new = make_new_delivery(endpoint.id, **{**event, **given})
    return await store.run_transaction(lambda unit: unit.webhooks.add_test_delivery(new, ENVELOPE))


async def advance_deliveries(store, *deliveries):
    advanced = await store.run_transaction(
        lambda unit: unit.webhooks.advance_deliveries(deliveries)
    )
    return list(advanced)


class DeliveriesContract(StoreContract):
    """Deliveries and their attempts."""

    # Deliveries -------------------------------------------------------------------------------
    async def test_a_delivery_comes_back_as_it_was_added(self, store):
        """A new delivery, pending or held, is stored with its times and without attempts."""
        endpoint, events = await add_endpoint(store), [await add_event(store) for _ in range(2)]
        new = [
            make_new_delivery(endpoint.id, events[0], created_at=FINE, next_at=FINE + SECOND),
            make_new_delivery(endpoint.id, events[1], status=STATUS_HELD, held_at=FINE),
        ]
        await add_deliveries(store, *new)
        second, first = await deliveries_of(store, endpoint)
        assert first.id < second.id
        for delivery, each in ((first, new[0]), (second, new[1])):
            assert delivery == Delivery(
                id=delivery.id,
                endpoint_id=endpoint.id,
                event_id=each.event_id,
                event=each.event,
                created_at=each.created_at,
                status=each.status,
                next_at=each.next_at,
                held_at=each.held_at,
            )
            assert await find_delivery(store, delivery) == delivery

    async def test_an_event_is_delivered_once_to_an_endpoint(self, store):
        """Adding a delivery of a known event and endpoint changes nothing."""
        endpoint, other = await add_endpoint(store), await add_endpoint(store)
        event = await add_event(store)
        delivery = await add_delivery(store, endpoint, event)
        done = evolve(delivery, status=DeliveryStatus.SUCCEEDED, next_at=None, attempts=1, tries=1)
        await save_deliveries(store, done)
        new = [make_new_delivery(each.id, event) for each in (endpoint, other, other)]
        await add_deliveries(store, *new)
        assert await deliveries_of(store, endpoint) == [done]
        assert [each.event_id for each in await deliveries_of(store, other)] == [event.id]

    async def test_adding_no_deliveries_is_no_error(self, store):
        """Adding no deliveries is no error."""
        await add_deliveries(store)

    async def test_a_delivery_comes_back_as_it_was_saved(self, store):
        """Saving stores the progress of several deliveries and changes no other."""
        endpoint = await add_endpoint(store)
        deliveries = [await add_delivery(store, endpoint) for _ in range(3)]
        changed = [
            evolve(deliveries[0], next_at=FINE, attempts=7, tries=3, counts=False),
            evolve(deliveries[1], status=STATUS_HELD, next_at=FINE, held_at=FINE + SECOND),
        ]
        await save_deliveries(store, *changed)
        assert await find_deliveries(store, *deliveries) == [*changed, deliveries[2]]

    @pytest.mark.parametrize("status", FINAL_STATUSES)
    async def test_a_finished_delivery_has_no_next_time(self, store, status):
        """A finished delivery is stored without a next time, and can be saved as redelivered."""
        delivery = await add_delivery(store, await add_endpoint(store))
        done = evolve(delivery, status=status, next_at=None, attempts=1, tries=1)
        await save_deliveries(store, done)
        assert await find_delivery(store, delivery) == done
        again = done.redeliver(NOW + DAY, is_deliverable=False)
        await save_deliveries(store, again)
        assert await find_delivery(store, delivery) == again

    async def test_a_pending_delivery_is_advanced_once(self, store):
        """Progress by one attempt is saved for deliveries that are pending and have not had it:
        none that was held, cancelled or deleted meanwhile, and none twice."""
        endpoint = await add_endpoint(store)
        pending = [await add_delivery(store, endpoint) for _ in range(2)]
        others = [
            await add_delivery(store, endpoint, status=status)
            for status in sorted(set(DeliveryStatus) - {DeliveryStatus.PENDING})
        ]
        done = evolve(
            pending[0], status=DeliveryStatus.SUCCEEDED, next_at=None, attempts=1, tries=1
        )
        retry = evolve(pending[1], next_at=FINE, attempts=1, tries=1)
        unknown = evolve(done, id=404)
        given = [done, retry, unknown, *(evolve(each, attempts=1, tries=1) for each in others)]
        assert sorted(await advance_deliveries(store, *given)) == [done.id, retry.id]
        assert await find_deliveries(store, done, retry, *others) == [done, retry, *others]
        assert await advance_deliveries(store, *given) == []

    async def test_an_unknown_delivery_is_none(self, store):
        """An unknown delivery is None, has no attempts and is not locked."""
        await add_delivery(store, endpoint := await add_endpoint(store))
        async with store.read_view() as view:
            assert await view.webhooks.delivery(404) is None
            assert list(await view.webhooks.attempts_of(404)) == []
            assert list(await view.webhooks.deliveries(endpoint.id + 1, 1, 10)) == []
        assert (
            list(await store.run_transaction(lambda unit: unit.webhooks.lock_deliveries([404])))
            == []
        )

    async def test_deliveries_are_locked_by_their_ids(self, store):
        """Deliveries of several endpoints are locked and returned in id order."""
        endpoints = [await add_endpoint(store) for _ in range(2)]
        deliveries = [await add_delivery(store, endpoints[n % 2]) for n in range(4)]
        ids = [deliveries[n].id for n in (3, 0, 2)]
        locked = await store.run_transaction(lambda unit: unit.webhooks.lock_deliveries(ids))
        assert list(locked) == [deliveries[n] for n in (0, 2, 3)]

    # The log ----------------------------------------------------------------------------------
    async def test_an_attempt_comes_back_as_it_was_logged(self, store):
        """Attempts are stored with every field and listed oldest first, also with their
        delivery."""
        delivery = await add_delivery(store, endpoint := await add_endpoint(store))
        made = [
            DeliveryAttempt(1, FINE, 10_000, None, "timeout"),
            DeliveryAttempt(2, FINE + MINUTE, 0, 503, "http_status"),
            DeliveryAttempt(3, FINE + HOUR, 81, 204, None),
        ]
        await add_attempts(store, delivery, *made[:2])
        await add_attempts(store, delivery, *made[2:])
        attempts = await read_store(store, lambda view: view.webhooks.attempts_of(delivery.id))
        assert list(attempts) == made
        assert await delivery_page(store, endpoint) == [(delivery, made)]

    async def test_deliveries_are_listed_in_pages(self, store):
        """A page has the newest deliveries first with their attempts, and one row above the limit
        if more follow."""
        endpoint, booking = await add_endpoint(store), await add_booking(store)
        expected: list[tuple[Delivery, list[DeliveryAttempt]]] = []
        for n in range(5):
            delivery = await add_delivery(store, endpoint, await add_event(store, booking))
            made = [make_attempt(number) for number in range(1, n + 1)]
            await add_attempts(store, delivery, *made)
            expected.insert(0, (delivery, made))
        await add_delivery(store, await add_endpoint(store))
        pages = [await delivery_page(store, endpoint, number, 2) for number in (1, 2, 3, 4)]
        assert pages == [expected[0:3], expected[2:5], expected[4:], []]

    async def test_attempts_are_listed_since_a_time(self, store):
        """Attempts from a time on are listed oldest first with their current delivery, up to the
        limit."""
        deliveries = [await add_delivery(store, await add_endpoint(store)) for _ in range(2)]
        for delivery, minutes in ((0, 0), (1, 1), (1, 3), (0, 2)):
            attempt = make_attempt(1 + minutes, at=NOW + minutes * MINUTE)
            await add_attempts(store, deliveries[delivery], attempt)
        deliveries[1] = evolve(deliveries[1], attempts=2)
        await save_deliveries(store, deliveries[1])

        async def since(at, limit=10):
            rows = await read_store(store, lambda view: view.webhooks.attempts_since(at, limit))
            return [(delivery, attempt.number) for delivery, attempt in rows]

        expected = [(deliveries[1], 2), (deliveries[0], 3), (deliveries[1], 4)]
        assert await since(NOW + MINUTE) == expected
        assert await since(NOW + MINUTE, 2) == expected[:2]
        assert await since(NOW + HOUR) == []

    async def test_a_test_delivery_has_its_own_body(self, store):
        """A test delivery is listed with its body, but makes no endpoint due and is in no feed."""
        endpoint = await add_endpoint(store)
        due_delivery = await add_test(store, endpoint)
        assert (
            due_delivery.body
            == '{"id":"evt_test","event":"webhook.test","data":{"name":"Mía"}}'.encode()
        )
        assert await deliveries_of(store, endpoint) == [due_delivery.delivery]
        assert (due_delivery.delivery.status, due_delivery.delivery.next_at) == (
            DeliveryStatus.CANCELLED,
            None,
        )
        assert await next_batch_time(store) is None
        async with store.read_view() as view:
            assert not await view.webhooks.has_unsequenced_events()
            assert await view.webhooks.feed_position("evt_test", None) is None

    async def test_a_test_delivery_can_be_redelivered(self, store):
        """A redelivered test delivery has the same body."""
        endpoint = await add_endpoint(store)
        due_delivery = await add_test(store, endpoint)
        again = due_delivery.delivery.redeliver(NOW, is_deliverable=True)
        await save_deliveries(store, again)
        await with_locked_endpoint(
            store, endpoint, lambda webhooks: webhooks.schedule_endpoint(endpoint.id, NOW)
        )
        (batch,) = await claim_endpoint_batches(store)
        assert batch.due_deliveries == (evolve(due_delivery, delivery=again),)

    # Sweeping ---------------------------------------------------------------------------------
    async def test_a_sweep_deletes_old_finished_deliveries(self, store):
        """Finished deliveries are deleted with their attempts when the retention since their due
        time is over."""
        endpoint, kept_for = await add_endpoint(store), POLICY.webhook_delivery_retention
        old: list[Delivery] = []
        recent: list[Delivery] = []
        for kind, at in ((old, NOW), (recent, NOW + SECOND)):
            for status in FINAL_STATUSES:
                delivery = await add_delivery(store, endpoint, next_at=at)
                await add_attempts(store, delivery, make_attempt())
                done = evolve(delivery, status=status, next_at=None, attempts=1)
                await save_deliveries(store, done)
                kind.append(done)
        assert [await store.delete_expired(NOW + kept_for, POLICY) for _ in range(2)] == [3, 0]
        assert await find_deliveries(store, *old, *recent) == [None] * 3 + recent
        attempts = await read_store(store, lambda view: view.webhooks.attempts_since(NOW - DAY, 10))
        assert [delivery for delivery, _ in attempts] == recent
        assert await deliveries_of(store, endpoint) == recent[::-1]

    async def test_the_event_of_a_deleted_delivery_can_be_added_again(self, store):
        """An event whose delivery was deleted can be added as a new pending delivery."""
        endpoint, event = await add_endpoint(store), await add_event(store)
        await add_delivery(store, endpoint, event, status=DeliveryStatus.FAILED)
        assert await store.delete_expired(NOW + POLICY.webhook_delivery_retention, POLICY) == 1
        await add_deliveries(store, make_new_delivery(endpoint.id, event))
        (delivery,) = await deliveries_of(store, endpoint)
        assert (delivery.event_id, delivery.status) == (event.id, DeliveryStatus.PENDING)

    async def test_a_sweep_keeps_unfinished_deliveries(self, store):
        """A sweep deletes no pending or held delivery and no event of the feed."""
        endpoint = await add_endpoint(store)
        event = await add_event(store)
        deliveries = [
            await add_delivery(store, endpoint, event),
            await add_delivery(store, endpoint, status=STATUS_HELD),
        ]
        await place_events(store)
        assert await store.delete_expired(NOW + 4_000 * DAY, POLICY) == 0
        assert await find_deliveries(store, *deliveries) == deliveries
        assert (
            await read_store(store, lambda view: view.webhooks.feed_position(event.id, None)) == 1
        )

    async def test_the_retention_runs_from_the_last_due_time(self, store):
        """The retention of a redelivered delivery runs from its last due time."""
        delivery = await add_delivery(store, await add_endpoint(store))
        done = evolve(delivery, status=DeliveryStatus.FAILED, next_at=None, attempts=4, tries=4)
        await save_deliveries(store, done)
        await save_deliveries(store, done.redeliver(NOW + DAY, is_deliverable=True))
        await save_deliveries(store, done)
        kept_for = POLICY.webhook_delivery_retention
        assert await store.delete_expired(NOW + kept_for, POLICY) == 0
        assert await store.delete_expired(NOW + DAY + kept_for, POLICY) == 1
