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
    text = _overdue(result.booking.code)
    return result.with_changes(dispute_alarmed_at=inputs.now).with_alert(text)


def note_alarm(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    """Alert the operators of a payout that is nearly late."""
    booking = result.booking
    deadline = payout_deadline(booking.payout_due_at or inputs.now, policy)
    text = f"{_not_made(booking.code)} {deadline}"
    return result.with_changes(payout_alarmed_at=inputs.now).with_alert(text)


def _overdue(code: str) -> str:
    return f"the dispute of booking {code} is overdue: resolve it"


def _not_made(code: str) -> str:
    return f"the payout of booking {code} is not made yet: it is promised by"


def is_settled(booking: Booking, text: str) -> bool:
    """Whether an alert of the booking asks for what has been done since. Alerts that only tell what
    happened are never settled."""
    if text == _overdue(booking.code):
        # Of a new dispute, operators are not alerted yet: the alert was of the one before.
        is_open = booking.status is BookingStatus.DISPUTED
        return not is_open or booking.dispute_alarmed_at is None
    is_of_payout = text.startswith(_not_made(booking.code))
    return is_of_payout and booking.payout_status not in OPEN_PAYOUT_STATUSES


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
