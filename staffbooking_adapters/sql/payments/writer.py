"""The work that waits (operations, timers, the processor's inbox, alerts), and who does it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import ColumnElement, and_, bindparam, exists, false, or_, select, true, update

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.dialect import claim, upsert
from staffbooking_adapters.sql.engine.leases import (
    HELD,
    MOST,
    NOW,
    RELEASED,
    claiming,
    is_held,
    terms,
)
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.payments.reader import (
    NUDGE_IS_DUE,
    OPERATION,
    TIMER_IS_DUE,
    MoneyReader,
    to_operation,
)
from staffbooking_adapters.sql.schema.bookings import alerts, bookings, timers
from staffbooking_adapters.sql.schema.payments import (
    is_unfinished,
    payment_operations,
    processor_cursors,
    processor_inbox,
)
from staffbooking_core.domain.bookings.booking import TimerKind
from staffbooking_core.domain.payments.processor import (
    UNFINISHED,
    Nudge,
    Operation,
    OpKind,
    OpStatus,
)
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Lease, Timer

# Operations -------------------------------------------------------------------------------

EVERY_KIND = frozenset(OpKind)

_OTHER = payment_operations.alias("other")
_IN_ITS_WAY = exists().where(
    _OTHER.c.booking_id == payment_operations.c.booking_id,
    or_(
        and_(_OTHER.c.n < payment_operations.c.n, _OTHER.c.status.in_(sorted(UNFINISHED))),
        _OTHER.c.lease_until > NOW,
    ),
)
_IS_IT = payment_operations.c.id == bindparam("operation_id")
_IS_MINE = and_(_IS_IT, is_held(payment_operations))
LOCK_OPERATION = Statement(select(*OPERATION).where(_IS_MINE).with_for_update(key_share=True))
_PROGRESS = (
    "command generation status attempts next_at first_sent_at last_sent_at"
    " result_ref settlement last_error"
).split()
_SAVE_OPERATION = update(payment_operations).values(
    {name: bindparam(name, type_=payment_operations.c[name].type) for name in _PROGRESS}
)
KEEP_OPERATION = Statement(_SAVE_OPERATION.values(HELD).where(_IS_MINE))
RELEASE_OPERATION = Statement(_SAVE_OPERATION.values(RELEASED).where(_IS_IT))
WAKE_PAYOUTS = Statement(
    update(payment_operations)
    .values(next_at=NOW)
    .where(
        payment_operations.c.kind == OpKind.PAY_OUT,
        payment_operations.c.status == OpStatus.PENDING,
        payment_operations.c.next_at > NOW,
        payment_operations.c.booking_id.in_(
            select(bookings.c.id).where(bookings.c.companion_id == bindparam("companion_id"))
        ),
    )
)


@cache
def claim_operations(limit: int, of_booking: bool, kinds: frozenset[OpKind]) -> Statement:
    due: ColumnElement[bool] = (
        payment_operations.c.booking_id == bindparam("booking_id")
        if of_booking
        else payment_operations.c.next_at <= NOW
    )
    is_wanted = true() if kinds == EVERY_KIND else payment_operations.c.kind.in_(sorted(kinds))
    return claiming(
        payment_operations,
        and_(is_unfinished, is_wanted, due, ~_IN_ITS_WAY),
        (payment_operations.c.next_at, payment_operations.c.id),
        limit,
        returning=OPERATION,
    )


# Timers, nudges, alerts -------------------------------------------------------------------


@cache
def claim_timers(limit: int) -> Statement:
    return claiming(
        timers,
        TIMER_IS_DUE,
        (timers.c.due_at, timers.c.booking_id),
        limit,
        values={**HELD, "attempts": timers.c.attempts + 1},
        returning=(timers.c.booking_id, timers.c.kind, timers.c.due_at, timers.c.attempts),
    )


DEFER_TIMER = Statement(
    update(timers)
    .values(not_before=bindparam("put_off", type_=Instant), **RELEASED)
    .where(timers.c.booking_id == bindparam("booking"), is_held(timers))
)

_NUDGE = "event_id intent_id payment_ref payee_ref".split()


@cache
def claim_nudges(limit: int) -> Statement:
    inbox = processor_inbox.c
    return claiming(
        processor_inbox,
        NUDGE_IS_DUE,
        (inbox.next_at, inbox.id),
        limit,
        returning=(
            *(inbox.received_at, inbox.id, inbox.provider),
            *(inbox[name] for name in _NUDGE),
        ),
    )


ADD_NUDGE = Statement(
    upsert(processor_inbox)
    .values(
        **{name: bindparam(name) for name in ("provider", *_NUDGE)},
        received_at=NOW,
        next_at=NOW,
        done=False,
    )
    .on_conflict_do_nothing(index_elements=["provider", "event_id"])
)
_FINISH = update(processor_inbox).where(
    processor_inbox.c.provider == bindparam("from_provider"),
    processor_inbox.c.event_id == bindparam("event"),
    is_held(processor_inbox),
)
FINISH_NUDGE = Statement(_FINISH.values(done=True, **RELEASED))
RETRY_NUDGE = Statement(_FINISH.values(next_at=bindparam("at", type_=Instant), **RELEASED))

_CURSOR = {"cursor": bindparam("cursor"), "at": NOW}
SAVE_CURSOR = Statement(
    upsert(processor_cursors)
    .values(provider=bindparam("provider"), **_CURSOR)
    .on_conflict_do_update(index_elements=["provider"], set_=_CURSOR)
)


@cache
def take_alerts(limit: int) -> Statement:
    return Statement(
        claim(
            alerts,
            due=alerts.c.told == false(),
            order_by=[alerts.c.id],
            limit=limit,
            values={"told": True},
            returning=(alerts.c.id, alerts.c.booking_id, alerts.c.text),
        )
    )


@frozen
class MoneyWriter(MoneyReader):
    async def claim_operations(
        self,
        now: datetime,
        lease: Lease,
        limit: int,
        booking_id: int | None = None,
        kinds: frozenset[OpKind] = EVERY_KIND,
    ) -> Sequence[Operation]:
        of_booking = booking_id is not None
        statement = claim_operations(min(limit, MOST), of_booking, kinds)
        given = {"booking_id": booking_id} if of_booking else {}
        rows = await self.connection.all(statement, now=now, **terms(lease), **given)
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
        progress["command"] = codec.dump(operation.command)
        progress["operation_id"] = operation.id
        if lease is None:
            await self.connection.run(RELEASE_OPERATION, **progress)
        elif not await self.connection.run(
            KEEP_OPERATION, **progress, **terms(lease), held_by=lease.token
        ):
            raise Conflict("operation")

    async def wake_payouts(self, companion_id: int, now: datetime) -> int:
        return await self.connection.run(WAKE_PAYOUTS, companion_id=companion_id, now=now)

    async def claim_timers(
        self, business: datetime, now: datetime, lease: Lease, limit: int
    ) -> Sequence[Timer]:
        statement = claim_timers(min(limit, MOST))
        rows = await self.connection.all(statement, business=business, now=now, **terms(lease))
        claimed = [
            Timer(booking_id, TimerKind(kind), due_at, attempts)
            for booking_id, kind, due_at, attempts in rows
        ]
        return sorted(claimed, key=lambda timer: (timer.due_at, timer.booking_id))

    async def defer_timer(self, booking_id: int, lease: Lease, until: datetime) -> None:
        put_off = {"booking": booking_id, "held_by": lease.token, "put_off": until}
        await self.connection.run(DEFER_TIMER, **put_off)

    async def take_alerts(self, limit: int) -> Sequence[tuple[int, str]]:
        rows = await self.connection.all(take_alerts(min(limit, MOST)))
        return [(booking_id, told) for _, booking_id, told in sorted(rows)]

    async def add_nudge(self, provider: str, nudge: Nudge, now: datetime) -> bool:
        named = {name: getattr(nudge, name) for name in _NUDGE}
        return bool(await self.connection.run(ADD_NUDGE, provider=provider, now=now, **named))

    async def claim_nudges(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[tuple[str, Nudge]]:
        rows = await self.connection.all(claim_nudges(min(limit, MOST)), now=now, **terms(lease))
        ordered = sorted(rows, key=lambda row: row[:2])
        return [(provider, Nudge(*nudge)) for _, _, provider, *nudge in ordered]

    async def finish_nudge(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        held = {"from_provider": provider, "event": event_id, "held_by": lease.token}
        if retry_at is None:
            await self.connection.run(FINISH_NUDGE, **held)
        else:
            await self.connection.run(RETRY_NUDGE, **held, at=retry_at)

    async def save_cursor(self, provider: str, cursor: str, now: datetime) -> None:
        await self.connection.run(SAVE_CURSOR, provider=provider, cursor=cursor, now=now)
