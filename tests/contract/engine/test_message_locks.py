"""Locks of conversations, messages and presence on PostgreSQL: of two concurrent transactions, one
waits for the other to commit, and then reads what it committed."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from staffbooking_adapters.testing.builders import (
    DAY,
    NOW,
    add_booking,
    add_companion,
    add_user,
    make_booking_write,
    next_revision,
)
from staffbooking_adapters.testing.builders_messages import (
    EVENT_REF,
    add_direct,
    add_group,
    add_messages_by,
    add_pair,
    lock_group,
    make_new_message,
    reload_conversation,
)
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.messaging.conversations import MIN_GROUP_BOOKINGS, sync_group_members
from staffbooking_core.errors import InvalidField
from tests.contract.webhooks.test_webhook_races import WAITING, postgres, run_concurrently

pytestmark = pytest.mark.anyio

__all__ = ["postgres"]


async def messages_after(store, after=0):
    """The ids and texts of the messages after an id."""
    some = await read_store(store, lambda view: view.messages.all_messages_after(after, 100))
    return [(message.id, message.content) for message in some]


def add_message(conversation, content):
    async def unit(tx):
        await tx.messages.lock_conversations([conversation.id])
        return await tx.messages.add_messages([make_new_message(conversation, content=content)])

    return unit


def accept(booking):
    """A unit of work that accepts a booking with an event and saves its group."""

    async def unit(tx):
        await tx.bookings.save_booking(
            make_booking_write(next_revision(booking, status=BookingStatus.ACCEPTED))
        )
        group = await tx.messages.lock_group(booking.customer_id, EVENT_REF, NOW)
        booked = await tx.messages.booked_companions(booking.customer_id, EVENT_REF)
        await tx.messages.save_group(
            sync_group_members(group, dict(booked)), is_open=len(booked) >= MIN_GROUP_BOOKINGS
        )

    return unit


async def add_requests(store):
    """Add two bookings of one customer with the same event."""
    customer = await add_user(store)
    companions = [await add_companion(store) for _ in "ab"]
    return [await add_booking(store, each, customer, event_ref=EVENT_REF) for each in companions]


# Ids --------------------------------------------------------------------------------------


@asynccontextmanager
async def uncommitted(store, unit):
    """Run a unit of work whose transaction commits when the context ends."""
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
    """Whether a task waits for another transaction before it ends."""
    while not task.done() and not await store.database.fetch_value(WAITING):
        pass
    return not task.done()


async def test_messages_are_seen_in_the_order_of_their_ids(postgres):
    """A transaction that adds messages waits for an open one that did, in any conversation, so
    readers see the ids in order and without gaps."""
    one, other = postgres
    first, second = await add_direct(one), await add_direct(one)
    async with uncommitted(one, add_message(first, "sooner")):
        later = asyncio.create_task(other.run_transaction(add_message(second, "later")))
        assert await has_to_wait(other, later)
        assert await messages_after(one) == []
    await later
    assert await messages_after(one) == [(1, "sooner"), (2, "later")]


async def test_readers_do_not_wait(postgres):
    """While a transaction adds messages, others read the committed ones without waiting."""
    one, other = postgres
    first, second = await add_direct(one), await add_direct(one)
    await add_messages_by(one, first, "before")
    async with uncommitted(one, add_message(second, "sooner")):
        assert await messages_after(other) == [(1, "before")]
        assert await read_store(other, lambda view: view.messages.last_message_id()) == 1


async def test_a_lock_reads_the_committed_conversation(postgres):
    """A lock that waited gives the members and the last message that were committed."""
    one, other = postgres
    group = await add_group(one)
    leaving, staying = group.staff_ids
    coming = await add_companion(one)

    async def unit(tx):
        [message] = await add_message(group, "so long")(tx)
        held = await tx.messages.lock_conversations([group.id])
        booked = {staying: "Noa Levi", coming.id: "Mia Lindqvist"}
        await tx.messages.save_group(sync_group_members(held[group.id], booked), is_open=False)
        return message

    async def hold(tx):
        return (await tx.messages.lock_conversations([group.id]))[group.id]

    message, held = await run_concurrently(postgres, unit, lambda: other.run_transaction(hold))
    assert held == await reload_conversation(one, group)
    assert held.last_id == message.id
    assert held.recipient_ids == (group.customer_id, staying, coming.id)
    assert leaving in [member.user_id for member in held.members]


# Groups -----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_made", [False, True])
async def test_two_accepts_see_each_other(postgres, is_made):
    """Two concurrent accepts open one group with both companions, whether it existed before or
    not."""
    one, other = postgres
    bookings = await add_requests(one)
    if is_made:
        await lock_group(one, bookings[0].customer_id)
    accepts = [accept(booking) for booking in bookings]
    await run_concurrently(postgres, accepts[0], lambda: other.run_transaction(accepts[1]))
    [shown] = await read_store(
        one, lambda view: view.messages.overviews(bookings[0].customer_id, 1, 9, NOW)
    )
    members = sorted((bookings[0].customer_id, *(each.companion_id for each in bookings)))
    assert list(shown.conversation.recipient_ids) == members


async def test_concurrent_opens_give_one_conversation(postgres):
    """Two transactions that open the same direct conversation get the same one."""
    one, other = postgres
    pair = await add_pair(one)

    async def open_it(tx):
        return await tx.messages.open_direct_conversation(pair, NOW)

    first, second = await run_concurrently(
        postgres, open_it, lambda: other.run_transaction(open_it)
    )
    assert first == second


# Connections ------------------------------------------------------------------------------


async def test_concurrent_connections_are_counted_in_turn(postgres):
    """With a limit of one connection, the second of two concurrent ones is refused, though it is on
    another node."""
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

    taken = await run_concurrently(
        postgres, connecting("a"), lambda: other.run_transaction(connecting("b"))
    )
    assert taken == (True, False)


async def test_removing_both_connections_ends_presence(postgres):
    """A user is offline after both connections on a node were removed concurrently."""
    one, other = postgres
    user = await add_user(one)
    await one.run_transaction(lambda unit: unit.presence.renew_node_lease("a", NOW + DAY))
    for _ in range(2):
        await one.run_transaction(lambda unit: unit.presence.add_connection(user.id, "a", NOW, 10))

    async def end(tx):
        await tx.presence.remove_connection(user.id, "a", NOW)

    await run_concurrently(postgres, end, lambda: other.run_transaction(end))
    [presence] = await read_store(one, lambda view: view.presence.presence([user.id], NOW))
    assert not presence.online


async def test_renewing_a_deleted_node_returns_false(postgres):
    """Renewing the lease of a node that is deleted concurrently returns False."""
    one, other = postgres
    await one.run_transaction(lambda unit: unit.presence.renew_node_lease("a", NOW))

    async def delete_expired(tx):
        await tx.presence.delete_expired_nodes(NOW, 10)

    async def renew(tx):
        return await tx.presence.renew_node_lease("a", NOW + DAY)

    _, is_known = await run_concurrently(
        postgres, delete_expired, lambda: other.run_transaction(renew)
    )
    assert not is_known


# Values -----------------------------------------------------------------------------------


async def test_a_text_with_a_nul_is_refused(postgres):
    """A NUL in a text raises InvalidField for `content`, and no message is added."""
    conversation = await add_direct(postgres[0])
    with pytest.raises(InvalidField, match="content"):
        await add_messages_by(postgres[0], conversation, "fine", "a\0b")
    assert await messages_after(postgres[0]) == []
