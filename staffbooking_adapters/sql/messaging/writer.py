"""What is said is kept, under ids that rise in the order in which it can be seen; and who is
in a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import asdict, frozen
from sqlalchemy import (
    Select,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    true,
    update,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.composite import needed
from staffbooking_adapters.sql.engine.dialect import in_array, rowset, upsert
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.messaging import conversations as reading
from staffbooking_adapters.sql.messaging.conversations import (
    MESSAGE,
    is_online,
    is_open,
    to_conversations,
    to_message,
)
from staffbooking_adapters.sql.messaging.reader import MESSAGES_TOLD, MessagesReader
from staffbooking_adapters.sql.schema.bookings import counters
from staffbooking_adapters.sql.schema.messaging import conversations, members, messages
from staffbooking_core.domain.accounts.users import full_name
from staffbooking_core.domain.messaging.conversations import (
    Conversation,
    Kind,
    Member,
    Message,
    NewMessage,
)
from staffbooking_core.ports import Pair, Unseen

# Conversations ----------------------------------------------------------------------------

_IT = bindparam("conversation_id", type_=BigInt)

_BEGUN = {
    "kind": bindparam("kind"),
    "customer_id": bindparam("customer"),
    "companion_id": bindparam("companion"),
    "event_ref": bindparam("event_ref"),
    "updated_at": bindparam("now"),
    "last_id": literal(0),
    "opened": bindparam("opened"),
}
BEGIN = Statement(
    upsert(conversations).values(_BEGUN).on_conflict_do_nothing().returning(conversations.c.id)
)
OPEN = Statement(
    update(conversations).values(opened=True).where(conversations.c.id == _IT, ~is_open)
)
FORGET = Statement(
    delete(members).where(members.c.conversation_id == _IT, members.c.left_id.is_not(None))
)

_SEAT = ("user_id", "read_id", "left_id")
_SEATED = rowset("seated", **{name: (f"each_{name}", BigInt) for name in _SEAT})
_SEATS = upsert(members).from_select(
    ["conversation_id", *_SEAT], select(_IT, *_SEATED.c).where(true())
)
SEAT = Statement(
    _SEATS.on_conflict_do_update(
        index_elements=["conversation_id", "user_id"],
        set_={"left_id": _SEATS.excluded.left_id},
        where=members.c.left_id.is_distinct_from(_SEATS.excluded.left_id),
    )
)

_MARK = bindparam("message_id", type_=BigInt)
_MINE = (members.c.conversation_id == _IT, members.c.user_id == bindparam("user_id"))
MARK = Statement(update(members).values(read_id=_MARK).where(*_MINE, members.c.read_id < _MARK))
MARKED = Statement(select(members.c.read_id).where(*_MINE))

# Messages ---------------------------------------------------------------------------------

GIVING_IDS = 7_362_006
"""The advisory lock that lets one at a time give ids to messages."""

LOCK_IDS = Statement(
    postgresql=select(
        func.pg_advisory_xact_lock(cast(GIVING_IDS, BigInt)),
        func.set_config("idle_in_transaction_session_timeout", "2s", true()),
    )
)
"""A process that stops dead just now keeps all others waiting: not for long."""

_NAME = ("conversation_id", "sender_id", "client_id")
_NAMED = rowset("named", **{name: (f"each_{name}", messages.c[name].type) for name in _NAME})
KNOWN = Statement(
    select(*_NAMED.c, *MESSAGE).join_from(
        _NAMED, messages, and_(*(messages.c[name] == _NAMED.c[name] for name in _NAME))
    )
)

_NEW = [column.name for column in MESSAGE[:-1]]
_SAID = rowset(
    "said",
    **{name: (f"each_{name}", messages.c[name].type) for name in _NEW},
    place=("places", BigInt),
)
_BEFORE = select(func.coalesce(func.max(messages.c.id), 0)).scalar_subquery()
_ADD = (
    insert(messages)
    .from_select(
        [*_NEW, "id"],
        select(*(_SAID.c[name] for name in _NEW), _BEFORE + _SAID.c.place).where(true()),
    )
    .returning(messages.c.id)
)
_SPOKEN = rowset(
    "spoken",
    conversation_id=("spoken_in", BigInt),
    place=("last_places", BigInt),
    at=("last_times", Instant),
)
_MOVE = (
    update(conversations)
    .values(last_id=_BEFORE + _SPOKEN.c.place, updated_at=_SPOKEN.c.at)
    .where(conversations.c.id == _SPOKEN.c.conversation_id)
)


def _moved_and_added() -> Select[tuple[int]]:
    """PostgreSQL's: both parts see the messages as they were before."""
    added = _ADD.cte("added")
    return select(added.c.id).add_cte(_MOVE.cte("moved"))


MOVE = Statement(sqlite=_MOVE)
ADD = Statement(postgresql=_moved_and_added(), sqlite=_ADD)


# Who is told of them by mail --------------------------------------------------------------

_COUNTED = counters.c.name == MESSAGES_TOLD
LOCK_TOLD = Statement(select(counters.c.value).where(_COUNTED).with_for_update())
SET_TOLD = Statement(update(counters).values(value=_MARK).where(_COUNTED))
UNSEEN = Statement(
    select(messages.c.conversation_id, members.c.user_id, messages.c.id, messages.c.sender_name)
    .join_from(messages, members, members.c.conversation_id == messages.c.conversation_id)
    .where(
        in_array(messages.c.id, "message_ids"),
        members.c.user_id != messages.c.sender_id,
        members.c.left_id.is_(None),
        members.c.read_id < messages.c.id,
        members.c.told_id <= members.c.read_id,
        ~is_online(members.c.user_id),
    )
    .order_by(messages.c.id, members.c.user_id)
)
_TOLD_OF = rowset(
    "told_of",
    **{name: (f"each_{name}", BigInt) for name in ("conversation_id", "user_id", "message_id")},
)
NOTE_TOLD = Statement(
    update(members)
    .values(told_id=_TOLD_OF.c.message_id)
    .where(
        members.c.conversation_id == _TOLD_OF.c.conversation_id,
        members.c.user_id == _TOLD_OF.c.user_id,
    )
)


@frozen
class MessagesWriter(MessagesReader):
    async def open_direct(self, pair: Pair, now: datetime) -> int:
        made = await self._begin(
            kind=Kind.DIRECT,
            customer=pair.customer_id,
            companion=pair.companion_id,
            event_ref=None,
            now=now,
            opened=True,
        )
        if made is None:
            made = await self.direct(pair)
            assert made is not None
        else:
            parties = sorted((pair.customer_id, pair.companion_id))
            await self._seat(made, [Member(user_id, "") for user_id in parties])
        return made

    async def hold(self, conversation_ids: Iterable[int]) -> Mapping[int, Conversation]:
        wanted = sorted(set(conversation_ids))
        rows = await self.connection.all(reading.LOCK, conversation_ids=wanted)
        held = await self._whole([number for (number,) in rows])
        return {conversation.id: conversation for conversation in held}

    async def hold_group(self, customer_id: int, event_ref: str, now: datetime) -> Conversation:
        event = {"customer": customer_id, "event_ref": event_ref}
        number = await self.connection.value(reading.LOCK_GROUP, **event)
        if number is None:
            made = await self._begin(
                kind=Kind.GROUP, companion=None, now=now, opened=False, **event
            )
            if made is not None:
                await self._seat(made, [Member(customer_id, "")])
            number = await self.connection.value(reading.LOCK_GROUP, **event)
        [group] = await self._whole([number])
        return group

    async def booked(self, customer_id: int, event_ref: str) -> Sequence[tuple[int, str]]:
        event = {"customer": customer_id, "event_ref": event_ref}
        rows = await self.connection.all(reading.BOOKED_FOR, **event)
        return [(user_id, full_name(first, last)) for user_id, first, last in rows]

    async def save_group(self, group: Conversation, *, opens: bool) -> None:
        await self._seat(group.id, group.members)
        if opens and await self.connection.run(OPEN, conversation_id=group.id):
            await self.connection.run(FORGET, conversation_id=group.id)

    async def known(
        self, names: Iterable[tuple[int, int, str]]
    ) -> Mapping[tuple[int, int, str], Message]:
        asked = list(names)
        given = {f"each_{name}": [each[n] for each in asked] for n, name in enumerate(_NAME)}
        rows = await self.connection.all(KNOWN, **given)
        return {row[:3]: to_message(row[3:]) for row in rows}

    async def add(self, messages: Sequence[NewMessage]) -> Sequence[Message]:
        await self.connection.run(LOCK_IDS)
        given = _to_rows(messages)
        await self.connection.run(MOVE, **needed(MOVE, self.connection, given))
        rows = await self.connection.all(ADD, **needed(ADD, self.connection, given))
        return [
            Message(id=number, **asdict(message, recurse=False))
            for message, (number,) in zip(messages, sorted(rows), strict=True)
        ]

    async def mark_read(self, conversation_id: int, user_id: int, message_id: int) -> int:
        place = {"conversation_id": conversation_id, "user_id": user_id}
        if await self.connection.run(MARK, **place, message_id=message_id):
            return message_id
        marked: int = await self.connection.value(MARKED, **place)
        return marked

    async def lock_told(self) -> int:
        upto: int = await self.connection.value(LOCK_TOLD)
        return upto

    async def set_told(self, message_id: int) -> None:
        await self.connection.run(SET_TOLD, message_id=message_id)

    async def unseen(self, message_ids: Sequence[int], now: datetime) -> Sequence[Unseen]:
        rows = await self.connection.all(UNSEEN, message_ids=list(message_ids), now=now)
        return [Unseen(*row) for row in rows]

    async def note_told(self, unseen: Sequence[Unseen]) -> None:
        last = {(each.conversation_id, each.user_id): each for each in unseen}
        names = ("conversation_id", "user_id", "message_id")
        await self.connection.run(NOTE_TOLD, **_columns(names, list(last.values())))

    async def _begin(self, **fields: Any) -> int | None:
        """The id of a conversation, unless it is there; who makes it now is waited for."""
        made: int | None = await self.connection.value(BEGIN, **fields)
        return made

    async def _seat(self, conversation_id: int, members: Sequence[Member]) -> None:
        seats = _columns(_SEAT, members)
        await self.connection.run(SEAT, conversation_id=conversation_id, **seats)

    async def _whole(self, conversation_ids: Sequence[int]) -> list[Conversation]:
        """As they are now, after the statement that has locked them."""
        rows = await self.connection.all(reading.GET_ALL, conversation_ids=list(conversation_ids))
        return to_conversations(rows)


def _to_rows(messages: Sequence[NewMessage]) -> dict[str, Any]:
    """The parameters of _SAID and of _SPOKEN."""
    last = {each.conversation_id: (place, each) for place, each in enumerate(messages, 1)}
    return {
        **_columns(_NEW, messages),
        "each_recipients": [codec.encode(each.recipients).decode() for each in messages],
        "places": list(range(1, len(messages) + 1)),
        "spoken_in": list(last),
        "last_places": [place for place, _ in last.values()],
        "last_times": [each.created_at for _, each in last.values()],
    }


def _columns(names: Sequence[str], values: Sequence[Any]) -> dict[str, list[Any]]:
    """The parameters of a rowset, a list for each name."""
    return {f"each_{name}": [getattr(value, name) for value in values] for name in names}
