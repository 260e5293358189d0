"""Operations: calls to the payment processor that are ordered, claimed, sent and settled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.domain.payments.processor import OperationKind
from staffbooking_core.ports.leases import Lease

__all__ = ["OPERATION_NUMBER_TAKEN", "OperationsReadPort", "OperationsWritePort"]

OPERATION_NUMBER_TAKEN = "uq_operations_order"
"""Constraint: two operations of a booking have the same number (`BookingWrite.orders`)."""


class OperationsReadPort(Protocol):
    """Queries on operations. New ones are saved with a transition of their booking."""

    async def operations_of(self, booking_id: int) -> Sequence[Operation]:
        """The operations of a booking, in the order of their numbers."""
        ...

    async def operations_of_bookings(
        self, booking_ids: Collection[int]
    ) -> Mapping[int, Sequence[Operation]]:
        """The operations of several bookings, by the booking's id, in the order of their numbers;
        bookings without any are left out."""
        ...

    async def failed_refunds(
        self, limit: int, offset: int = 0
    ) -> Sequence[tuple[Booking, Operation]]:
        """Up to `limit` refunds that are refused, dead or failed and that no later order
        replaces, with their bookings: money still owed to a customer. The oldest first, after
        the first `offset` of them."""
        ...


class OperationsWritePort(OperationsReadPort, Protocol):
    """Commands on operations."""

    async def claim_operations(
        self,
        now: datetime,
        lease: Lease,
        limit: int,
        booking_id: int | None = None,
        kinds: frozenset[OperationKind] = frozenset(OperationKind),
    ) -> Sequence[Operation]:
        """Claim up to `limit` due operations of these kinds, the earliest due first; `now` is
        wall time. With `booking_id`, claim those of that booking alone, due or not.

        Of each booking only an operation that no earlier unfinished one blocks
        (`Operation.blocks`) is given, whatever its kind, and none while another lease on one of
        its operations runs. Two claims at the same moment may get a refund and the payment that
        it overtakes; otherwise at most one operation runs per booking.
        """
        ...

    async def lock_operation(self, operation_id: int, lease: Lease) -> Operation:
        """A claimed operation, locked until the transaction ends.

        Raises Conflict("operation") where the lease was lost.
        """
        ...

    async def save_operation(self, operation: Operation, lease: Lease | None = None) -> None:
        """Save the progress and the command of an operation. With a lease it stays claimed;
        without, it is released.

        Raises Conflict("operation") where the given lease was lost.
        """
        ...

    async def wake_payouts(self, companion_id: int, now: datetime) -> int:
        """Make a companion's payouts that wait for their next attempt due now (wall time); the
        number of operations changed."""
        ...
