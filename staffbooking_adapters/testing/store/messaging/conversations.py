"""Contract of the stores: conversations and their overviews."""

from __future__ import annotations

from datetime import timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    add_booking,
    add_companion,
    add_user,
)
from staffbooking_adapters.testing.builders_messages import (
    add_direct,
    add_group,
    add_messages_by,
    add_pair,
    read_marks,
    reload_conversation,
    rename_user,
)
from staffbooking_adapters.testing.store.base import StoreContract, read_store
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.messaging.conversations import (
    CONTACT_SHARING_STATUSES,
    Conversation,
    ConversationKind,
    ConversationMember,
    ConversationOverview,
)
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import CustomerCompanionPair

FINE = NOW + timedelta(microseconds=123_456)


async def pair_of(store, user_id, other_id):
    return await read_store(store, lambda view: view.messages.find_pair(user_id, other_id))


async def direct(store, pair):
    return await read_store(store, lambda view: view.messages.direct_conversation_id(pair))


async def unopened_pairs(store, user_id, limit=10):
    return list(
        await read_store(
            store, lambda view: view.messages.pairs_without_conversation(user_id, limit)
        )
    )


async def open_direct(store, pair, now=NOW):
    return await store.run_transaction(
        lambda unit: unit.messages.open_direct_conversation(pair, now)
    )


async def overview(store, conversation, user_id, now=NOW):
    return await read_store(
        store, lambda view: view.messages.overview(conversation.id, user_id, now)
    )


async def overviews(store, user_id, page=1, limit=10):
    return list(
        await read_store(store, lambda view: view.messages.overviews(user_id, page, limit, NOW))
    )


async def listed(store, user_id, page=1, limit=10):
    """The ids of a user's conversations."""
    return [each.conversation.id for each in await overviews(store, user_id, page, limit)]


async def mark_read(store, conversation, user_id, message):
    return await store.run_transaction(
        lambda unit: unit.messages.mark_read(conversation.id, user_id, message.id)
    )


async def paid_staff(store, conversation):
    return set(await read_store(store, lambda view: view.messages.paid_staff_ids(conversation)))


class ConversationsContract(StoreContract):
    """Conversations and their overviews."""

    # Pairs and direct conversations -----------------------------------------------------------
    @pytest.mark.parametrize("status", BookingStatus)
    async def test_a_booking_makes_a_pair(self, store, status):
        """A booking of any status makes a pair, in either order of its two users."""
        booking = await add_booking(store, status=status)
        pair = CustomerCompanionPair(booking.customer_id, booking.companion_id)
        assert await pair_of(store, pair.customer_id, pair.companion_id) == pair
        assert await pair_of(store, pair.companion_id, pair.customer_id) == pair

    async def test_strangers_are_no_pair(self, store):
        """Users without a common booking are no pair, nor is a user with themselves."""
        one, other = await add_pair(store), await add_pair(store)
        for stranger in (one.customer_id, other.companion_id, other.customer_id, 404):
            assert await pair_of(store, one.customer_id, stranger) is None
            assert await pair_of(store, stranger, one.customer_id) is None
        assert await pair_of(store, one.companion_id, other.companion_id) is None

    async def test_a_pair_is_listed_until_its_conversation_is_opened(self, store):
        """A pair is listed once, however many bookings it has, until its conversation opens."""
        pair = await add_pair(store)
        await add_booking(store, pair.companion_id, pair.customer_id)
        await add_pair(store)
        assert await direct(store, pair) is None
        assert await unopened_pairs(store, pair.customer_id) == [pair]
        assert await unopened_pairs(store, pair.companion_id) == [pair]
        number = await open_direct(store, pair)
        assert await direct(store, pair) == number
        assert (
            await unopened_pairs(store, pair.customer_id)
            == await unopened_pairs(store, pair.companion_id)
            == []
        )

    async def test_pairs_are_listed_up_to_a_limit(self, store):
        """Pairs without a conversation are listed up to the limit, the others after them."""
        customer = await add_user(store)
        pairs = {await add_pair(store, customer=customer) for _ in range(3)}
        some = await unopened_pairs(store, customer.id, limit=2)
        assert len(set(some)) == 2
        for pair in some:
            await open_direct(store, pair)
        assert {*some, *await unopened_pairs(store, customer.id, limit=2)} == pairs

    async def test_a_conversation_is_opened_once(self, store):
        """Opening a conversation again returns the first id and changes nothing."""
        pair = await add_pair(store)
        number = await open_direct(store, pair, FINE)
        opened = await read_store(store, lambda view: view.messages.conversation(number))
        assert await open_direct(store, pair, NOW + DAY) == number
        assert await read_store(store, lambda view: view.messages.conversation(number)) == opened
        assert await listed(store, pair.customer_id) == [number]
        assert await open_direct(store, await add_pair(store, customer=pair.customer_id)) != number

    async def test_a_new_conversation_is_empty(self, store):
        """A new conversation has its two members in id order, who have read nothing."""
        customer, companion = await add_user(store), await add_companion(store)
        number = await open_direct(store, await add_pair(store, companion, customer), FINE)
        assert await read_store(
            store, lambda view: view.messages.conversation(number)
        ) == Conversation(
            id=number,
            kind=ConversationKind.DIRECT,
            customer_id=customer.id,
            companion_id=companion.id,
            event_ref=None,
            updated_at=FINE,
            members=(
                ConversationMember(customer.id, "Ada Okoro"),
                ConversationMember(companion.id, "Mia Lindqvist"),
            ),
        )
        assert await read_store(store, lambda view: view.messages.conversation(number + 1)) is None
        companion, customer = await add_companion(store), await add_user(store)
        members = (await add_direct(store, await add_pair(store, companion, customer))).members
        assert [member.user_id for member in members] == [companion.id, customer.id]

    async def test_a_locked_conversation_shows_disabled_members(self, store):
        """A locked conversation shows which members are disabled."""
        conversation = await add_direct(store)
        customer = conversation.customer_id

        async def unit(tx):
            user = await tx.accounts.lock_user(customer)
            await tx.accounts.save_user(evolve(user, disabled_at=NOW))
            return await tx.messages.lock_conversations([conversation.id])

        held = (await store.run_transaction(unit))[conversation.id]
        assert [each.user_id for each in held.members if each.disabled] == [customer]

    async def test_members_have_their_current_names(self, store):
        """Members have their current names in a conversation, its overview and its lock."""
        conversation = await add_direct(store)
        (companion,) = conversation.staff_ids
        await rename_user(store, companion, "Noa")
        members = (await reload_conversation(store, conversation)).members
        assert [member.name for member in members if member.name != "Ada Okoro"] == [
            "Noa Lindqvist"
        ]
        shown = await overview(store, conversation, conversation.customer_id)
        assert shown.conversation.members == members
        held = await store.run_transaction(
            lambda unit: unit.messages.lock_conversations([conversation.id])
        )
        assert held[conversation.id].members == members

    async def test_locking_returns_each_known_conversation(self, store):
        """Locking returns each known conversation once, by id, and leaves out unknown ids."""
        one, other = await add_direct(store), await add_direct(store)
        held = await store.run_transaction(
            lambda unit: unit.messages.lock_conversations(
                [other.id, other.id + 1, one.id, other.id]
            )
        )
        assert dict(held) == {one.id: one, other.id: other}
        assert await store.run_transaction(lambda unit: unit.messages.lock_conversations([])) == {}

    async def test_a_rolled_back_transaction_opens_no_conversation(self, store):
        """A rolled-back transaction leaves no conversation, and the next one can open it."""
        pair = await add_pair(store)

        async def unit(tx):
            await tx.messages.open_direct_conversation(pair, NOW)
            raise RuleBroken("any", "any")

        with pytest.raises(RuleBroken):
            await store.run_transaction(unit)
        assert await direct(store, pair) is None
        assert await listed(store, pair.customer_id) == []
        number = await open_direct(store, pair)
        assert await listed(store, pair.companion_id) == [number]

    # Overviews --------------------------------------------------------------------------------
    async def test_a_new_conversation_has_an_overview(self, store):
        """The overview of a new conversation has no message and no user online."""
        booking = await add_booking(store)
        conversation = await add_direct(
            store, CustomerCompanionPair(booking.customer_id, booking.companion_id)
        )
        expected = ConversationOverview(conversation, None, 0, booking.code, frozenset())
        for user_id in (booking.customer_id, booking.companion_id):
            assert await overview(store, conversation, user_id) == expected
            assert await overviews(store, user_id) == [expected]

    async def test_a_stranger_finds_no_conversation(self, store):
        """A user finds neither other users' conversations nor unknown ones."""
        conversation, other = await add_direct(store), await add_direct(store)
        assert await overview(store, conversation, other.customer_id) is None
        assert await overview(store, evolve(other, id=404), other.customer_id) is None
        assert await listed(store, other.customer_id) == [other.id]
        assert await listed(store, 404) == []

    async def test_the_conversation_updated_last_comes_first(self, store):
        """Conversations are listed by last update, and by the newer id at the same time."""
        customer = (await add_user(store)).id
        for now in (NOW, NOW + MINUTE, NOW, NOW + SECOND):
            await add_direct(store, customer=customer, now=now)
        newest_first = await listed(store, customer)
        one, two, three, four = sorted(newest_first)
        assert newest_first == [two, four, three, one]
        [oldest] = [
            each for each in await overviews(store, customer) if each.conversation.id == one
        ]
        await add_messages_by(store, oldest.conversation, "Hello", created_at=NOW + HOUR)
        assert await listed(store, customer) == [one, two, four, three]

    async def test_conversations_are_listed_in_pages(self, store):
        """A page has one row above the limit if more follow; a page past the end is empty."""
        customer = (await add_user(store)).id
        made = [(await add_direct(store, customer=customer)).id for _ in range(5)]
        newest = made[::-1]
        pages = [await listed(store, customer, page, 2) for page in (1, 2, 3, 4, 100_000)]
        assert pages == [newest[:3], newest[2:5], newest[4:], [], []]
        assert await listed(store, customer, 1, 5) == newest

    async def test_the_last_message_is_shown(self, store):
        """Both members see the last message, in the list and in the overview."""
        conversation = await add_direct(store)
        *_, last = await add_messages_by(store, conversation, "one", "two")
        await add_messages_by(
            store, await add_direct(store, customer=conversation.customer_id), "elsewhere"
        )
        for user_id in conversation.recipient_ids:
            shown = await overview(store, conversation, user_id)
            assert shown.last_message == last
            assert shown in await overviews(store, user_id)

    async def test_the_messages_of_others_are_unread(self, store):
        """Other members' messages after the read mark are unread; own messages never are."""
        conversation = await add_direct(store)
        customer, companion = conversation.customer_id, conversation.companion_id
        sent = []
        for n in range(6):
            sent += await add_messages_by(
                store, conversation, f"No. {n}", by=companion if n % 3 else customer
            )

        async def unread(user_id):
            return (await overview(store, conversation, user_id)).unread

        assert [await unread(customer), await unread(companion)] == [4, 2]
        await mark_read(store, conversation, customer, sent[2])
        assert [await unread(customer), await unread(companion)] == [2, 2]
        await mark_read(store, conversation, customer, sent[-1])
        await mark_read(store, conversation, companion, sent[3])
        assert [await unread(customer), await unread(companion)] == [0, 0]

    async def test_unread_messages_are_of_one_conversation(self, store):
        """Unread messages are counted for each conversation separately."""
        one = await add_direct(store)
        other = await add_direct(store, customer=one.customer_id)
        await add_messages_by(store, one, "one", by=one.companion_id)
        await add_messages_by(store, other, "one", "two", by=other.companion_id)
        shown = await overviews(store, one.customer_id)
        assert {each.conversation.id: each.unread for each in shown} == {one.id: 1, other.id: 2}

    async def test_unread_messages_are_counted_over_all_conversations(self, store):
        """The count of a user equals the sum of their conversations, after each message and
        mark."""
        one = await add_direct(store)
        other = await add_direct(store, customer=one.customer_id)
        sent = await add_messages_by(store, one, "one", "two", by=one.companion_id)
        await add_messages_by(store, other, "three", by=other.companion_id)
        await add_messages_by(store, other, "four", by=other.customer_id)

        async def unread(user_id):
            return await read_store(store, lambda view: view.messages.unread_count(user_id))

        users = (one.customer_id, one.companion_id, other.companion_id, 404)
        assert [await unread(user_id) for user_id in users] == [3, 0, 1, 0]
        await mark_read(store, one, one.customer_id, sent[0])
        assert await unread(one.customer_id) == 2

    async def test_an_overview_has_the_newest_booking_of_the_pair(self, store):
        """An overview has the code of the pair's newest booking, whatever its status or date."""
        pair = await add_pair(store)
        conversation = await add_direct(store, pair)
        newest = await add_booking(
            store,
            pair.companion_id,
            pair.customer_id,
            status=BookingStatus.CANCELLED,
            starts_at=NOW + DAY,
        )
        await add_booking(store, pair.companion_id)
        await add_booking(store, customer=pair.customer_id)
        for user_id in conversation.recipient_ids:
            assert (await overview(store, conversation, user_id)).booking_code == newest.code

    async def test_connected_users_are_online(self, store):
        """Users connected at a live node are online, including the reader."""
        conversation = await add_direct(store)
        customer, companion = conversation.customer_id, conversation.companion_id

        async def unit(tx):
            await tx.presence.renew_node_lease("a", NOW + MINUTE)
            await tx.presence.renew_node_lease("b", NOW + 2 * MINUTE)
            await tx.presence.add_connection(customer, "a", NOW, 10)
            await tx.presence.add_connection(companion, "b", NOW, 10)
            await tx.presence.add_connection(stranger.id, "b", NOW, 10)

        stranger = await add_user(store)
        await store.run_transaction(unit)
        shown = [
            (await overview(store, conversation, customer, now)).online
            for now in (NOW, NOW + MINUTE, NOW + 2 * MINUTE)
        ]
        assert shown == [{customer, companion}, {companion}, set()]
        [listed] = await overviews(store, companion)
        assert listed.online == {customer, companion}

    # Read marks -------------------------------------------------------------------------------
    async def test_marking_moves_only_the_members_own_mark(self, store):
        """Marking as read moves only the member's own read mark."""
        conversation = await add_direct(store)
        customer, companion = conversation.customer_id, conversation.companion_id
        first, second = await add_messages_by(store, conversation, "one", "two")
        assert await mark_read(store, conversation, companion, first) == first.id
        assert await read_marks(store, conversation) == {customer: 0, companion: first.id}
        assert await mark_read(store, conversation, companion, second) == second.id

    async def test_a_mark_never_goes_back(self, store):
        """A read mark never goes back; the stored mark is returned."""
        conversation = await add_direct(store)
        first, second = await add_messages_by(store, conversation, "one", "two")
        reader = conversation.staff_ids[0]
        for message in (second, first, second):
            assert await mark_read(store, conversation, reader, message) == second.id
        assert (await read_marks(store, conversation))[reader] == second.id
        assert (await overview(store, conversation, reader)).unread == 0

    # Paid companions --------------------------------------------------------------------------
    @pytest.mark.parametrize("status", BookingStatus)
    async def test_a_booking_that_shares_contacts_marks_its_companion_as_paid(self, store, status):
        """A companion is paid if a booking of the pair has a contact-sharing status."""
        pair = await add_pair(store)
        conversation = await add_direct(store, pair)
        given = {"status": status, "starts_at": NOW + 3 * DAY}
        await add_booking(store, pair.companion_id, pair.customer_id, **given)
        await add_booking(store, pair.companion_id, pair.customer_id, starts_at=NOW + 4 * DAY)
        assert await paid_staff(store, conversation) == (
            {pair.companion_id} if status in CONTACT_SHARING_STATUSES else set()
        )

    async def test_bookings_of_other_pairs_do_not_mark_a_companion(self, store):
        """Paid bookings of other pairs do not mark a companion as paid."""
        pair = await add_pair(store)
        conversation = await add_direct(store, pair)
        await add_booking(store, pair.companion_id, status=BookingStatus.PAID)
        await add_booking(store, customer=pair.customer_id, status=BookingStatus.PAID)
        assert await paid_staff(store, conversation) == set()

    async def test_companions_of_a_group_are_marked_separately(self, store):
        """In a group, a companion is paid if a booking of the customer for any event is paid."""
        one, two, three = [await add_companion(store) for _ in range(3)]
        group = await add_group(store, one, two, three)
        customer, later = group.customer_id, NOW + 9 * DAY
        await add_booking(store, two, customer, status=BookingStatus.COMPLETED, starts_at=later)
        await add_booking(store, three, customer, status=BookingStatus.PAID, starts_at=later)
        await add_booking(store, one, status=BookingStatus.PAID, starts_at=later)
        assert await paid_staff(store, group) == {two.id, three.id}
