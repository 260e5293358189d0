"""Conversations as they are read: with their members, and as one of these finds them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter

from attrs import evolve, fields
from sqlalchemy import (
    ColumnElement,
    Select,
    Subquery,
    and_,
    bindparam,
    case,
    exists,
    func,
    select,
    union,
    union_all,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.dialect import in_array, rowset
from staffbooking_adapters.sql.engine.row_mapping import Reader
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.bookings import bookings, users
from staffbooking_adapters.sql.schema.messaging import (
    connections,
    conversations,
    is_at_living_node,
    members,
    messages,
)
from staffbooking_core.domain.accounts.users import full_name
from staffbooking_core.domain.messaging.conversations import (
    BOOKED,
    PAID_ONCE,
    Conversation,
    Kind,
    Member,
    Message,
    Overview,
)


@lru_cache(maxsize=4096)
def _recipients(text: str) -> tuple[int, ...]:
    return tuple(codec.decode(text))


MESSAGE = tuple(messages.c[field.name] for field in fields(Message))
to_message = Reader(Message, MESSAGE, recipients=_recipients)

_CONVERSATION = tuple(conversations.c)[:-1]
_READ_CONVERSATION = Reader(Conversation, _CONVERSATION, kind=Kind)
_MEMBER = (members.c.user_id, users.c.first_name, users.c.last_name)
_MARKS = (members.c.read_id, members.c.left_id, users.c.disabled_at)
_WIDTH = len(_CONVERSATION)
_FOUND = _WIDTH + len(_MEMBER) + len(_MARKS)

_USER = bindparam("user_id", type_=BigInt)
is_open = conversations.c.opened

# One, with its members --------------------------------------------------------------------

_IS_IT = conversations.c.id == bindparam("conversation_id")
_ARE_THEY = in_array(conversations.c.id, "conversation_ids")
_WHOLE = (
    select(*_CONVERSATION, *_MEMBER, *_MARKS)
    .join_from(conversations, members)
    .join(users, users.c.id == members.c.user_id)
    .order_by(conversations.c.id, members.c.user_id)
)
GET = Statement(_WHOLE.where(_IS_IT, is_open))
GET_ALL = Statement(_WHOLE.where(_ARE_THEY))

_LOCK = select(conversations.c.id).with_for_update(key_share=True)
LOCK = Statement(_LOCK.where(_ARE_THEY, is_open).order_by(conversations.c.id))
LOCK_GROUP = Statement(
    _LOCK.where(
        conversations.c.customer_id == bindparam("customer"),
        conversations.c.event_ref == bindparam("event_ref"),
    )
)


def to_conversations(rows: Sequence[Row]) -> list[Conversation]:
    """From rows of members, those of each conversation together."""
    return [_to_conversation(list(its)) for _, its in groupby(rows, key=itemgetter(0))]


def _to_conversation(rows: Sequence[Row]) -> Conversation:
    return evolve(_READ_CONVERSATION(rows[0]), members=tuple(map(_to_member, rows)))


def _to_member(row: Row) -> Member:
    place = row[_WIDTH:_FOUND]
    user_id, first_name, last_name, read_id, left_id, disabled_at = place
    name = full_name(first_name, last_name)
    return Member(user_id, name, read_id, left_id, disabled_at is not None)


# As a member finds them -------------------------------------------------------------------

upto = func.coalesce(members.c.left_id, conversations.c.last_id)
"""The last message of a conversation that a member may read."""


def is_online(user_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether somebody is connected to a node that is alive."""
    return exists().where(connections.c.user_id == user_id, is_at_living_node)


def _found(page: Subquery) -> Statement:
    """The members of some conversations; what only the reader wants to know stands in the row
    of theirs."""
    is_reader = members.c.user_id == _USER
    last_id = func.coalesce(members.c.left_id, page.c.last_id)
    last = messages.alias("last")
    unread = (
        select(func.count())
        .where(
            messages.c.conversation_id == page.c.id,
            messages.c.id > members.c.read_id,
            messages.c.id <= last_id,
            messages.c.sender_id != _USER,
        )
        .scalar_subquery()
    )
    code = (
        select(bookings.c.code)
        .where(
            bookings.c.customer_id == page.c.customer_id,
            bookings.c.companion_id == page.c.companion_id,
        )
        .order_by(bookings.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return Statement(
        select(
            *(*page.c, *_MEMBER, *_MARKS, is_online(members.c.user_id)),
            *(case((is_reader, unread)), case((is_reader, code))),
            *(last.c[column.name] for column in MESSAGE),
        )
        .select_from(
            page.join(members, members.c.conversation_id == page.c.id)
            .join(users, users.c.id == members.c.user_id)
            .outerjoin(last, and_(is_reader, last.c.id == last_id))
        )
        .order_by(page.c.updated_at.desc(), page.c.id.desc(), members.c.user_id)
    )


OVERVIEW = _found(select(*_CONVERSATION).where(_IS_IT, is_open).subquery("page"))


@cache
def overviews(size: int) -> Statement:
    mine = members.alias("mine")
    page = (
        select(*_CONVERSATION)
        .join_from(mine, conversations)
        .where(mine.c.user_id == _USER, is_open)
        .order_by(conversations.c.updated_at.desc(), conversations.c.id.desc())
        .limit(size)
        .offset(bindparam("offset", type_=BigInt))
    )
    return _found(page.subquery("page"))


_LAST = _FOUND + 3


def to_overviews(rows: Sequence[Row], user_id: int) -> list[Overview]:
    """Of the conversations in which the user has a place."""
    found = (list(its) for _, its in groupby(rows, key=itemgetter(0)))
    return [_to_overview(its, row) for its in found for row in its if row[_WIDTH] == user_id]


def _to_overview(rows: Sequence[Row], mine: Row) -> Overview:
    conversation = _to_conversation(rows)
    online = frozenset(row[_WIDTH] for row in rows if row[_FOUND])
    unread, code = mine[_FOUND + 1 : _LAST]
    return Overview(
        conversation=conversation,
        last_message=None if mine[_LAST] is None else to_message(mine[_LAST:]),
        unread=unread,
        booking_code=code,
        online=online.intersection(conversation.recipients),
    )


# Who may talk with whom -------------------------------------------------------------------

_PARTIES = (bookings.c.customer_id, bookings.c.companion_id)


def _shared(customer: str, companion: str) -> Select[tuple[int, int]]:
    theirs = (
        bookings.c.customer_id == bindparam(customer),
        bookings.c.companion_id == bindparam(companion),
    )
    one = select(*_PARTIES).where(*theirs).limit(1).subquery()
    return select(one.c.customer_id, one.c.companion_id)


PAIR = Statement(union_all(_shared("user_id", "other_id"), _shared("other_id", "user_id")))
DIRECT = Statement(
    select(conversations.c.id).where(
        conversations.c.companion_id == bindparam("companion"),
        conversations.c.customer_id == bindparam("customer"),
    )
)


_AS_CUSTOMER = select(*_PARTIES).where(
    bookings.c.customer_id == _USER,
    bookings.c.companion_id.not_in(
        select(conversations.c.companion_id).where(
            conversations.c.customer_id == _USER, conversations.c.companion_id.is_not(None)
        )
    ),
)
_AS_COMPANION = select(*_PARTIES).where(
    bookings.c.companion_id == _USER,
    bookings.c.customer_id.not_in(
        select(conversations.c.customer_id).where(conversations.c.companion_id == _USER)
    ),
)


@cache
def unopened(size: int) -> Statement:
    return Statement(union(_AS_CUSTOMER, _AS_COMPANION).order_by(*_PARTIES).limit(size))


_STAFF = rowset("staff", id=("staff_ids", BigInt))
CLEARED = Statement(
    select(_STAFF.c.id)
    .where(
        exists().where(
            bookings.c.companion_id == _STAFF.c.id,
            bookings.c.customer_id == bindparam("customer"),
            bookings.c.status.in_(sorted(PAID_ONCE)),
        )
    )
    .order_by(_STAFF.c.id)
)
BOOKED_FOR = Statement(
    select(users.c.id, users.c.first_name, users.c.last_name)
    .join_from(bookings, users, users.c.id == bookings.c.companion_id)
    .where(
        bookings.c.customer_id == bindparam("customer"),
        bookings.c.event_ref == bindparam("event_ref"),
        bookings.c.status.in_(sorted(BOOKED)),
    )
    .order_by(bookings.c.id)
)

_MINE, _THEIRS = members.alias("mine"), members.alias("theirs")
_TOGETHER = (
    select(_THEIRS.c.user_id)
    .distinct()
    .select_from(
        _MINE.join(conversations, conversations.c.id == _MINE.c.conversation_id).join(
            _THEIRS, _THEIRS.c.conversation_id == _MINE.c.conversation_id
        )
    )
    .where(
        _MINE.c.user_id == _USER, _MINE.c.left_id.is_(None), _THEIRS.c.left_id.is_(None), is_open
    )
)
ACQUAINTANCES = Statement(_TOGETHER.where(in_array(_THEIRS.c.user_id, "among")))
ONLINE_ACQUAINTANCES = Statement(
    _TOGETHER.where(_THEIRS.c.user_id != _USER, is_online(_THEIRS.c.user_id)).order_by(
        _THEIRS.c.user_id
    )
)
