"""Payouts, listed, held, released and retried by operators (CONTRACT 4, 9)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus, TransitionInput
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.ports import Ports, Transaction
from staffbooking_core.usecases.booking_writes import (
    Versions,
    advance_booking,
    lock_by_code,
    require_by_code,
)
from staffbooking_core.usecases.payments import operations
from staffbooking_core.validation import validated

__all__ = ["hold_payout", "list_payouts", "payout_operations", "release_payout", "retry_payout"]


@validated
async def list_payouts(
    ports: Ports, status: PayoutStatus | None = None, page: int = 1, limit: int = 50
) -> Sequence[Booking]:
    """A page of bookings whose payout is scheduled, failed or frozen, the earliest due first, up to
    `limit + 1`; with one of these statuses, those alone."""
    async with ports.store.read_view() as view:
        return await view.bookings.open_payouts(limit + 1, (page - 1) * limit, status)


@validated
async def payout_operations(ports: Ports, bookings: Iterable[Booking]) -> Mapping[int, Operation]:
    """The operation that sends each released payout, by the booking's id."""
    released = {each.id: each for each in bookings if each.payout_released_at is not None}
    if not released:
        return {}
    async with ports.store.read_view() as view:
        found = await view.operations.operations_of_bookings(released)
    return {
        booking_id: operation
        for booking_id, operations in found.items()
        for operation in operations
        if operation.n == released[booking_id].payout_n
    }


@validated
async def hold_payout(
    ports: Ports, code: str, note: str | None = None, allowed_versions: Versions = None
) -> Booking:
    """Put a payout on hold that is not made yet. Locks the booking.

    Raises NotFound, VersionMismatch, and RuleBroken `payout_not_pending`.
    """
    return await _apply_trigger(ports, code, Trigger.HOLD_PAYOUT, allowed_versions, note)


@validated
async def release_payout(ports: Ports, code: str, allowed_versions: Versions = None) -> Booking:
    """Release a payout from hold. Locks the booking.

    Raises NotFound, VersionMismatch, and RuleBroken `payout_not_on_hold`.
    """
    return await _apply_trigger(ports, code, Trigger.LIFT_PAYOUT_HOLD, allowed_versions)


@validated
async def retry_payout(ports: Ports, code: str, allowed_versions: Versions = None) -> Booking:
    """Retry a payout now: a failed one as a new operation, one that waits for its next attempt
    ahead of its time. Returns the booking after the attempt. Locks the booking.

    Raises NotFound, VersionMismatch, and RuleBroken `payout_not_failed` for any other payout.
    """
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Booking:
        booking = await lock_by_code(tx.bookings, code, allowed_versions)
        if booking.awaits_payout_attempt:
            return booking
        transition_input = TransitionInput(Trigger.RETRY_PAYOUT, Party.ADMIN, now)
        return await advance_booking(tx, ports, booking, transition_input)

    booking = await ports.store.run_transaction(unit)
    await operations.run_booking_operations(ports, booking.id)
    async with ports.store.read_view() as view:
        return await require_by_code(view.bookings, code)


async def _apply_trigger(
    ports: Ports, code: str, trigger: Trigger, allowed_versions: Versions, note: str | None = None
) -> Booking:
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Booking:
        booking = await lock_by_code(tx.bookings, code, allowed_versions)
        return await advance_booking(
            tx, ports, booking, TransitionInput(trigger, Party.ADMIN, now, reason=note)
        )

    return await ports.store.run_transaction(unit)
