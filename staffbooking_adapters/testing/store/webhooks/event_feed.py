"""Contract of the stores: events, their positions and the feeds of their readers."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    add_booking,
    add_companion,
    add_subscriber,
    add_user,
    make_booking,
    make_booking_write,
    make_event,
    next_booking_id,
    next_revision,
)
from staffbooking_adapters.testing.builders_webhooks import add_event, place_events, published_event
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.bookings.lifecycle import EventName


async def unsequenced(store, limit=100):
    return list(await store.run_transaction(lambda unit: unit.webhooks.unsequenced_events(limit)))


async def last_position(store):
    return await store.run_transaction(lambda unit: unit.webhooks.lock_feed())


async def has_unsequenced(store):
    return await read_store(store, lambda view: view.webhooks.has_unsequenced_events())


async def feed(store, reader=None, after=0, limit=100, names=tuple(EventName)):
    reader_id = None if reader is None else reader.id
    return list(
        await read_store(
            store, lambda view: view.webhooks.feed_events_after(reader_id, after, names, limit)
        )
    )


async def position(store, event, reader=None):
    reader_id = None if reader is None else reader.id
    return await read_store(store, lambda view: view.webhooks.feed_position(event.id, reader_id))


async def bodies(store, *events):
    """The bytes of events as stored with their bookings."""
    async with store.read_view() as view:
        return [
            dict(await view.bookings.events_of(event.booking_id))[event.sequence]
            for event in events
        ]


class EventFeedContract(StoreContract):
    """Events, their positions and the feeds of their readers."""

    async def test_a_store_without_events_has_an_empty_feed(self, store):
        """A store with a booking and no event has no unsequenced event, position or feed."""
        await add_booking(store)
        assert not await has_unsequenced(store)
        assert [await unsequenced(store), await last_position(store), await feed(store)] == [
            [],
            0,
            [],
        ]

    async def test_a_committed_event_is_unsequenced(self, store):
        """Committed events are unsequenced, with name, sequence and parties, in commit order."""
        companion, customer, agency = (
            await add_companion(store),
            await add_user(store),
            await add_subscriber(store),
        )
        booking = await add_booking(store, companion, customer, booked_by=agency.id)
        first = await add_event(store, booking, name=EventName.BOOKING_CANCELLED)
        second = await add_event(store)
        assert await has_unsequenced(store)
        assert await unsequenced(store) == [published_event(first), published_event(second)]
        assert published_event(first).parties == (companion.id, customer.id, agency.id)

    async def test_an_event_of_a_new_booking_is_unsequenced(self, store):
        """An event that is stored with a new booking is unsequenced."""
        booking = evolve(
            make_booking(
                id=await next_booking_id(store),
                companion_id=(await add_companion(store)).id,
                customer_id=(await add_user(store)).id,
            ),
            events=1,
        )
        event = make_event(booking)
        await store.add_booking(make_booking_write(booking, event=event))
        assert await unsequenced(store) == [published_event(event)]

    async def test_a_rolled_back_event_is_not_stored(self, store):
        """An event of a rolled-back transaction is not unsequenced."""
        booking = await add_booking(store)
        step = next_revision(booking, events=1)

        async def unit(tx):
            await tx.bookings.save_booking(make_booking_write(step, event=make_event(step)))
            raise LookupError

        with pytest.raises(LookupError):
            await store.run_transaction(unit)
        assert not await has_unsequenced(store)

    async def test_events_are_sequenced_in_batches(self, store):
        """Unsequenced events are returned in commit order, up to the limit, until they have a
        position."""
        events = [await add_event(store) for _ in range(3)]
        assert await unsequenced(store, 2) == [published_event(each) for each in events[:2]]
        await place_events(store, 2)
        assert await unsequenced(store, 2) == [published_event(events[2])]
        await place_events(store, 2)
        assert not await has_unsequenced(store)

    async def test_events_of_a_booking_are_returned_together(self, store):
        """All unsequenced events of a booking are returned with its first one, above the limit."""
        booking = await add_booking(store)
        await add_event(store, booking)
        await place_events(store)
        own = [await add_event(store, booking)]
        other = await add_event(store)
        own += [await add_event(store, booking) for _ in range(2)]
        found = await unsequenced(store, 1)
        assert {each.id for each in found} == {each.id for each in own}
        assert {each.id for each in await unsequenced(store)} == {each.id for each in (*own, other)}

    async def test_positions_are_consecutive(self, store):
        """Positions start at 1 and are consecutive over transactions; locking returns the last."""
        events = [await add_event(store) for _ in range(3)]
        await place_events(store, 2)
        assert await last_position(store) == 2
        await place_events(store)
        assert await last_position(store) == 3
        assert [await position(store, event) for event in events] == [1, 2, 3]

    async def test_positions_are_rolled_back_with_their_transaction(self, store):
        """An event whose position was rolled back is unsequenced and in no feed."""
        event = await add_event(store)

        async def unit(tx):
            await tx.webhooks.save_feed_positions(
                [(published_event(event), await tx.webhooks.lock_feed() + 1)]
            )
            raise LookupError

        with pytest.raises(LookupError):
            await store.run_transaction(unit)
        assert [await last_position(store), await unsequenced(store)] == [
            0,
            [published_event(event)],
        ]
        assert [await position(store, event), await feed(store)] == [None, []]

    async def test_an_event_has_one_position_for_all_its_readers(self, store):
        """An event has the same position for its parties and in the feed of all, and none for
        others."""
        companion, customer, stranger = (
            await add_companion(store),
            await add_user(store),
            await add_user(store),
        )
        await add_event(store)
        event = await add_event(store, await add_booking(store, companion, customer))
        assert await position(store, event) is None
        assert await position(store, event, customer) is None
        await place_events(store)
        readers = [None, companion, customer, stranger]
        assert [await position(store, event, reader) for reader in readers] == [2, 2, 2, None]
        assert await position(store, evolve(event, id="evt_404")) is None

    async def test_a_feed_is_read_from_a_position(self, store):
        """A feed has the unchanged bytes of the events above a position, in order, up to the
        limit."""
        events = [await add_event(store) for _ in range(5)]
        await place_events(store)
        await add_event(store)
        expected = await bodies(store, *events)
        assert await feed(store) == expected
        assert await feed(store, after=1, limit=3) == expected[1:4]
        assert [await feed(store, after=n) for n in (4, 5, 9)] == [expected[4:], [], []]

    async def test_a_feed_has_the_named_events(self, store):
        """A feed has the events with the given names only, and the limit counts those."""
        customer = await add_user(store)
        booking = await add_booking(store, None, customer)
        told, other = EventName.PAYOUT_PAID, EventName.BOOKING_UPDATED
        events = [await add_event(store, booking, name=name) for name in (other, told) * 2]
        await place_events(store)
        wanted = await bodies(store, events[1], events[3])
        for reader in (None, customer):
            assert await feed(store, reader, limit=2, names=(told,)) == wanted
            assert await feed(store, reader, names=(EventName.BOOKING_CREATED,)) == []

    async def test_a_readers_feed_has_its_own_events(self, store):
        """A reader's feed has the events of the reader's own bookings only, with the same
        paging."""
        customer, agency = await add_user(store), await add_subscriber(store)
        own = [
            await add_booking(store, None, customer, booked_by=agency.id),
            await add_booking(store),
        ]
        events = [await add_event(store, own[n % 2]) for n in range(6)]
        await place_events(store)
        mine = await bodies(store, *events[::2])
        assert await feed(store, customer) == await feed(store, agency) == mine
        after = await position(store, events[0], customer)
        assert await feed(store, customer, after, 1) == mine[1:2]
        assert await feed(store, await add_user(store)) == []
