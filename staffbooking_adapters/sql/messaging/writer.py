"""Writes messages, with ids that ascend in commit order, and conversation members."""

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
    exists,
    func,
    insert,
    literal,
    select,
    true,
    update,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.composite import parameters_for
from staffbooking_adapters.sql.engine.dialect import array_params, array_rows, in_array, upsert
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.messaging import conversation_queries
from staffbooking_adapters.sql.messaging.conversation_queries import (
    MESSAGE_COLUMNS,
    is_conversation_open,
    is_online,
    to_conversations,
    to_message,
)
from staffbooking_adapters.sql.messaging.reader import NOTIFIED_MESSAGES_COUNTER, MessagesReader
from staffbooking_adapters.sql.schema.accounts import users
from staffbooking_adapters.sql.schema.bookings import counters
from staffbooking_adapters.sql.schema.messaging import conversation_members, conversations, messages
from staffbooking_adapters.sql.schema.notifications import mutes
from staffbooking_core.domain.accounts.users import full_name
from staffbooking_core.domain.messaging.conversations import (
    Conversation,
    ConversationKind,
    ConversationMember,
    Message,
    NewMessage,
)
from staffbooking_core.domain.notifications.notifications import NotificationKind
from staffbooking_core.ports import CustomerCompanionPair, UnreadMessage

# Conversations ----------------------------------------------------------------------------

_CONVERSATION_ID = bindparam("conversation_id", type_=BigInt)

_NEW_CONVERSATION_VALUES = {
    "kind": bindparam("kind"),
    "customer_id": bindparam("customer"),
    "companion_id": bindparam("companion"),
    "event_ref": bindparam("event_ref"),
    "updated_at": bindparam("now"),
    "last_id": literal(0),
    "opened": bindparam("opened"),
}
ADD_CONVERSATION = Statement(
    upsert(conversations)
    .values(_NEW_CONVERSATION_VALUES)
    .on_conflict_do_nothing()
    .returning(conversations.c.id)
)
OPEN_CONVERSATION = Statement(
    update(conversations)
    .values(opened=True)
    .where(conversations.c.id == _CONVERSATION_ID, ~is_conversation_open)
)
DELETE_FORMER_MEMBERS = Statement(
    delete(conversation_members).where(
        conversation_members.c.conversation_id == _CONVERSATION_ID,
        conversation_members.c.left_id.is_not(None),
    )
)

_MEMBER_FIELDS = ("user_id", "read_id", "left_id")
_MEMBER_ROWS = array_rows("seated", **{name: (f"each_{name}", BigInt) for name in _MEMBER_FIELDS})
_UPSERT_MEMBERS = upsert(conversation_members).from_select(
    ["conversation_id", *_MEMBER_FIELDS], select(_CONVERSATION_ID, *_MEMBER_ROWS.c).where(true())
)
SAVE_MEMBERS = Statement(
    _UPSERT_MEMBERS.on_conflict_do_update(
        index_elements=["conversation_id", "user_id"],
        set_={"left_id": _UPSERT_MEMBERS.excluded.left_id},
        where=conversation_members.c.left_id.is_distinct_from(_UPSERT_MEMBERS.excluded.left_id),
    )
)

_MESSAGE_ID = bindparam("message_id", type_=BigInt)
_IS_OWN_MEMBERSHIP = (
    conversation_members.c.conversation_id == _CONVERSATION_ID,
    conversation_members.c.user_id == bindparam("user_id"),
)
MARK_READ = Statement(
    update(conversation_members)
    .values(read_id=_MESSAGE_ID)
    .where(*_IS_OWN_MEMBERSHIP, conversation_members.c.read_id < _MESSAGE_ID)
)
GET_READ_MARK = Statement(select(conversation_members.c.read_id).where(*_IS_OWN_MEMBERSHIP))

# Messages ---------------------------------------------------------------------------------

MESSAGE_IDS_LOCK_KEY = 7_362_006
"""Key of the advisory lock that serializes the allocation of message ids."""

LOCK_MESSAGE_IDS = Statement(
    postgresql=select(
        func.pg_advisory_xact_lock(cast(MESSAGE_IDS_LOCK_KEY, BigInt)),
        func.set_config("idle_in_transaction_session_timeout", "2s", true()),
    )
)
"""Locks the allocation of message ids. The idle timeout of 2 s limits how long a process that
stalls with the lock blocks all others."""

_CLIENT_ID_FIELDS = ("conversation_id", "sender_id", "client_id")
_CLIENT_ID_ROWS = array_rows(
    "named", **{name: (f"each_{name}", messages.c[name].type) for name in _CLIENT_ID_FIELDS}
)
FIND_MESSAGES_BY_CLIENT_ID = Statement(
    select(*_CLIENT_ID_ROWS.c, *MESSAGE_COLUMNS).join_from(
        _CLIENT_ID_ROWS,
        messages,
        and_(*(messages.c[name] == _CLIENT_ID_ROWS.c[name] for name in _CLIENT_ID_FIELDS)),
    )
)

_NEW_MESSAGE_FIELDS = [column.name for column in MESSAGE_COLUMNS[:-1]]
_NEW_MESSAGE_ROWS = array_rows(
    "said",
    **{name: (f"each_{name}", messages.c[name].type) for name in _NEW_MESSAGE_FIELDS},
    place=("places", BigInt),
)
_LAST_MESSAGE_ID = select(func.coalesce(func.max(messages.c.id), 0)).scalar_subquery()
_INSERT_MESSAGES = (
    insert(messages)
    .from_select(
        [*_NEW_MESSAGE_FIELDS, "id"],
        select(
            *(_NEW_MESSAGE_ROWS.c[name] for name in _NEW_MESSAGE_FIELDS),
            _LAST_MESSAGE_ID + _NEW_MESSAGE_ROWS.c.place,
        ).where(true()),
    )
    .returning(messages.c.id)
)
_CONVERSATION_UPDATE_ROWS = array_rows(
    "spoken",
    conversation_id=("spoken_in", BigInt),
    place=("last_places", BigInt),
    at=("last_times", Instant),
)
_UPDATE_CONVERSATIONS = (
    update(conversations)
    .values(
        last_id=_LAST_MESSAGE_ID + _CONVERSATION_UPDATE_ROWS.c.place,
        updated_at=_CONVERSATION_UPDATE_ROWS.c.at,
    )
    .where(conversations.c.id == _CONVERSATION_UPDATE_ROWS.c.conversation_id)
)


def _insert_messages_and_update_conversations() -> Select[tuple[int]]:
    """Both writes in one statement on PostgreSQL. Both read the last id of before the statement."""
    added = _INSERT_MESSAGES.cte("added")
    return select(added.c.id).add_cte(_UPDATE_CONVERSATIONS.cte("moved"))


UPDATE_LAST_MESSAGES = Statement(sqlite=_UPDATE_CONVERSATIONS)
ADD_MESSAGES = Statement(
    postgresql=_insert_messages_and_update_conversations(), sqlite=_INSERT_MESSAGES
)


# Notification emails ----------------------------------------------------------------------

_IS_NOTIFIED_MESSAGES_COUNTER = counters.c.name == NOTIFIED_MESSAGES_COUNTER
LOCK_NOTIFIED_MESSAGE_ID = Statement(
    select(counters.c.value).where(_IS_NOTIFIED_MESSAGES_COUNTER).with_for_update()
)
SAVE_NOTIFIED_MESSAGE_ID = Statement(
    update(counters).values(value=_MESSAGE_ID).where(_IS_NOTIFIED_MESSAGES_COUNTER)
)
_IS_IN_CONVERSATION = conversation_members.c.conversation_id == messages.c.conversation_id
_HAS_MUTED_MESSAGES = exists().where(
    mutes.c.user_id == conversation_members.c.user_id,
    mutes.c.kind == NotificationKind.NEW_MESSAGE,
)
_IS_DISABLED = exists().where(
    users.c.id == conversation_members.c.user_id, users.c.disabled_at.is_not(None)
)
_IS_UNREAD_AND_UNNOTIFIED = and_(
    conversation_members.c.user_id != messages.c.sender_id,
    conversation_members.c.left_id.is_(None),
    conversation_members.c.read_id < messages.c.id,
    conversation_members.c.told_id <= conversation_members.c.read_id,
    ~is_online(conversation_members.c.user_id),
    ~_HAS_MUTED_MESSAGES,
    ~_IS_DISABLED,
)
LIST_UNREAD_MESSAGES = Statement(
    select(
        messages.c.conversation_id,
        conversation_members.c.user_id,
        messages.c.id,
        messages.c.sender_name,
    )
    .join_from(messages, conversation_members, _IS_IN_CONVERSATION)
    .where(in_array(messages.c.id, "message_ids"), _IS_UNREAD_AND_UNNOTIFIED)
    .order_by(messages.c.id, conversation_members.c.user_id)
)
_LAST_MISSED_ID = func.max(messages.c.id)
LIST_MISSED_MESSAGES = Statement(
    select(
        messages.c.conversation_id,
        conversation_members.c.user_id,
        _LAST_MISSED_ID,
        messages.c.sender_name,
    )
    .join_from(conversation_members, messages, _IS_IN_CONVERSATION)
    .where(
        in_array(conversation_members.c.user_id, "user_ids"),
        messages.c.id <= _MESSAGE_ID,
        _IS_UNREAD_AND_UNNOTIFIED,
    )
    .group_by(
        *(messages.c.conversation_id, conversation_members.c.user_id),
        *(messages.c.sender_id, messages.c.sender_name),
    )
    .order_by(_LAST_MISSED_ID, conversation_members.c.user_id)
)
_NOTIFIED_MEMBER_ROWS = array_rows(
    "told_of",
    **{name: (f"each_{name}", BigInt) for name in ("conversation_id", "user_id", "message_id")},
)
SAVE_NOTIFIED_MEMBERS = Statement(
    update(conversation_members)
    .values(told_id=_NOTIFIED_MEMBER_ROWS.c.message_id)
    .where(
        conversation_members.c.conversation_id == _NOTIFIED_MEMBER_ROWS.c.conversation_id,
        conversation_members.c.user_id == _NOTIFIED_MEMBER_ROWS.c.user_id,
    )
)


@frozen
class MessagesWriter(MessagesReader):
    """Locks and writes conversations, members and messages."""

    async def open_direct_conversation(self, pair: CustomerCompanionPair, now: datetime) -> int:
        conversation_id = await self._add_conversation(
            kind=ConversationKind.DIRECT,
            customer=pair.customer_id,
            companion=pair.companion_id,
            event_ref=None,
            now=now,
            opened=True,
        )
        if conversation_id is None:
            conversation_id = await self.direct_conversation_id(pair)
            assert conversation_id is not None
        else:
            parties = sorted((pair.customer_id, pair.companion_id))
            await self._save_members(
                conversation_id, [ConversationMember(user_id, "") for user_id in parties]
            )
        return conversation_id

    async def lock_conversations(
        self, conversation_ids: Iterable[int]
    ) -> Mapping[int, Conversation]:
        sorted_ids = sorted(set(conversation_ids))
        rows = await self.connection.fetch_all(
            conversation_queries.LOCK_CONVERSATIONS, conversation_ids=sorted_ids
        )
        held = await self._read_conversations([number for (number,) in rows])
        return {conversation.id: conversation for conversation in held}

    async def lock_group(self, customer_id: int, event_ref: str, now: datetime) -> Conversation:
        event = {"customer": customer_id, "event_ref": event_ref}
        group_id = await self.connection.fetch_value(
            conversation_queries.LOCK_GROUP_CONVERSATION, **event
        )
        if group_id is None:
            new_id = await self._add_conversation(
                kind=ConversationKind.GROUP, companion=None, now=now, opened=False, **event
            )
            if new_id is not None:
                await self._save_members(new_id, [ConversationMember(customer_id, "")])
            group_id = await self.connection.fetch_value(
                conversation_queries.LOCK_GROUP_CONVERSATION, **event
            )
        [group] = await self._read_conversations([group_id])
        return group

    async def booked_companions(
        self, customer_id: int, event_ref: str
    ) -> Sequence[tuple[int, str]]:
        event = {"customer": customer_id, "event_ref": event_ref}
        rows = await self.connection.fetch_all(conversation_queries.LIST_BOOKED_STAFF, **event)
        return [(user_id, full_name(first, last)) for user_id, first, last in rows]

    async def save_group(self, group: Conversation, *, is_open: bool) -> None:
        await self._save_members(group.id, group.members)
        if is_open and await self.connection.execute(OPEN_CONVERSATION, conversation_id=group.id):
            await self.connection.execute(DELETE_FORMER_MEMBERS, conversation_id=group.id)

    async def messages_by_client_id(
        self, client_keys: Iterable[tuple[int, int, str]]
    ) -> Mapping[tuple[int, int, str], Message]:
        name_list = list(client_keys)
        params = {
            f"each_{name}": [each[n] for each in name_list]
            for n, name in enumerate(_CLIENT_ID_FIELDS)
        }
        rows = await self.connection.fetch_all(FIND_MESSAGES_BY_CLIENT_ID, **params)
        return {row[:3]: to_message(row[3:]) for row in rows}

    async def add_messages(self, messages: Sequence[NewMessage]) -> Sequence[Message]:
        await self.connection.execute(LOCK_MESSAGE_IDS)
        params = _message_params(messages)
        await self.connection.execute(
            UPDATE_LAST_MESSAGES, **parameters_for(UPDATE_LAST_MESSAGES, self.connection, params)
        )
        rows = await self.connection.fetch_all(
            ADD_MESSAGES, **parameters_for(ADD_MESSAGES, self.connection, params)
        )
        return [
            Message(id=number, **asdict(message, recurse=False))
            for message, (number,) in zip(messages, sorted(rows), strict=True)
        ]

    async def mark_read(self, conversation_id: int, user_id: int, message_id: int) -> int:
        member_params = {"conversation_id": conversation_id, "user_id": user_id}
        if await self.connection.execute(MARK_READ, **member_params, message_id=message_id):
            return message_id
        marked: int = await self.connection.fetch_value(GET_READ_MARK, **member_params)
        return marked

    async def lock_last_notified_id(self) -> int:
        upto: int = await self.connection.fetch_value(LOCK_NOTIFIED_MESSAGE_ID)
        return upto

    async def set_last_notified_id(self, message_id: int) -> None:
        await self.connection.execute(SAVE_NOTIFIED_MESSAGE_ID, message_id=message_id)

    async def unread_messages(
        self, message_ids: Sequence[int], now: datetime
    ) -> Sequence[UnreadMessage]:
        rows = await self.connection.fetch_all(
            LIST_UNREAD_MESSAGES, message_ids=list(message_ids), now=now
        )
        return [UnreadMessage(*row) for row in rows]

    async def missed_messages(
        self, user_ids: Sequence[int], max_id: int, now: datetime
    ) -> Sequence[UnreadMessage]:
        rows = await self.connection.fetch_all(
            LIST_MISSED_MESSAGES, user_ids=list(user_ids), message_id=max_id, now=now
        )
        return [UnreadMessage(*row) for row in rows]

    async def mark_notified(self, unread_messages: Sequence[UnreadMessage]) -> None:
        last = {(each.conversation_id, each.user_id): each for each in unread_messages}
        names = ("conversation_id", "user_id", "message_id")
        await self.connection.execute(
            SAVE_NOTIFIED_MEMBERS, **array_params(names, list(last.values()))
        )

    async def _add_conversation(self, **fields: Any) -> int | None:
        """Add a conversation and return its id, or None if it exists. Waits for concurrent
        inserts."""
        conversation_id: int | None = await self.connection.fetch_value(ADD_CONVERSATION, **fields)
        return conversation_id

    async def _save_members(
        self, conversation_id: int, members: Sequence[ConversationMember]
    ) -> None:
        member_params = array_params(_MEMBER_FIELDS, members)
        await self.connection.execute(
            SAVE_MEMBERS, conversation_id=conversation_id, **member_params
        )

    async def _read_conversations(self, conversation_ids: Sequence[int]) -> list[Conversation]:
        """Read locked conversations. The separate statement sees commits before the lock."""
        rows = await self.connection.fetch_all(
            conversation_queries.LIST_CONVERSATIONS_BY_ID, conversation_ids=list(conversation_ids)
        )
        return to_conversations(rows)


def _message_params(messages: Sequence[NewMessage]) -> dict[str, Any]:
    """The parameters of `_NEW_MESSAGE_ROWS` and `_CONVERSATION_UPDATE_ROWS`."""
    last_by_conversation = {
        each.conversation_id: (position, each) for position, each in enumerate(messages, 1)
    }
    return {
        **array_params(_NEW_MESSAGE_FIELDS, messages),
        "each_recipients": [codec.encode(each.recipients).decode() for each in messages],
        "places": list(range(1, len(messages) + 1)),
        "spoken_in": list(last_by_conversation),
        "last_places": [position for position, _ in last_by_conversation.values()],
        "last_times": [each.created_at for _, each in last_by_conversation.values()],
    }
