"""Reads of conversations: with their members, and as overviews for one member."""

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
from staffbooking_adapters.sql.engine.dialect import array_rows, in_array
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.accounts import users
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_adapters.sql.schema.messaging import (
    channel_connections,
    conversation_members,
    conversations,
    is_on_live_node,
    messages,
)
from staffbooking_core.domain.accounts.users import full_name
from staffbooking_core.domain.bookings.lifecycle import CONFIRMED_STATUSES
from staffbooking_core.domain.messaging.conversations import (
    CONTACT_SHARING_STATUSES,
    Conversation,
    ConversationKind,
    ConversationMember,
    ConversationOverview,
    Message,
)


@lru_cache(maxsize=4096)
def _parse_recipients(text: str) -> tuple[int, ...]:
    return tuple(codec.decode(text))


MESSAGE_COLUMNS = tuple(messages.c[field.name] for field in fields(Message))
to_message = RowMapper(Message, MESSAGE_COLUMNS, recipients=_parse_recipients)

_CONVERSATION_COLUMNS = tuple(conversations.c)[:-1]
_map_conversation = RowMapper(Conversation, _CONVERSATION_COLUMNS, kind=ConversationKind)
_MEMBER_NAME_COLUMNS = (conversation_members.c.user_id, users.c.first_name, users.c.last_name)
_MEMBER_STATE_COLUMNS = (
    conversation_members.c.read_id,
    conversation_members.c.left_id,
    users.c.disabled_at,
    users.c.erased_at,
)
_MEMBER_OFFSET = len(_CONVERSATION_COLUMNS)
_ONLINE_OFFSET = _MEMBER_OFFSET + len(_MEMBER_NAME_COLUMNS) + len(_MEMBER_STATE_COLUMNS)

_USER_ID = bindparam("user_id", type_=BigInt)
is_conversation_open = conversations.c.opened

# One conversation with its members --------------------------------------------------------

_IS_CONVERSATION = conversations.c.id == bindparam("conversation_id")
_IS_IN_CONVERSATIONS = in_array(conversations.c.id, "conversation_ids")
_SELECT_WITH_MEMBERS = (
    select(*_CONVERSATION_COLUMNS, *_MEMBER_NAME_COLUMNS, *_MEMBER_STATE_COLUMNS)
    .join_from(conversations, conversation_members)
    .join(users, users.c.id == conversation_members.c.user_id)
    .order_by(conversations.c.id, conversation_members.c.user_id)
)
GET_CONVERSATION = Statement(_SELECT_WITH_MEMBERS.where(_IS_CONVERSATION, is_conversation_open))
LIST_CONVERSATIONS_BY_ID = Statement(_SELECT_WITH_MEMBERS.where(_IS_IN_CONVERSATIONS))

_SELECT_ID_FOR_UPDATE = select(conversations.c.id).with_for_update(key_share=True)
LOCK_CONVERSATIONS = Statement(
    _SELECT_ID_FOR_UPDATE.where(_IS_IN_CONVERSATIONS, is_conversation_open).order_by(
        conversations.c.id
    )
)
LOCK_GROUP_CONVERSATION = Statement(
    _SELECT_ID_FOR_UPDATE.where(
        conversations.c.customer_id == bindparam("customer"),
        conversations.c.event_ref == bindparam("event_ref"),
    )
)


def to_conversations(rows: Sequence[Row]) -> list[Conversation]:
    """Build conversations from member rows that are grouped by conversation."""
    return [
        _to_conversation(list(conversation_rows))
        for _, conversation_rows in groupby(rows, key=itemgetter(0))
    ]


def _to_conversation(rows: Sequence[Row]) -> Conversation:
    return evolve(_map_conversation(rows[0]), members=tuple(map(_to_member, rows)))


def _to_member(row: Row) -> ConversationMember:
    member_columns = row[_MEMBER_OFFSET:_ONLINE_OFFSET]
    user_id, first_name, last_name, read_id, left_id, disabled_at, erased_at = member_columns
    name = full_name(first_name, last_name)
    is_disabled, is_erased = disabled_at is not None, erased_at is not None
    return ConversationMember(user_id, name, read_id, left_id, is_disabled, is_erased)


# Overviews for one member -----------------------------------------------------------------

last_readable_id = func.coalesce(conversation_members.c.left_id, conversations.c.last_id)
"""The id of the last message of a conversation that a member may read."""


def is_online(user_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Whether a user is connected to a live node."""
    return exists().where(channel_connections.c.user_id == user_id, is_on_live_node)


def _overview_statement(page: Subquery) -> Statement:
    """The member rows of a page of conversations. Only the reader's own row has the number of
    unread messages, the booking code and the last message."""
    is_reader = conversation_members.c.user_id == _USER_ID
    last_id = func.coalesce(conversation_members.c.left_id, page.c.last_id)
    last_message = messages.alias("last")
    unread = (
        select(func.count())
        .where(
            messages.c.conversation_id == page.c.id,
            messages.c.id > conversation_members.c.read_id,
            messages.c.id <= last_id,
            messages.c.sender_id != _USER_ID,
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
            *(
                *page.c,
                *_MEMBER_NAME_COLUMNS,
                *_MEMBER_STATE_COLUMNS,
                is_online(conversation_members.c.user_id),
            ),
            *(case((is_reader, unread)), case((is_reader, code))),
            *(last_message.c[column.name] for column in MESSAGE_COLUMNS),
        )
        .select_from(
            page.join(conversation_members, conversation_members.c.conversation_id == page.c.id)
            .join(users, users.c.id == conversation_members.c.user_id)
            .outerjoin(last_message, and_(is_reader, last_message.c.id == last_id))
        )
        .order_by(page.c.updated_at.desc(), page.c.id.desc(), conversation_members.c.user_id)
    )


GET_OVERVIEW = _overview_statement(
    select(*_CONVERSATION_COLUMNS).where(_IS_CONVERSATION, is_conversation_open).subquery("page")
)


@cache
def overviews_page(size: int) -> Statement:
    own_membership = conversation_members.alias("mine")
    page = (
        select(*_CONVERSATION_COLUMNS)
        .join_from(own_membership, conversations)
        .where(own_membership.c.user_id == _USER_ID, is_conversation_open)
        .order_by(conversations.c.updated_at.desc(), conversations.c.id.desc())
        .limit(size)
        .offset(bindparam("offset", type_=BigInt))
    )
    return _overview_statement(page.subquery("page"))


_LAST_MESSAGE_OFFSET = _ONLINE_OFFSET + 3


def to_overviews(rows: Sequence[Row], user_id: int) -> list[ConversationOverview]:
    """Build overviews of the conversations of which the user is a member."""
    row_groups = (
        list(conversation_rows) for _, conversation_rows in groupby(rows, key=itemgetter(0))
    )
    return [
        _to_overview(its, row)
        for its in row_groups
        for row in its
        if row[_MEMBER_OFFSET] == user_id
    ]


def _to_overview(rows: Sequence[Row], own_row: Row) -> ConversationOverview:
    conversation = _to_conversation(rows)
    online = frozenset(row[_MEMBER_OFFSET] for row in rows if row[_ONLINE_OFFSET])
    unread, code = own_row[_ONLINE_OFFSET + 1 : _LAST_MESSAGE_OFFSET]
    return ConversationOverview(
        conversation=conversation,
        last_message=None
        if own_row[_LAST_MESSAGE_OFFSET] is None
        else to_message(own_row[_LAST_MESSAGE_OFFSET:]),
        unread=unread,
        booking_code=code,
        online=online.intersection(conversation.recipient_ids),
    )


# Customer and companion pairs -------------------------------------------------------------

_PARTY_COLUMNS = (bookings.c.customer_id, bookings.c.companion_id)


def _select_shared_booking(customer: str, companion: str) -> Select[tuple[int, int]]:
    is_between_parties = (
        bookings.c.customer_id == bindparam(customer),
        bookings.c.companion_id == bindparam(companion),
    )
    shared_booking = select(*_PARTY_COLUMNS).where(*is_between_parties).limit(1).subquery()
    return select(shared_booking.c.customer_id, shared_booking.c.companion_id)


FIND_PAIR = Statement(
    union_all(
        _select_shared_booking("user_id", "other_id"), _select_shared_booking("other_id", "user_id")
    )
)
FIND_EVENT_GROUP = Statement(
    select(conversations.c.id).where(
        conversations.c.customer_id == bindparam("customer"),
        conversations.c.event_ref == bindparam("event_ref"),
        conversations.c.opened,
    )
)
FIND_DIRECT_CONVERSATION = Statement(
    select(conversations.c.id).where(
        conversations.c.companion_id == bindparam("companion"),
        conversations.c.customer_id == bindparam("customer"),
    )
)


_UNOPENED_AS_CUSTOMER = select(*_PARTY_COLUMNS).where(
    bookings.c.customer_id == _USER_ID,
    bookings.c.companion_id.not_in(
        select(conversations.c.companion_id).where(
            conversations.c.customer_id == _USER_ID, conversations.c.companion_id.is_not(None)
        )
    ),
)
_UNOPENED_AS_COMPANION = select(*_PARTY_COLUMNS).where(
    bookings.c.companion_id == _USER_ID,
    bookings.c.customer_id.not_in(
        select(conversations.c.customer_id).where(conversations.c.companion_id == _USER_ID)
    ),
)


@cache
def unopened_pairs(size: int) -> Statement:
    return Statement(
        union(_UNOPENED_AS_CUSTOMER, _UNOPENED_AS_COMPANION).order_by(*_PARTY_COLUMNS).limit(size)
    )


_STAFF_ROWS = array_rows("staff", id=("staff_ids", BigInt))
LIST_PAID_STAFF = Statement(
    select(_STAFF_ROWS.c.id)
    .where(
        exists().where(
            bookings.c.companion_id == _STAFF_ROWS.c.id,
            bookings.c.customer_id == bindparam("customer"),
            bookings.c.status.in_(sorted(CONTACT_SHARING_STATUSES)),
        )
    )
    .order_by(_STAFF_ROWS.c.id)
)
LIST_BOOKED_STAFF = Statement(
    select(users.c.id, users.c.first_name, users.c.last_name)
    .join_from(bookings, users, users.c.id == bookings.c.companion_id)
    .where(
        bookings.c.customer_id == bindparam("customer"),
        bookings.c.event_ref == bindparam("event_ref"),
        bookings.c.status.in_(sorted(CONFIRMED_STATUSES)),
    )
    .order_by(bookings.c.id)
)

_OWN_MEMBERSHIP, _OTHER_MEMBERSHIP = (
    conversation_members.alias("mine"),
    conversation_members.alias("theirs"),
)
_SELECT_CONVERSATION_PARTNERS = (
    select(_OTHER_MEMBERSHIP.c.user_id)
    .distinct()
    .select_from(
        _OWN_MEMBERSHIP.join(
            conversations, conversations.c.id == _OWN_MEMBERSHIP.c.conversation_id
        ).join(
            _OTHER_MEMBERSHIP,
            _OTHER_MEMBERSHIP.c.conversation_id == _OWN_MEMBERSHIP.c.conversation_id,
        )
    )
    .where(
        _OWN_MEMBERSHIP.c.user_id == _USER_ID,
        _OWN_MEMBERSHIP.c.left_id.is_(None),
        _OTHER_MEMBERSHIP.c.left_id.is_(None),
        is_conversation_open,
    )
)
LIST_CONVERSATION_PARTNERS = Statement(
    _SELECT_CONVERSATION_PARTNERS.where(in_array(_OTHER_MEMBERSHIP.c.user_id, "among"))
)
LIST_ONLINE_CONVERSATION_PARTNERS = Statement(
    _SELECT_CONVERSATION_PARTNERS.where(
        _OTHER_MEMBERSHIP.c.user_id != _USER_ID, is_online(_OTHER_MEMBERSHIP.c.user_id)
    ).order_by(_OTHER_MEMBERSHIP.c.user_id)
)
