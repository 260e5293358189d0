"""Contract of the stores: groups of an event's customer and staff."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    MINUTE,
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
    lock_group,
    reload_conversation,
    rename_user,
    save_group_members,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.bookings.lifecycle import CONFIRMED_STATUSES, BookingStatus
from staffbooking_core.domain.messaging.conversations import (
    Conversation,
    ConversationKind,
    ConversationMember,
)
from staffbooking_core.errors import RuleBroken

FINE = NOW + timedelta(microseconds=123_456)


async def find(store, group):
    return await read_store(store, lambda view: view.messages.conversation(group.id))


async def locked(store, *groups):
    numbers = [group.id for group in groups]
    return dict(await store.run_transaction(lambda unit: unit.messages.lock_conversations(numbers)))


async def booked(store, customer_id, event_ref=EVENT_REF):
    found = await store.run_transaction(
        lambda unit: unit.messages.booked_companions(customer_id, event_ref)
    )
    return sorted(found)


async def overview(store, group, user_id, now=NOW):
    return await read_store(store, lambda view: view.messages.overview(group.id, user_id, now))


async def listed(store, user_id):
    """The ids of a user's conversations."""
    found = await read_store(store, lambda view: view.messages.overviews(user_id, 1, 10, NOW))
    return [each.conversation.id for each in found]


async def inbox(store, user_id, after=0):
    return list(
        await read_store(
            store, lambda view: view.messages.readable_messages_after(user_id, after, 10)
        )
    )


async def last_id(store, user_id):
    return await read_store(store, lambda view: view.messages.last_message_id(user_id))


async def partners(store, user_id, among):
    return await read_store(store, lambda view: view.messages.conversation_partners(user_id, among))


async def online_partners(store, user_id):
    return list(
        await read_store(
            store, lambda view: view.presence.online_conversation_partners(user_id, NOW)
        )
    )


async def connect(store, *user_ids):
    async def unit(tx):
        await tx.presence.renew_node_lease("a", NOW + MINUTE)
        for user_id in user_ids:
            assert await tx.presence.add_connection(user_id, "a", NOW, 10)

    await store.run_transaction(unit)


class GroupsContract(StoreContract):
    """Groups of an event's customer and staff."""

    # Creation and opening ---------------------------------------------------------------------
    async def test_a_new_group_has_only_its_customer(self, store):
        """A new group has the customer as its only member until others are saved."""
        customer = await add_user(store)
        group = await lock_group(store, customer.id, now=FINE)
        assert group == Conversation(
            id=group.id,
            kind=ConversationKind.GROUP,
            customer_id=customer.id,
            companion_id=None,
            event_ref=EVENT_REF,
            updated_at=FINE,
            members=(ConversationMember(customer.id, "Ada Okoro"),),
        )

    async def test_a_group_is_unique_by_customer_and_event(self, store):
        """A group is unique by customer and exact event reference."""
        customer, other = await add_user(store), await add_user(store)
        group = await lock_group(store, customer.id, now=FINE)
        assert await lock_group(store, customer.id, now=NOW + DAY) == group
        others = [
            await lock_group(store, customer.id, EVENT_REF.lower()),
            await lock_group(store, customer.id, f"{EVENT_REF} "),
            await lock_group(store, other.id),
        ]
        assert len({group.id, *(each.id for each in others)}) == 4

    async def test_an_opened_group_stays_open(self, store):
        """An opened group stays open, also without other members."""
        customer, one, two = (
            await add_user(store),
            await add_companion(store),
            await add_user(store),
        )
        group = await save_group_members(store, customer.id, [one.id])
        assert await find(store, group) is None
        opened = await save_group_members(store, customer.id, [one.id, two.id], opens=True)
        assert await find(store, opened) == opened
        left = await save_group_members(store, customer.id, [], opens=False)
        assert await find(store, left) == left
        assert await lock_group(store, customer.id) == left

    async def test_a_group_that_is_not_open_is_not_found(self, store):
        """Queries find a group, for its members too, only after it is opened."""
        customer, staff = await add_user(store), await add_companion(store)
        group = await save_group_members(store, customer.id, [staff.id])
        await connect(store, customer.id, staff.id)
        members = {customer.id, staff.id}
        assert await find(store, group) is None
        assert await locked(store, group) == {}
        for user_id in members:
            assert await overview(store, group, user_id) is None
            assert await listed(store, user_id) == []
            assert await partners(store, user_id, members) == {user_id}
            assert await online_partners(store, user_id) == []
            assert await inbox(store, user_id) == []
            assert await last_id(store, user_id) == 0
        opened = await save_group_members(store, customer.id, [staff.id], opens=True)
        assert await locked(store, group) == {group.id: opened}
        for user_id in members:
            assert (await overview(store, group, user_id)).conversation == opened
            assert await listed(store, user_id) == [group.id]
            assert await partners(store, user_id, members) == members
            assert await online_partners(store, user_id) == [*(members - {user_id})]

    async def test_a_rolled_back_transaction_creates_no_group(self, store):
        """A rolled-back transaction leaves neither the group nor its members."""
        staff, group = await add_companion(store), await add_group(store)
        before, stranger = await reload_conversation(store, group), await add_user(store)

        async def unit(tx):
            made = await tx.messages.lock_group(stranger.id, EVENT_REF, NOW)
            await tx.messages.save_group(made, is_open=True)
            joined = evolve(
                group, members=(*group.members, ConversationMember(staff.id, "Mia Lindqvist"))
            )
            await tx.messages.save_group(joined, is_open=True)
            assert len(await tx.messages.overviews(staff.id, 1, 10, NOW)) == 1
            raise RuleBroken("any", "any")

        with pytest.raises(RuleBroken):
            await store.run_transaction(unit)
        assert await listed(store, stranger.id) == await listed(store, staff.id) == []
        assert await reload_conversation(store, group) == before

    # Members ----------------------------------------------------------------------------------
    async def test_members_are_listed_by_id(self, store):
        """Members are listed in id order with their current names."""
        one, two = await add_companion(store), await add_companion(store, first_name="Noa")
        customer = await add_user(store)
        await save_group_members(store, customer.id, [two.id])
        group = await save_group_members(store, customer.id, [two.id, one.id], opens=True)
        await rename_user(store, one.id, "Lea")
        assert (await reload_conversation(store, group)).members == (
            ConversationMember(one.id, "Lea Lindqvist"),
            ConversationMember(two.id, "Noa Lindqvist"),
            ConversationMember(customer.id, "Ada Okoro"),
        )

    async def test_a_group_has_no_booking(self, store):
        """A group's overview has no booking code, since it may have many bookings."""
        group = await add_group(store)
        assert (await overview(store, group, group.customer_id)).booking_code is None

    async def test_a_former_member_keeps_the_read_mark(self, store):
        """A former member keeps the read mark and last readable message, and can come back."""
        group = await add_group(store)
        stays, leaves = group.staff_ids
        [sent] = await add_messages_by(store, group, "one")

        async def mark(tx):
            return await tx.messages.mark_read(group.id, leaves, sent.id)

        assert await store.run_transaction(mark) == sent.id
        await save_group_members(store, group.customer_id, [stays])
        left = await reload_conversation(store, group)
        away = ConversationMember(leaves, "Noa Lindqvist", read_id=sent.id, left_id=sent.id)
        assert left.find_member(leaves) == away
        assert left.recipient_ids == tuple(sorted((group.customer_id, stays)))
        await add_messages_by(store, left, "two")
        await save_group_members(store, group.customer_id, [stays, leaves])
        back = await reload_conversation(store, group)
        assert back.find_member(leaves) == evolve(away, left_id=None)
        assert len(await inbox(store, leaves)) == 2

    async def test_a_former_member_reads_messages_up_to_leaving(self, store):
        """A former member reads no message sent after leaving."""
        group = await add_group(store)
        stays, leaves = group.staff_ids
        sent = await add_messages_by(store, group, "one", "two")
        other = await add_direct(store, companion=leaves)
        left = await save_group_members(store, group.customer_id, [stays])
        [elsewhere] = await add_messages_by(store, other, "elsewhere")
        since = await add_messages_by(store, left, "three", "four")

        shown = await overview(store, group, leaves)
        assert (shown.last_message, shown.unread) == (sent[-1], 2)
        assert await inbox(store, leaves) == [*sent, elsewhere]
        assert await last_id(store, leaves) == elsewhere.id
        assert await last_id(store, stays) == since[-1].id
        shown = await overview(store, group, stays)
        assert (shown.last_message, shown.unread) == (since[-1], 4)
        assert await inbox(store, stays, sent[0].id) == [sent[1], *since]

    async def test_the_last_message_of_a_former_member_is_from_before_leaving(self, store):
        """A former member's last message id is the last one before leaving."""
        group = await add_group(store)
        stays, leaves = group.staff_ids
        [sent] = await add_messages_by(store, group, "one")
        await add_messages_by(
            store, await save_group_members(store, group.customer_id, [stays]), "two"
        )
        assert await last_id(store, leaves) == sent.id

    async def test_a_member_who_left_before_the_first_message_reads_none(self, store):
        """A member who left before the first message reads none but keeps the conversation."""
        group = await add_group(store)
        stays, leaves = group.staff_ids
        await add_messages_by(
            store, await save_group_members(store, group.customer_id, [stays]), "one"
        )
        shown = await overview(store, group, leaves)
        assert (shown.last_message, shown.unread) == (None, 0)
        assert await inbox(store, leaves) == []
        assert await last_id(store, leaves) == 0
        assert await listed(store, leaves) == [group.id]

    async def test_a_member_who_left_before_the_opening_does_not_find_the_group(self, store):
        """A member who left before the group opened does not find it unless they come back."""
        customer = (await add_user(store)).id
        gone, stays, comes = [(await add_companion(store)).id for _ in range(3)]
        await save_group_members(store, customer, [gone])
        await save_group_members(store, customer, [stays])
        group = await save_group_members(store, customer, [stays, comes], opens=True)
        assert await listed(store, gone) == []
        assert await overview(store, group, gone) is None
        locked = await lock_group(store, customer)
        assert [member.user_id for member in locked.members] == [customer, stays, comes]
        await save_group_members(store, customer, [gone, stays], opens=True)
        assert await listed(store, gone) == [group.id]

    async def test_partners_are_current_members(self, store):
        """Partners are the current members of a user's conversations, and the user."""
        group = await add_group(store)
        one, two = group.staff_ids
        direct, stranger = (
            await add_direct(store, customer=group.customer_id),
            await add_user(store),
        )
        everybody = [*group.recipient_ids, *direct.recipient_ids, stranger.id, 404]
        assert await partners(store, one, everybody) == set(group.recipient_ids)
        assert await partners(store, one, [two, stranger.id]) == {two}
        assert await partners(store, group.customer_id, everybody) == {
            *group.recipient_ids,
            direct.companion_id,
        }
        assert await partners(store, stranger.id, everybody) == {stranger.id}
        assert await partners(store, one, []) == set()

    async def test_a_former_member_is_no_partner(self, store):
        """A former member and the members are partners only through another conversation."""
        group = await add_group(store)
        stays, leaves = group.staff_ids
        members = set(group.recipient_ids)
        await save_group_members(store, group.customer_id, [stays])
        assert await partners(store, stays, members) == members - {leaves}
        assert await partners(store, leaves, members) == {leaves}
        customer = group.customer_id
        await add_direct(store, customer=customer, companion=leaves)
        assert await partners(store, leaves, members) == {leaves, customer}
        assert await partners(store, customer, members) == members

    async def test_only_current_members_are_shown_online(self, store):
        """Only current members are shown online, not connected former members."""
        group = await add_group(store)
        stays, leaves = group.staff_ids
        await save_group_members(store, group.customer_id, [stays])
        await connect(store, stays, leaves)
        for user_id in group.recipient_ids:
            assert (await overview(store, group, user_id)).online == {stays}

    async def test_messages_keep_their_recipients(self, store):
        """Each message keeps the group's members at its time as recipients."""
        group = await add_group(store)
        stays, _ = group.staff_ids
        before = await add_messages_by(store, group, "one")
        after = await add_messages_by(
            store, await save_group_members(store, group.customer_id, [stays]), "two"
        )
        tail = await read_store(store, lambda view: view.messages.all_messages_after(0, 10))
        assert list(tail) == before + after
        assert [message.recipients for message in tail] == [
            group.recipient_ids,
            tuple(sorted((group.customer_id, stays))),
        ]

    # Booked companions ------------------------------------------------------------------------
    @pytest.mark.parametrize("status", BookingStatus)
    async def test_a_companion_is_booked_in_the_confirmed_statuses(self, store, status):
        """A companion is booked, with id and name, if the booking has a confirmed status."""
        booking = await add_booking(store, event_ref=EVENT_REF, status=status)
        expected = [(booking.companion_id, "Mia Lindqvist")] if status in CONFIRMED_STATUSES else []
        assert await booked(store, booking.customer_id) == expected

    async def test_each_booking_of_an_event_counts(self, store):
        """Every booking of the customer's event counts, and none of other events or customers."""
        customer, staff = await add_user(store), await add_companion(store)
        other = await add_companion(store, first_name="Noa")
        given: dict[str, Any] = {"status": BookingStatus.ACCEPTED, "event_ref": EVENT_REF}
        for n, companion in enumerate((staff, staff, other)):
            await add_booking(store, companion, customer, starts_at=NOW + (n + 2) * DAY, **given)
        await add_booking(store, customer=customer, **{**given, "event_ref": EVENT_REF.lower()})
        await add_booking(store, customer=customer, **{**given, "event_ref": None})
        await add_booking(store, **given)
        await rename_user(store, other.id, "Lea")
        assert await booked(store, customer.id) == [
            (staff.id, "Mia Lindqvist"),
            (staff.id, "Mia Lindqvist"),
            (other.id, "Lea Lindqvist"),
        ]
        assert await booked(store, customer.id, "Another event") == []

    async def test_booked_companions_include_writes_of_the_transaction(self, store):
        """Booked companions include the writes of the current transaction."""
        customer = await add_user(store)
        given: dict[str, Any] = {"customer": customer, "event_ref": EVENT_REF}
        one = await add_booking(store, **given)
        two = await add_booking(store, status=BookingStatus.ACCEPTED, **given)

        async def unit(tx):
            await tx.messages.lock_group(customer.id, EVENT_REF, NOW)
            await tx.bookings.save_booking(
                make_booking_write(next_revision(one, status=BookingStatus.ACCEPTED))
            )
            await tx.bookings.save_booking(
                make_booking_write(next_revision(two, status=BookingStatus.CANCELLED))
            )
            return await tx.messages.booked_companions(customer.id, EVENT_REF)

        assert list(await store.run_transaction(unit)) == [(one.companion_id, "Mia Lindqvist")]
