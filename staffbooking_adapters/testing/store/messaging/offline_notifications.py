"""Contract of the stores: unread messages of which offline users are notified."""

from __future__ import annotations

import asyncio

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import HOUR, NOW
from staffbooking_adapters.testing.builders_messages import (
    add_direct,
    add_group,
    add_messages_by,
    save_group_members,
)
from staffbooking_adapters.testing.store.base import StoreContract
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.ports import UnreadMessage


async def unread(store, *messages):
    """The unread messages by user, among some messages or all."""
    async with store.read_view() as view:
        asked = messages or await view.messages.all_messages_after(0, 100)
    numbers = [message.id for message in asked]
    return list(await store.run_transaction(lambda tx: tx.messages.unread_messages(numbers, NOW)))


async def recipients(store, *messages):
    """The ids of each unread message and of each user to notify."""
    return [(each.message_id, each.user_id) for each in await unread(store, *messages)]


async def mark_all_notified(store):
    """Mark every message as notified to every user."""
    found = await unread(store)
    await store.run_transaction(lambda tx: tx.messages.mark_notified(found))


async def read(store, conversation, user_id, message):
    await store.run_transaction(
        lambda tx: tx.messages.mark_read(conversation.id, user_id, message.id)
    )


async def missed(store, user_ids, max_id):
    """The ids of each missed message and of each user to notify."""
    found = await store.run_transaction(
        lambda tx: tx.messages.missed_messages(user_ids, max_id, NOW)
    )
    return [(each.message_id, each.user_id) for each in found]


async def connect(store, user_id, node="a"):
    """Connect a user at a node."""

    async def unit(tx):
        await tx.presence.renew_node_lease(node, NOW + HOUR)
        await tx.presence.add_connection(user_id, node, NOW, 10)

    await store.run_transaction(unit)


async def claim(store, seen_before, limit=10):
    return list(
        await store.run_transaction(lambda tx: tx.presence.claim_departed_users(seen_before, limit))
    )


async def mute(store, user_id, kind):
    await store.run_transaction(lambda tx: tx.notifications.mute(user_id, kind))


async def mute_messages(store, user_id):
    await mute(store, user_id, NotificationKind.NEW_MESSAGE)


async def disable(store, user_id):
    async def unit(tx):
        user = await tx.accounts.lock_user(user_id)
        await tx.accounts.save_user(evolve(user, disabled_at=NOW))

    await store.run_transaction(unit)


class OfflineNotificationsContract(StoreContract):
    """Unread messages of which offline users are notified."""

    async def test_an_unread_message_is_returned_for_all_but_its_sender(self, store):
        """An unread message is returned for every member but its sender, by message and user."""
        direct, group = await add_direct(store), await add_group(store)
        [one] = await add_messages_by(store, direct, "hello")
        [two] = await add_messages_by(store, group, "hello", by=group.staff_ids[0])
        others = sorted({*group.recipient_ids} - {group.staff_ids[0]})
        [companion_id] = direct.staff_ids
        assert await unread(store) == [
            UnreadMessage(direct.id, companion_id, one.id, one.sender_name),
            *(UnreadMessage(group.id, user_id, two.id, two.sender_name) for user_id in others),
        ]

    async def test_messages_are_selected_by_id(self, store):
        """Only the requested messages are returned."""
        conversation = await add_direct(store)
        one, _, three = await add_messages_by(store, conversation, *"abc")
        expected = [(one.id, conversation.companion_id), (three.id, conversation.companion_id)]
        assert await recipients(store, three, one) == expected

    async def test_readers_are_not_notified(self, store):
        """Users are not notified of messages that they have read."""
        conversation = await add_direct(store)
        one, two = await add_messages_by(store, conversation, *"ab")
        await read(store, conversation, conversation.companion_id, one)
        assert await recipients(store) == [(two.id, conversation.companion_id)]

    async def test_a_notified_user_is_notified_again_after_reading(self, store):
        """A notified user is notified again only after reading, for each conversation."""
        conversation, other = await add_direct(store), await add_direct(store)
        await add_messages_by(store, conversation, "hello")
        await mark_all_notified(store)
        [two] = await add_messages_by(store, conversation, "hello")
        [three] = await add_messages_by(store, other, "hello")
        assert await recipients(store) == [(three.id, other.companion_id)]
        await read(store, conversation, conversation.companion_id, two)
        [four] = await add_messages_by(store, conversation, "hello")
        assert await recipients(store, four) == [(four.id, conversation.companion_id)]

    async def test_a_change_of_the_group_keeps_the_notified_state(self, store):
        """A change of the group does not notify remaining members twice."""
        group = await add_group(store)
        await add_messages_by(store, group, "hello")
        await mark_all_notified(store)
        await save_group_members(store, group.customer_id, group.staff_ids)
        await add_messages_by(store, group, "hello")
        assert await recipients(store) == []

    async def test_former_members_are_not_notified(self, store):
        """Former members are not notified."""
        group = await add_group(store)
        [one] = await add_messages_by(store, group, "hello")
        stays, _ = group.staff_ids
        await save_group_members(store, group.customer_id, [stays])
        assert await recipients(store) == [(one.id, stays)]

    async def test_online_users_are_not_notified(self, store):
        """Users connected at a live node are not notified."""
        conversation = await add_direct(store)
        [one] = await add_messages_by(store, conversation, "hello")

        async def connect(tx):
            await tx.presence.renew_node_lease("a", NOW + HOUR)
            await tx.presence.add_connection(conversation.companion_id, "a", NOW, 10)

        await store.run_transaction(connect)
        assert await recipients(store) == []
        await store.run_transaction(lambda tx: tx.presence.renew_node_lease("a", NOW))
        assert await recipients(store) == [(one.id, conversation.companion_id)]

    @pytest.mark.parametrize("suppress", [mute_messages, disable])
    async def test_users_who_get_no_emails_are_left_out(self, store, suppress):
        """Users who muted these notifications, and disabled users, are not notified."""
        conversation = await add_direct(store)
        [one] = await add_messages_by(store, conversation, "hello")
        reader = conversation.companion_id
        assert (
            await recipients(store) == await missed(store, [reader], one.id) == [(one.id, reader)]
        )
        await suppress(store, reader)
        assert await recipients(store) == await missed(store, [reader], one.id) == []

    async def test_other_muted_kinds_are_ignored(self, store):
        """Users who muted other notifications only are notified."""
        conversation = await add_direct(store)
        [one] = await add_messages_by(store, conversation, "hello")
        await mute(store, conversation.companion_id, NotificationKind.PAYOUT)
        assert await recipients(store) == [(one.id, conversation.companion_id)]

    async def test_missed_messages_are_those_of_some_users(self, store):
        """The last unread message by each sender is returned, for the given users and up to an id,
        as long as they were not notified."""
        direct, group = await add_direct(store), await add_group(store)
        reader, other = group.customer_id, group.staff_ids[1]
        await add_messages_by(store, direct, *"ab")
        await add_messages_by(store, group, *"cd", by=group.staff_ids[0])
        [five] = await add_messages_by(store, group, "e", by=other)
        [six] = await add_messages_by(store, group, "f", by=group.staff_ids[0])
        assert await missed(store, [reader], five.id) == [(five.id - 1, reader), (five.id, reader)]
        assert await missed(store, [reader, other], six.id) == [
            (five.id, reader),
            *((six.id, user_id) for user_id in sorted((reader, other))),
        ]
        await read(store, group, reader, five)
        assert await missed(store, [reader], six.id) == [(six.id, reader)]
        await mark_all_notified(store)
        assert await missed(store, [reader, other], six.id) == []

    async def test_a_departed_user_is_claimed_once(self, store):
        """Users are claimed once for each end of a connection, those who left first before
        others."""
        conversation = await add_direct(store)
        one, two = conversation.recipient_ids
        for user_id, left_at in ((one, NOW + HOUR), (two, NOW)):
            await connect(store, user_id)
            await store.run_transaction(
                lambda tx, user=user_id, at=left_at: tx.presence.remove_connection(user, "a", at)
            )
        assert await claim(store, NOW - HOUR) == []
        assert await claim(store, NOW + HOUR, 1) == [two]
        assert await claim(store, NOW + HOUR) == [one]
        assert await claim(store, NOW + HOUR) == []
        await connect(store, two, "b")
        await store.run_transaction(lambda tx: tx.presence.delete_expired_nodes(NOW + 2 * HOUR, 10))
        assert await claim(store, NOW + 2 * HOUR) == [two]

    async def test_the_last_notified_id_is_transactional(self, store):
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

    async def test_the_last_notified_id_is_locked(self, store):
        """Concurrent transactions that lock the last notified id run one after the other."""

        async def step(tx):
            upto = await tx.messages.lock_last_notified_id()
            await asyncio.sleep(0)
            await tx.messages.set_last_notified_id(upto + 1)

        await asyncio.gather(*(store.run_transaction(step) for _ in range(8)))
        async with store.read_view() as view:
            assert await view.messages.last_notified_id() == 8
