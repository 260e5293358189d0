"""Conversations and messages in memory."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from heapq import merge
from itertools import islice

from attrs import asdict, evolve, frozen

from staffbooking_adapters.memory.messaging.conversations import (
    acquainted,
    conversations_of,
    find_conversation,
    put_conversation,
    with_members,
)
from staffbooking_adapters.memory.messaging.presence import connected
from staffbooking_adapters.memory.slots import bookings_of
from staffbooking_adapters.memory.state import Place, State
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.messaging.conversations import (
    BOOKED,
    PAID_ONCE,
    Conversation,
    Kind,
    Member,
    Message,
    NewMessage,
    Overview,
    last_readable,
)
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import Pair, Unseen

MESSAGES_TOLD = "messages_told"
CLIENT_ID_TAKEN = "uq_messages_conversation_id_sender_id_client_id"


@frozen
class MessagesReader:
    place: Place

    async def conversation(self, conversation_id: int) -> Conversation | None:
        return find_conversation(self.place.state, conversation_id)

    async def overviews(
        self, user_id: int, page: int, limit: int, now: datetime
    ) -> Sequence[Overview]:
        state, start = self.place.state, (page - 1) * limit
        found = sorted((each.updated_at, each.id) for each in conversations_of(state, user_id))
        numbers = [number for _, number in found[::-1]][start : start + limit + 1]
        overviews = [_overview(state, number, user_id, now) for number in numbers]
        return [overview for overview in overviews if overview is not None]

    async def overview(self, conversation_id: int, user_id: int, now: datetime) -> Overview | None:
        return _overview(self.place.state, conversation_id, user_id, now)

    async def newest(
        self, conversation_id: int, before: int | None, upto: int, limit: int
    ) -> Sequence[Message]:
        last = upto if before is None else min(before - 1, upto)
        numbers = _said(self.place.state, conversation_id, 0, last)
        return _messages(self.place.state, numbers[-limit:])

    async def newer(
        self, conversation_id: int, after: int, upto: int, limit: int
    ) -> Sequence[Message]:
        numbers = _said(self.place.state, conversation_id, after, upto)
        return _messages(self.place.state, numbers[:limit])

    async def pair(self, user_id: int, other_id: int) -> Pair | None:
        pairs = (Pair(user_id, other_id), Pair(other_id, user_id))
        return next((pair for pair in pairs if _shared(self.place.state, pair)), None)

    async def direct(self, pair: Pair) -> int | None:
        return self.place.state.direct_by_pair.get(pair)

    async def unopened(self, user_id: int, limit: int) -> Sequence[Pair]:
        state = self.place.state
        parties = {
            (booking.customer_id, booking.companion_id)
            for booking in state.bookings.values()
            if user_id in (booking.customer_id, booking.companion_id)
        }
        pairs = (Pair(*each) for each in sorted(parties))
        return [pair for pair in pairs if pair not in state.direct_by_pair][:limit]

    async def cleared(self, conversation: Conversation) -> Sequence[int]:
        return [
            user_id
            for user_id in conversation.staff_ids
            if any(
                booking.customer_id == conversation.customer_id and booking.status in PAID_ONCE
                for booking in bookings_of(self.place.state, user_id)
            )
        ]

    async def last_id(self, user_id: int | None = None) -> int:
        state = self.place.state
        if user_id is None:
            return len(state.messages)
        return max((upto for _, upto in _readable(state, user_id)), default=0)

    async def tail(self, after: int, limit: int) -> Sequence[Message]:
        last = min(after + limit, len(self.place.state.messages))
        return _messages(self.place.state, range(after + 1, last + 1))

    async def told_upto(self) -> int:
        return self.place.state.positions.get(MESSAGES_TOLD) or 0

    async def inbox(self, user_id: int, after: int, limit: int) -> Sequence[Message]:
        state = self.place.state
        said = (_said(state, number, after, upto) for number, upto in _readable(state, user_id))
        return _messages(state, islice(merge(*said), limit))

    async def acquaintances(self, user_id: int, among: Iterable[int]) -> frozenset[int]:
        return frozenset(acquainted(self.place.state, user_id).intersection(among))


@frozen
class MessagesWriter(MessagesReader):
    async def open_direct(self, pair: Pair, now: datetime) -> int:
        state = self.place.state
        if (number := state.direct_by_pair.get(pair)) is not None:
            return number
        number = state.direct_by_pair[pair] = next(self.place.shared.conversation_ids)
        members = [Member(each, "") for each in sorted((pair.customer_id, pair.companion_id))]
        direct = Conversation(
            id=number,
            kind=Kind.DIRECT,
            customer_id=pair.customer_id,
            companion_id=pair.companion_id,
            event_ref=None,
            updated_at=now,
            members=tuple(members),
        )
        put_conversation(state, direct, is_open=True)
        return number

    async def hold(self, conversation_ids: Iterable[int]) -> Mapping[int, Conversation]:
        state = self.place.state
        found = [find_conversation(state, number) for number in sorted(set(conversation_ids))]
        return {conversation.id: conversation for conversation in found if conversation is not None}

    async def hold_group(self, customer_id: int, event_ref: str, now: datetime) -> Conversation:
        state, event = self.place.state, (customer_id, event_ref)
        if (number := state.group_by_event.get(event)) is None:
            number = state.group_by_event[event] = next(self.place.shared.conversation_ids)
            group = Conversation(
                id=number,
                kind=Kind.GROUP,
                customer_id=customer_id,
                companion_id=None,
                event_ref=event_ref,
                updated_at=now,
                members=(Member(customer_id, ""),),
            )
            put_conversation(state, group, is_open=False)
        return with_members(state, state.conversations[number].conversation)

    async def booked(self, customer_id: int, event_ref: str) -> Sequence[tuple[int, str]]:
        state = self.place.state
        return [
            (booking.companion_id, state.users[booking.companion_id].name)
            for booking in state.bookings.values()
            if (booking.customer_id, booking.event_ref) == (customer_id, event_ref)
            and booking.status in BOOKED
        ]

    async def save_group(self, group: Conversation, *, opens: bool) -> None:
        row, joined = self.place.state.conversations[group.id], group.members
        if opens and not row.is_open:
            joined = group.participants
        saved = evolve(row.conversation, members=joined)
        put_conversation(self.place.state, saved, is_open=row.is_open or opens)

    async def known(
        self, names: Iterable[tuple[int, int, str]]
    ) -> Mapping[tuple[int, int, str], Message]:
        state = self.place.state
        found = {name: state.message_by_name.get(name) for name in names}
        return {
            name: state.messages[number] for name, number in found.items() if number is not None
        }

    async def add(self, messages: Sequence[NewMessage]) -> Sequence[Message]:
        return [self._add(new) for new in messages]

    async def mark_read(self, conversation_id: int, user_id: int, message_id: int) -> int:
        rows = self.place.state.conversations
        conversation = rows[conversation_id].conversation
        marks = {member.user_id: member.read_id for member in conversation.members}
        marks[user_id] = max(marks[user_id], message_id)
        members = [evolve(each, read_id=marks[each.user_id]) for each in conversation.members]
        marked = evolve(conversation, members=tuple(members))
        rows[conversation_id] = evolve(rows[conversation_id], conversation=marked)
        return marks[user_id]

    async def lock_told(self) -> int:
        return await self.told_upto()

    async def set_told(self, message_id: int) -> None:
        self.place.state.positions[MESSAGES_TOLD] = message_id

    async def unseen(self, message_ids: Sequence[int], now: datetime) -> Sequence[Unseen]:
        found = _messages(self.place.state, sorted(message_ids))
        unseen = [each for message in found for each in self._unseen(message)]
        online = connected(self.place.state, {each.user_id for each in unseen}, now)
        return [each for each in unseen if each.user_id not in online]

    async def note_told(self, unseen: Sequence[Unseen]) -> None:
        for each in unseen:
            place = (each.conversation_id, each.user_id)
            self.place.state.messages_told[place] = each.message_id

    def _unseen(self, message: Message) -> list[Unseen]:
        state, number = self.place.state, message.conversation_id
        return [
            Unseen(number, member.user_id, message.id, message.sender_name)
            for member in state.conversations[number].conversation.participants
            if member.user_id != message.sender_id
            and member.read_id < message.id
            and (state.messages_told.get((number, member.user_id)) or 0) <= member.read_id
        ]

    def _add(self, new: NewMessage) -> Message:
        state = self.place.state
        added = Message(id=len(state.messages) + 1, **asdict(new, recurse=False))
        if new.client_id is not None:
            name = (new.conversation_id, new.sender_id, new.client_id)
            if name in state.message_by_name:
                raise ConstraintViolated(CLIENT_ID_TAKEN)
            state.message_by_name[name] = added.id
        state.messages[added.id] = added
        others = state.messages_of.get(new.conversation_id) or ()
        state.messages_of[new.conversation_id] = (*others, added.id)
        row = state.conversations[new.conversation_id]
        said = evolve(row.conversation, last_id=added.id, updated_at=new.created_at)
        state.conversations[new.conversation_id] = evolve(row, conversation=said)
        return added


def _overview(state: State, conversation_id: int, user_id: int, now: datetime) -> Overview | None:
    conversation = find_conversation(state, conversation_id)
    member = None if conversation is None else conversation.member(user_id)
    if conversation is None or member is None:
        return None
    upto = last_readable(conversation, member)
    unread = _messages(state, _said(state, conversation_id, member.read_id, upto))
    return Overview(
        conversation=conversation,
        last_message=state.messages.get(upto),
        unread=sum(message.sender_id != user_id for message in unread),
        booking_code=_booking_code(state, conversation),
        online=connected(state, conversation.recipients, now),
    )


def _booking_code(state: State, conversation: Conversation) -> str | None:
    if conversation.companion_id is None:
        return None
    pair = Pair(conversation.customer_id, conversation.companion_id)
    newest = max(_shared(state, pair), key=lambda booking: booking.id, default=None)
    return None if newest is None else newest.code


def _shared(state: State, pair: Pair) -> list[Booking]:
    """The bookings of a pair."""
    bookings = bookings_of(state, pair.companion_id)
    return [booking for booking in bookings if booking.customer_id == pair.customer_id]


def _readable(state: State, user_id: int) -> Iterator[tuple[int, int]]:
    """The conversations that a user is or was in, each with the last message for them."""
    for conversation in conversations_of(state, user_id):
        if (member := conversation.member(user_id)) is not None:
            yield conversation.id, last_readable(conversation, member)


def _said(state: State, conversation_id: int, after: int, upto: int) -> tuple[int, ...]:
    """The ids of a conversation's messages that are above one and not above another."""
    row, numbers = state.conversations.get(conversation_id), state.messages_of.get(conversation_id)
    if row is None or not row.is_open or numbers is None:
        return ()
    return numbers[bisect_right(numbers, after) : bisect_right(numbers, upto)]


def _messages(state: State, numbers: Iterable[int]) -> list[Message]:
    return [state.messages[number] for number in numbers]
