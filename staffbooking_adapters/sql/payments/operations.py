"""Payment operations: reads, claims and writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import groupby
from operator import attrgetter

from attrs import fields, frozen
from sqlalchemy import ColumnElement, and_, bindparam, exists, or_, select, true, update

from staffbooking_adapters import codec
from staffbooking_adapters.sql.bookings.reader import BOOKING_COLUMNS, to_booking
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array, json_integer
from staffbooking_adapters.sql.engine.leases import (
    LEASE_VALUES,
    MAX_CLAIM_SIZE,
    NOW_PARAM,
    RELEASED_LEASE_VALUES,
    claim_with_lease,
    is_held_by_caller,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.page_size import OFFSET_PARAM, page_size
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_adapters.sql.schema.payments import (
    is_delayed_payout,
    is_failed_refund,
    is_unfinished,
    payment_operations,
)
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.operations import (
    STAFF_PAYMENT_KINDS,
    UNFINISHED_OPERATION_STATUSES,
    Operation,
    OperationStatus,
    SettlementStatus,
)
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Lease

OPERATION_COLUMNS = tuple(payment_operations.c[field.name] for field in fields(Operation))
_map_operation = RowMapper(
    Operation,
    OPERATION_COLUMNS,
    kind=OperationKind,
    status=OperationStatus,
    settlement=SettlementStatus,
)

_booking_id = attrgetter("booking_id")

OPERATIONS_OF = Statement(
    select(*OPERATION_COLUMNS)
    .where(in_array(payment_operations.c.booking_id, "booking_ids"))
    .order_by(payment_operations.c.booking_id, payment_operations.c.n)
)
_REPLACEMENT = payment_operations.alias("later")
_IS_REPLACED = exists().where(
    _REPLACEMENT.c.booking_id == payment_operations.c.booking_id,
    _REPLACEMENT.c.kind == OperationKind.REFUND,
    json_integer(_REPLACEMENT.c.command, "replaces") == payment_operations.c.n,
)

IS_OPEN_FAILED_REFUND = and_(is_failed_refund, ~_IS_REPLACED)


@cache
def failed_refunds_statement(size: int) -> Statement:
    return Statement(
        select(*BOOKING_COLUMNS, *OPERATION_COLUMNS)
        .join_from(payment_operations, bookings)
        .where(IS_OPEN_FAILED_REFUND)
        .order_by(payment_operations.c.id)
        .limit(size)
        .offset(OFFSET_PARAM)
    )


# Claims and progress -----------------------------------------------------------------------

ALL_OPERATION_KINDS = frozenset(OperationKind)

_OTHER_OPERATION = payment_operations.alias("other")
_CAN_BE_OVERTAKEN = and_(
    payment_operations.c.kind == OperationKind.REFUND,
    _OTHER_OPERATION.c.kind.in_(sorted(STAFF_PAYMENT_KINDS)),
    _OTHER_OPERATION.c.status != OperationStatus.UNKNOWN,
    _OTHER_OPERATION.c.next_at > NOW_PARAM,
)
"""As `Operation.blocks`."""

_IS_BLOCKED = exists().where(
    _OTHER_OPERATION.c.booking_id == payment_operations.c.booking_id,
    or_(
        and_(
            _OTHER_OPERATION.c.n < payment_operations.c.n,
            _OTHER_OPERATION.c.status.in_(sorted(UNFINISHED_OPERATION_STATUSES)),
            ~_CAN_BE_OVERTAKEN,
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
        is_delayed_payout,
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


@frozen
class OperationsReader:
    """Reads payment operations."""

    connection: Connection

    async def operations_of(self, booking_id: int) -> Sequence[Operation]:
        rows = await self.connection.fetch_all(OPERATIONS_OF, booking_ids=[booking_id])
        return [to_operation(row) for row in rows]

    async def operations_of_bookings(
        self, booking_ids: Collection[int]
    ) -> Mapping[int, Sequence[Operation]]:
        rows = await self.connection.fetch_all(OPERATIONS_OF, booking_ids=list(booking_ids))
        operations = map(to_operation, rows)
        return {booking_id: list(found) for booking_id, found in groupby(operations, _booking_id)}

    async def failed_refunds(
        self, limit: int, offset: int = 0
    ) -> Sequence[tuple[Booking, Operation]]:
        statement = failed_refunds_statement(page_size(limit))
        rows = await self.connection.fetch_all(statement, offset=offset)
        return [
            (to_booking(row), to_operation(row[len(BOOKING_COLUMNS) :])) for row in rows[:limit]
        ]


@frozen
class OperationsWriter(OperationsReader):
    """Claims, locks and writes payment operations."""

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


def to_operation(row: Row) -> Operation:
    """Build an operation from `OPERATION_COLUMNS`."""
    command = codec.load_command(OperationKind(row[2]), row[4])
    return _map_operation((*row[:4], command, *row[5:]))
