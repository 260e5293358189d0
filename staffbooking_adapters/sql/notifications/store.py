"""Notifications, muted notification kinds, and inquiries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from operator import itemgetter

from attrs import asdict, fields, frozen
from sqlalchemy import (
    ColumnElement,
    Insert,
    bindparam,
    delete,
    insert,
    literal_column,
    select,
    true,
    update,
)

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import array_rows, in_array, upsert
from staffbooking_adapters.sql.engine.leases import (
    MAX_CLAIM_SIZE,
    NOW_PARAM,
    RELEASED_LEASE_VALUES,
    claim_with_lease,
    is_held_by_caller,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.notifications import (
    inquiries,
    is_waiting_inquiry,
    mutes,
    notices,
)
from staffbooking_core.bounds import MAX_ID
from staffbooking_core.domain.accounts.users import normalize_email
from staffbooking_core.domain.notifications.inquiries import Inquiry, NewInquiry
from staffbooking_core.domain.notifications.notifications import Notification, NotificationKind
from staffbooking_core.ports import DueNotification, Lease
from staffbooking_core.request_id import CURRENT_REQUEST_ID

NOTIFICATION_COLUMNS = tuple(notices.c[field.name] for field in fields(Notification))
to_notification = RowMapper(Notification, NOTIFICATION_COLUMNS)
INQUIRY_COLUMNS = tuple(inquiries.c[field.name] for field in fields(Inquiry))
to_inquiry = RowMapper(Inquiry, INQUIRY_COLUMNS)

_NOTIFICATION_ROWS = array_rows(
    "told", **{c.name: (f"notice_{c.name}s", c.type) for c in NOTIFICATION_COLUMNS}
)
_AT_PARAM = bindparam("at", type_=Instant)
_REQUEST_ID_PARAM = bindparam("request_id", type_=notices.c.request_id.type)


def insert_notifications(condition: ColumnElement[bool]) -> Insert:
    """Insert the notifications of `notification_params`, due at the parameter `at` and caused by
    the request `request_id`, if the condition holds."""
    values = {
        "at": _AT_PARAM,
        "due_at": _AT_PARAM,
        "attempts": literal_column("0"),
        "request_id": _REQUEST_ID_PARAM,
    }
    return insert(notices).from_select(
        [*(column.name for column in NOTIFICATION_COLUMNS), *values],
        select(*_NOTIFICATION_ROWS.c, *values.values()).where(condition),
    )


ADD_NOTIFICATIONS = Statement(insert_notifications(true()))

IS_NOTIFICATION_DUE = notices.c.due_at <= NOW_PARAM
_ARE_LEASED_NOTIFICATIONS = (in_array(notices.c.id, "notice_ids"), is_held_by_caller(notices))
DELETE_NOTIFICATIONS = Statement(delete(notices).where(*_ARE_LEASED_NOTIFICATIONS))
RELEASE_NOTIFICATIONS = Statement(
    update(notices).values(RELEASED_LEASE_VALUES).where(*_ARE_LEASED_NOTIFICATIONS)
)
DEFER_NOTIFICATION = Statement(
    update(notices)
    .values(due_at=_AT_PARAM, attempts=notices.c.attempts + 1, **RELEASED_LEASE_VALUES)
    .where(notices.c.id == bindparam("notice_id"), is_held_by_caller(notices))
)

_KINDS = frozenset(NotificationKind)
_USER_ID, _KIND = bindparam("user_id", type_=BigInt), bindparam("kind", type_=mutes.c.kind.type)
MUTES_OF = Statement(select(mutes.c.kind).where(mutes.c.user_id == _USER_ID))
MUTES_OF_ALL = Statement(
    select(mutes.c.user_id, mutes.c.kind).where(in_array(mutes.c.user_id, "user_ids"))
)
ADD_MUTE = Statement(upsert(mutes).values(user_id=_USER_ID, kind=_KIND).on_conflict_do_nothing())
DELETE_MUTE = Statement(delete(mutes).where(mutes.c.user_id == _USER_ID, mutes.c.kind == _KIND))

ADD_INQUIRY = Statement(
    insert(inquiries)
    .values(
        {
            name: bindparam(name, type_=inquiries.c[name].type)
            for name in (*(field.name for field in fields(NewInquiry)), "email_folded")
        }
    )
    .returning(inquiries.c.id)
)
GET_INQUIRY = Statement(select(*INQUIRY_COLUMNS).where(inquiries.c.id == bindparam("inquiry_id")))
_ANSWER_FIELDS = ("answered_at", "answered_by", "note")
SAVE_ANSWER = Statement(
    update(inquiries)
    .values({name: bindparam(name, type_=inquiries.c[name].type) for name in _ANSWER_FIELDS})
    .where(inquiries.c.id == bindparam("inquiry_id"), is_waiting_inquiry)
)


@cache
def claim_notifications_statement(limit: int) -> Statement:
    order = (notices.c.due_at, notices.c.id)
    columns = (*order, notices.c.attempts, notices.c.request_id, *NOTIFICATION_COLUMNS)
    return claim_with_lease(notices, IS_NOTIFICATION_DUE, order, limit, columns)


@cache
def inquiries_after(size: int) -> Statement:
    after = inquiries.c.id > bindparam("after_id")
    return Statement(select(*INQUIRY_COLUMNS).where(after).order_by(inquiries.c.id).limit(size))


@cache
def newest_inquiries_before(size: int, answered: bool | None) -> Statement:
    found = select(*INQUIRY_COLUMNS).where(inquiries.c.id < bindparam("before_id", type_=BigInt))
    if answered is not None:
        found = found.where(~is_waiting_inquiry if answered else is_waiting_inquiry)
    return Statement(found.order_by(inquiries.c.id.desc()).limit(size))


def notification_params(notifications: Sequence[Notification]) -> dict[str, list[object]]:
    """The parameters of `insert_notifications` except `at` and `request_id`."""
    return {
        f"notice_{c.name}s": [getattr(each, c.name) for each in notifications]
        for c in NOTIFICATION_COLUMNS
    }


def _known_kinds(stored: Iterable[str]) -> frozenset[NotificationKind]:
    """Another version of the service may have stored kinds that this version does not know."""
    return frozenset(NotificationKind(kind) for kind in stored if kind in _KINDS)


@frozen
class NotificationsReader:
    """Reads muted notification kinds and inquiries."""

    connection: Connection

    async def muted_kinds_of(self, user_id: int) -> frozenset[NotificationKind]:
        rows = await self.connection.fetch_all(MUTES_OF, user_id=user_id)
        return _known_kinds(kind for (kind,) in rows)

    async def muted_kinds_of_all(
        self, user_ids: Collection[int]
    ) -> Mapping[int, frozenset[NotificationKind]]:
        rows = await self.connection.fetch_all(MUTES_OF_ALL, user_ids=list(user_ids))
        kinds_by_user = defaultdict[int, list[str]](list)
        for user_id, kind in rows:
            kinds_by_user[user_id].append(kind)
        return {user_id: _known_kinds(kinds) for user_id, kinds in kinds_by_user.items()}

    async def inquiries(self, after_id: int, limit: int) -> Sequence[Inquiry]:
        rows = await self.connection.fetch_all(inquiries_after(page_size(limit)), after_id=after_id)
        return [to_inquiry(row) for row in rows[:limit]]

    async def newest_inquiries(
        self, before_id: int | None, limit: int, *, answered: bool | None = None
    ) -> Sequence[Inquiry]:
        rows = await self.connection.fetch_all(
            newest_inquiries_before(page_size(limit), answered),
            before_id=MAX_ID if before_id is None else before_id,
        )
        return [to_inquiry(row) for row in rows[:limit]]

    async def inquiry(self, inquiry_id: int) -> Inquiry | None:
        return to_inquiry.map_optional(
            await self.connection.fetch_one(GET_INQUIRY, inquiry_id=inquiry_id)
        )


@frozen
class NotificationsWriter(NotificationsReader):
    """Writes and claims notifications; mutes and unmutes kinds; adds inquiries."""

    async def add_notifications(
        self, notifications: Sequence[Notification], due_at: datetime
    ) -> None:
        params = {"at": due_at, "request_id": CURRENT_REQUEST_ID.get()}
        await self.connection.execute(
            ADD_NOTIFICATIONS, **params, **notification_params(notifications)
        )

    async def claim_notifications(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[DueNotification]:
        statement = claim_notifications_statement(min(limit, MAX_CLAIM_SIZE))
        rows = await self.connection.fetch_all(statement, now=now, **lease_parameters(lease))
        rows = sorted(rows, key=itemgetter(0, 1))
        return [DueNotification(row[1], to_notification(row[4:]), *row[2:4]) for row in rows]

    async def finish_notifications(self, notification_ids: Collection[int], lease: Lease) -> None:
        await self.connection.execute(
            DELETE_NOTIFICATIONS, notice_ids=list(notification_ids), held_by=lease.token
        )

    async def release_notifications(self, notification_ids: Collection[int], lease: Lease) -> None:
        await self.connection.execute(
            RELEASE_NOTIFICATIONS, notice_ids=list(notification_ids), held_by=lease.token
        )

    async def defer_notification(self, notification_id: int, lease: Lease, until: datetime) -> None:
        await self.connection.execute(
            DEFER_NOTIFICATION, notice_id=notification_id, held_by=lease.token, at=until
        )

    async def mute(self, user_id: int, kind: NotificationKind) -> None:
        await self.connection.execute(ADD_MUTE, user_id=user_id, kind=kind)

    async def unmute(self, user_id: int, kind: NotificationKind) -> None:
        await self.connection.execute(DELETE_MUTE, user_id=user_id, kind=kind)

    async def add_inquiry(self, inquiry: NewInquiry) -> Inquiry:
        fields_by_name = asdict(inquiry, recurse=False)
        folded = normalize_email(inquiry.email)
        added = await self.connection.fetch_value(
            ADD_INQUIRY, **fields_by_name, email_folded=folded
        )
        return Inquiry(id=added, **fields_by_name)

    async def save_answer(self, inquiry: Inquiry) -> bool:
        answer = {name: getattr(inquiry, name) for name in _ANSWER_FIELDS}
        return bool(await self.connection.execute(SAVE_ANSWER, inquiry_id=inquiry.id, **answer))
