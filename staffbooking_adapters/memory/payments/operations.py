"""Operations in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_adapters.memory.slots import bookings_of
from staffbooking_adapters.memory.state import (
    MemoryState,
    MemoryTransaction,
    OperationRow,
    holds_lease,
    is_lease_active,
)
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.operations import Operation, OperationOrder
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.domain.reconciliation.refunds import failed_refunds
from staffbooking_core.errors import Conflict, ConstraintViolated
from staffbooking_core.ports import OPERATION_NUMBER_TAKEN, Lease
from staffbooking_core.request_id import CURRENT_REQUEST_ID


def add_operation(
    tx: MemoryTransaction, booking_id: int, order: OperationOrder, at: datetime
) -> None:
    """Add an operation for an order. Raises ConstraintViolated if its number is used."""
    state = tx.state
    others = operation_rows_of(state, booking_id)
    if any(row.operation.n == order.n for row in others):
        raise ConstraintViolated(OPERATION_NUMBER_TAKEN)
    operation = Operation(
        id=next(tx.shared.operation_ids),
        booking_id=booking_id,
        kind=order.kind,
        n=order.n,
        command=order.command,
        created_at=at,
        next_at=at,
        request_id=CURRENT_REQUEST_ID.get(),
    )
    row = OperationRow(operation)
    state.operations[operation.id] = row
    ordered = sorted((*others, row), key=lambda each: each.operation.n)
    state.operations_of[booking_id] = tuple(each.operation.id for each in ordered)


@frozen
class OperationsReader:
    """Reads operations."""

    tx: MemoryTransaction

    async def operations_of(self, booking_id: int) -> Sequence[Operation]:
        return [row.operation for row in operation_rows_of(self.tx.state, booking_id)]

    async def operations_of_bookings(
        self, booking_ids: Collection[int]
    ) -> Mapping[int, Sequence[Operation]]:
        found = {booking_id: await self.operations_of(booking_id) for booking_id in booking_ids}
        return {booking_id: operations for booking_id, operations in found.items() if operations}

    async def failed_refunds(
        self, limit: int, offset: int = 0
    ) -> Sequence[tuple[Booking, Operation]]:
        bookings = self.tx.state.bookings
        failed = [
            each
            for booking_id in bookings
            for each in failed_refunds(await self.operations_of(booking_id))
        ]
        failed.sort(key=lambda operation: operation.id)
        return [(bookings[each.booking_id], each) for each in failed[offset : offset + limit]]


@frozen
class OperationsWriter(OperationsReader):
    """Reads and writes operations."""

    async def claim_operations(
        self,
        now: datetime,
        lease: Lease,
        limit: int,
        booking_id: int | None = None,
        kinds: frozenset[OperationKind] = frozenset(OperationKind),
    ) -> Sequence[Operation]:
        state = self.tx.state
        claimable = _claimable_operations(
            state, state.operations_of if booking_id is None else [booking_id], now
        )
        due = [
            each
            for each in claimable
            if each.kind in kinds and (booking_id is not None or each.next_at <= now)
        ]
        due.sort(key=lambda operation: (operation.next_at, operation.id))
        for operation in due[:limit]:
            state.operations[operation.id] = OperationRow(operation, lease)
        return due[:limit]

    async def lock_operation(self, operation_id: int, lease: Lease) -> Operation:
        row = self.tx.state.operations.get(operation_id)
        if row is None or not holds_lease(row.lease, lease):
            raise Conflict("operation")
        return row.operation

    async def save_operation(self, operation: Operation, lease: Lease | None = None) -> None:
        if lease is not None:
            await self.lock_operation(operation.id, lease)
        self.tx.state.operations[operation.id] = OperationRow(operation, lease)

    async def wake_payouts(self, companion_id: int, now: datetime) -> int:
        state = self.tx.state
        waiting = [
            row
            for booking in bookings_of(state, companion_id)
            for row in operation_rows_of(state, booking.id)
            if row.operation.is_delayed_payout(now)
        ]
        for row in waiting:
            woken = evolve(row, operation=evolve(row.operation, next_at=now))
            state.operations[row.operation.id] = woken
        return len(waiting)


def operation_rows_of(state: MemoryState, booking_id: int) -> list[OperationRow]:
    """The rows of a booking's operations, in the order of their numbers."""
    return [
        state.operations[operation_id] for operation_id in state.operations_of.get(booking_id) or ()
    ]


def _claimable_operations(
    state: MemoryState, booking_ids: Iterable[int], now: datetime
) -> Iterator[Operation]:
    """The operations of each booking that no earlier one blocks, if none of the booking is
    leased."""
    for booking_id in booking_ids:
        rows = operation_rows_of(state, booking_id)
        if any(is_lease_active(row.lease, now) for row in rows):
            continue
        unfinished = [row.operation for row in rows if not row.operation.is_finished]
        for place, operation in enumerate(unfinished):
            if not any(earlier.blocks(operation, now) for earlier in unfinished[:place]):
                yield operation
