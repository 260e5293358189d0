"""The work that waits (operations, timers, the processor's inbox, alerts), and who does it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import ColumnElement, and_, bindparam, exists, false, or_, select, true, update

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.dialect import claim_rows, upsert
from staffbooking_adapters.sql.engine.leases import (
    LEASE_VALUES,
    MAX_CLAIM_SIZE,
    NOW_PARAM,
    RELEASED_LEASE_VALUES,
    claim_with_lease,
    is_held_by_caller,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import Instant
from staffbooking_adapters.sql.payments.reader import (
    IS_PROCESSOR_EVENT_DUE,
    IS_TIMER_DUE,
    OPERATION_COLUMNS,
    PaymentsReader,
    to_operation,
)
from staffbooking_adapters.sql.schema.bookings import alerts, bookings, timers
from staffbooking_adapters.sql.schema.payments import (
    is_unfinished,
    payment_operations,
    processor_cursors,
    processor_inbox,
)
from staffbooking_core.domain.bookings.lifecycle import TimerKind
from staffbooking_core.domain.payments.processor import (
    UNFINISHED_OPERATION_STATUSES,
    Operation,
    OperationKind,
    OperationStatus,
    ProcessorEvent,
)
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Lease, Timer

# Operations -------------------------------------------------------------------------------

ALL_OPERATION_KINDS = frozenset(OperationKind)

_OTHER_OPERATION = payment_operations.alias("other")
_IS_BLOCKED = exists().where(
    _OTHER_OPERATION.c.booking_id == payment_operations.c.booking_id,
    or_(
        and_(
            _OTHER_OPERATION.c.n < payment_operations.c.n,
            _OTHER_OPERATION.c.status.in_(sorted(UNFINISHED_OPERATION_STATUSES)),
        ),
        _OTHER_OPERATION.c.lease_until > NOW_PARAM,
    ),
)
_IS_OPERATION = payment_operations.c.id == bindparam("operation_id")
_IS_LEASED_OPERATION = and_(_IS_OPERATION, is_held_by_caller(payment_operations))
LOCK_OPERATION = Statement(
    select(*OPERATION_COLUMNS).where(_IS_LEASED_OPERATION).with_for_update(key_share=True)
)
_PROGRESS_FIELDS = (
    "command generation status attempts next_at first_sent_at last_sent_at"
    " result_ref settlement last_error"
).split()
_UPDATE_OPERATION = update(payment_operations).values(
    {name: bindparam(name, type_=payment_operations.c[name].type) for name in _PROGRESS_FIELDS}
)
SAVE_LEASED_OPERATION = Statement(
    _UPDATE_OPERATION.values(LEASE_VALUES).where(_IS_LEASED_OPERATION)
)
SAVE_AND_RELEASE_OPERATION = Statement(
    _UPDATE_OPERATION.values(RELEASED_LEASE_VALUES).where(_IS_OPERATION)
)
WAKE_PAYOUTS = Statement(
    update(payment_operations)
    .values(next_at=NOW_PARAM)
    .where(
        payment_operations.c.kind == OperationKind.PAY_OUT,
        payment_operations.c.status == OperationStatus.PENDING,
        payment_operations.c.next_at > NOW_PARAM,
        payment_operations.c.booking_id.in_(
            select(bookings.c.id).where(bookings.c.companion_id == bindparam("companion_id"))
        ),
    )
)


@cache
def claim_operations_statement(
    limit: int, is_for_booking: bool, kinds: frozenset[OperationKind]
) -> Statement:
    is_due: ColumnElement[bool] = (
        payment_operations.c.booking_id == bindparam("booking_id")
        if is_for_booking
        else payment_operations.c.next_at <= NOW_PARAM
    )
    is_of_kind = (
        true() if kinds == ALL_OPERATION_KINDS else payment_operations.c.kind.in_(sorted(kinds))
    )
    return claim_with_lease(
        payment_operations,
        and_(is_unfinished, is_of_kind, is_due, ~_IS_BLOCKED),
        (payment_operations.c.next_at, payment_operations.c.id),
        limit,
        returning=OPERATION_COLUMNS,
    )


# Timers, nudges, alerts -------------------------------------------------------------------


@cache
def claim_timers_statement(limit: int) -> Statement:
    return claim_with_lease(
        timers,
        IS_TIMER_DUE,
        (timers.c.due_at, timers.c.booking_id),
        limit,
        values={**LEASE_VALUES, "attempts": timers.c.attempts + 1},
        returning=(timers.c.booking_id, timers.c.kind, timers.c.due_at, timers.c.attempts),
    )


DEFER_TIMER = Statement(
    update(timers)
    .values(not_before=bindparam("put_off", type_=Instant), **RELEASED_LEASE_VALUES)
    .where(timers.c.booking_id == bindparam("booking"), is_held_by_caller(timers))
)

_PROCESSOR_EVENT_FIELDS = "event_id intent_id payment_ref payee_ref".split()


@cache
def claim_processor_events_statement(limit: int) -> Statement:
    inbox = processor_inbox.c
    return claim_with_lease(
        processor_inbox,
        IS_PROCESSOR_EVENT_DUE,
        (inbox.next_at, inbox.id),
        limit,
        returning=(
            *(inbox.received_at, inbox.id, inbox.provider),
            *(inbox[name] for name in _PROCESSOR_EVENT_FIELDS),
        ),
    )


ADD_PROCESSOR_EVENT = Statement(
    upsert(processor_inbox)
    .values(
        **{name: bindparam(name) for name in ("provider", *_PROCESSOR_EVENT_FIELDS)},
        received_at=NOW_PARAM,
        next_at=NOW_PARAM,
        done=False,
    )
    .on_conflict_do_nothing(index_elements=["provider", "event_id"])
)
_UPDATE_PROCESSOR_EVENT = update(processor_inbox).where(
    processor_inbox.c.provider == bindparam("from_provider"),
    processor_inbox.c.event_id == bindparam("event"),
    is_held_by_caller(processor_inbox),
)
FINISH_PROCESSOR_EVENT = Statement(
    _UPDATE_PROCESSOR_EVENT.values(done=True, **RELEASED_LEASE_VALUES)
)
RETRY_PROCESSOR_EVENT = Statement(
    _UPDATE_PROCESSOR_EVENT.values(next_at=bindparam("at", type_=Instant), **RELEASED_LEASE_VALUES)
)

_CURSOR_VALUES = {"cursor": bindparam("cursor"), "at": NOW_PARAM}
SAVE_CURSOR = Statement(
    upsert(processor_cursors)
    .values(provider=bindparam("provider"), **_CURSOR_VALUES)
    .on_conflict_do_update(index_elements=["provider"], set_=_CURSOR_VALUES)
)


@cache
def take_alerts_statement(limit: int) -> Statement:
    return Statement(
        claim_rows(
            alerts,
            is_due=alerts.c.told == false(),
            order_by=[alerts.c.id],
            limit=limit,
            values={"told": True},
            returning=(alerts.c.id, alerts.c.booking_id, alerts.c.text),
        )
    )


@frozen
class PaymentsWriter(PaymentsReader):
    async def claim_operations(
        self,
        now: datetime,
        lease: Lease,
        limit: int,
        booking_id: int | None = None,
        kinds: frozenset[OperationKind] = ALL_OPERATION_KINDS,
    ) -> Sequence[Operation]:
        is_for_booking = booking_id is not None
        statement = claim_operations_statement(min(limit, MAX_CLAIM_SIZE), is_for_booking, kinds)
        booking_params = {"booking_id": booking_id} if is_for_booking else {}
        rows = await self.connection.fetch_all(
            statement, now=now, **lease_parameters(lease), **booking_params
        )
        claimed = [to_operation(row) for row in rows]
        return sorted(claimed, key=lambda operation: (operation.next_at, operation.id))

    async def lock_operation(self, operation_id: int, lease: Lease) -> Operation:
        held = {"operation_id": operation_id, "held_by": lease.token}
        row = await self.connection.fetch_one(LOCK_OPERATION, **held)
        if row is None:
            raise Conflict("operation")
        return to_operation(row)

    async def save_operation(self, operation: Operation, lease: Lease | None = None) -> None:
        progress = {name: getattr(operation, name) for name in _PROGRESS_FIELDS}
        progress["command"] = codec.dump(operation.command)
        progress["operation_id"] = operation.id
        if lease is None:
            await self.connection.execute(SAVE_AND_RELEASE_OPERATION, **progress)
        elif not await self.connection.execute(
            SAVE_LEASED_OPERATION, **progress, **lease_parameters(lease), held_by=lease.token
        ):
            raise Conflict("operation")

    async def wake_payouts(self, companion_id: int, now: datetime) -> int:
        return await self.connection.execute(WAKE_PAYOUTS, companion_id=companion_id, now=now)

    async def claim_timers(
        self, business_now: datetime, now: datetime, lease: Lease, limit: int
    ) -> Sequence[Timer]:
        statement = claim_timers_statement(min(limit, MAX_CLAIM_SIZE))
        rows = await self.connection.fetch_all(
            statement, business=business_now, now=now, **lease_parameters(lease)
        )
        claimed = [
            Timer(booking_id, TimerKind(kind), due_at, attempts)
            for booking_id, kind, due_at, attempts in rows
        ]
        return sorted(claimed, key=lambda timer: (timer.due_at, timer.booking_id))

    async def defer_timer(self, booking_id: int, lease: Lease, until: datetime) -> None:
        params = {"booking": booking_id, "held_by": lease.token, "put_off": until}
        await self.connection.execute(DEFER_TIMER, **params)

    async def take_alerts(self, limit: int) -> Sequence[tuple[int, str]]:
        rows = await self.connection.fetch_all(take_alerts_statement(min(limit, MAX_CLAIM_SIZE)))
        return [(booking_id, text) for _, booking_id, text in sorted(rows)]

    async def add_processor_event(
        self, provider: str, event: ProcessorEvent, now: datetime
    ) -> bool:
        event_params = {name: getattr(event, name) for name in _PROCESSOR_EVENT_FIELDS}
        return bool(
            await self.connection.execute(
                ADD_PROCESSOR_EVENT, provider=provider, now=now, **event_params
            )
        )

    async def claim_processor_events(
        self, now: datetime, lease: Lease, limit: int
    ) -> Sequence[tuple[str, ProcessorEvent]]:
        rows = await self.connection.fetch_all(
            claim_processor_events_statement(min(limit, MAX_CLAIM_SIZE)),
            now=now,
            **lease_parameters(lease),
        )
        ordered = sorted(rows, key=lambda row: row[:2])
        return [(provider, ProcessorEvent(*nudge)) for _, _, provider, *nudge in ordered]

    async def finish_processor_event(
        self, provider: str, event_id: str, lease: Lease, retry_at: datetime | None
    ) -> None:
        held = {"from_provider": provider, "event": event_id, "held_by": lease.token}
        if retry_at is None:
            await self.connection.execute(FINISH_PROCESSOR_EVENT, **held)
        else:
            await self.connection.execute(RETRY_PROCESSOR_EVENT, **held, at=retry_at)

    async def save_event_cursor(self, provider: str, cursor: str, now: datetime) -> None:
        await self.connection.execute(SAVE_CURSOR, provider=provider, cursor=cursor, now=now)
