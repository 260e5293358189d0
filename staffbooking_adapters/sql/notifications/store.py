"""What people are to be told, what they refuse to be told, and what they ask."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import asdict, fields, frozen
from sqlalchemy import bindparam, delete, insert, literal_column, select, true, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import rowset, upsert
from staffbooking_adapters.sql.engine.leases import MOST, NOW, RELEASED, claiming, is_held, terms
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import Reader
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.accounts import inquiries, mutes
from staffbooking_adapters.sql.schema.bookings import notices
from staffbooking_core.domain.accounts.users import fold_email
from staffbooking_core.domain.notifications.inquiries import Inquiry, NewInquiry
from staffbooking_core.domain.notifications.notifications import Notice, NoticeKind
from staffbooking_core.ports import DueNotice, Lease

NOTICE = tuple(notices.c[field.name] for field in fields(Notice))
to_notice = Reader(Notice, NOTICE)
INQUIRY = tuple(inquiries.c[field.name] for field in fields(Inquiry))
to_inquiry = Reader(Inquiry, INQUIRY)

_TOLD = rowset("told", **{c.name: (f"notice_{c.name}s", c.type) for c in NOTICE})
_AT = bindparam("at", type_=Instant)
add_told = insert(notices).from_select(
    [*(column.name for column in NOTICE), "at", "due_at", "attempts"],
    select(*_TOLD.c, _AT, _AT, literal_column("0")).where(true()),
)
"""Notices of the parameters that `told_rows` makes, and of `at`."""
ADD = Statement(add_told)

_IT = (notices.c.id == bindparam("notice_id"), is_held(notices))
FINISH = Statement(delete(notices).where(*_IT))
DEFER = Statement(
    update(notices).values(due_at=_AT, attempts=notices.c.attempts + 1, **RELEASED).where(*_IT)
)

_KINDS = frozenset(NoticeKind)
_USER, _KIND = bindparam("user_id", type_=BigInt), bindparam("kind", type_=mutes.c.kind.type)
MUTES_OF = Statement(select(mutes.c.kind).where(mutes.c.user_id == _USER))
MUTE = Statement(upsert(mutes).values(user_id=_USER, kind=_KIND).on_conflict_do_nothing())
UNMUTE = Statement(delete(mutes).where(mutes.c.user_id == _USER, mutes.c.kind == _KIND))

ADD_INQUIRY = Statement(
    insert(inquiries)
    .values({c.name: bindparam(c.name, type_=c.type) for c in inquiries.c if c.name != "id"})
    .returning(inquiries.c.id)
)


@cache
def claim(limit: int) -> Statement:
    order = (notices.c.due_at, notices.c.id)
    told = (*order, notices.c.attempts, *NOTICE)
    return claiming(notices, notices.c.due_at <= NOW, order, limit, told)


@cache
def inquiries_after(size: int) -> Statement:
    after = inquiries.c.id > bindparam("after_id")
    return Statement(select(*INQUIRY).where(after).order_by(inquiries.c.id).limit(size))


def told_rows(told: Sequence[Notice]) -> dict[str, list[object]]:
    """The parameters of `add_told`, but for the time."""
    return {f"notice_{c.name}s": [getattr(each, c.name) for each in told] for c in NOTICE}


@frozen
class NoticesReader:
    connection: Connection

    async def mutes_of(self, user_id: int) -> frozenset[NoticeKind]:
        rows = await self.connection.all(MUTES_OF, user_id=user_id)
        # Another version may know kinds that this one doesn't.
        return frozenset(NoticeKind(kind) for (kind,) in rows if kind in _KINDS)

    async def inquiries(self, after_id: int, limit: int) -> Sequence[Inquiry]:
        rows = await self.connection.all(inquiries_after(page_size(limit)), after_id=after_id)
        return [to_inquiry(row) for row in rows[:limit]]


@frozen
class NoticesWriter(NoticesReader):
    async def add(self, notices: Sequence[Notice], at: datetime) -> None:
        await self.connection.run(ADD, at=at, **told_rows(notices))

    async def claim(self, now: datetime, lease: Lease, limit: int) -> Sequence[DueNotice]:
        statement = claim(min(limit, MOST))
        rows = sorted(await self.connection.all(statement, now=now, **terms(lease)))
        return [DueNotice(row[1], to_notice(row[3:]), row[2]) for row in rows]

    async def finish(self, notice_id: int, lease: Lease) -> None:
        await self.connection.run(FINISH, notice_id=notice_id, held_by=lease.token)

    async def defer(self, notice_id: int, lease: Lease, until: datetime) -> None:
        await self.connection.run(DEFER, notice_id=notice_id, held_by=lease.token, at=until)

    async def mute(self, user_id: int, kind: NoticeKind) -> None:
        await self.connection.run(MUTE, user_id=user_id, kind=kind)

    async def unmute(self, user_id: int, kind: NoticeKind) -> None:
        await self.connection.run(UNMUTE, user_id=user_id, kind=kind)

    async def add_inquiry(self, inquiry: NewInquiry) -> Inquiry:
        given = asdict(inquiry, recurse=False)
        folded = fold_email(inquiry.email)
        added = await self.connection.value(ADD_INQUIRY, **given, email_folded=folded)
        return Inquiry(id=added, **given)
