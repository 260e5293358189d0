"""Messages: conversations, their members and messages, and who must be notified of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.messaging.conversations import (
    Conversation,
    ConversationOverview,
    Message,
    NewMessage,
)

__all__ = ["CustomerCompanionPair", "MessagesReadPort", "MessagesWritePort", "UnreadMessage"]


@frozen
class CustomerCompanionPair:
    """A customer and a companion who share a booking."""

    customer_id: int
    companion_id: int


@frozen
class UnreadMessage:
    """A message that a user has not read and was not notified of."""

    conversation_id: int
    user_id: int
    message_id: int
    sender_name: str


class MessagesReadPort(Protocol):
    """Queries on conversations and messages. Groups that are not open yet, and their messages, are
    invisible to every method but `lock_group`. Members have their current names."""

    async def conversation(self, conversation_id: int) -> Conversation | None:
        """A conversation by id."""
        ...

    async def overviews(
        self, user_id: int, page: int, limit: int, now: datetime
    ) -> Sequence[ConversationOverview]:
        """Up to `limit + 1` conversations that a user is or was in, from the page's start: the last
        updated first, then the higher id. `now` is wall time."""
        ...

    async def overview(
        self, conversation_id: int, user_id: int, now: datetime
    ) -> ConversationOverview | None:
        """One conversation of a user; None where the user never was in it."""
        ...

    async def messages_before(
        self, conversation_id: int, before_id: int | None, max_id: int, limit: int
    ) -> Sequence[Message]:
        """The last `limit` messages of a conversation below `before_id` and not above `max_id`;
        oldest first."""
        ...

    async def messages_after(
        self, conversation_id: int, after_id: int, max_id: int, limit: int
    ) -> Sequence[Message]:
        """The first `limit` messages of a conversation above `after_id` and not above `max_id`;
        oldest first."""
        ...

    async def find_pair(self, user_id: int, other_id: int) -> CustomerCompanionPair | None:
        """The customer and the companion of two users, in either order; None where they share no
        booking."""
        ...

    async def direct_conversation_id(self, pair: CustomerCompanionPair) -> int | None:
        """The id of the direct conversation of a pair."""
        ...

    async def event_group_id(self, customer_id: int, event_ref: str) -> int | None:
        """The id of the open group of a customer's event."""
        ...

    async def pairs_without_conversation(
        self, user_id: int, limit: int
    ) -> Sequence[CustomerCompanionPair]:
        """Up to `limit` pairs of a user that share a booking and have no conversation yet."""
        ...

    async def paid_staff_ids(self, conversation: Conversation) -> Sequence[int]:
        """The staff members of a conversation with whom the customer has a booking in
        `CONTACT_SHARING_STATUSES`."""
        ...

    async def unread_count(self, user_id: int) -> int:
        """Number of messages of others that a user may read and has not, over all of their
        conversations."""
        ...

    async def last_message_id(self, user_id: int | None = None) -> int:
        """The id of the last message of all, or of those that a user may read; 0 where there is
        none."""
        ...

    async def all_messages_after(self, after_id: int, limit: int) -> Sequence[Message]:
        """The first `limit` messages above an id, of all conversations, by id. No message that is
        committed later has an id below one that was read."""
        ...

    async def last_notified_id(self) -> int:
        """The id of the last message for which e-mail notifications were decided."""
        ...

    async def readable_messages_after(
        self, user_id: int, after_id: int, limit: int
    ) -> Sequence[Message]:
        """The first `limit` messages above an id that a user may read, over all of their
        conversations, by id."""
        ...

    async def conversation_partners(
        self, user_id: int, candidate_ids: Iterable[int]
    ) -> frozenset[int]:
        """The users among the candidates who currently share a conversation with a user; the user
        too."""
        ...


class MessagesWritePort(MessagesReadPort, Protocol):
    """Commands on conversations and messages. Locks last until the transaction ends."""

    async def open_direct_conversation(self, pair: CustomerCompanionPair, now: datetime) -> int:
        """The id of the direct conversation of a pair, created where it is missing."""
        ...

    async def lock_conversations(
        self, conversation_ids: Iterable[int]
    ) -> Mapping[int, Conversation]:
        """Conversations by id, locked in the order of ids; missing ones are left out."""
        ...

    async def lock_group(self, customer_id: int, event_ref: str, now: datetime) -> Conversation:
        """The group of an event, locked; created, and not open, where it is missing."""
        ...

    async def booked_companions(
        self, customer_id: int, event_ref: str
    ) -> Sequence[tuple[int, str]]:
        """The companion's id and name of each booking of an event whose status is in
        `CONFIRMED_STATUSES`. Reads what is committed now, so call it after locking the group."""
        ...

    async def save_group(self, group: Conversation, *, is_open: bool) -> None:
        """Save the members of a group, and open it with `is_open`; an open group stays open. A
        member who left before it opened was never in it."""
        ...

    async def messages_by_client_id(
        self, client_keys: Iterable[tuple[int, int, str]]
    ) -> Mapping[tuple[int, int, str], Message]:
        """The existing messages by (conversation_id, sender_id, client_id)."""
        ...

    async def add_messages(self, messages: Sequence[NewMessage]) -> Sequence[Message]:
        """Insert messages, in their order, into conversations that are locked. Ids are assigned
        under a lock, so that ids become visible in ascending order over all conversations."""
        ...

    async def mark_read(self, conversation_id: int, user_id: int, message_id: int) -> int:
        """Record that a member has read up to a message; the id of the last one read, which is this
        or a later one."""
        ...

    async def lock_last_notified_id(self) -> int:
        """`last_notified_id`, locked."""
        ...

    async def set_last_notified_id(self, message_id: int) -> None:
        """Set `last_notified_id`; the caller holds its lock."""
        ...

    async def unread_messages(
        self, message_ids: Sequence[int], now: datetime
    ) -> Sequence[UnreadMessage]:
        """These messages, each for every participant but the sender who has not read it, is not
        connected, and has read the conversation since the last notification; except users who muted
        `new_message` or are disabled. By message id, then user id. `now` is wall time."""
        ...

    async def missed_messages(
        self, user_ids: Sequence[int], max_id: int, now: datetime
    ) -> Sequence[UnreadMessage]:
        """The last message by each sender, not above `max_id`, that `unread_messages` would return
        for one of these users; by message id, then user id. `now` is wall time."""
        ...

    async def mark_notified(self, unread_messages: Sequence[UnreadMessage]) -> None:
        """Record that these users are notified of these messages."""
        ...
