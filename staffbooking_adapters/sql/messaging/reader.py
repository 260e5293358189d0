"""Messages: reads by conversation, by user, and of all conversations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from attrs import frozen
from sqlalchemy import ColumnElement, FromClause, Select, and_, bindparam, func, select, true

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.messaging import conversation_queries
from staffbooking_adapters.sql.messaging.conversation_queries import (
    MESSAGE_COLUMNS,
    is_conversation_open,
    last_readable_id,
    to_conversations,
    to_message,
    to_overviews,
)
from staffbooking_adapters.sql.schema.bookings import counters
from staffbooking_adapters.sql.schema.messaging import conversation_members, conversations, messages
from staffbooking_core.domain.messaging.conversations import (
    Conversation,
    ConversationOverview,
    Message,
)
from staffbooking_core.ports import CustomerCompanionPair

_USER_ID = bindparam("user_id", type_=BigInt)
_AFTER_ID = bindparam("after", type_=BigInt)
_IS_IN_CONVERSATION = messages.c.conversation_id == bindparam("conversation_id")
_IS_UP_TO_LIMIT = messages.c.id <= bindparam("upto")

GET_LAST_MESSAGE_ID = Statement(select(func.coalesce(func.max(messages.c.id), 0)))
GET_LAST_MESSAGE_ID_OF_USER = Statement(
    select(func.coalesce(func.max(last_readable_id), 0))
    .join_from(conversation_members, conversations)
    .where(conversation_members.c.user_id == _USER_ID, is_conversation_open)
)


NOTIFIED_MESSAGES_COUNTER = "messages_told"
"""Name of the counter that stores the id of the last message processed for notification emails."""
GET_NOTIFIED_MESSAGE_ID = Statement(
    select(counters.c.value).where(counters.c.name == NOTIFIED_MESSAGES_COUNTER)
)


COUNT_UNREAD = Statement(
    select(func.count())
    .select_from(
        conversation_members.join(conversations).join(
            messages,
            and_(
                messages.c.conversation_id == conversation_members.c.conversation_id,
                messages.c.id > conversation_members.c.read_id,
                messages.c.id <= last_readable_id,
                messages.c.sender_id != _USER_ID,
            ),
        )
    )
    .where(
        conversation_members.c.user_id == _USER_ID,
        is_conversation_open,
        last_readable_id > conversation_members.c.read_id,
    )
)


def _page_of_conversation(
    size: int, *conditions: ColumnElement[bool], is_newest: bool
) -> Select[Any]:
    """The ids come from their index in its order: sorting the rows of a conversation would cost
    more with each message."""
    ids = select(messages.c.id).where(_IS_IN_CONVERSATION, _IS_UP_TO_LIMIT, *conditions)
    in_order = messages.c.id.desc() if is_newest else messages.c.id
    page = ids.order_by(in_order).limit(size).subquery("page")
    found = select(*MESSAGE_COLUMNS).join_from(page, messages, messages.c.id == page.c.id)
    return found.order_by(in_order)


@cache
def messages_before(size: int) -> Statement:
    return Statement(_page_of_conversation(size, is_newest=True))


@cache
def messages_after(size: int) -> Statement:
    return Statement(_page_of_conversation(size, messages.c.id > _AFTER_ID, is_newest=False))


@cache
def all_messages_after(size: int) -> Statement:
    next_messages = select(*MESSAGE_COLUMNS).where(messages.c.id > _AFTER_ID)
    return Statement(next_messages.order_by(messages.c.id).limit(size))


@cache
def readable_messages_after(size: int) -> Statement:
    """The next messages that a user may read. The cost does not grow with the history: only the
    `size` conversations whose next messages are the oldest are read, up to `size` messages each.
    """
    after = messages.c.id > _AFTER_ID
    first_unread_id = select(func.min(messages.c.id)).where(
        messages.c.conversation_id == conversation_members.c.conversation_id, after
    )
    nearest_conversations = (
        select(conversation_members.c.conversation_id, last_readable_id.label("upto"))
        .join_from(conversation_members, conversations)
        .where(
            conversation_members.c.user_id == _USER_ID,
            is_conversation_open,
            last_readable_id > _AFTER_ID,
        )
        .order_by(first_unread_id.scalar_subquery())
        .limit(size)
        .subquery("nearest")
    )
    conversation_messages = messages.alias("its")
    next_ids = (
        select(conversation_messages.c.id)
        .where(
            conversation_messages.c.conversation_id == nearest_conversations.c.conversation_id,
            conversation_messages.c.id > _AFTER_ID,
            conversation_messages.c.id <= nearest_conversations.c.upto,
        )
        .order_by(conversation_messages.c.id)
        .limit(size)
        .correlate(nearest_conversations)
    )
    lateral_ids, single_message = next_ids.lateral("beside"), messages.alias("one")

    def select_messages(message_id: ColumnElement[int], joined: FromClause) -> Select[Any]:
        page = (
            select(message_id).select_from(joined).order_by(message_id).limit(size).subquery("page")
        )
        found = select(*MESSAGE_COLUMNS).join_from(page, messages, messages.c.id == page.c.id)
        return found.order_by(messages.c.id)

    return Statement(
        postgresql=select_messages(
            lateral_ids.c.id, nearest_conversations.join(lateral_ids, true())
        ),
        sqlite=select_messages(
            single_message.c.id,
            nearest_conversations.join(single_message, single_message.c.id.in_(next_ids)),
        ),
    )


@frozen
class MessagesReader:
    """Reads conversations and messages."""

    connection: Connection

    async def conversation(self, conversation_id: int) -> Conversation | None:
        rows = await self.connection.fetch_all(
            conversation_queries.GET_CONVERSATION, conversation_id=conversation_id
        )
        return next(iter(to_conversations(rows)), None)

    async def overviews(
        self, user_id: int, page: int, limit: int, now: datetime
    ) -> Sequence[ConversationOverview]:
        row_limit, offset = limit + 1, (page - 1) * limit
        statement = conversation_queries.overviews_page(page_size(row_limit))
        rows = await self.connection.fetch_all(statement, user_id=user_id, offset=offset, now=now)
        return to_overviews(rows, user_id)[:row_limit]

    async def overview(
        self, conversation_id: int, user_id: int, now: datetime
    ) -> ConversationOverview | None:
        params = {"conversation_id": conversation_id, "user_id": user_id, "now": now}
        rows = await self.connection.fetch_all(conversation_queries.GET_OVERVIEW, **params)
        return next(iter(to_overviews(rows, user_id)), None)

    async def messages_before(
        self, conversation_id: int, before_id: int | None, max_id: int, limit: int
    ) -> Sequence[Message]:
        last = max_id if before_id is None else min(max_id, before_id - 1)
        statement = messages_before(page_size(limit))
        rows = await self.connection.fetch_all(
            statement, conversation_id=conversation_id, upto=last
        )
        return [to_message(row) for row in rows[:limit][::-1]]

    async def messages_after(
        self, conversation_id: int, after_id: int, max_id: int, limit: int
    ) -> Sequence[Message]:
        params = {"conversation_id": conversation_id, "after": after_id, "upto": max_id}
        rows = await self.connection.fetch_all(messages_after(page_size(limit)), **params)
        return [to_message(row) for row in rows[:limit]]

    async def find_pair(self, user_id: int, other_id: int) -> CustomerCompanionPair | None:
        row = await self.connection.fetch_one(
            conversation_queries.FIND_PAIR, user_id=user_id, other_id=other_id
        )
        return None if row is None else CustomerCompanionPair(*row)

    async def direct_conversation_id(self, pair: CustomerCompanionPair) -> int | None:
        params = {"customer": pair.customer_id, "companion": pair.companion_id}
        found: int | None = await self.connection.fetch_value(
            conversation_queries.FIND_DIRECT_CONVERSATION, **params
        )
        return found

    async def event_group_id(self, customer_id: int, event_ref: str) -> int | None:
        found: int | None = await self.connection.fetch_value(
            conversation_queries.FIND_EVENT_GROUP, customer=customer_id, event_ref=event_ref
        )
        return found

    async def pairs_without_conversation(
        self, user_id: int, limit: int
    ) -> Sequence[CustomerCompanionPair]:
        rows = await self.connection.fetch_all(
            conversation_queries.unopened_pairs(page_size(limit)), user_id=user_id
        )
        return [CustomerCompanionPair(*row) for row in rows[:limit]]

    async def paid_staff_ids(self, conversation: Conversation) -> Sequence[int]:
        staff = list(conversation.staff_ids)
        rows = await self.connection.fetch_all(
            conversation_queries.LIST_PAID_STAFF, customer=conversation.customer_id, staff_ids=staff
        )
        return [user_id for (user_id,) in rows]

    async def unread_count(self, user_id: int) -> int:
        found: int = await self.connection.fetch_value(COUNT_UNREAD, user_id=user_id)
        return found

    async def last_message_id(self, user_id: int | None = None) -> int:
        mine = {} if user_id is None else {"user_id": user_id}
        last: int = await self.connection.fetch_value(
            GET_LAST_MESSAGE_ID_OF_USER if mine else GET_LAST_MESSAGE_ID, **mine
        )
        return last

    async def all_messages_after(self, after_id: int, limit: int) -> Sequence[Message]:
        rows = await self.connection.fetch_all(all_messages_after(page_size(limit)), after=after_id)
        return [to_message(row) for row in rows[:limit]]

    async def last_notified_id(self) -> int:
        upto: int = await self.connection.fetch_value(GET_NOTIFIED_MESSAGE_ID)
        return upto

    async def readable_messages_after(
        self, user_id: int, after_id: int, limit: int
    ) -> Sequence[Message]:
        statement = readable_messages_after(page_size(limit))
        rows = await self.connection.fetch_all(statement, user_id=user_id, after=after_id)
        return [to_message(row) for row in rows[:limit]]

    async def conversation_partners(
        self, user_id: int, candidate_ids: Iterable[int]
    ) -> frozenset[int]:
        user_ids = frozenset(candidate_ids)
        params = {"user_id": user_id, "among": sorted(user_ids)}
        rows = await self.connection.fetch_all(
            conversation_queries.LIST_CONVERSATION_PARTNERS, **params
        )
        return user_ids & {user_id, *(other_id for (other_id,) in rows)}
