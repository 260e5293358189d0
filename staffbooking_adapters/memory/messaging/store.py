"""Conversations and messages in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice

from attrs import asdict, evolve, frozen

from staffbooking_adapters.memory.messaging.conversations import (
    acquaintances_of,
    conversations_of,
    find_conversation,
    put_conversation,
    with_current_members,
)
from staffbooking_adapters.memory.messaging.presence import online_users
from staffbooking_adapters.memory.slots import bookings_of
from staffbooking_adapters.memory.state import MemoryState, MemoryTransaction
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.bookings.lifecycle import CONFIRMED_STATUSES
from staffbooking_core.domain.messaging.conversations import (
    CONTACT_SHARING_STATUSES,
    Conversation,
    ConversationKind,
    ConversationMember,
    ConversationOverview,
    Message,
    NewMessage,
    last_readable_id,
)
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import CustomerCompanionPair, UnreadMessage

BROADCAST_CHECKPOINT = "messages_told"
CLIENT_ID_TAKEN = "uq_messages_conversation_id_sender_id_client_id"


@frozen
class MessagesReader:
    """Reads conversations and messages."""

    tx: MemoryTransaction

    async def conversation(self, conversation_id: int) -> Conversation | None:
        return find_conversation(self.tx.state, conversation_id)

    async def overviews(
        self, user_id: int, page: int, limit: int, now: datetime
    ) -> Sequence[ConversationOverview]:
        state, start = self.tx.state, (page - 1) * limit
        found = sorted((each.updated_at, each.id) for each in conversations_of(state, user_id))
        page_rows = found[::-1][start : start + limit + 1]
        overviews = [
            _overview(state, conversation_id, user_id, now) for _, conversation_id in page_rows
        ]
        return [overview for overview in overviews if overview is not None]

    async def overview(
        self, conversation_id: int, user_id: int, now: datetime
    ) -> ConversationOverview | None:
        return _overview(self.tx.state, conversation_id, user_id, now)

    async def messages_before(
        self, conversation_id: int, before_id: int | None, max_id: int, limit: int
    ) -> Sequence[Message]:
        last = max_id if before_id is None else min(before_id - 1, max_id)
        message_ids = _message_ids_between(self.tx.state, conversation_id, 0, last)
        return _messages_by_id(self.tx.state, message_ids[-limit:])

    async def messages_after(
        self, conversation_id: int, after_id: int, max_id: int, limit: int
    ) -> Sequence[Message]:
        message_ids = _message_ids_between(self.tx.state, conversation_id, after_id, max_id)
        return _messages_by_id(self.tx.state, message_ids[:limit])

    async def find_pair(self, user_id: int, other_id: int) -> CustomerCompanionPair | None:
        pairs = (CustomerCompanionPair(user_id, other_id), CustomerCompanionPair(other_id, user_id))
        return next((pair for pair in pairs if _bookings_of_pair(self.tx.state, pair)), None)

    async def direct_conversation_id(self, pair: CustomerCompanionPair) -> int | None:
        return self.tx.state.direct_by_pair.get(pair)

    async def event_group_id(self, customer_id: int, event_ref: str) -> int | None:
        group_id = self.tx.state.group_by_event.get((customer_id, event_ref))
        is_open = group_id is not None and self.tx.state.conversations[group_id].is_open
        return group_id if is_open else None

    async def pairs_without_conversation(
        self, user_id: int, limit: int
    ) -> Sequence[CustomerCompanionPair]:
        state = self.tx.state
        parties = {
            (booking.customer_id, booking.companion_id)
            for booking in state.bookings.values()
            if user_id in (booking.customer_id, booking.companion_id)
        }
        pairs = (CustomerCompanionPair(*each) for each in sorted(parties))
        return [pair for pair in pairs if pair not in state.direct_by_pair][:limit]

    async def paid_staff_ids(self, conversation: Conversation) -> Sequence[int]:
        return [
            user_id
            for user_id in conversation.staff_ids
            if any(
                booking.customer_id == conversation.customer_id
                and booking.status in CONTACT_SHARING_STATUSES
                for booking in bookings_of(self.tx.state, user_id)
            )
        ]

    async def unread_count(self, user_id: int) -> int:
        state = self.tx.state
        return sum(
            _count_unread(state, conversation, member)
            for conversation in conversations_of(state, user_id)
            if (member := conversation.find_member(user_id)) is not None
        )

    async def last_message_id(self, user_id: int | None = None) -> int:
        state = self.tx.state
        if user_id is None:
            return len(state.messages)
        return max((last_id for _, last_id in _readable_conversations(state, user_id)), default=0)

    async def all_messages_after(self, after_id: int, limit: int) -> Sequence[Message]:
        last = min(after_id + limit, len(self.tx.state.messages))
        return _messages_by_id(self.tx.state, range(after_id + 1, last + 1))

    async def last_notified_id(self) -> int:
        return self.tx.state.checkpoints.get(BROADCAST_CHECKPOINT) or 0

    async def readable_messages_after(
        self, user_id: int, after_id: int, limit: int
    ) -> Sequence[Message]:
        state = self.tx.state
        ids_by_conversation = (
            _message_ids_between(state, conversation_id, after_id, last_id)
            for conversation_id, last_id in _readable_conversations(state, user_id)
        )
        return _messages_by_id(state, islice(merge(*ids_by_conversation), limit))

    async def conversation_partners(
        self, user_id: int, candidate_ids: Iterable[int]
    ) -> frozenset[int]:
        return frozenset(acquaintances_of(self.tx.state, user_id).intersection(candidate_ids))


@frozen
class MessagesWriter(MessagesReader):
    """Reads and writes conversations and messages."""

    async def open_direct_conversation(self, pair: CustomerCompanionPair, now: datetime) -> int:
        state = self.tx.state
        if (conversation_id := state.direct_by_pair.get(pair)) is not None:
            return conversation_id
        conversation_id = state.direct_by_pair[pair] = next(self.tx.shared.conversation_ids)
        members = [
            ConversationMember(each, "") for each in sorted((pair.customer_id, pair.companion_id))
        ]
        direct = Conversation(
            id=conversation_id,
            kind=ConversationKind.DIRECT,
            customer_id=pair.customer_id,
            companion_id=pair.companion_id,
            event_ref=None,
            updated_at=now,
            members=tuple(members),
        )
        put_conversation(state, direct, is_open=True)
        return conversation_id

    async def lock_conversations(
        self, conversation_ids: Iterable[int]
    ) -> Mapping[int, Conversation]:
        state = self.tx.state
        found = [
            find_conversation(state, conversation_id)
            for conversation_id in sorted(set(conversation_ids))
        ]
        return {conversation.id: conversation for conversation in found if conversation is not None}

    async def lock_group(self, customer_id: int, event_ref: str, now: datetime) -> Conversation:
        state, event = self.tx.state, (customer_id, event_ref)
        if (group_id := state.group_by_event.get(event)) is None:
            group_id = state.group_by_event[event] = next(self.tx.shared.conversation_ids)
            group = Conversation(
                id=group_id,
                kind=ConversationKind.GROUP,
                customer_id=customer_id,
                companion_id=None,
                event_ref=event_ref,
                updated_at=now,
                members=(ConversationMember(customer_id, ""),),
            )
            put_conversation(state, group, is_open=False)
        return with_current_members(state, state.conversations[group_id].conversation)

    async def booked_companions(
        self, customer_id: int, event_ref: str
    ) -> Sequence[tuple[int, str]]:
        state = self.tx.state
        return [
            (booking.companion_id, state.users[booking.companion_id].name)
            for booking in state.bookings.values()
            if (booking.customer_id, booking.event_ref) == (customer_id, event_ref)
            and booking.status in CONFIRMED_STATUSES
        ]

    async def save_group(self, group: Conversation, *, is_open: bool) -> None:
        row, joined = self.tx.state.conversations[group.id], group.members
        if is_open and not row.is_open:
            joined = group.participants
        saved = evolve(row.conversation, members=joined)
        put_conversation(self.tx.state, saved, is_open=row.is_open or is_open)

    async def messages_by_client_id(
        self, client_keys: Iterable[tuple[int, int, str]]
    ) -> Mapping[tuple[int, int, str], Message]:
        state = self.tx.state
        found = {key: state.message_by_client_id.get(key) for key in client_keys}
        return {
            key: state.messages[message_id]
            for key, message_id in found.items()
            if message_id is not None
        }

    async def add_messages(self, messages: Sequence[NewMessage]) -> Sequence[Message]:
        return [self._add_message(new) for new in messages]

    async def mark_read(self, conversation_id: int, user_id: int, message_id: int) -> int:
        rows = self.tx.state.conversations
        conversation = rows[conversation_id].conversation
        marks = {member.user_id: member.read_id for member in conversation.members}
        marks[user_id] = max(marks[user_id], message_id)
        members = [evolve(each, read_id=marks[each.user_id]) for each in conversation.members]
        marked = evolve(conversation, members=tuple(members))
        rows[conversation_id] = evolve(rows[conversation_id], conversation=marked)
        return marks[user_id]

    async def lock_last_notified_id(self) -> int:
        return await self.last_notified_id()

    async def set_last_notified_id(self, message_id: int) -> None:
        self.tx.state.checkpoints[BROADCAST_CHECKPOINT] = message_id

    async def unread_messages(
        self, message_ids: Sequence[int], now: datetime
    ) -> Sequence[UnreadMessage]:
        found = _messages_by_id(self.tx.state, sorted(message_ids))
        unseen = [each for message in found for each in self._unseen_by_members(message)]
        online = online_users(self.tx.state, {each.user_id for each in unseen}, now)
        return [each for each in unseen if each.user_id not in online]

    async def missed_messages(
        self, user_ids: Sequence[int], max_id: int, now: datetime
    ) -> Sequence[UnreadMessage]:
        unread = await self.unread_messages([*range(1, max_id + 1)], now)
        senders = {message.id: message.sender_id for message in self.tx.state.messages.values()}
        last = {
            (each.user_id, each.conversation_id, senders[each.message_id]): each
            for each in unread
            if each.user_id in user_ids
        }
        return sorted(last.values(), key=lambda each: (each.message_id, each.user_id))

    async def mark_notified(self, unread_messages: Sequence[UnreadMessage]) -> None:
        for each in unread_messages:
            key = (each.conversation_id, each.user_id)
            self.tx.state.last_notified_messages[key] = each.message_id

    def _unseen_by_members(self, message: Message) -> list[UnreadMessage]:
        state, conversation_id = self.tx.state, message.conversation_id
        return [
            UnreadMessage(conversation_id, member.user_id, message.id, message.sender_name)
            for member in state.conversations[conversation_id].conversation.participants
            if member.user_id != message.sender_id
            and member.read_id < message.id
            and _gets_emails(state, member.user_id)
            and (state.last_notified_messages.get((conversation_id, member.user_id)) or 0)
            <= member.read_id
        ]

    def _add_message(self, new: NewMessage) -> Message:
        state = self.tx.state
        added = Message(id=len(state.messages) + 1, **asdict(new, recurse=False))
        if new.client_id is not None:
            client_key = (new.conversation_id, new.sender_id, new.client_id)
            if client_key in state.message_by_client_id:
                raise ConstraintViolated(CLIENT_ID_TAKEN)
            state.message_by_client_id[client_key] = added.id
        state.messages[added.id] = added
        others = state.messages_of.get(new.conversation_id) or ()
        state.messages_of[new.conversation_id] = (*others, added.id)
        row = state.conversations[new.conversation_id]
        conversation = evolve(row.conversation, last_id=added.id, updated_at=new.created_at)
        state.conversations[new.conversation_id] = evolve(row, conversation=conversation)
        return added


def _overview(
    state: MemoryState, conversation_id: int, user_id: int, now: datetime
) -> ConversationOverview | None:
    conversation = find_conversation(state, conversation_id)
    member = None if conversation is None else conversation.find_member(user_id)
    if conversation is None or member is None:
        return None
    return ConversationOverview(
        conversation=conversation,
        last_message=state.messages.get(last_readable_id(conversation, member)),
        unread=_count_unread(state, conversation, member),
        booking_code=_booking_code(state, conversation),
        online=online_users(state, conversation.recipient_ids, now),
    )


def _count_unread(
    state: MemoryState, conversation: Conversation, member: ConversationMember
) -> int:
    last_id = last_readable_id(conversation, member)
    unread = _messages_by_id(
        state, _message_ids_between(state, conversation.id, member.read_id, last_id)
    )
    return sum(message.sender_id != member.user_id for message in unread)


def _booking_code(state: MemoryState, conversation: Conversation) -> str | None:
    if conversation.companion_id is None:
        return None
    pair = CustomerCompanionPair(conversation.customer_id, conversation.companion_id)
    newest = max(_bookings_of_pair(state, pair), key=lambda booking: booking.id, default=None)
    return None if newest is None else newest.code


def _bookings_of_pair(state: MemoryState, pair: CustomerCompanionPair) -> list[Booking]:
    """The bookings of a pair."""
    bookings = bookings_of(state, pair.companion_id)
    return [booking for booking in bookings if booking.customer_id == pair.customer_id]


def _readable_conversations(state: MemoryState, user_id: int) -> Iterator[tuple[int, int]]:
    """The ids of the conversations that a user is or was in, each with the last readable message
    id."""
    for conversation in conversations_of(state, user_id):
        if (member := conversation.find_member(user_id)) is not None:
            yield conversation.id, last_readable_id(conversation, member)


def _message_ids_between(
    state: MemoryState, conversation_id: int, after_id: int, last_id: int
) -> tuple[int, ...]:
    """The ids of a conversation's messages in (`after_id`, `last_id`], ascending."""
    row = state.conversations.get(conversation_id)
    message_ids = state.messages_of.get(conversation_id)
    if row is None or not row.is_open or message_ids is None:
        return ()
    return message_ids[bisect_right(message_ids, after_id) : bisect_right(message_ids, last_id)]


def _gets_emails(state: MemoryState, user_id: int) -> bool:
    """Whether a user is enabled and has not muted e-mails about messages."""
    user, muted_kinds = state.users.get(user_id), state.muted_kinds.get(user_id) or ()
    is_disabled = user is not None and user.disabled_at is not None
    return not is_disabled and NotificationKind.NEW_MESSAGE not in muted_kinds


def _messages_by_id(state: MemoryState, message_ids: Iterable[int]) -> list[Message]:
    return [state.messages[message_id] for message_id in message_ids]
