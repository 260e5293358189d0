"""Disputes, resolved by operators: release, refund, split (CONTRACT 4)."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from staffbooking_core.domain.bookings.booking import Booking, TransitionInput
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.ports import BookingQuery, Ports, Transaction
from staffbooking_core.usecases.booking_writes import (
    hold_disabled_payout,
    lock_by_code,
    save_transition,
)


async def list_disputes(ports: Ports, page: int = 1, limit: int = 50) -> Sequence[Booking]:
    """A page of disputed bookings, up to `limit + 1`."""
    query = BookingQuery(user_id=None, status=BookingStatus.DISPUTED, page=page, limit=limit)
    async with ports.store.read_view() as view:
        return await view.bookings.bookings(query)


async def resolve_dispute(
    ports: Ports, code: str, trigger: Trigger, amount: int = 0, note: str | None = None
) -> Booking:
    """Resolve a dispute by RELEASE, REFUND or SPLIT; `amount` is the customer's part of a split in
    minor units. Locks the booking.

    Raises NotFound, and RuleBroken `booking_not_disputed`, `split_out_of_range`, or
    `chargeback_open` where the processor decides.
    """
    now = await ports.clock.business()

    async def unit(tx: Transaction) -> Booking:
        booking = await lock_by_code(tx.bookings, code)
        transition_input = TransitionInput(
            trigger, Party.ADMIN, now, reason=note, refund_amount=amount
        )
        result = apply_transition(booking, transition_input, ports.policy)
        if note:  # The alerts keep the operator's reason on record.
            text = f"the dispute of booking {code} was resolved by {trigger}: {note}"
            result = evolve(result, alerts=(*result.alerts, text))
        resolved = await save_transition(tx, ports, booking, result, now)
        return await hold_disabled_payout(tx, ports, resolved, now)

    return await ports.store.run_transaction(unit)
