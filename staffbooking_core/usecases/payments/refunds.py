"""Failed refunds, listed and retried by operators (CONTRACT 9)."""

from __future__ import annotations

from collections.abc import Sequence

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.domain.reconciliation.refunds import failed_refunds, reorder_refunds
from staffbooking_core.errors import RuleBroken
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.usecases.booking_writes import Versions, lock_by_code, save_transition
from staffbooking_core.usecases.payments import operations
from staffbooking_core.validation import validated

__all__ = ["list_failed_refunds", "retry_refunds"]


@validated
async def list_failed_refunds(
    ports: Ports, page: int = 1, limit: int = 50
) -> Sequence[tuple[Booking, Operation]]:
    """A page of refunds that are not retried automatically, the oldest first, with their bookings,
    up to `limit + 1`."""
    async with ports.store.read_view() as view:
        return await view.operations.failed_refunds(limit + 1, (page - 1) * limit)


@validated
async def retry_refunds(ports: Ports, code: str, allowed_versions: Versions = None) -> Booking:
    """Order each failed refund of a booking again, and run it now; returns the booking after that.
    Locks the booking.

    Raises NotFound, VersionMismatch, and RuleBroken `no_failed_refund`.
    """
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> int:
        booking = await lock_by_code(tx.bookings, code, allowed_versions)
        owed = failed_refunds(await tx.operations.operations_of(booking.id))
        if not owed:
            raise RuleBroken("no_failed_refund", "No refund of this booking has failed")
        await save_transition(tx, ports, booking, reorder_refunds(booking, owed), now)
        return booking.id

    booking_id = await ports.store.run_transaction(unit)
    await operations.run_booking_operations(ports, booking_id)
    async with ports.store.read_view() as view:
        booking = await view.bookings.booking(booking_id)
    assert booking is not None, "bookings are never deleted"
    return booking
