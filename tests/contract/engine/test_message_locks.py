"""Units of work on conversations and messages that meet on PostgreSQL: one of them waits for the
other to commit, and goes on from what it finds then."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.messaging.conversations import MIN_GROUP_BOOKINGS, sync_group_members
from staffbooking_core.errors import InvalidField
from tests.contract.stores import read_store
from tests.contract.webhooks.test_webhook_races import WAITING, meeting, postgres
from tests.support.builders import (
    DAY,
    NOW,
    add_booking,
    add_companion,
    add_user,
    make_booking_write,
    next_version,
)
from tests.support.messages import (
    EVENT_REF,
    add_direct,
    add_group,
    add_messages_by,
    add_pair,
    lock_group,
    make_new_message,
    reload_conversation,
)

pytestmark = pytest.mark.anyio

__all__ = ["postgres"]


async def tail(store, after=0):
    """The texts of the next messages of all, with their ids."""
    some = await read_store(store, lambda view: view.messages.all_messages_after(after, 100))
    return [(message.id, message.content) for message in some]


def adding(conversation, content):
    async def unit(tx):
        await tx.messages.lock_conversations([conversation.id])
        return await tx.messages.add_messages([make_new_message(conversation, content=content)])

    return unit


def accepting(booking):
    """A step of a booking that has an event, as it is done with each."""

    async def unit(tx):
        await tx.bookings.save_booking(
            make_booking_write(next_version(booking, status=BookingStatus.ACCEPTED))
        )
        group = await tx.messages.lock_group(booking.customer_id, EVENT_REF, NOW)
        booked = await tx.messages.booked_companions(booking.customer_id, EVENT_REF)
        await tx.messages.save_group(
            sync_group_members(group, dict(booked)), is_open=len(booked) >= MIN_GROUP_BOOKINGS
        )

    return unit


async def add_requests(store):
    """Two bookings of an event, of one customer."""
    customer = await add_user(store)
    companions = [await add_companion(store) for _ in "ab"]
    return [await add_booking(store, each, customer, event_ref=EVENT_REF) for each in companions]


# Ids --------------------------------------------------------------------------------------


@asynccontextmanager
async def all_but_committed(store, unit):
    """As long as the context is open a unit of work has done everything but commit."""
    entered, leave = asyncio.Event(), asyncio.Event()

    async def open_ended(tx):
        await unit(tx)
        entered.set()
        await leave.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(store.run_transaction(open_ended))
        await entered.wait()
        yield
        leave.set()


async def has_to_wait(store, task):
    """Whether a task comes to wait for another transaction before it ends."""
    while not task.done() and not await store.database.fetch_value(WAITING):
        pass
    return not task.done()


async def test_messages_are_seen_in_the_order_of_their_ids(postgres):
    """Of any two conversations: who comes second gets no id before the first has committed,
    so a reader in between sees neither of them, and no gap."""
    one, other = postgres
    first, second = await add_direct(one), await add_direct(one)
    async with all_but_committed(one, adding(first, "sooner")):
        later = asyncio.create_task(other.run_transaction(adding(second, "later")))
        assert await has_to_wait(other, later)
        assert await tail(one) == []
    await later
    assert await tail(one) == [(1, "sooner"), (2, "later")]


async def test_who_only_reads_waits_for_nobody(postgres):
    """All that was committed is there while more is about to be."""
    one, other = postgres
    first, second = await add_direct(one), await add_direct(one)
    await add_messages_by(one, first, "before")
    async with all_but_committed(one, adding(second, "sooner")):
        assert await tail(other) == [(1, "before")]
        assert await read_store(other, lambda view: view.messages.last_message_id()) == 1


async def test_who_holds_a_conversation_sees_what_was_done_to_it(postgres):
    """Who left meanwhile is gone, who came is there, and the last message is the last."""
    one, other = postgres
    group = await add_group(one)
    leaving, staying = group.staff_ids
    coming = await add_companion(one)

    async def unit(tx):
        [message] = await adding(group, "so long")(tx)
        held = await tx.messages.lock_conversations([group.id])
        booked = {staying: "Noa Levi", coming.id: "Mia Lindqvist"}
        await tx.messages.save_group(sync_group_members(held[group.id], booked), is_open=False)
        return message

    async def hold(tx):
        return (await tx.messages.lock_conversations([group.id]))[group.id]

    message, held = await meeting(postgres, unit, lambda: other.run_transaction(hold))
    assert held == await reload_conversation(one, group)
    assert held.last_id == message.id
    assert held.recipient_ids == (group.customer_id, staying, coming.id)
    assert leaving in [member.user_id for member in held.members]


# Groups -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_made", [False, True])
async def test_two_accepts_see_each_other(postgres, is_made):
    """The second finds the first one's booking, whether the group was there before or the
    first is about to make it: so it opens, with both in it."""
    one, other = postgres
    bookings = await add_requests(one)
    if is_made:
        await lock_group(one, bookings[0].customer_id)
    accepts = [accepting(booking) for booking in bookings]
    await meeting(postgres, accepts[0], lambda: other.run_transaction(accepts[1]))
    [shown] = await read_store(
        one, lambda view: view.messages.overviews(bookings[0].customer_id, 1, 9, NOW)
    )
    members = sorted((bookings[0].customer_id, *(each.companion_id for each in bookings)))
    assert list(shown.conversation.recipient_ids) == members


async def test_a_conversation_is_opened_by_the_first(postgres):
    """The second waits, and gets the same."""
    one, other = postgres
    pair = await add_pair(one)

    async def open_it(tx):
        return await tx.messages.open_direct_conversation(pair, NOW)

    first, second = await meeting(postgres, open_it, lambda: other.run_transaction(open_it))
    assert first == second


# Connections ------------------------------------------------------------------------------


async def test_a_connection_is_counted_after_the_one_before_it(postgres):
    """Where one more is allowed, the second of two at the same time is one too many, though
    it comes to another node."""
    one, other = postgres
    user = await add_user(one)
    for node in "ab":
        await one.run_transaction(
            lambda unit, node=node: unit.presence.renew_node_lease(node, NOW + DAY)
        )

    def connecting(node):
        async def unit(tx):
            return await tx.presence.add_connection(user.id, node, NOW, 1)

        return unit

    taken = await meeting(postgres, connecting("a"), lambda: other.run_transaction(connecting("b")))
    assert taken == (True, False)


async def test_the_last_of_two_connections_is_known_to_be(postgres):
    """Two that end at the same moment at one node leave nobody connected."""
    one, other = postgres
    user = await add_user(one)
    await one.run_transaction(lambda unit: unit.presence.renew_node_lease("a", NOW + DAY))
    for _ in range(2):
        await one.run_transaction(lambda unit: unit.presence.add_connection(user.id, "a", NOW, 10))

    async def end(tx):
        await tx.presence.remove_connection(user.id, "a", NOW)

    await meeting(postgres, end, lambda: other.run_transaction(end))
    [presence] = await read_store(one, lambda view: view.presence.presence([user.id], NOW))
    assert not presence.online


async def test_a_node_that_is_buried_meanwhile_begins_anew(postgres):
    """Its beat comes too late: it is told, and can restore what it has."""
    one, other = postgres
    await one.run_transaction(lambda unit: unit.presence.renew_node_lease("a", NOW))

    async def bury(tx):
        await tx.presence.delete_expired_nodes(NOW, 10)

    async def renew(tx):
        return await tx.presence.renew_node_lease("a", NOW + DAY)

    _, is_known = await meeting(postgres, bury, lambda: other.run_transaction(renew))
    assert not is_known


# Values -----------------------------------------------------------------------------------


async def test_a_text_with_a_nul_is_refused(postgres):
    """With all else of its unit of work, and it is named."""
    conversation = await add_direct(postgres[0])
    with pytest.raises(InvalidField, match="content"):
        await add_messages_by(postgres[0], conversation, "fine", "a\0b")
    assert await tail(postgres[0]) == []
