"""Timers of bookings: expiry, automatic completion, payouts (SPECIFICATION 3, CONTRACT 4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from staffbooking_core.domain.bookings.booking import Booking, TransitionInput
from staffbooking_core.domain.bookings.lifecycle import (
    TIMER_TRIGGERS,
    BookingStatus,
    Party,
    TimerKind,
)
from staffbooking_core.domain.bookings.timers import next_timer, useless_notifications
from staffbooking_core.domain.payments import ledger
from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.reconciliation import debts as reconciliation_debts
from staffbooking_core.domain.reconciliation.debts import Debt
from staffbooking_core.errors import StaffbookingError, StoreUnavailable
from staffbooking_core.ports import BookingsWritePort, Lease, Ports, Timer, Transaction
from staffbooking_core.usecases.booking_writes import (
    advance_booking,
    hold_disabled_payout,
    to_booking_write,
)
from staffbooking_core.validation import validated

_TIMER_BATCH_SIZE = 16
_TIMER_RETRY_DELAY = timedelta(seconds=1)
"""The wait before a timer is tried again; doubled with each attempt, at most eight times."""


@validated
async def fire_due_timers(ports: Ports, limit: int = _TIMER_BATCH_SIZE) -> int:
    """Fire due timers, the earliest first, each with its due time as `now`; returns the number of
    claimed timers. A timer that fails is deferred with an alert and does not block others.

    Claims timers under a lease, then fires each in its own transaction: for a payout, the staff
    member's indebted bookings are locked together with the booking, in the order of ids.
    """
    now, business_now = ports.clock.wall(), await ports.clock.business()
    lease = Lease(ports.ids.token(), now + ports.policy.lease_duration)

    async def claim(tx: Transaction) -> list[Timer]:
        return list(await tx.timers.claim_timers(business_now, now, lease, limit))

    timers = await ports.store.run_transaction(claim)
    for timer in timers:
        await _fire_timer(ports, timer, lease, business_now)
    return len(timers)


async def _fire_timer(ports: Ports, timer: Timer, lease: Lease, business_now: datetime) -> None:
    async def unit(tx: Transaction) -> None:
        indebted_booking_ids = await _lock_indebted_bookings(tx.bookings, timer)
        booking = await tx.bookings.lock_booking(timer.booking_id)
        due = None if booking is None else next_timer(booking, ports.policy)
        if booking is None or due is None or due.kind is not timer.kind:
            return  # The booking changed since the claim, and its timer with it.
        if due.at > business_now:  # The policy was extended since the timer was set.
            until = ports.clock.wall() + (due.at - business_now)
            await tx.timers.defer_timer(timer.booking_id, lease, until)
            return
        if await _may_be_paid(tx, ports, booking, timer, due.at):
            until = ports.clock.wall() + _retry_delay(timer.attempts)
            await tx.timers.defer_timer(timer.booking_id, lease, until)
            return
        if timer.kind is TimerKind.PAY_OUT:
            booking = await hold_disabled_payout(tx, ports, booking, due.at)
            if not booking.awaits_payout_release:
                return
        booking = await _net_debts(tx, ports, booking, indebted_booking_ids, due.at)
        trigger = TIMER_TRIGGERS[booking.status][timer.kind]
        # A sandbox tells what would have been told in the time that its clock jumped over.
        told_at = due.at if ports.policy.sandbox else business_now
        untold = useless_notifications(booking, told_at, ports.policy)
        transition_input = TransitionInput(trigger, Party.SYSTEM, due.at, untold=untold)
        await advance_booking(tx, ports, booking, transition_input)

    try:
        await ports.store.run_transaction(unit)
    except StoreUnavailable:
        raise
    except StaffbookingError as error:
        await _defer_timer(ports, timer, lease)
        await ports.notifier.alert_operators(
            timer.booking_id, f"timer {timer.kind} failed: {error}"
        )


async def _may_be_paid(
    tx: Transaction, ports: Ports, booking: Booking, timer: Timer, due_at: datetime
) -> bool:
    """Whether a booking that expires waits for an event that came in time: its payment may be in
    the inbox, where another worker has it, or where it waits for a processor that does not answer.

    An event that fails for good holds a booking no longer than a movement of the processor may be
    unknown to the ledger. Only waits of running workers count. Business time is wall time but in a
    sandbox, whose clock is ahead: all of its events came in time.
    """
    if timer.kind is not TimerKind.EXPIRE or booking.status is not BookingStatus.ACCEPTED:
        return False
    waited = sum((_retry_delay(attempt) for attempt in range(1, timer.attempts)), timedelta())
    return waited < ports.policy.processor_sync_deadline and (
        await tx.inbox.has_unfinished_event(booking.id, due_at)
    )


async def _lock_indebted_bookings(bookings: BookingsWritePort, timer: Timer) -> Sequence[int]:
    """The ids of bookings for which the staff member owes money, before a payout. Locks those below
    the paying booking, since bookings are locked in the order of ids; the rest is locked after
    it."""
    if timer.kind is not TimerKind.PAY_OUT:
        return ()
    booking = await bookings.booking(timer.booking_id)
    indebted_booking_ids = (
        () if booking is None else await bookings.indebted_booking_ids(booking.companion_id)
    )
    for indebted_id in indebted_booking_ids:
        if indebted_id < timer.booking_id:
            await bookings.lock_booking(indebted_id)
    return indebted_booking_ids


async def _net_debts(
    tx: Transaction,
    ports: Ports,
    payer: Booking,
    indebted_booking_ids: Sequence[int],
    now: datetime,
) -> Booking:
    """Net the staff member's debts for other bookings against the payout; returns the paying
    booking after that."""
    debts = []
    for indebted_id in indebted_booking_ids:
        indebted_booking = await tx.bookings.lock_booking(indebted_id)
        if indebted_booking is not None and indebted_booking.id != payer.id:
            operations = await tx.operations.operations_of(indebted_id)
            postings = await tx.ledger.postings_of(indebted_id)
            by_hand = ledger.has_manual_movement(MovementKind.REVERSAL, postings)
            debts.append(Debt(indebted_booking, tuple(operations), by_hand))
    known = {payer.id: payer, **{debt.booking.id: debt.booking for debt in debts}}
    for result in reconciliation_debts.net_debts(payer, debts, now):
        booking_id = result.booking.id
        write = to_booking_write(ports, known[booking_id], result, now)
        await tx.bookings.save_booking(write)
        known[booking_id] = write.booking
    return known[payer.id]


def _retry_delay(attempt: int) -> timedelta:
    return _TIMER_RETRY_DELAY * (1 << min(attempt, 8))


async def _defer_timer(ports: Ports, timer: Timer, lease: Lease) -> None:
    until = ports.clock.wall() + _retry_delay(timer.attempts)

    async def unit(tx: Transaction) -> None:
        await tx.timers.defer_timer(timer.booking_id, lease, until)

    await ports.store.run_transaction(unit)
