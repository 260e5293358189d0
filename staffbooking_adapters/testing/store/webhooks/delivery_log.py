"""Contract of the stores: what owners look up of their deliveries, and the newest events."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, NOW, add_booking, add_user
from staffbooking_adapters.testing.builders_webhooks import (
    add_delivery,
    add_endpoint,
    add_event,
    make_attempt,
    make_new_delivery,
    place_events,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_adapters.testing.store.webhooks.delivery_helpers import (
    add_attempts,
    save_deliveries,
)
from staffbooking_core.domain.bookings.lifecycle import EventName
from staffbooking_core.domain.webhooks.deliveries import DeliveryGroup, DeliveryStatus

STATUSES = tuple(DeliveryStatus)


async def add_delivery_of_each_status(store, endpoint):
    """One delivery of each status, by status, the oldest first."""
    made = {}
    for status in STATUSES:
        delivery = await add_delivery(store, endpoint)
        is_open = status in DeliveryGroup.UNFINISHED.statuses
        made[status] = evolve(delivery, status=status, next_at=NOW if is_open else None)
    await save_deliveries(store, *made.values())
    return made


async def log(store, endpoint, page=1, limit=20, **wanted):
    rows = await read_store(
        store, lambda view: view.webhooks.deliveries(endpoint.id, page, limit, **wanted)
    )
    return [delivery for delivery, _ in rows]


class DeliveryLogContract(StoreContract):
    """What owners look up of their deliveries, and the newest events."""

    @pytest.mark.parametrize("group", DeliveryGroup)
    async def test_deliveries_are_found_by_their_group(self, store, group):
        """A group has the deliveries of its statuses, the newest first, in pages, of one
        endpoint."""
        endpoint, other = await add_endpoint(store), await add_endpoint(store)
        made = await add_delivery_of_each_status(store, endpoint)
        await add_delivery_of_each_status(store, other)
        expected = [made[status] for status in reversed(STATUSES) if status in group.statuses]
        assert await log(store, endpoint, group=group) == expected
        assert await log(store, endpoint, 1, 1, group=group) == expected[:2]
        assert await log(store, endpoint, 2, 1, group=group) == expected[1:3]

    async def test_every_status_is_in_one_group(self):
        """The groups share the statuses among them."""
        grouped = [status for group in DeliveryGroup for status in group.statuses]
        assert sorted(grouped) == sorted(STATUSES)

    async def test_deliveries_are_found_by_their_event(self, store):
        """An event's name finds its deliveries with their attempts, also within a group."""
        endpoint = await add_endpoint(store)
        booking = await add_booking(store)
        created, cancelled = [
            await add_delivery(store, endpoint, await add_event(store, booking, name=name))
            for name in (EventName.BOOKING_CREATED, EventName.BOOKING_CANCELLED)
        ]
        await add_attempts(store, created, attempt := make_attempt(1))
        name = str(EventName.BOOKING_CREATED)
        rows = await read_store(
            store, lambda view: view.webhooks.deliveries(endpoint.id, 1, 10, event=name)
        )
        assert [(delivery, list(attempts)) for delivery, attempts in rows] == [(created, [attempt])]
        unfinished = DeliveryGroup.UNFINISHED
        assert await log(store, endpoint, group=unfinished, event=name) == [created]
        assert await log(store, endpoint, group=DeliveryGroup.FAILED, event=name) == []
        assert await log(store, endpoint, event=cancelled.event) == [cancelled]

    async def test_failed_and_unfinished_deliveries_are_counted(self, store):
        """The counts of an endpoint have its failed and unfinished deliveries by status."""
        endpoint = await add_endpoint(store)
        for _ in range(2):
            await add_delivery_of_each_status(store, endpoint)
        counts = await read_store(store, lambda view: view.webhooks.delivery_counts(endpoint.id))
        counted = {*DeliveryGroup.UNFINISHED.statuses, DeliveryStatus.FAILED}
        assert dict(counts) == dict.fromkeys(counted, 2)
        empty = await add_endpoint(store)
        assert not await read_store(store, lambda view: view.webhooks.delivery_counts(empty.id))

    async def test_failed_deliveries_are_found_since_a_time(self, store):
        """Failed deliveries with an attempt at a time or later are found, the newest first and up
        to the limit, however old they are."""
        endpoint = await add_endpoint(store)
        await add_delivery_of_each_status(store, await add_endpoint(store))
        failed = []
        for hours in (2, 0, 1):
            delivery = await add_delivery(store, endpoint, status=DeliveryStatus.FAILED)
            attempts = (make_attempt(n, at=NOW + n * hours * HOUR / 2) for n in (1, 2))
            await add_attempts(store, delivery, *attempts)
            failed.append(delivery)
        await add_attempts(store, await add_delivery(store, endpoint), make_attempt())

        async def since(at, limit=10):
            return list(
                await read_store(
                    store, lambda view: view.webhooks.failed_deliveries(endpoint.id, at, limit)
                )
            )

        assert await since(NOW + HOUR) == [failed[2], failed[0]]
        assert await since(NOW, 2) == [failed[2], failed[1]]
        assert await since(NOW + 3 * HOUR) == []

    async def test_a_delivery_has_the_bytes_of_its_event(self, store):
        """The body of a delivery is that of its event, or its own; unknown deliveries have none."""
        endpoint, event = await add_endpoint(store), await add_event(store)
        delivery = await add_delivery(store, endpoint, event)
        new = make_new_delivery(
            endpoint.id, event_id="evt_test", event="webhook.test", status=DeliveryStatus.CANCELLED
        )
        own = await store.run_transaction(
            lambda unit: unit.webhooks.add_test_delivery(new, {"id": "evt_test"})
        )
        async with store.read_view() as view:
            stored = dict(await view.bookings.events_of(event.booking_id))
            assert await view.webhooks.delivery_body(delivery.id) == stored[event.sequence]
            assert await view.webhooks.delivery_body(own.delivery.id) == b'{"id":"evt_test"}'
            assert await view.webhooks.delivery_body(404) is None

    async def test_the_newest_events_are_read_backwards(self, store):
        """The feed is read from its end, below a position, by names, by one reader or all."""
        booking = await add_booking(store)
        names = (EventName.BOOKING_CREATED, EventName.BOOKING_CANCELLED, EventName.BOOKING_CREATED)
        events = [await add_event(store, booking, name=name) for name in names]
        await place_events(store)
        await add_event(store, booking)  # It has no position yet.
        stranger = await add_user(store)

        async def latest(reader_id=booking.customer_id, before=10_000, wanted=EventName, limit=10):
            return list(
                await read_store(
                    store,
                    lambda view: view.webhooks.feed_events_before(
                        reader_id, before, tuple(wanted), limit
                    ),
                )
            )

        found = await latest()
        positions = [position for position, _ in found]
        assert positions == sorted(positions, reverse=True)
        assert await latest(None) == found
        assert await latest(stranger.id) == []
        assert await latest(limit=2) == found[:2]
        assert await latest(before=positions[0]) == found[1:]
        async with store.read_view() as view:
            stored = dict(await view.bookings.events_of(booking.id))
        by_sequence = [stored[event.sequence] for event in reversed(events)]
        assert [body for _, body in found][-3:] == by_sequence
        cancelled = await latest(wanted=[EventName.BOOKING_CANCELLED])
        assert [body for _, body in cancelled] == [by_sequence[1]]
