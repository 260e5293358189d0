"""Events, their positions, and the feeds of their readers, on every store alike."""

from __future__ import annotations

import pytest
from attrs import evolve

from staffbooking_core.domain.bookings.lifecycle import EventName
from tests.contract.stores import read_store
from tests.support.builders import (
    add_booking,
    add_companion,
    add_subscriber,
    add_user,
    make_booking,
    make_booking_write,
    make_event,
    next_booking_id,
    next_version,
)
from tests.support.webhooks import add_event, place_events, published_event

pytestmark = pytest.mark.anyio


async def unplaced(store, limit=100):
    return list(await store.run_transaction(lambda unit: unit.webhooks.unsequenced_events(limit)))


async def last_position(store):
    return await store.run_transaction(lambda unit: unit.webhooks.lock_feed())


async def has_unplaced(store):
    return await read_store(store, lambda view: view.webhooks.has_unsequenced_events())


async def feed(store, reader=None, after=0, limit=100):
    reader_id = None if reader is None else reader.id
    return list(
        await read_store(
            store, lambda view: view.webhooks.feed_events_after(reader_id, after, limit)
        )
    )


async def position(store, event, reader=None):
    reader_id = None if reader is None else reader.id
    return await read_store(store, lambda view: view.webhooks.feed_position(event.id, reader_id))


async def bodies(store, *events):
    """The bytes of events, as their bookings have them."""
    async with store.read_view() as view:
        return [
            dict(await view.bookings.events_of(event.booking_id))[event.sequence]
            for event in events
        ]


async def test_no_event_is_unplaced_at_first(store):
    """A store without events has no position either; a booking alone is no event."""
    await add_booking(store)
    assert not await has_unplaced(store)
    assert [await unplaced(store), await last_position(store), await feed(store)] == [[], 0, []]


async def test_a_committed_event_is_unplaced(store):
    """With its name, sequence and parties as they were told, the first made first."""
    companion, customer, agency = (
        await add_companion(store),
        await add_user(store),
        await add_subscriber(store),
    )
    booking = await add_booking(store, companion, customer, booked_by=agency.id)
    first = await add_event(store, booking, name=EventName.BOOKING_CANCELLED)
    second = await add_event(store)
    assert await has_unplaced(store)
    assert await unplaced(store) == [published_event(first), published_event(second)]
    assert published_event(first).parties == (companion.id, customer.id, agency.id)


async def test_an_event_of_a_new_booking_is_unplaced(store):
    """Also where it comes with the booking's first step."""
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
    assert await unplaced(store) == [published_event(event)]


async def test_an_event_that_is_rolled_back_is_none(store):
    """It was never told."""
    booking = await add_booking(store)
    step = next_version(booking, events=1)

    async def unit(tx):
        await tx.bookings.save_booking(make_booking_write(step, event=make_event(step)))
        raise LookupError

    with pytest.raises(LookupError):
        await store.run_transaction(unit)
    assert not await has_unplaced(store)


async def test_some_events_are_placed_at_a_time(store):
    """The first made, about as many as asked for; once placed they are left out."""
    events = [await add_event(store) for _ in range(3)]
    assert await unplaced(store, 2) == [published_event(each) for each in events[:2]]
    await place_events(store, 2)
    assert await unplaced(store, 2) == [published_event(events[2])]
    await place_events(store, 2)
    assert not await has_unplaced(store)


async def test_a_bookings_events_are_placed_together(store):
    """Where one of them is among the first, all that have no position yet come along."""
    booking = await add_booking(store)
    await add_event(store, booking)
    await place_events(store)
    own = [await add_event(store, booking)]
    other = await add_event(store)
    own += [await add_event(store, booking) for _ in range(2)]
    found = await unplaced(store, 1)
    assert {each.id for each in found} == {each.id for each in own}
    assert {each.id for each in await unplaced(store)} == {each.id for each in (*own, other)}


async def test_positions_rise_one_by_one(store):
    """From 1, over any number of steps; the last one is known to who holds the feed."""
    events = [await add_event(store) for _ in range(3)]
    await place_events(store, 2)
    assert await last_position(store) == 2
    await place_events(store)
    assert await last_position(store) == 3
    assert [await position(store, event) for event in events] == [1, 2, 3]


async def test_positions_are_undone_with_their_unit(store):
    """An event whose placing was rolled back is placed by the next."""
    event = await add_event(store)

    async def unit(tx):
        await tx.webhooks.save_feed_positions(
            [(published_event(event), await tx.webhooks.lock_feed() + 1)]
        )
        raise LookupError

    with pytest.raises(LookupError):
        await store.run_transaction(unit)
    assert [await last_position(store), await unplaced(store)] == [0, [published_event(event)]]
    assert [await position(store, event), await feed(store)] == [None, []]


async def test_an_event_stands_in_its_readers_feeds(store):
    """At the same place for each party, and for who sees all; nowhere for others."""
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


async def test_a_feed_is_read_from_a_position(store):
    """The very bytes of the events beyond it, in the order of positions, up to a limit."""
    events = [await add_event(store) for _ in range(5)]
    await place_events(store)
    await add_event(store)
    expected = await bodies(store, *events)
    assert await feed(store) == expected
    assert await feed(store, after=1, limit=3) == expected[1:4]
    assert [await feed(store, after=n) for n in (4, 5, 9)] == [expected[4:], [], []]


async def test_a_readers_feed_has_its_own_events(store):
    """Of bookings in which it has part, and no others, paged as the whole feed is."""
    customer, agency = await add_user(store), await add_subscriber(store)
    own = [await add_booking(store, None, customer, booked_by=agency.id), await add_booking(store)]
    events = [await add_event(store, own[n % 2]) for n in range(6)]
    await place_events(store)
    mine = await bodies(store, *events[::2])
    assert await feed(store, customer) == await feed(store, agency) == mine
    after = await position(store, events[0], customer)
    assert await feed(store, customer, after, 1) == mine[1:2]
    assert await feed(store, await add_user(store)) == []
