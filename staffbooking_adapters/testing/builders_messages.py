"""Conversations and messages with defaults, like the values of `builders`."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from attrs import asdict, evolve

from staffbooking_adapters.testing.builders import NOW, add_booking, add_companion, add_user
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.domain.messaging.conversations import (
    Conversation,
    ConversationKind,
    ConversationMember,
    Message,
    NewMessage,
    sync_group_members,
)
from staffbooking_core.ports import CustomerCompanionPair, Store, Transaction

EVENT_REF = "Gala 2027"


def make_conversation(**given: Any) -> Conversation:
    """The empty direct conversation 1 of customer 1 and companion 2, opened at NOW."""
    defaults = {
        "id": 1,
        "kind": ConversationKind.DIRECT,
        "customer_id": 1,
        "companion_id": 2,
        "event_ref": None,
        "updated_at": NOW,
        "members": (ConversationMember(1, "Ada Okoro"), ConversationMember(2, "Mia Lindqvist")),
    }
    return Conversation(**{**defaults, **given})


def make_group(**given: Any) -> Conversation:
    """The group 1 of customer 1 and companions 2 and 3."""
    members = (
        ConversationMember(1, "Ada Okoro"),
        ConversationMember(2, "Mia Lindqvist"),
        ConversationMember(3, "Noa Levi"),
    )
    group = {
        "kind": ConversationKind.GROUP,
        "companion_id": None,
        "event_ref": EVENT_REF,
        "members": members,
    }
    return make_conversation(**{**group, **given})


def make_new_message(
    conversation: Conversation | None = None, sender_id: int | None = None, **given: Any
) -> NewMessage:
    """A message at NOW of a member, by default the customer, to all members."""
    conversation = conversation or make_conversation()
    sender = conversation.find_member(sender_id or conversation.customer_id)
    assert sender is not None
    defaults = {
        "conversation_id": conversation.id,
        "sender_id": sender.user_id,
        "sender_name": sender.name,
        "content": "See you at nine",
        "created_at": NOW,
        "recipients": conversation.recipient_ids,
    }
    return NewMessage(**{**defaults, **given})


def make_message(
    conversation: Conversation | None = None, sender_id: int | None = None, **given: Any
) -> Message:
    """The same as a stored message; the id is 1."""
    number = given.pop("id", 1)
    new = make_new_message(conversation, sender_id, **given)
    return Message(id=number, **asdict(new, recurse=False))


# In a store -------------------------------------------------------------------------------


async def add_pair(
    store: Store, companion: Companion | int | None = None, customer: Any = None, **given: Any
) -> CustomerCompanionPair:
    """A customer and a companion with a new booking; missing users are created."""
    booking = await add_booking(store, companion, customer, **given)
    return CustomerCompanionPair(booking.customer_id, booking.companion_id)


async def add_direct(
    store: Store, pair: CustomerCompanionPair | None = None, now: datetime = NOW, **given: Any
) -> Conversation:
    """The direct conversation of a pair; missing users are created."""
    pair = pair or await add_pair(store, **given)

    async def unit(tx: Transaction) -> Conversation:
        number = await tx.messages.open_direct_conversation(pair, now)
        return (await tx.messages.lock_conversations([number]))[number]

    return await store.run_transaction(unit)


async def add_group(
    store: Store,
    *staff: Companion,
    customer_id: int | None = None,
    event_ref: str = EVENT_REF,
    now: datetime = NOW,
) -> Conversation:
    """The open group of an event with companions who are booked for it; two are created if none
    are given."""
    customer_id = customer_id or (await add_user(store)).id
    staff = staff or (await add_companion(store), await add_companion(store, first_name="Noa"))
    for each in staff:
        await add_booking(
            store, each, customer_id, status=BookingStatus.ACCEPTED, event_ref=event_ref
        )
    staff_ids = [each.id for each in staff]
    return await save_group_members(store, customer_id, staff_ids, event_ref, opens=True, now=now)


async def lock_group(
    store: Store, customer_id: int, event_ref: str = EVENT_REF, now: datetime = NOW
) -> Conversation:
    """The locked group of an event; a missing one is created, and is not open."""
    return await store.run_transaction(
        lambda unit: unit.messages.lock_group(customer_id, event_ref, now)
    )


async def save_group_members(
    store: Store,
    customer_id: int,
    staff_ids: Iterable[int],
    event_ref: str = EVENT_REF,
    *,
    opens: bool = False,
    now: datetime = NOW,
) -> Conversation:
    """Save the group of an event with exactly these booked companions."""

    async def unit(tx: Transaction) -> Conversation:
        held = await tx.messages.lock_group(customer_id, event_ref, now)
        users = [await tx.accounts.user(number) for number in staff_ids]
        group = sync_group_members(held, {user.id: user.name for user in users if user is not None})
        await tx.messages.save_group(group, is_open=opens)
        return group

    return await store.run_transaction(unit)


async def add_messages(store: Store, *new: NewMessage) -> list[Message]:
    """Adds messages to the store in one transaction."""

    async def unit(tx: Transaction) -> list[Message]:
        await tx.messages.lock_conversations({each.conversation_id for each in new})
        return list(await tx.messages.add_messages(new))

    return await store.run_transaction(unit)


async def add_messages_by(
    store: Store, conversation: Conversation, *contents: str, by: int | None = None, **given: Any
) -> list[Message]:
    """Adds messages of one member, by default the customer, in one transaction."""
    new = [make_new_message(conversation, by, content=each, **given) for each in contents]
    return await add_messages(store, *new)


async def reload_conversation(store: Store, conversation: Conversation) -> Conversation:
    """The stored conversation."""
    async with store.read_view() as view:
        now = await view.messages.conversation(conversation.id)
    assert now is not None
    return now


async def read_marks(store: Store, conversation: Conversation) -> dict[int, int]:
    """The last read message id of each member."""
    members = (await reload_conversation(store, conversation)).members
    return {member.user_id: member.read_id for member in members}


async def rename_user(store: Store, user_id: int, first_name: str) -> None:
    """Change the first name of a user."""

    async def unit(tx: Transaction) -> None:
        user = await tx.accounts.lock_user(user_id)
        assert user is not None
        await tx.accounts.save_user(evolve(user, first_name=first_name))

    await store.run_transaction(unit)
