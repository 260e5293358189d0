"""Group conversations follow the confirmed bookings of an event."""

from __future__ import annotations

from typing import cast

import anyio
import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import add_companion
from staffbooking_adapters.testing.builders_messages import EVENT_REF
from staffbooking_core.domain.accounts.users import Actor, Role
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Trigger
from staffbooking_core.errors import StoreUnavailable
from staffbooking_core.ports import MessagesWritePort
from staffbooking_core.usecases.messaging import messages
from tests.support.memory_deployment import with_another_companion

pytestmark = pytest.mark.anyio

FOLLOWS = "staffbooking_core.usecases.booking_writes.update_event_group"


async def groups(scene, actor=None):
    """The groups of a user."""
    listed = await messages.list_conversations(scene.ports, actor or scene.customer, 1, 100)
    return [one.conversation for one in listed if one.conversation.event_ref is not None]


async def parts(scene, count):
    """Scenes of several companions for the same event."""
    return [await with_another_companion(scene) for _ in range(count)]


async def test_accepts_at_the_same_time_see_each_other(scene):
    """Concurrent accepts create one group with all companions."""
    several = await parts(scene, 4)
    asked = [await one.request(event_ref=EVENT_REF) for one in several]
    async with anyio.create_task_group() as tasks:
        for one, booking in zip(several, asked, strict=True):
            tasks.start_soon(one.accept, booking)
    [group] = await groups(scene)
    staff = [one.staff.user_id for one in several]
    assert group.recipient_ids == tuple(sorted([scene.customer.user_id, *staff]))


async def test_a_group_opens_with_two_at_the_same_time(scene):
    """A group opens with two simultaneous bookings and stays open."""
    first, second = await parts(scene, 2)
    one = await first.accepted(event_ref=EVENT_REF)
    await first.cancel(one)
    other = await second.accepted(event_ref=EVENT_REF)
    assert await groups(scene) == []
    again = await first.accepted(event_ref=EVENT_REF)
    for booking in (again, other):
        await scene.cancel(booking)
    [group] = await groups(scene)
    assert group.recipient_ids == (scene.customer.user_id,)


async def test_what_fails_leaves_the_group_as_it_was(scene, monkeypatch):
    """A failed transaction leaves the group unchanged."""
    several = await parts(scene, 3)
    for one in several[:2]:
        await one.accepted(event_ref=EVENT_REF)
    [before] = await groups(scene)

    async def follow_event(*given):
        await messages.update_event_group(*given)
        raise StoreUnavailable("gone")

    booking = await several[2].request(event_ref=EVENT_REF)
    monkeypatch.setattr(FOLLOWS, follow_event)
    with pytest.raises(StoreUnavailable):
        await several[2].accept(booking)
    assert await groups(scene) == [before]


async def test_only_a_change_of_who_is_booked_is_followed(scene, monkeypatch):
    """Transitions that keep the booking confirmed, or without an event, read no group."""
    first, second, third = await parts(scene, 3)
    bookings = [await one.accepted(event_ref=EVENT_REF) for one in (first, second)]
    moves, no_port = set(), cast("MessagesWritePort", None)

    async def follow_event(_, before, after, now):
        moves.add((before.status, after.status))
        await messages.update_event_group(no_port, before, after, now)

    monkeypatch.setattr(FOLLOWS, follow_event)
    bookings.append(await third.accepted())
    for booking in bookings:
        await scene.simulate_checkout(booking)
    await scene.drain()
    await scene.jump_to(bookings[0].ends_at)
    for booking in bookings:
        await scene.apply_trigger(booking, Trigger.CONFIRM, scene.customer)
    assert moves > {
        (BookingStatus.ACCEPTED, BookingStatus.PAID),
        (BookingStatus.PAID, BookingStatus.COMPLETED),
    }


async def test_the_group_tells_who_is_named_how(scene):
    """Members have the names of their accounts."""
    store = scene.ports.store
    noa = await add_companion(store, first_name="Noa", last_name="Levi")
    second = evolve(scene, staff=Actor(noa.id, Role.STAFF))
    for one in (scene, second):
        await one.accepted(event_ref=EVENT_REF)
    [group] = await groups(scene)
    assert {one.name for one in group.members} == {"Ada Okoro", "Mia Lindqvist", "Noa Levi"}
