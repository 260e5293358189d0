"""The store's families of messages and of presence in the channel."""

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


@frozen
class CustomerCompanionPair:
    """A customer and a companion who share a booking."""

    customer_id: int
    companion_id: int


@frozen
class UnreadMessage:
    """A message that somebody has not read and was not told of."""

    conversation_id: int
    user_id: int
    message_id: int
    sender_name: str


class MessagesReadPort(Protocol):
    """Groups that are not open yet, and their messages, are not there for any method but
    `hold_group`. Names of members are those that they have now."""

    async def conversation(self, conversation_id: int) -> Conversation | None: ...
    async def overviews(
        self, user_id: int, page: int, limit: int, now: datetime
    ) -> Sequence[ConversationOverview]:
        """Up to `limit + 1` of the conversations that a user is or was in, from the page's
        start: the one updated last first, then the higher id. `now` is wall time."""
        ...

    async def overview(
        self, conversation_id: int, user_id: int, now: datetime
    ) -> ConversationOverview | None:
        """None also where the user never was in it."""
        ...

    async def messages_before(
        self, conversation_id: int, before_id: int | None, max_id: int, limit: int
    ) -> Sequence[Message]:
        """The last `limit` messages of a conversation below `before` and not above `upto`;
        oldest first."""
        ...

    async def messages_after(
        self, conversation_id: int, after_id: int, max_id: int, limit: int
    ) -> Sequence[Message]:
        """The first `limit` messages of a conversation above `after` and not above `upto`;
        oldest first."""
        ...

    async def find_pair(self, user_id: int, other_id: int) -> CustomerCompanionPair | None:
        """Who is who of two people, in either order; None where they share no booking."""
        ...

    async def direct_conversation_id(self, pair: CustomerCompanionPair) -> int | None:
        """The id of their conversation."""
        ...

    async def pairs_without_conversation(
        self, user_id: int, limit: int
    ) -> Sequence[CustomerCompanionPair]:
        """Pairs of a user who share a booking and have no conversation yet."""
        ...

    async def paid_staff_ids(self, conversation: Conversation) -> Sequence[int]:
        """Those of its staff with whom the customer has a booking that was paid
        (`PAID_ONCE`)."""
        ...

    async def last_message_id(self, user_id: int | None = None) -> int:
        """The last message of all, or that a user may read; 0 where there is none."""
        ...

    async def all_messages_after(self, after_id: int, limit: int) -> Sequence[Message]:
        """The first `limit` messages above an id, of all conversations, in the order of ids.
        None that is committed later has an id below one that was read."""
        ...

    async def last_notified_id(self) -> int:
        """The last message of which it is decided who is told by mail."""
        ...

    async def readable_messages_after(
        self, user_id: int, after_id: int, limit: int
    ) -> Sequence[Message]:
        """The first `limit` messages above an id that a user may read, over all of their
        conversations, in the order of ids."""
        ...

    async def conversation_partners(
        self, user_id: int, candidate_ids: Iterable[int]
    ) -> frozenset[int]:
        """Those among some people with whom a user is in a conversation now; oneself too."""
        ...


class MessagesWritePort(MessagesReadPort, Protocol):
    async def open_direct_conversation(self, pair: CustomerCompanionPair, now: datetime) -> int:
        """The id of their conversation, made where it is missing."""
        ...

    async def lock_conversations(
        self, conversation_ids: Iterable[int]
    ) -> Mapping[int, Conversation]:
        """Conversations by id, held in the order of ids until the unit of work ends; those
        that are not there are left out."""
        ...

    async def lock_group(self, customer_id: int, event_ref: str, now: datetime) -> Conversation:
        """The group of an event, held; made, and not open, where it is missing."""
        ...

    async def booked_companions(
        self, customer_id: int, event_ref: str
    ) -> Sequence[tuple[int, str]]:
        """The companion's id and name of each booking of an event whose status is in BOOKED:
        as of now, when what was held is held."""
        ...

    async def save_group(self, group: Conversation, *, is_open: bool) -> None:
        """Save who is in it; it stays open once it was opened. Who had left before it opened
        was never in it."""
        ...

    async def messages_by_client_id(
        self, client_keys: Iterable[tuple[int, int, str]]
    ) -> Mapping[tuple[int, int, str], Message]:
        """Messages by (conversation_id, sender_id, client_id), those that are there."""
        ...

    async def add_messages(self, messages: Sequence[NewMessage]) -> Sequence[Message]:
        """Keep messages, in their order, of conversations that are held. Their ids are given
        while nobody else may give any, until the unit of work ends: so they are seen in their
        order over all conversations."""
        ...

    async def mark_read(self, conversation_id: int, user_id: int, message_id: int) -> int:
        """Note that a member has read up to a message; the last one read, which is this or a
        later one."""
        ...

    async def lock_last_notified_id(self) -> int:
        """`told_upto`, held until the unit of work ends."""
        ...

    async def set_last_notified_id(self, message_id: int) -> None: ...
    async def unread_messages(
        self, message_ids: Sequence[int], now: datetime
    ) -> Sequence[UnreadMessage]:
        """These messages, for each participant but their sender who has not read them, is not
        connected, and has read since they were told last; in the order of ids, then of users.
        `now` is wall time."""
        ...

    async def mark_notified(self, unread_messages: Sequence[UnreadMessage]) -> None:
        """Those people are told of these messages."""
        ...
