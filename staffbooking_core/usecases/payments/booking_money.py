"""All money of one booking, as operators see it: both sides of the books, and what may be done."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking, TransitionInput
from staffbooking_core.domain.bookings.lifecycle import Party, Trigger
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.domain.payments.ledger import Posting
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.domain.payments.processor import ProcessorError, RefundPayment
from staffbooking_core.domain.reconciliation.refunds import failed_refunds
from staffbooking_core.domain.reconciliation.statement import MovementPair, compare_with_snapshot
from staffbooking_core.errors import NotFound, RuleBroken
from staffbooking_core.policy import Policy
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.payments.reconciliation import get_snapshot
from staffbooking_core.validation import validated


class PayoutAct(StrEnum):
    """What operators do to a payout."""

    HOLD = "hold"
    RELEASE = "release"
    RETRY = "retry"


_TRIGGERS = {
    PayoutAct.HOLD: Trigger.HOLD_PAYOUT,
    PayoutAct.RELEASE: Trigger.LIFT_PAYOUT_HOLD,
    PayoutAct.RETRY: Trigger.RETRY_PAYOUT,
}


@frozen
class BookingMoney:
    """A booking with its books. Postings, operations and events are the oldest first."""

    booking: Booking
    postings: tuple[Posting, ...]
    operations: tuple[Operation, ...]
    events: tuple[tuple[int, bytes], ...]
    """Sequence number and encoded envelope of each event."""
    movements: Sequence[MovementPair] | None
    """The processor's side and the ledger's; None where the processor can't be asked now."""
    acts: tuple[PayoutAct, ...]
    failed_refunds: tuple[RefundPayment, ...]
    """The refunds that can be ordered again."""

    @property
    def has_failed_refund(self) -> bool:
        """Whether a refund can be ordered again."""
        return bool(self.failed_refunds)


@validated
async def get_booking_money(ports: Ports, booking_id: int) -> BookingMoney:
    """All money of a booking; asks the processor, for a few seconds at most. Raises NotFound."""
    now = await ports.clock.business()
    async with ports.store.read_view() as view:
        booking = await view.bookings.booking(booking_id)
        if booking is None:
            raise NotFound("Booking")
        postings = await view.ledger.postings_of(booking_id)
        operations = await view.operations.operations_of(booking_id)
        events = await view.bookings.events_of(booking_id)
    return BookingMoney(
        booking,
        tuple(postings),
        tuple(operations),
        tuple(events),
        await _movements(ports, booking),
        payout_acts(booking, now, ports.policy),
        tuple(
            each.command
            for each in failed_refunds(operations)
            if isinstance(each.command, RefundPayment)
        ),
    )


async def _movements(ports: Ports, booking: Booking) -> Sequence[MovementPair] | None:
    if booking.intent is None:
        return ()
    try:
        snapshot, _ = await get_snapshot(ports, booking.id, ports.policy.processor_inline_timeout)
    except ProcessorError:
        return None
    async with ports.store.read_view() as view:
        [book] = await view.ledger.cash_books(booking.id - 1, 1)
    return compare_with_snapshot(book, snapshot)


def payout_acts(booking: Booking, now: datetime, policy: Policy) -> tuple[PayoutAct, ...]:
    """What operators may do to the payout of a booking at `now` (business time)."""
    return tuple(act for act in PayoutAct if _is_possible(booking, act, now, policy))


def _is_possible(booking: Booking, act: PayoutAct, now: datetime, policy: Policy) -> bool:
    if act is PayoutAct.RETRY and booking.awaits_payout_attempt:
        return True
    try:
        apply_transition(booking, TransitionInput(_TRIGGERS[act], Party.ADMIN, now), policy)
    except RuleBroken:
        return False
    return True


@validated
async def find_booking_id(ports: Ports, code: str) -> int | None:
    """The id of the booking with a code; None where there is none."""
    async with ports.store.read_view() as view:
        booking = await view.bookings.booking_by_code(code)
    return None if booking is None else booking.id
