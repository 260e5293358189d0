"""Messages as they are read: of a conversation, of all, and of one reader."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from attrs import frozen
from sqlalchemy import ColumnElement, FromClause, Select, bindparam, func, select, true

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.messaging import conversations as reading
from staffbooking_adapters.sql.messaging.conversations import (
    MESSAGE,
    is_open,
    to_conversations,
    to_message,
    to_overviews,
    upto,
)
from staffbooking_adapters.sql.schema.bookings import counters
from staffbooking_adapters.sql.schema.messaging import conversations, members, messages
from staffbooking_core.domain.messaging.conversations import Conversation, Message, Overview
from staffbooking_core.ports import Pair

_USER = bindparam("user_id", type_=BigInt)
_AFTER = bindparam("after", type_=BigInt)
_ITS = messages.c.conversation_id == bindparam("conversation_id")
_UPTO = messages.c.id <= bindparam("upto")

LAST_ID = Statement(select(func.coalesce(func.max(messages.c.id), 0)))
MY_LAST_ID = Statement(
    select(func.coalesce(func.max(upto), 0))
    .join_from(members, conversations)
    .where(members.c.user_id == _USER, is_open)
)


MESSAGES_TOLD = "messages_told"
"""The counter of how far it was decided who is told of messages by mail."""
TOLD_UPTO = Statement(select(counters.c.value).where(counters.c.name == MESSAGES_TOLD))


@cache
def newest(size: int) -> Statement:
    last = select(*MESSAGE).where(_ITS, _UPTO).order_by(messages.c.id.desc())
    return Statement(last.limit(size))


@cache
def newer(size: int) -> Statement:
    next_ones = select(*MESSAGE).where(_ITS, messages.c.id > _AFTER, _UPTO)
    return Statement(next_ones.order_by(messages.c.id).limit(size))


@cache
def tail(size: int) -> Statement:
    next_ones = select(*MESSAGE).where(messages.c.id > _AFTER)
    return Statement(next_ones.order_by(messages.c.id).limit(size))


@cache
def inbox(size: int) -> Statement:
    """The next messages of a user, whatever the history: no conversation gives more of them
    than are wanted, nor do more conversations give any than those whose own next message is
    among the first."""
    after = messages.c.id > _AFTER
    first = select(func.min(messages.c.id)).where(
        messages.c.conversation_id == members.c.conversation_id, after
    )
    nearest = (
        select(members.c.conversation_id, upto.label("upto"))
        .join_from(members, conversations)
        .where(members.c.user_id == _USER, is_open, upto > _AFTER)
        .order_by(first.scalar_subquery())
        .limit(size)
        .subquery("nearest")
    )
    its = messages.alias("its")
    next_ones = (
        select(its.c.id)
        .where(
            its.c.conversation_id == nearest.c.conversation_id,
            its.c.id > _AFTER,
            its.c.id <= nearest.c.upto,
        )
        .order_by(its.c.id)
        .limit(size)
        .correlate(nearest)
    )
    beside, one = next_ones.lateral("beside"), messages.alias("one")

    def written(number: ColumnElement[int], joined: FromClause) -> Select[Any]:
        page = select(number).select_from(joined).order_by(number).limit(size).subquery("page")
        found = select(*MESSAGE).join_from(page, messages, messages.c.id == page.c.id)
        return found.order_by(messages.c.id)

    return Statement(
        postgresql=written(beside.c.id, nearest.join(beside, true())),
        sqlite=written(one.c.id, nearest.join(one, one.c.id.in_(next_ones))),
    )


@frozen
class MessagesReader:
    connection: Connection

    async def conversation(self, conversation_id: int) -> Conversation | None:
        rows = await self.connection.all(reading.GET, conversation_id=conversation_id)
        return next(iter(to_conversations(rows)), None)

    async def overviews(
        self, user_id: int, page: int, limit: int, now: datetime
    ) -> Sequence[Overview]:
        wanted, offset = limit + 1, (page - 1) * limit
        statement = reading.overviews(page_size(wanted))
        rows = await self.connection.all(statement, user_id=user_id, offset=offset, now=now)
        return to_overviews(rows, user_id)[:wanted]

    async def overview(self, conversation_id: int, user_id: int, now: datetime) -> Overview | None:
        asked = {"conversation_id": conversation_id, "user_id": user_id, "now": now}
        rows = await self.connection.all(reading.OVERVIEW, **asked)
        return next(iter(to_overviews(rows, user_id)), None)

    async def newest(
        self, conversation_id: int, before: int | None, upto: int, limit: int
    ) -> Sequence[Message]:
        last = upto if before is None else min(upto, before - 1)
        statement = newest(page_size(limit))
        rows = await self.connection.all(statement, conversation_id=conversation_id, upto=last)
        return [to_message(row) for row in rows[:limit][::-1]]

    async def newer(
        self, conversation_id: int, after: int, upto: int, limit: int
    ) -> Sequence[Message]:
        asked = {"conversation_id": conversation_id, "after": after, "upto": upto}
        rows = await self.connection.all(newer(page_size(limit)), **asked)
        return [to_message(row) for row in rows[:limit]]

    async def pair(self, user_id: int, other_id: int) -> Pair | None:
        row = await self.connection.one(reading.PAIR, user_id=user_id, other_id=other_id)
        return None if row is None else Pair(*row)

    async def direct(self, pair: Pair) -> int | None:
        given = {"customer": pair.customer_id, "companion": pair.companion_id}
        found: int | None = await self.connection.value(reading.DIRECT, **given)
        return found

    async def unopened(self, user_id: int, limit: int) -> Sequence[Pair]:
        rows = await self.connection.all(reading.unopened(page_size(limit)), user_id=user_id)
        return [Pair(*row) for row in rows[:limit]]

    async def cleared(self, conversation: Conversation) -> Sequence[int]:
        staff = list(conversation.staff_ids)
        rows = await self.connection.all(
            reading.CLEARED, customer=conversation.customer_id, staff_ids=staff
        )
        return [user_id for (user_id,) in rows]

    async def last_id(self, user_id: int | None = None) -> int:
        mine = {} if user_id is None else {"user_id": user_id}
        last: int = await self.connection.value(MY_LAST_ID if mine else LAST_ID, **mine)
        return last

    async def tail(self, after: int, limit: int) -> Sequence[Message]:
        rows = await self.connection.all(tail(page_size(limit)), after=after)
        return [to_message(row) for row in rows[:limit]]

    async def told_upto(self) -> int:
        upto: int = await self.connection.value(TOLD_UPTO)
        return upto

    async def inbox(self, user_id: int, after: int, limit: int) -> Sequence[Message]:
        statement = inbox(page_size(limit))
        rows = await self.connection.all(statement, user_id=user_id, after=after)
        return [to_message(row) for row in rows[:limit]]

    async def acquaintances(self, user_id: int, among: Iterable[int]) -> frozenset[int]:
        asked = frozenset(among)
        given = {"user_id": user_id, "among": sorted(asked)}
        rows = await self.connection.all(reading.ACQUAINTANCES, **given)
        return asked & {user_id, *(other_id for (other_id,) in rows)}
