"""Effects of transitions that record a fact and move no money."""

from __future__ import annotations

from staffbooking_core.domain.bookings.booking import (
    OPEN_PAYOUT_STATUSES,
    Booking,
    TransitionInput,
    TransitionResult,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Trigger
from staffbooking_core.domain.bookings.timers import payout_deadline
from staffbooking_core.policy import Policy


def note_check_in(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    """Keep the time of the first check-in."""
    first = result.booking.checked_in_at
    return result.with_changes(checked_in_at=first or inputs.now)


def note_reminder(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    """Keep the due time of the reminder."""
    return result.with_changes(reminded_at=inputs.now)


def note_overdue(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    """Alert the operators of an overdue dispute."""
    text = f"the dispute of booking {result.booking.code}{_OVERDUE}"
    return result.with_changes(dispute_alarmed_at=inputs.now).with_alert(text)


def note_alarm(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    """Alert the operators of a payout that is nearly late."""
    booking = result.booking
    deadline = payout_deadline(booking.payout_due_at or inputs.now, policy)
    text = f"the payout of booking {booking.code}{_NOT_MADE} {deadline}"
    return result.with_changes(payout_alarmed_at=inputs.now).with_alert(text)


_OVERDUE = " is overdue: resolve it"
_NOT_MADE = " is not made yet: it is promised by"


def is_settled(booking: Booking, text: str) -> bool:
    """Whether an alert of the booking asks for what has been done since. Alerts that only tell what
    happened are never settled."""
    if _OVERDUE in text:
        return booking.status is not BookingStatus.DISPUTED
    return _NOT_MADE in text and booking.payout_status not in OPEN_PAYOUT_STATUSES


def alert(result: TransitionResult, inputs: TransitionInput, _: Policy) -> TransitionResult:
    """Alert the operators of the transition."""
    what = _ALERTS[inputs.trigger]
    return result.with_alert(f"{what} booking {result.booking.code}")


_ALERTS = {
    Trigger.PAYMENT: "the payment came too late and goes back: see",
    Trigger.CHARGEBACK: "the customer's bank claims the payment back (chargeback) of",
    Trigger.CHARGEBACK_LOST: "the customer's bank keeps the payment (chargeback lost) of",
}
"""What happened, before the booking, for each trigger that alerts."""
