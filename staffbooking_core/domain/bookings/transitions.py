"""How a booking moves: `advance` is the only way to a new status.

It looks the move up in the lifecycle table, checks who and when, and returns everything
that the move brings about as values. The caller saves the step in one transaction;
nothing here reads a clock or calls anybody.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from staffbooking_core.domain.bookings.booking import (
    UNPAID,
    Booking,
    Occurrence,
    PayoutStatus,
    Step,
    TimelineEntry,
    payment_ends,
)
from staffbooking_core.domain.bookings.effects import EFFECTS
from staffbooking_core.domain.bookings.lifecycle import (
    NOT_NOW,
    TABLE,
    EventName,
    Guard,
    Move,
    Party,
    Status,
    Trigger,
    who_may,
)
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.errors import Forbidden, RuleBroken
from staffbooking_core.policy import Policy


def advance(booking: Booking, what: Occurrence, policy: Policy) -> Step:
    """Move a booking. Raises Forbidden for the wrong side and RuleBroken for a wrong
    status or time, and then nothing has changed."""
    move = find_move(booking.status, what.trigger, what.by)
    for guard in move.guards:
        _GUARDS[guard](booking, what, policy)
    step = Step(_entered(booking, move, what))
    for effect in move.effects:
        step = EFFECTS[effect](step, what, policy)
    return _told(step, move.event)


def check_side(status: Status, trigger: Trigger, by: Party) -> None:
    """Refuse the wrong side, before any rule about the status: Forbidden."""
    move = TABLE[status].get(trigger)
    if by not in (who_may(trigger) if move is None else move.by):
        raise Forbidden("wrong_party", f"The {by} may not do this to a booking")


def find_move(status: Status, trigger: Trigger, by: Party) -> Move:
    """The row of the table, for one who may ask for it."""
    check_side(status, trigger, by)
    move = TABLE[status].get(trigger)
    if move is None:
        raise RuleBroken(NOT_NOW[trigger], f"Not possible while the booking is {status}")
    return move


_STAMPS: dict[Status, str] = {
    Status.ACCEPTED: "accepted_at",
    Status.PAID: "paid_at",
    Status.COMPLETED: "completed_at",
    Status.CANCELLED: "cancelled_at",
    Status.DISPUTED: "disputed_at",
}


def _entered(booking: Booking, move: Move, what: Occurrence) -> Booking:
    if move.to is booking.status:
        return evolve(booking, version=booking.version + 1)
    entry = TimelineEntry(what.now, booking.status, move.to, what.trigger, what.by)
    fields: dict[str, object] = {_STAMPS[move.to]: what.now}
    match move.to:
        case Status.COMPLETED if booking.completed_at is None:
            fields["completed_by"] = _ended_by(what)
        case Status.COMPLETED:
            del fields["completed_at"]
        case Status.CANCELLED:
            fields["cancelled_by"] = _ended_by(what)
            fields["cancel_reason"] = _cancel_reason(what)
            if not booking.escrow:
                fields |= {"platform_fee": 0, "payout_amount": 0}
        case Status.DISPUTED:
            fields |= {"dispute_reason": what.reason, "disputed_by": what.by}
    return evolve(
        booking,
        status=move.to,
        version=booking.version + 1,
        timeline=(*booking.timeline, entry),
        **fields,  # type: ignore[arg-type]
    )


def _ended_by(what: Occurrence) -> Party:
    """A verdict of the processor is the system's doing in the record (CONTRACT 4)."""
    return Party.SYSTEM if what.by is Party.PROCESSOR else what.by


def _cancel_reason(what: Occurrence) -> str | None:
    match what.trigger:
        case Trigger.EXPIRE:
            return "expired"
        case Trigger.LOSE_SLOT:
            return "slot_taken"
        case Trigger.CHARGEBACK_LOST:
            return "charged_back"
        case _:
            return what.reason


def _told(step: Step, event: EventName | None) -> Step:
    """`booking.completed` is told once, also where a dispute opens the booking again."""
    told_before = event is EventName.BOOKING_COMPLETED and any(
        entry.to is Status.COMPLETED for entry in step.booking.timeline[:-1]
    )
    if event is None or told_before:
        return step
    return evolve(step.changing(events=step.booking.events + 1), event=event)


# Guards -------------------------------------------------------------------------------


def _refuse(guard: Guard, message: str) -> None:
    raise RuleBroken(guard.value, message)


def _before_start(booking: Booking, what: Occurrence, policy: Policy) -> None:
    ends = booking.starts_at
    if what.trigger is Trigger.CHECKOUT:
        ends = payment_ends(booking, policy)
    if what.now >= ends:
        _refuse(Guard.BEFORE_START, "The event has begun, or the time to pay has passed")


def _cancellable(booking: Booking, what: Occurrence, _: Policy) -> None:
    if what.by is not Party.ADMIN and what.now >= booking.starts_at:
        _refuse(Guard.CANCELLABLE, "The event has begun: a paid booking can't be cancelled now")


def _after_start(booking: Booking, what: Occurrence, _: Policy) -> None:
    if what.now < booking.starts_at:
        _refuse(Guard.AFTER_START, "A paid booking can be disputed from its start on")


def _after_end(booking: Booking, what: Occurrence, _: Policy) -> None:
    if what.now < booking.ends_at:
        _refuse(Guard.AFTER_END, "The event has not ended yet")


def _check_in_open(booking: Booking, what: Occurrence, policy: Policy) -> None:
    if booking.checked_in_at is not None:
        return
    if not booking.starts_at - policy.check_in_lead <= what.now <= booking.ends_at:
        _refuse(Guard.CHECK_IN_OPEN, "Check-in opens 2 hours before the start, closes at the end")


def _payout_not_released(booking: Booking, _: Occurrence, __: Policy) -> None:
    to_come = booking.payout_status in (PayoutStatus.SCHEDULED, PayoutStatus.FROZEN)
    if not to_come or booking.payout_released_at is not None:
        _refuse(Guard.PAYOUT_NOT_RELEASED, "The payout was released already")


def _no_chargeback(booking: Booking, _: Occurrence, __: Policy) -> None:
    if booking.chargeback_status is ChargebackStatus.OPEN:
        _refuse(Guard.NO_CHARGEBACK, "The card issuer decides this dispute")


def _chargeback_open(booking: Booking, _: Occurrence, __: Policy) -> None:
    if booking.chargeback_status is not ChargebackStatus.OPEN:
        _refuse(Guard.CHARGEBACK_OPEN, "No chargeback is open")


def _payout_scheduled(booking: Booking, what: Occurrence, _: Policy) -> None:
    scheduled = booking.payout_status is PayoutStatus.SCHEDULED
    released = booking.payout_released_at is not None
    early = booking.payout_due_at is None or what.now < booking.payout_due_at
    if not scheduled or released or early:
        _refuse(Guard.PAYOUT_SCHEDULED, "No payout is due")


def _payout_pending(booking: Booking, _: Occurrence, __: Policy) -> None:
    if booking.payout_status not in UNPAID:
        _refuse(Guard.PAYOUT_PENDING, "No payout is waiting to be made")


def _payout_on_hold(booking: Booking, _: Occurrence, __: Policy) -> None:
    if booking.payout_status is not PayoutStatus.FROZEN:
        _refuse(Guard.PAYOUT_ON_HOLD, "The payout is not on hold")


def _payout_failed(booking: Booking, _: Occurrence, __: Policy) -> None:
    if booking.payout_status is not PayoutStatus.FAILED:
        _refuse(Guard.PAYOUT_FAILED, "The payout has not failed")


_GUARDS: dict[Guard, Callable[[Booking, Occurrence, Policy], None]] = {
    Guard.BEFORE_START: _before_start,
    Guard.CANCELLABLE: _cancellable,
    Guard.AFTER_START: _after_start,
    Guard.AFTER_END: _after_end,
    Guard.CHECK_IN_OPEN: _check_in_open,
    Guard.PAYOUT_NOT_RELEASED: _payout_not_released,
    Guard.NO_CHARGEBACK: _no_chargeback,
    Guard.CHARGEBACK_OPEN: _chargeback_open,
    Guard.PAYOUT_SCHEDULED: _payout_scheduled,
    Guard.PAYOUT_PENDING: _payout_pending,
    Guard.PAYOUT_ON_HOLD: _payout_on_hold,
    Guard.PAYOUT_FAILED: _payout_failed,
}
