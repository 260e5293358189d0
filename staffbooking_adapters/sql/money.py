"""Operations, timers, the processor's inbox and alerts: the work that waits, and claims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any

from attrs import frozen
from sqlalchemy import (
    ColumnElement,
    Table,
    Update,
    and_,
    bindparam,
    exists,
    false,
    func,
    or_,
    select,
    text,
    update,
)

from staffbooking_adapters import codec
from staffbooking_adapters.sql.bookings import BOOKING, to_booking
from staffbooking_adapters.sql.connection import Connection, Database
from staffbooking_adapters.sql.dialect import claim, in_array, upsert
from staffbooking_adapters.sql.ledger import IMBALANCE, postings_of
from staffbooking_adapters.sql.money_tables import (
    is_unfinished,
    payment_operations,
    processor_inbox,
)
from staffbooking_adapters.sql.pages import page_size
from staffbooking_adapters.sql.rows import Reader
from staffbooking_adapters.sql.sandbox import clock_offset
from staffbooking_adapters.sql.schema import HAS_VERSION
from staffbooking_adapters.sql.statements import Row, Statement
from staffbooking_adapters.sql.tables import alerts, bookings, is_open_payout, timers
from staffbooking_adapters.sql.types import Instant
from staffbooking_core.domain.bookings import Booking, TimerKind
from staffbooking_core.domain.ledger import Posting
from staffbooking_core.domain.payments import (
    UNFINISHED,
    Nudge,
    Operation,
    OpKind,
    OpStatus,
    Settlement,
)
from staffbooking_core.errors import Conflict, Unavailable
from staffbooking_core.ports import Audited, Lease, Timer

OPERATION = tuple(payment_operations.c)[:-2]
_READ_OPERATION = Reader(Operation, OPERATION, kind=OpKind, status=OpStatus, settlement=Settlement)
MOST = 500
"""So many rows are claimed at a time, at most."""

_NOW = bindparam("now", type_=Instant)
_BUSINESS = bindparam("business", type_=Instant)
_LEASE = {"lease_token": bindparam("token"), "lease_until": bindparam("until", type_=Instant)}
_RELEASE: Mapping[str, Any] = {"lease_token": None, "lease_until": None}


def _is_free(table: Table) -> ColumnElement[bool]:
    return or_(table.c.lease_until.is_(None), table.c.lease_until <= _NOW)


# Operations -------------------------------------------------------------------------------

_OTHER = payment_operations.alias("other")
_IN_ITS_WAY = exists().where(
    _OTHER.c.booking_id == payment_operations.c.booking_id,
    or_(
        and_(_OTHER.c.n < payment_operations.c.n, _OTHER.c.status.in_(sorted(UNFINISHED))),
        _OTHER.c.lease_until > _NOW,
    ),
)

OPERATIONS_OF = Statement(
    select(*OPERATION)
    .where(in_array(payment_operations.c.booking_id, "booking_ids"))
    .order_by(payment_operations.c.booking_id, payment_operations.c.n)
)
_HELD = and_(
    payment_operations.c.id == bindparam("operation_id"),
    payment_operations.c.lease_token == bindparam("held_by"),
)
LOCK_OPERATION = Statement(select(*OPERATION).where(_HELD).with_for_update(key_share=True))
_PROGRESS = (
    "generation status attempts next_at first_sent_at last_sent_at result_ref settlement last_error"
).split()
_SAVE_OPERATION = update(payment_operations).values(
    {name: bindparam(name, type_=payment_operations.c[name].type) for name in _PROGRESS}
)
KEEP_OPERATION = Statement(_SAVE_OPERATION.values(_LEASE).where(_HELD))
RELEASE_OPERATION = Statement(
    _SAVE_OPERATION.values(_RELEASE).where(payment_operations.c.id == bindparam("operation_id"))
)


@cache
def claim_operations(limit: int, of_booking: bool) -> Statement:
    due = (
        payment_operations.c.booking_id == bindparam("booking_id")
        if of_booking
        else payment_operations.c.next_at <= _NOW
    )
    return _claim(
        payment_operations,
        and_(is_unfinished, due, _is_free(payment_operations), ~_IN_ITS_WAY),
        (payment_operations.c.next_at, payment_operations.c.id),
        limit,
        returning=OPERATION,
    )


def _claim(
    table: Table,
    due: ColumnElement[bool],
    order_by: Sequence[ColumnElement[Any]],
    limit: int,
    returning: Sequence[ColumnElement[Any]],
    values: Mapping[str, Any] = _LEASE,
) -> Statement:
    claimed: Update = claim(
        table, due=due, order_by=order_by, limit=limit, values=values, returning=returning
    )
    return Statement(claimed)


# Timers, nudges, alerts -------------------------------------------------------------------

_TIMER_IS_DUE = and_(
    timers.c.due_at <= _BUSINESS, or_(timers.c.not_before.is_(None), timers.c.not_before <= _NOW)
)
_NUDGE_IS_DUE = and_(processor_inbox.c.done == false(), processor_inbox.c.next_at <= _NOW)


@cache
def claim_timers(limit: int) -> Statement:
    return _claim(
        timers,
        and_(_TIMER_IS_DUE, _is_free(timers)),
        (timers.c.due_at, timers.c.booking_id),
        limit,
        values={**_LEASE, "attempts": timers.c.attempts + 1},
        returning=(timers.c.booking_id, timers.c.kind, timers.c.due_at, timers.c.attempts),
    )


DEFER_TIMER = Statement(
    update(timers)
    .values(not_before=bindparam("put_off", type_=Instant), **_RELEASE)
    .where(timers.c.booking_id == bindparam("booking"), timers.c.lease_token == bindparam("token"))
)


@cache
def claim_nudges(limit: int) -> Statement:
    inbox = processor_inbox.c
    return _claim(
        processor_inbox,
        and_(_NUDGE_IS_DUE, _is_free(processor_inbox)),
        (inbox.received_at, inbox.id),
        limit,
        returning=(
            *(inbox.received_at, inbox.id),
            *(inbox.provider, inbox.event_id, inbox.intent_id, inbox.companion_id),
        ),
    )


_NUDGE = "provider event_id intent_id companion_id".split()
ADD_NUDGE = Statement(
    upsert(processor_inbox)
    .values(
        **{name: bindparam(name) for name in _NUDGE}, received_at=_NOW, next_at=_NOW, done=False
    )
    .on_conflict_do_nothing(index_elements=["provider", "event_id"])
)
_FINISH = update(processor_inbox).where(
    processor_inbox.c.provider == bindparam("from_provider"),
    processor_inbox.c.event_id == bindparam("event"),
    processor_inbox.c.lease_token == bindparam("token"),
)
FINISH_NUDGE = Statement(_FINISH.values(done=True, **_RELEASE))
RETRY_NUDGE = Statement(_FINISH.values(next_at=bindparam("at", type_=Instant), **_RELEASE))


@cache
def take_alerts(limit: int) -> Statement:
    return _claim(
        alerts,
        alerts.c.told == false(),
        [alerts.c.id],
        limit,
        values={"told": True},
        returning=(alerts.c.id, alerts.c.booking_id, alerts.c.text),
    )


@cache
def newest_alerts(size: int) -> Statement:
    newest = (alerts.c.at.desc(), alerts.c.id.desc())
    return Statement(
        select(alerts.c.at, alerts.c.booking_id, alerts.c.text).order_by(*newest).limit(size)
    )


# Overviews --------------------------------------------------------------------------------


def _count(table: Table, due: ColumnElement[bool]) -> ColumnElement[int]:
    return select(func.count()).select_from(table).where(due).scalar_subquery()


PENDING = Statement(
    select(
        _count(payment_operations, and_(is_unfinished, payment_operations.c.next_at <= _NOW))
        + _count(timers, _TIMER_IS_DUE)
        + _count(processor_inbox, _NUDGE_IS_DUE)
    )
)
AS_OF_ONE_MOMENT = Statement(
    postgresql=text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
)


@cache
def payouts(size: int) -> Statement:
    due_at, created_at = bookings.c.payout_due_at, bookings.c.created_at
    earliest = (due_at.is_(None), func.coalesce(due_at, created_at), bookings.c.id)
    return Statement(select(*BOOKING).where(is_open_payout).order_by(*earliest).limit(size))


@cache
def bookings_after(size: int) -> Statement:
    after = bookings.c.id > bindparam("after_id")
    return Statement(select(*BOOKING).where(after).order_by(bookings.c.id).limit(size))


@frozen
class MoneyReader:
    connection: Connection

    async def operations_of(self, booking_id: int) -> Sequence[Operation]:
        rows = await self.connection.all(OPERATIONS_OF, booking_ids=[booking_id])
        return [to_operation(row) for row in rows]

    async def postings_of(self, booking_id: int) -> Sequence[Posting]:
        return (await postings_of(self.connection, [booking_id])).get(booking_id, ())

    async def audit(self, after_id: int, limit: int) -> Sequence[Audited]:
        async def unit(connection: Connection) -> Sequence[Audited]:
            await connection.run(AS_OF_ONE_MOMENT)
            return await _audit(connection, after_id, limit)

        if isinstance(self.connection, Database):
            return await self.connection.write(unit)
        return await _audit(self.connection, after_id, limit)

    async def imbalance(self) -> int:
        amount: int = await self.connection.value(IMBALANCE)
        return amount

    async def payouts(self, limit: int) -> Sequence[Booking]:
        rows = await self.connection.all(payouts(page_size(limit)))
        return [to_booking(row) for row in rows[:limit]]

    async def pending(self, now: datetime) -> int:
        if not await self.connection.value(HAS_VERSION):
            raise Unavailable("the database has no schema yet")
        business = now + await clock_offset(self.connection)
        count: int = await self.connection.value(PENDING, now=now, business=business)
        return count

    async def alerts(self, limit: int) -> Sequence[tuple[datetime, int, str]]:
        rows = await self.connection.all(newest_alerts(page_size(limit)))
        return [(at, booking_id, told) for at, booking_id, told in rows[:limit]]


async def _audit(connection: Connection, after_id: int, limit: int) -> Sequence[Audited]:
    rows = await connection.all(bookings_after(page_size(limit)), after_id=after_id)
    batch = [to_booking(row) for row in rows[:limit]]
    numbers = [booking.id for booking in batch]
    postings = await postings_of(connection, numbers)
    operations: dict[int, tuple[Operation, ...]] = {}
    for row in await connection.all(OPERATIONS_OF, booking_ids=numbers):
        operation = to_operation(row)
        operations[operation.booking_id] = (*operations.get(operation.booking_id, ()), operation)
    return [
        Audited(booking, postings.get(booking.id, ()), operations.get(booking.id, ()))
        for booking in batch
    ]


@frozen
class MoneyWriter(MoneyReader):
    async def claim_operations(
        self, now: datetime, lease: Lease, limit: int, booking_id: int | None = None
    ) -> Sequence[Operation]:
        of_booking = booking_id is not None
        statement = claim_operations(min(limit, MOST), of_booking)
        given = {"booking_id": booking_id} if of_booking else {}
        rows = await self.connection.all(statement, now=now, **_of(lease), **given)
        claimed = [to_operation(row) for row in rows]
        return sorted(claimed, key=lambda operation: (operation.next_at, operation.id))

    async def lock_operation(self, operation_id: int, lease: Lease) -> Operation:
        held = {"operation_id": operation_id, "held_by": lease.token}
        row = await self.connection.one(LOCK_OPERATION, **held)
        if row is None:
            raise Conflict("operation")
        return to_operation(row)

    async def save_operation(self, operation: Operation, lease: Lease | None = None) -> None:
        progress = {name: getattr(operation, name) for name in _PROGRESS}
        progress["operation_id"] = operation.id
        if lease is None:
            await self.connection.run(RELEASE_OPERATION, **progress)
        elif not await self.connection.run(
            KEEP_OPERATION, **progress, **_of(lease), held_by=lease.token
        ):
            raise Conflict("operation")

    async def claim_timers(
        self, business: datetime, now: datetime, lease: Lease, limit: int
    ) -> Sequence[Timer]:
        statement = claim_timers(min(limit, MOST))
        rows = await self.connection.all(statement, business=business, now=now, **_of(lease))
        claimed = [
            Timer(booking_id, TimerKind(kind), due_at, attempts)
            for booking_id, kind, due_at, attempts in rows
        ]
        return sorted(claimed, key=lambda timer: (timer.due_at, timer.booking_id))

    async def defer_timer(self, booking_id: int, lease: Lease, until: datetime) -> None:
        put_off = {"booking": booking_id, "token": lease.token, "put_off": until}
        await self.connection.run(DEFER_TIMER, **put_off)

    async def take_alerts(self, limit: int) -> Sequence[tuple[int, str]]:
        rows = await self.connection.all(take_alerts(min(limit, MOST)))
        return [(booking_id, told) for _, booking_id, told in sorted(rows)]

    async def add_nudge(self, provider: str, nudge: Nudge, now: datetime) -> bool:
        named = {name: getattr(nudge, name) for name in _NUDGE[1:]}
        return bool(await self.connection.run(ADD_NUDGE, provider=provider, now=now, **named))

    async def claim_nudges(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[tuple[str, Nudge]]:
        rows = await self.connection.all(claim_nudges(min(limit, MOST)), now=now, **_of(lease))
        ordered = sorted(rows, key=lambda row: row[:2])
        return [(provider, Nudge(*nudge)) for _, _, provider, *nudge in ordered]

    async def finish_nudge(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        held = {"from_provider": provider, "event": event_id, "token": lease.token}
        if retry_at is None:
            await self.connection.run(FINISH_NUDGE, **held)
        else:
            await self.connection.run(RETRY_NUDGE, **held, at=retry_at)


def _of(lease: Lease) -> dict[str, Any]:
    return {"token": lease.token, "until": lease.until}


def to_operation(row: Row) -> Operation:
    """From the columns of OPERATION."""
    command = codec.load_command(OpKind(row[2]), row[4])
    return _READ_OPERATION((*row[:4], command, *row[5:]))
