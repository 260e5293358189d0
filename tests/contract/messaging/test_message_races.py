"""Races for conversations, messages and connections, in two processes on each database.

`RACE_ROUNDS` and `RACE_CALLERS` set their size (`make soak`).
"""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    NOW,
    add_booking,
    add_user,
    make_booking_write,
    next_revision,
)
from staffbooking_adapters.testing.builders_messages import (
    EVENT_REF,
    add_direct,
    add_messages,
    add_messages_by,
    add_pair,
    lock_group,
    make_new_message,
    read_marks,
)
from staffbooking_adapters.testing.store.base import read_store
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.messaging.conversations import MIN_GROUP_BOOKINGS, sync_group_members
from staffbooking_core.domain.privacy import ERASED_NAME
from staffbooking_core.errors import Forbidden
from staffbooking_core.usecases import privacy
from staffbooking_core.usecases.messaging import messages
from tests.contract.test_races import CALLERS, ROUNDS, alternate, at_once, ports, processes

pytestmark = pytest.mark.anyio

__all__ = ["ports", "processes"]

MAX_CONNECTIONS = 10


async def open_direct(store, pair):
    return await store.run_transaction(
        lambda unit: unit.messages.open_direct_conversation(pair, NOW)
    )


async def overviews(store, user_id):
    return list(await read_store(store, lambda view: view.messages.overviews(user_id, 1, 10, NOW)))


async def test_a_conversation_is_opened_once_by_many(processes):
    """Concurrent calls for one pair open one conversation and return its id."""
    for _ in range(ROUNDS):
        pair = await add_pair(processes[0])
        calls = [partial(open_direct, each, pair) for each in alternate(processes)]
        numbers = await at_once(calls)
        [shown] = await overviews(processes[0], pair.customer_id)
        assert numbers == [shown.conversation.id] * CALLERS


async def test_a_group_is_made_once_by_many(processes):
    """Concurrent locks of one customer's event create one group."""
    for _ in range(ROUNDS):
        customer = await add_user(processes[0])
        calls = [partial(lock_group, each, customer.id) for each in alternate(processes)]
        groups = await at_once(calls)
        assert [group.id for group in groups] == [groups[0].id] * CALLERS


async def move(store, booking, status):
    """Save a status of a booking with an event, and the group's members that follow from it."""

    async def unit(tx):
        await tx.bookings.save_booking(make_booking_write(next_revision(booking, status=status)))
        group = await tx.messages.lock_group(booking.customer_id, EVENT_REF, NOW)
        booked = await tx.messages.booked_companions(booking.customer_id, EVENT_REF)
        await tx.messages.save_group(
            sync_group_members(group, dict(booked)), is_open=len(booked) >= MIN_GROUP_BOOKINGS
        )

    await store.run_transaction(unit)


async def request(store, customer, **given):
    return await add_booking(store, customer=customer, event_ref=EVENT_REF, **given)


async def group_of(store, customer):
    [shown] = await overviews(store, customer.id)
    return shown.conversation


async def test_two_accepts_at_the_same_time_open_the_group(processes):
    """Two concurrent accepts add both companions to the group and open it."""
    store = processes[0]
    for _ in range(ROUNDS):
        customer = await add_user(store)
        await lock_group(store, customer.id)
        bookings = [await request(store, customer) for _ in processes]
        calls = [
            partial(move, each, booking, BookingStatus.ACCEPTED)
            for each, booking in zip(processes, bookings, strict=True)
        ]
        assert await at_once(calls) == [None, None]
        staff = tuple(booking.companion_id for booking in bookings)
        assert (await group_of(store, customer)).staff_ids == staff


async def test_a_joining_member_does_not_restore_a_leaving_one(processes):
    """A concurrent cancellation and accept remove one companion and add the other."""
    store = processes[0]
    for _ in range(ROUNDS):
        customer = await add_user(store)
        leaves, comes, stays = [await request(store, customer) for _ in range(3)]
        await move(store, stays, BookingStatus.ACCEPTED)
        await move(store, leaves, BookingStatus.ACCEPTED)
        calls = [
            partial(move, processes[0], next_revision(leaves), BookingStatus.CANCELLED),
            partial(move, processes[1], comes, BookingStatus.ACCEPTED),
        ]
        assert await at_once(calls) == [None, None]
        staff = (comes.companion_id, stays.companion_id)
        assert (await group_of(store, customer)).staff_ids == staff


async def mark_read(store, message, reader):
    return await store.run_transaction(
        lambda unit: unit.messages.mark_read(message.conversation_id, reader, message.id)
    )


async def test_the_highest_read_mark_is_kept(processes):
    """Concurrent marks leave the highest one, and each call returns at least its own."""
    conversation = await add_direct(processes[0])
    (reader,) = conversation.staff_ids
    for _ in range(ROUNDS):
        said = await add_messages_by(processes[0], conversation, *"abcdefgh")
        calls = [
            partial(mark_read, each, message, reader)
            for each, message in zip(alternate(processes, 8), said, strict=True)
        ]
        stored_marks = await at_once(calls)
        assert all(mark >= message.id for mark, message in zip(stored_marks, said, strict=True))
        assert (await read_marks(processes[1], conversation))[reader] == said[-1].id


async def send(store, new):
    """The message with the client id of `new`, which is added if it does not exist."""
    name = (new.conversation_id, new.sender_id, new.client_id)

    async def unit(tx):
        await tx.messages.lock_conversations([new.conversation_id])
        known = await tx.messages.messages_by_client_id([name])
        return known.get(name) or (await tx.messages.add_messages([new]))[0]

    return await store.run_transaction(unit)


async def test_a_message_sent_concurrently_is_stored_once(processes):
    """Concurrent sends with one client id store one message, which every call returns."""
    conversation = await add_direct(processes[0])
    for n in range(ROUNDS):
        new = make_new_message(conversation, client_id=f"No. {n}")
        results = await at_once([partial(send, each, new) for each in alternate(processes)])
        assert results == [results[0]] * CALLERS
    assert len(await tail(processes[0], limit=2 * ROUNDS)) == ROUNDS


@pytest.mark.parametrize("writer", ["customer", "staff"])
async def test_an_erased_user_leaves_no_message_text(ports, writer):
    """A message sent during its sender's erasure has its text erased or is not stored."""
    store = ports[0].store
    for _ in range(ROUNDS):
        conversation = await add_direct(store, status=BookingStatus.CANCELLED)
        [staff] = conversation.staff_ids
        sender = conversation.customer_id if writer == "customer" else staff
        letter = messages.MessageDraft(sender, conversation.id, "See you at nine")
        calls = [partial(messages.send_message, each, letter) for each in alternate(ports)]
        await at_once([partial(privacy.erase_person, ports[0], sender), *calls])
        reading = partial(newest, conversation.id)
        assert {message.content for message in await read_store(store, reading)} <= {ERASED_NAME}


@pytest.mark.parametrize("erased", ["customer", "staff"])
async def test_an_erased_user_gets_no_messages(ports, erased):
    """Nothing can be sent to an erased user; what was sent before stays readable, and a repetition
    of it returns it."""
    conversation = await add_direct(ports[0].store, status=BookingStatus.CANCELLED)
    [staff], customer = conversation.staff_ids, conversation.customer_id
    reader, writer = (customer, staff) if erased == "customer" else (staff, customer)
    letter = messages.MessageDraft(writer, conversation.id, "See you at nine", "first")
    sent = await messages.send_message(ports[0], letter)
    await privacy.erase_person(ports[0], reader)
    with pytest.raises(Forbidden) as refusal:
        await messages.send_message(ports[0], evolve(letter, client_id="second"))
    assert refusal.value.code == "conversation_left"
    assert await messages.send_message(ports[0], letter) == sent
    assert [each.id for each in await read_store(ports[0].store, partial(newest, conversation.id))]


async def newest(conversation_id, view):
    return await view.messages.messages_before(conversation_id, None, 2**62, 100)


async def tail(store, after=0, limit=20):
    """The ids of the next messages."""
    found = await read_store(store, lambda view: view.messages.all_messages_after(after, limit))
    return [message.id for message in found]


async def test_a_reader_misses_nothing(processes):
    """Reading from the last seen id returns each message once during concurrent sends."""
    one, other = processes
    conversations = [await add_direct(one) for _ in range(4)]
    everything_is_sent = asyncio.Event()

    async def send_some(store, n):
        for _ in range(ROUNDS):
            talk = [conversations[n % 4], conversations[(n + 1) % 4]]
            await add_messages(store, *map(make_new_message, talk))

    async def follow_tail():
        seen: list[int] = []
        while True:
            is_last = everything_is_sent.is_set()
            some = await tail(other, *seen[-1:])
            seen += some
            if is_last and not some:
                return seen

    reader = asyncio.create_task(follow_tail())
    calls = [partial(send_some, each, n) for n, each in enumerate(alternate(processes))]
    assert await at_once(calls) == [None] * CALLERS
    everything_is_sent.set()
    assert await reader == await tail(one, limit=2 * CALLERS * ROUNDS + 1)


async def connect(store, user_id, node):
    return await store.run_transaction(
        lambda unit: unit.presence.add_connection(user_id, node, NOW, MAX_CONNECTIONS)
    )


async def test_connections_at_the_same_time_are_counted(processes):
    """Of 20 concurrent connections of a user in two processes exactly 10 are accepted."""
    store = processes[0]
    for node in ("a", "b"):
        await store.run_transaction(
            lambda unit, node=node: unit.presence.renew_node_lease(node, NOW + DAY)
        )
    for _ in range(ROUNDS):
        user = await add_user(store)
        calls = [
            partial(connect, each, user.id, node)
            for each, node in zip(alternate(processes, 20), alternate("ab", 20), strict=True)
        ]
        assert sorted(await at_once(calls)) == [False] * 10 + [True] * 10
