"""Conversations and messages (SPECIFICATION 4.8, CONTRACT 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TypeAlias

from attrs import field, frozen

from staffbooking_core.domain.accounts.users import Actor
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import CONFIRMED_STATUSES
from staffbooking_core.domain.messaging.conversations import (
    MIN_GROUP_BOOKINGS,
    ContentFindings,
    Conversation,
    ConversationOverview,
    Message,
    NewMessage,
    can_share_contacts,
    check_can_write,
    check_content,
    check_repetition,
    compose_message,
    last_readable_id,
    overview_for_reader,
    require_member,
    sort_by_relevance,
    sync_group_members,
)
from staffbooking_core.errors import Forbidden, NotFound, RuleBroken, StaffbookingError
from staffbooking_core.ports import (
    CustomerCompanionPair,
    MessagesReadPort,
    MessagesWritePort,
    Ports,
    Transaction,
)
from staffbooking_core.representations import channel
from staffbooking_core.representations.channel import Broadcast, ServerEvent
from staffbooking_core.validation import validated

__all__ = [
    "MessageDraft",
    "ScreenedMessage",
    "authorize",
    "count_unread",
    "direct_conversation_with",
    "find_event_group",
    "get_conversation",
    "list_conversations",
    "list_messages",
    "mark_read",
    "open_conversation",
    "open_missing_conversations",
    "profile_photos",
    "screen_message",
    "send_message",
    "send_messages",
    "send_to_user",
    "shared_bookings",
    "update_event_group",
]

CONVERSATION_BATCH_SIZE = 500
"""Conversations that are opened in one transaction."""

MAX_SHARED_BOOKINGS = 50
"""Of the bookings that a conversation is about, the newest ones that are looked at."""

# Conversations --------------------------------------------------------------------------


@validated
async def open_missing_conversations(ports: Ports, user_id: int) -> None:
    """Open the direct conversations with all users with whom the user shares a booking. They are
    opened when they are first needed."""
    async with ports.store.read_view() as view:
        pairs = await view.messages.pairs_without_conversation(user_id, CONVERSATION_BATCH_SIZE)
    while pairs:
        await _open_conversations(ports, pairs)
        async with ports.store.read_view() as view:
            pairs = await view.messages.pairs_without_conversation(user_id, CONVERSATION_BATCH_SIZE)


async def _open_conversations(
    ports: Ports, pairs: Sequence[CustomerCompanionPair]
) -> Sequence[int]:
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Sequence[int]:
        return [await tx.messages.open_direct_conversation(pair, now) for pair in pairs]

    return await ports.store.run_transaction(unit)


@validated
async def list_conversations(
    ports: Ports, actor: Actor, page: int, limit: int
) -> Sequence[ConversationOverview]:
    """A page of the actor's conversations, up to `limit + 1`, the last updated first (SPECIFICATION
    4.8)."""
    await open_missing_conversations(ports, actor.user_id)
    async with ports.store.read_view() as view:
        found = await view.messages.overviews(actor.user_id, page, limit, ports.clock.wall())
    return [overview_for_reader(each, actor.user_id) for each in found]


@validated
async def get_conversation(
    ports: Ports, actor: Actor, conversation_id: int
) -> ConversationOverview:
    """A conversation as the actor sees it. Raises NotFound, also for a stranger."""
    async with ports.store.read_view() as view:
        found = await view.messages.overview(conversation_id, actor.user_id, ports.clock.wall())
    if found is None:
        raise NotFound("Conversation")
    return overview_for_reader(found, actor.user_id)


@validated
async def count_unread(ports: Ports, user_id: int) -> tuple[int, int]:
    """Number of messages that a user has not read, and the id of the last message that they may
    read; 0 without any."""
    async with ports.store.read_view() as view:
        return (
            await view.messages.unread_count(user_id),
            await view.messages.last_message_id(user_id),
        )


@validated
async def profile_photos(
    ports: Ports, conversations: Iterable[Conversation], bookings: Iterable[Booking] = ()
) -> Mapping[int, str]:
    """The photos of the staff members of conversations and bookings, by user id."""
    staff_ids = {user_id for conversation in conversations for user_id in conversation.staff_ids}
    staff_ids |= {booking.companion_id for booking in bookings}
    async with ports.store.read_view() as view:
        return await view.companions.profile_photos(staff_ids)


@validated
async def shared_bookings(
    ports: Ports, actor: Actor, conversation: Conversation
) -> Sequence[Booking]:
    """The bookings that a conversation is about, as far as the actor is a party of them: the one
    that matters now first. Of a group, the bookings of its event."""
    now = await ports.clock.business()
    is_customer = actor.user_id == conversation.customer_id
    staff_ids = conversation.staff_ids if is_customer else (actor.user_id,)
    async with ports.store.read_view() as view:
        found = await view.bookings.bookings_between(
            conversation.customer_id, staff_ids, MAX_SHARED_BOOKINGS
        )
    event_ref = conversation.event_ref
    return sort_by_relevance(
        (each for each in found if event_ref is None or each.event_ref == event_ref), now
    )


@validated
async def authorize(ports: Ports, actor: Actor, conversation_id: int) -> None:
    """Check that the actor may write in a conversation.

    Raises NotFound for a stranger, and Forbidden `conversation_left`.
    """
    async with ports.store.read_view() as view:
        found = await view.messages.conversation(conversation_id)
    check_can_write(*require_member(found, actor.user_id))


@validated
async def direct_conversation_with(ports: Ports, actor: Actor, user_id: int) -> int | None:
    """The id of the direct conversation with another user, opened if necessary; None for the actor.

    Raises NotFound without such a user, and Forbidden `no_shared_booking`.
    """
    if user_id == actor.user_id:
        return None
    async with ports.store.read_view() as view:
        pair = await view.messages.find_pair(actor.user_id, user_id)
        if pair is None:
            if await view.accounts.user(user_id) is None:
                raise NotFound("User")
            raise Forbidden("no_shared_booking", "You share no booking with this user")
        conversation_id = await view.messages.direct_conversation_id(pair)
    return (
        (await _open_conversations(ports, [pair]))[0]
        if conversation_id is None
        else conversation_id
    )


# Reading --------------------------------------------------------------------------------


@validated
async def list_messages(
    ports: Ports,
    actor: Actor,
    conversation_id: int,
    *,
    before: int | None,
    after: int | None,
    limit: int,
) -> tuple[Sequence[Message], bool]:
    """Messages of a conversation, the oldest first, and whether there are more in that direction:
    the next ones above `after`, else the last ones; in both cases below `before`.

    Raises NotFound for a stranger.
    """
    async with ports.store.read_view() as view:
        found = await view.messages.conversation(conversation_id)
        conversation, member = require_member(found, actor.user_id)
        max_id = last_readable_id(conversation, member)
        if after is None:
            page = await view.messages.messages_before(conversation_id, before, max_id, limit + 1)
            return page[-limit:], len(page) > limit
        max_id = max_id if before is None else min(max_id, before - 1)
        page = await view.messages.messages_after(conversation_id, after, max_id, limit + 1)
        return page[:limit], len(page) > limit


@validated
async def open_conversation(
    ports: Ports,
    actor: Actor,
    conversation_id: int,
    *,
    before: int | None,
    after: int | None,
    limit: int,
) -> tuple[ConversationOverview, Sequence[Message], bool]:
    """A conversation as the actor sees it, with messages as by `list_messages`, which are marked as
    read. Raises NotFound for a stranger."""
    page, has_more = await list_messages(
        ports, actor, conversation_id, before=before, after=after, limit=limit
    )
    found = await get_conversation(ports, actor, conversation_id)
    if page and found.unread:
        await mark_read(ports, actor.user_id, conversation_id, page[-1].id)
        found = await get_conversation(ports, actor, conversation_id)
    return found, page, has_more


@validated
async def mark_read(ports: Ports, user_id: int, conversation_id: int, message_id: int) -> Broadcast:
    """Mark a conversation as read up to a message and broadcast the mark; returns the broadcast.
    Marks never go back: the stored mark is broadcast.

    Raises NotFound for a stranger, and without such a message.
    """
    async with ports.store.read_view() as view:
        found = await view.messages.conversation(conversation_id)
        conversation, member = require_member(found, user_id)
        max_id = last_readable_id(conversation, member)
        last = await view.messages.messages_before(conversation_id, message_id + 1, max_id, 1)
    if not last or last[0].id != message_id:
        raise NotFound("Message")
    mark = member.read_id
    if message_id > mark:

        async def unit(tx: Transaction) -> int:
            return await tx.messages.mark_read(conversation_id, user_id, message_id)

        mark = await ports.store.run_transaction(unit)
    data = channel.read_data(conversation_id, mark, user_id)
    broadcast = Broadcast(conversation.recipient_ids, ServerEvent.READ, data)
    ports.pubsub.publish(broadcast)
    return broadcast


# Sending --------------------------------------------------------------------------------

_ClientKey: TypeAlias = tuple[int, int, str]
"""Conversation, sender, and the sender's own id of a message."""


@frozen
class MessageDraft:
    """A message to be sent."""

    sender_id: int
    conversation_id: int
    content: str = field(repr=False)
    client_id: str | None = None
    """The sender's own id of the message: a repeated one is not stored again, and has the same
    content."""

    @property
    def client_key(self) -> _ClientKey | None:
        """Key by which a repetition is recognized; None without a client id."""
        if self.client_id is None:
            return None
        return self.conversation_id, self.sender_id, self.client_id


@frozen
class ScreenedMessage:
    """A draft with the findings of the content filter. Only screened messages can be sent."""

    draft: MessageDraft
    findings: ContentFindings


@validated
async def send_message(ports: Ports, draft: MessageDraft) -> Message:
    """Send a message: it is stored once, and announced to the subscribers, when this returns.

    Raises NotFound for a stranger, Forbidden `conversation_left`, ContentBlocked, and RuleBroken
    `idempotency_mismatch` where the client id was used for another content.
    """
    [result] = await send_messages(ports, [await screen_message(ports, draft)])
    if isinstance(result, StaffbookingError):
        raise result
    return result


@validated
async def screen_message(ports: Ports, draft: MessageDraft) -> ScreenedMessage:
    """Scan a draft with the content filter."""
    return ScreenedMessage(draft, await ports.content_filter.scan(draft.content))


@validated
async def send_messages(
    ports: Ports, screened_messages: Sequence[ScreenedMessage]
) -> Sequence[Message | StaffbookingError]:
    """Send several messages in one transaction; returns the stored message or the error of each, in
    their order. Locks their conversations."""
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Sequence[Message | StaffbookingError]:
        return await _store_messages(tx.messages, screened_messages, now)

    results = await ports.store.run_transaction(unit)
    ports.pubsub.publish_messages_stored()
    return results


async def _store_messages(
    messages: MessagesWritePort, screened_messages: Sequence[ScreenedMessage], now: datetime
) -> Sequence[Message | StaffbookingError]:
    conversations = await messages.lock_conversations(
        {each.draft.conversation_id for each in screened_messages}
    )
    client_keys = [
        each.draft.client_key for each in screened_messages if each.draft.client_key is not None
    ]
    stored_before = await messages.messages_by_client_id(client_keys) if client_keys else {}
    keys = [each.draft.client_key or index for index, each in enumerate(screened_messages)]
    stored: dict[_ClientKey | int, Message] = {}
    new: dict[_ClientKey | int, NewMessage] = {}
    refused: dict[int, StaffbookingError] = {}
    for place, (key, screened) in enumerate(zip(keys, screened_messages, strict=True)):
        try:
            if key in new:
                check_repetition(new[key], screened.draft.content)
                continue
            decision = await _check_message(messages, screened, conversations, stored_before, now)
        except StaffbookingError as error:
            refused[place] = error
            continue
        if isinstance(decision, Message):
            stored[key] = decision
        else:
            new[key] = decision
    if new:
        stored.update(zip(new, await messages.add_messages([*new.values()]), strict=True))
    return [refused.get(place) or stored[key] for place, key in enumerate(keys)]


async def _check_message(
    messages: MessagesReadPort,
    screened: ScreenedMessage,
    conversations: Mapping[int, Conversation],
    stored_before: Mapping[_ClientKey, Message],
    now: datetime,
) -> NewMessage | Message:
    """The message to store, or the one that is stored already."""
    draft, findings = screened.draft, screened.findings
    conversation, member = require_member(conversations.get(draft.conversation_id), draft.sender_id)
    if draft.client_key is not None and (before := stored_before.get(draft.client_key)) is not None:
        check_repetition(before, draft.content)
        return before
    new_message = compose_message(conversation, member, draft.content, draft.client_id, now)
    may_share = True
    if findings.has_contact:
        may_share = can_share_contacts(conversation, await messages.paid_staff_ids(conversation))
    check_content(findings, may_share_contacts=may_share)
    return new_message


@validated
async def send_to_user(
    ports: Ports, actor: Actor, user_id: int, content: str, client_id: str | None = None
) -> Message:
    """Send a message to a user with whom the actor shares a booking of any status (SPECIFICATION
    4.8). `client_id` is the actor's own id of the message.

    Raises RuleBroken `message_to_oneself` or `idempotency_mismatch`, NotFound without such a user,
    Forbidden `no_shared_booking`, and ContentBlocked.
    """
    conversation_id = await direct_conversation_with(ports, actor, user_id)
    if conversation_id is None:
        raise RuleBroken("message_to_oneself", "You can't send messages to yourself")
    draft = MessageDraft(actor.user_id, conversation_id, content, client_id)
    return await send_message(ports, draft)


# Groups ---------------------------------------------------------------------------------


@validated
async def find_event_group(ports: Ports, actor: Actor, booking: Booking) -> int | None:
    """The id of the group conversation of a booking's event; None where there is none, or the actor
    never was in it."""
    if booking.event_ref is None:
        return None
    async with ports.store.read_view() as view:
        group_id = await view.messages.event_group_id(booking.customer_id, booking.event_ref)
        if group_id is None:
            return None
        overview = await view.messages.overview(group_id, actor.user_id, ports.clock.wall())
    return None if overview is None else group_id


async def update_event_group(
    messages: MessagesWritePort, before: Booking, after: Booking, now: datetime
) -> None:
    """Update the members of the group conversation of a booking's event, after the booking was
    saved. Does nothing unless the booking became or stopped being confirmed. Locks the group."""
    was_booked, is_booked = (
        before.status in CONFIRMED_STATUSES,
        after.status in CONFIRMED_STATUSES,
    )
    if after.event_ref is None or was_booked == is_booked:
        return
    # Locked before the bookings are read, so that concurrent accepts see each other.
    group = await messages.lock_group(after.customer_id, after.event_ref, now)
    booked = await messages.booked_companions(after.customer_id, after.event_ref)
    await messages.save_group(
        sync_group_members(group, dict(booked)), is_open=len(booked) >= MIN_GROUP_BOOKINGS
    )
