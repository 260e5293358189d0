"""Notifications of unread messages to offline users, on every store."""

from __future__ import annotations

import asyncio

import pytest

from staffbooking_core.ports import UnreadMessage
from tests.support.builders import HOUR, NOW
from tests.support.messages import add_direct, add_group, add_messages_by, save_group_members

pytestmark = pytest.mark.anyio


async def unseen(store, *messages):
    """The unread messages among some messages, or among all."""
    async with store.read_view() as view:
        asked = messages or await view.messages.all_messages_after(0, 100)
    numbers = [message.id for message in asked]
    return list(await store.run_transaction(lambda tx: tx.messages.unread_messages(numbers, NOW)))


async def whom(store, *messages):
    """Each message with the users to notify."""
    return [(each.message_id, each.user_id) for each in await unseen(store, *messages)]


async def note(store):
    """Mark every message as notified to every user."""
    found = await unseen(store)
    await store.run_transaction(lambda tx: tx.messages.mark_notified(found))


async def read(store, talk, user_id, message):
    await store.run_transaction(lambda tx: tx.messages.mark_read(talk.id, user_id, message.id))


async def test_an_unread_message_is_unseen_by_all_but_its_sender(store):
    """An unread message is returned for every member but its sender, by message and user."""
    direct, group = await add_direct(store), await add_group(store)
    [one] = await add_messages_by(store, direct, "hello")
    [two] = await add_messages_by(store, group, "hello", by=group.staff_ids[0])
    others = sorted({*group.recipient_ids} - {group.staff_ids[0]})
    [companion_id] = direct.staff_ids
    assert await unseen(store) == [
        UnreadMessage(direct.id, companion_id, one.id, one.sender_name),
        *(UnreadMessage(group.id, user_id, two.id, two.sender_name) for user_id in others),
    ]


async def test_messages_are_looked_at_by_their_ids(store):
    """Only the requested messages are returned."""
    talk = await add_direct(store)
    one, _, three = await add_messages_by(store, talk, *"abc")
    told = [(one.id, talk.companion_id), (three.id, talk.companion_id)]
    assert await whom(store, three, one) == told


async def test_who_has_read_is_told_nothing(store):
    """Users are not notified of messages that they have read."""
    talk = await add_direct(store)
    one, two = await add_messages_by(store, talk, *"ab")
    await read(store, talk, talk.companion_id, one)
    assert await whom(store) == [(two.id, talk.companion_id)]


async def test_who_was_told_is_told_again_after_reading(store):
    """A notified user is notified again only after reading, for each conversation."""
    talk, other = await add_direct(store), await add_direct(store)
    await add_messages_by(store, talk, "hello")
    await note(store)
    [two] = await add_messages_by(store, talk, "hello")
    [three] = await add_messages_by(store, other, "hello")
    assert await whom(store) == [(three.id, other.companion_id)]
    await read(store, talk, talk.companion_id, two)
    [four] = await add_messages_by(store, talk, "hello")
    assert await whom(store, four) == [(four.id, talk.companion_id)]


async def test_what_was_told_outlasts_a_change_of_the_group(store):
    """A change of the group does not notify remaining members twice."""
    group = await add_group(store)
    await add_messages_by(store, group, "hello")
    await note(store)
    await save_group_members(store, group.customer_id, group.staff_ids)
    await add_messages_by(store, group, "hello")
    assert await whom(store) == []


async def test_who_has_left_is_told_nothing(store):
    """Former members are not notified."""
    group = await add_group(store)
    [one] = await add_messages_by(store, group, "hello")
    stays, _ = group.staff_ids
    await save_group_members(store, group.customer_id, [stays])
    assert await whom(store) == [(one.id, stays)]


async def test_who_is_connected_is_told_nothing(store):
    """Users connected at a live node are not notified."""
    talk = await add_direct(store)
    [one] = await add_messages_by(store, talk, "hello")

    async def connect(tx):
        await tx.presence.renew_node_lease("a", NOW + HOUR)
        await tx.presence.add_connection(talk.companion_id, "a", NOW, 10)

    await store.run_transaction(connect)
    assert await whom(store) == []
    await store.run_transaction(lambda tx: tx.presence.renew_node_lease("a", NOW))
    assert await whom(store) == [(one.id, talk.companion_id)]


async def test_how_far_it_went_is_kept(store):
    """The last notified id is committed or rolled back with its transaction."""

    async def fail(tx):
        await tx.messages.set_last_notified_id(9)
        raise LookupError

    async with store.read_view() as view:
        assert await view.messages.last_notified_id() == 0
        await store.run_transaction(lambda tx: tx.messages.set_last_notified_id(7))
        with pytest.raises(LookupError):
            await store.run_transaction(fail)
        assert await view.messages.last_notified_id() == 7


async def test_one_at_a_time_goes_on(store):
    """A second transaction waits for the lock and sees the first one's last notified id."""

    async def step(tx):
        upto = await tx.messages.lock_last_notified_id()
        await asyncio.sleep(0)
        await tx.messages.set_last_notified_id(upto + 1)

    await asyncio.gather(*(store.run_transaction(step) for _ in range(8)))
    async with store.read_view() as view:
        assert await view.messages.last_notified_id() == 8
