"""Transitions of a booking: `apply_transition` is the only way to a new status.

1. Look the transition up in the lifecycle table, and check the party.
2. Check the guards.
3. Change the status, and add the timeline entry.
4. Apply the effects in the table's order.
5. Add the event, if the table has one.

The result is a value that the caller saves in one transaction; nothing here reads a clock or does
I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from attrs import evolve

from staffbooking_core.domain.bookings.booking import (
    UNPAID_PAYOUT_STATUSES,
    Booking,
    PayoutStatus,
    TimelineEntry,
    TransitionInput,
    TransitionResult,
)
from staffbooking_core.domain.bookings.disputes import NO_SHOW_REASON, dispute_opener
from staffbooking_core.domain.bookings.effects import EFFECTS
from staffbooking_core.domain.bookings.lifecycle import (
    REFUSAL_CODES,
    TIMER_TRIGGERS,
    TRANSITIONS,
    BookingStatus,
    EventName,
    Guard,
    Party,
    Transition,
    Trigger,
    find_allowed_parties,
)
from staffbooking_core.domain.bookings.timers import expiry_time, next_timer
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.domain.shared.durations import format_duration
from staffbooking_core.errors import Forbidden, RuleBroken, VersionMismatch
from staffbooking_core.policy import Policy


def apply_transition(booking: Booking, inputs: TransitionInput, policy: Policy) -> TransitionResult:
    """Apply a trigger to a booking.

    Raises Forbidden for the wrong party, VersionMismatch, and RuleBroken for a wrong status or a
    failed guard.
    """
    check_party(booking.status, inputs.trigger, inputs.party)
    check_version(booking, inputs.allowed_versions)
    transition = TRANSITIONS[booking.status].get(inputs.trigger)
    if transition is None:
        code = REFUSAL_CODES[inputs.trigger]
        raise RuleBroken(code, f"Not possible while the booking is {booking.status}")
    for guard in transition.guards:
        _GUARDS[guard](booking, inputs, policy)
    entered = _enter_status(booking, transition, inputs, policy)
    notifications = tuple(name for name in transition.notifications if name not in inputs.untold)
    result = TransitionResult(entered, notifications=notifications)
    for effect in transition.effects:
        result = EFFECTS[effect](result, inputs, policy)
    if BookingStatus.DISPUTED is booking.status is not result.booking.status:
        refunded = result.booking.refunded_amount - booking.refunded_amount
        result = result.with_changes(dispute_note=inputs.reason, dispute_refund=refunded)
    return _with_event(result, transition.event)


def check_party(status: BookingStatus, trigger: Trigger, party: Party) -> None:
    """Raise Forbidden for the wrong party, before any rule about the status."""
    transition = TRANSITIONS[status].get(trigger)
    allowed = find_allowed_parties(trigger) if transition is None else transition.allowed_parties
    if party not in allowed:
        raise _wrong_party(trigger, party, allowed)


def _wrong_party(trigger: Trigger, party: Party, allowed: Collection[Party]) -> Forbidden:
    message = f"The {_NAMES.get(party, party)} may not {_action(trigger)}"
    *others, last = [f"the {_NAMES.get(each, each)}" for each in Party if each in allowed] or [""]
    if last:
        whose = f"{', '.join(others)} or {last}" if others else last
        message += f": only {whose} may"
    return Forbidden("wrong_party", message)


_NAMES: dict[Party, str] = {Party.STAFF: "staff member", Party.API: "owner of the API key"}
"""Names of parties in messages, where they differ from the record's."""


def _action(trigger: Trigger) -> str:
    """What a party does by a trigger, in messages."""
    match trigger:
        case Trigger.CHECKOUT:
            return "pay"
        case Trigger.NO_SHOW:
            return "report an absence"
        case Trigger.WITHDRAW:
            return "withdraw the dispute"
        case Trigger.RESOLVE_RELEASE | Trigger.RESOLVE_REFUND | Trigger.RESOLVE_SPLIT:
            return "resolve the dispute"
        case _:
            return trigger.replace("_", " ")


def check_version(booking: Booking, allowed_versions: frozenset[int] | None) -> None:
    """Raise VersionMismatch unless the booking has one of these versions; None allows any."""
    if allowed_versions is not None and booking.version not in allowed_versions:
        raise VersionMismatch(booking.version)


_TIMESTAMP_FIELDS: dict[BookingStatus, str] = {
    BookingStatus.ACCEPTED: "accepted_at",
    BookingStatus.PAID: "paid_at",
    BookingStatus.COMPLETED: "completed_at",
    BookingStatus.CANCELLED: "cancelled_at",
    BookingStatus.DISPUTED: "disputed_at",
}


def _enter_status(
    booking: Booking, transition: Transition, inputs: TransitionInput, policy: Policy
) -> Booking:
    to_status = transition.next_status(booking.timeline[-1].was if booking.timeline else None)
    if to_status is booking.status:
        return evolve(booking, revision=booking.revision + 1)
    reason = _reason(inputs)
    entry = TimelineEntry(
        *(inputs.now, booking.status, to_status, inputs.trigger, inputs.party),
        *(reason, inputs.actor_id),
    )
    fields: dict[str, object] = {_TIMESTAMP_FIELDS[to_status]: inputs.now}
    match to_status:
        case BookingStatus.PAID if booking.paid_at is not None:
            del fields["paid_at"]
        case BookingStatus.COMPLETED if booking.completed_at is None:
            fields["completed_by"] = _ending_party(inputs)
        case BookingStatus.COMPLETED:
            del fields["completed_at"]
        case BookingStatus.CANCELLED:
            fields["cancelled_by"] = _ending_party(inputs)
            fields["cancel_reason"] = reason
            if not booking.escrow:
                fields |= {"platform_fee": 0, "payout_amount": 0}
        case BookingStatus.DISPUTED:
            fields |= _new_dispute(inputs, policy)
    return evolve(
        booking,
        status=to_status,
        revision=booking.revision + 1,
        timeline=(*booking.timeline, entry),
        **fields,  # type: ignore[arg-type]
    )


def _new_dispute(inputs: TransitionInput, policy: Policy) -> dict[str, object]:
    is_no_show = inputs.trigger is Trigger.NO_SHOW
    return {
        "dispute_reason": NO_SHOW_REASON if is_no_show else inputs.reason,
        "disputed_by": inputs.party,
        "dispute_respond_by": inputs.now + policy.dispute_response,
        "dispute_alarmed_at": None,
        "dispute_note": None,
        "dispute_refund": 0,
    }


def _ending_party(inputs: TransitionInput) -> Party:
    """The party in the record: the processor's verdicts are recorded as the system's (CONTRACT
    4)."""
    return Party.SYSTEM if inputs.party is Party.PROCESSOR else inputs.party


def _reason(inputs: TransitionInput) -> str | None:
    """The reason in the timeline, and of a cancelled booking."""
    match inputs.trigger:
        case Trigger.EXPIRE:
            return "expired"
        case Trigger.LOSE_SLOT:
            return "slot_taken"
        case Trigger.PARTY_DISABLED:
            return "party_disabled"
        case Trigger.CHARGEBACK_LOST:
            return "charged_back"
        case _:
            return inputs.reason


def _with_event(result: TransitionResult, event: EventName | None) -> TransitionResult:
    """Add the table's event, which goes before that of an effect. `booking.completed` is published
    once, also after a dispute of a completed booking."""
    already_published = event is EventName.BOOKING_COMPLETED and any(
        entry.to is BookingStatus.COMPLETED for entry in result.booking.timeline[:-1]
    )
    return result if event is None or already_published else evolve(result, event=event)


# Guards -------------------------------------------------------------------------------


def _refuse(guard: Guard, message: str) -> None:
    raise RuleBroken(guard.value, message)


def _check_before_start(booking: Booking, inputs: TransitionInput, policy: Policy) -> None:
    deadline, message = booking.starts_at, "The event has begun"
    if inputs.trigger is Trigger.CHECKOUT:
        deadline, message = expiry_time(booking, policy), "The time to pay has passed"
    if inputs.now >= deadline:
        _refuse(Guard.BEFORE_START, message)


def _check_cancellable(booking: Booking, inputs: TransitionInput, _: Policy) -> None:
    if inputs.party is not Party.ADMIN and inputs.now >= booking.starts_at:
        _refuse(Guard.CANCELLABLE, "The event has begun: a paid booking can't be cancelled now")


def _check_after_start(booking: Booking, inputs: TransitionInput, _: Policy) -> None:
    if inputs.now < booking.starts_at:
        _refuse(Guard.AFTER_START, "A paid booking can be disputed from its start on")


def _check_after_end(booking: Booking, inputs: TransitionInput, _: Policy) -> None:
    if inputs.now < booking.ends_at:
        _refuse(Guard.AFTER_END, "The event has not ended yet")


def _check_check_in_open(booking: Booking, inputs: TransitionInput, policy: Policy) -> None:
    if booking.checked_in_at is not None:
        return
    if not booking.starts_at - policy.check_in_lead <= inputs.now <= booking.ends_at:
        lead = format_duration(policy.check_in_lead)
        _refuse(
            Guard.CHECK_IN_OPEN, f"Check-in opens {lead} before the start and closes at the end"
        )


def _check_not_checked_in(booking: Booking, _: TransitionInput, __: Policy) -> None:
    if booking.checked_in_at is not None:
        _refuse(Guard.NOT_CHECKED_IN, "The staff member has checked in")


def _check_no_show_open(booking: Booking, inputs: TransitionInput, policy: Policy) -> None:
    opens_at = booking.starts_at + policy.no_show_after
    if not opens_at <= inputs.now <= booking.ends_at + policy.no_show_until:
        after, until = map(format_duration, (policy.no_show_after, policy.no_show_until))
        _refuse(
            Guard.NO_SHOW_OPEN,
            f"An absence can be reported from {after} after the start to {until} after the end",
        )


def _check_timer_due(booking: Booking, inputs: TransitionInput, policy: Policy) -> None:
    timer = next_timer(booking, policy)
    is_this = timer and TIMER_TRIGGERS[booking.status][timer.kind] is inputs.trigger
    if timer is None or not is_this or inputs.now < timer.at:
        _refuse(Guard.TIMER_DUE, "This is not due")


def _check_dispute_opener(booking: Booking, inputs: TransitionInput, _: Policy) -> None:
    if inputs.party is not dispute_opener(booking):
        raise Forbidden(Guard.DISPUTE_OPENER.value, "The other party opened this dispute")


def _check_credit_unused(_: Booking, inputs: TransitionInput, __: Policy) -> None:
    if inputs.is_credit_used:
        _refuse(Guard.CREDIT_UNUSED, "The priority rebooking of this dispute was used")


def _check_payout_not_released(booking: Booking, _: TransitionInput, __: Policy) -> None:
    to_come = booking.payout_status in (PayoutStatus.SCHEDULED, PayoutStatus.FROZEN)
    if not to_come or booking.payout_released_at is not None:
        _refuse(Guard.PAYOUT_NOT_RELEASED, "The payout was released already")


def _check_no_chargeback(booking: Booking, _: TransitionInput, __: Policy) -> None:
    if booking.chargeback_status is ChargebackStatus.OPEN:
        _refuse(Guard.NO_CHARGEBACK, "The card issuer decides this dispute")


def _check_chargeback_open(booking: Booking, _: TransitionInput, __: Policy) -> None:
    if booking.chargeback_status is not ChargebackStatus.OPEN:
        _refuse(Guard.CHARGEBACK_OPEN, "No chargeback is open")


def _check_payout_scheduled(booking: Booking, inputs: TransitionInput, _: Policy) -> None:
    scheduled = booking.payout_status is PayoutStatus.SCHEDULED
    released = booking.payout_released_at is not None
    early = booking.payout_due_at is None or inputs.now < booking.payout_due_at
    if not scheduled or released or early:
        _refuse(Guard.PAYOUT_SCHEDULED, "No payout is due")


def _check_payout_pending(booking: Booking, _: TransitionInput, __: Policy) -> None:
    if booking.payout_status not in UNPAID_PAYOUT_STATUSES:
        _refuse(Guard.PAYOUT_PENDING, "No payout is waiting to be made")


def _check_payout_on_hold(booking: Booking, _: TransitionInput, __: Policy) -> None:
    if booking.payout_status is not PayoutStatus.FROZEN:
        _refuse(Guard.PAYOUT_ON_HOLD, "The payout is not on hold")


def _check_payout_failed(booking: Booking, _: TransitionInput, __: Policy) -> None:
    if booking.payout_status is not PayoutStatus.FAILED:
        _refuse(Guard.PAYOUT_FAILED, "The payout has not failed")


_GUARDS: dict[Guard, Callable[[Booking, TransitionInput, Policy], None]] = {
    Guard.BEFORE_START: _check_before_start,
    Guard.CANCELLABLE: _check_cancellable,
    Guard.AFTER_START: _check_after_start,
    Guard.AFTER_END: _check_after_end,
    Guard.CHECK_IN_OPEN: _check_check_in_open,
    Guard.NOT_CHECKED_IN: _check_not_checked_in,
    Guard.NO_SHOW_OPEN: _check_no_show_open,
    Guard.TIMER_DUE: _check_timer_due,
    Guard.DISPUTE_OPENER: _check_dispute_opener,
    Guard.CREDIT_UNUSED: _check_credit_unused,
    Guard.PAYOUT_NOT_RELEASED: _check_payout_not_released,
    Guard.NO_CHARGEBACK: _check_no_chargeback,
    Guard.CHARGEBACK_OPEN: _check_chargeback_open,
    Guard.PAYOUT_SCHEDULED: _check_payout_scheduled,
    Guard.PAYOUT_PENDING: _check_payout_pending,
    Guard.PAYOUT_ON_HOLD: _check_payout_on_hold,
    Guard.PAYOUT_FAILED: _check_payout_failed,
}
