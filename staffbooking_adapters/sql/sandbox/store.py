"""The sandbox: its clock, kept mails, and what comes next."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import cache

from attrs import asdict, frozen
from sqlalchemy import bindparam, delete, func, insert, select

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.sandbox import clock
from staffbooking_adapters.sql.schema.bookings import bookings, events, timers
from staffbooking_adapters.sql.schema.sandbox import sandbox_mails
from staffbooking_core.domain.bookings.lifecycle import TimerKind
from staffbooking_core.ports import (
    MAX_SENT_MAILS,
    NewSentMail,
    NextTimer,
    SandboxMark,
    SentMail,
)

_MAIL_COLUMNS = (*(c for c in sandbox_mails.c if c.name != "id"), sandbox_mails.c.id)
_to_mail = RowMapper(SentMail, _MAIL_COLUMNS)

GET_NEXT_TIMER = Statement(
    select(timers.c.booking_id, bookings.c.code, timers.c.kind, timers.c.due_at)
    .join_from(timers, bookings, bookings.c.id == timers.c.booking_id)
    .where(timers.c.due_at > bindparam("now", type_=Instant))
    .order_by(timers.c.due_at, timers.c.booking_id)
    .limit(1)
)
GET_MARK = Statement(
    select(
        select(func.coalesce(func.max(events.c.position), 0)).scalar_subquery(),
        select(func.coalesce(func.max(sandbox_mails.c.id), 0)).scalar_subquery(),
    )
)
ADD_SENT_MAIL = Statement(
    insert(sandbox_mails).values(
        {c.name: bindparam(c.name, type_=c.type) for c in sandbox_mails.c if c.name != "id"}
    )
)
DELETE_OLDEST_MAILS = Statement(
    delete(sandbox_mails).where(
        sandbox_mails.c.id
        <= select(func.max(sandbox_mails.c.id) - MAX_SENT_MAILS).scalar_subquery()
    )
)
DELETE_SENT_MAILS = Statement(delete(sandbox_mails))

_LAST_ID = 2**63 - 1


@cache
def newest_mails(size: int) -> Statement:
    return Statement(
        select(*_MAIL_COLUMNS)
        .where(sandbox_mails.c.id < bindparam("before_id", type_=BigInt))
        .order_by(sandbox_mails.c.id.desc())
        .limit(size)
    )


@cache
def mails_after(size: int) -> Statement:
    return Statement(
        select(*_MAIL_COLUMNS)
        .where(sandbox_mails.c.id > bindparam("after_id", type_=BigInt))
        .order_by(sandbox_mails.c.id)
        .limit(size)
    )


@frozen
class SandboxReader:
    """Reads the sandbox."""

    connection: Connection

    async def clock_offset(self) -> timedelta:
        return await clock.read_clock_offset(self.connection)

    async def next_timer(self, now: datetime) -> NextTimer | None:
        for booking_id, code, kind, due_at in await self.connection.fetch_all(
            GET_NEXT_TIMER, now=now
        ):
            return NextTimer(booking_id, code, TimerKind(kind), due_at)
        return None

    async def mark(self) -> SandboxMark:
        [(position, mail_id)] = await self.connection.fetch_all(GET_MARK)
        return SandboxMark(position, mail_id)

    async def sent_mails(self, limit: int, before_id: int | None = None) -> Sequence[SentMail]:
        rows = await self.connection.fetch_all(
            newest_mails(page_size(limit)), before_id=before_id or _LAST_ID
        )
        return [_to_mail(row) for row in rows[:limit]]

    async def sent_mails_after(self, after_id: int, limit: int) -> Sequence[SentMail]:
        rows = await self.connection.fetch_all(mails_after(page_size(limit)), after_id=after_id)
        return [_to_mail(row) for row in rows[:limit]]


@frozen
class SandboxWriter(SandboxReader):
    """Reads and changes the sandbox."""

    async def lock_clock(self) -> timedelta:
        return await clock.lock_clock_offset(self.connection)

    async def set_clock_offset(self, offset: timedelta) -> None:
        await clock.save_clock_offset(self.connection, offset)

    async def add_sent_mails(self, mails: Sequence[NewSentMail]) -> None:
        await self.connection.execute_many(
            ADD_SENT_MAIL, [asdict(mail, recurse=False) for mail in mails]
        )
        await self.connection.execute(DELETE_OLDEST_MAILS)

    async def delete_sent_mails(self) -> None:
        await self.connection.execute(DELETE_SENT_MAILS)
