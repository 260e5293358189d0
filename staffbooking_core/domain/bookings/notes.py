"""Effects of transitions that record a fact and move no money."""

from __future__ import annotations

from datetime import datetime

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
    text = f"the dispute of booking {result.booking.code} is overdue: resolve it"
    return result.with_changes(dispute_alarmed_at=inputs.now).with_alert(text, inputs.now)


def note_alarm(
    result: TransitionResult, inputs: TransitionInput, policy: Policy
) -> TransitionResult:
    """Alert the operators of a payout that is nearly late."""
    booking = result.booking
    deadline = payout_deadline(booking.payout_due_at or inputs.now, policy)
    text = f"the payout of booking {booking.code} is not made yet: it is promised by {deadline}"
    return result.with_changes(payout_alarmed_at=inputs.now).with_alert(text, inputs.now)


def is_settled(booking: Booking, alarmed_at: datetime) -> bool:
    """Whether an alert that asked for something at this time asks for nothing any more: it has been
    done, or the booking has another dispute since, or its payout was scheduled anew, of which
    operators get another alert."""
    is_of_dispute = booking.dispute_alarmed_at == alarmed_at
    is_of_payout = booking.payout_alarmed_at == alarmed_at
    is_open = booking.status is BookingStatus.DISPUTED
    is_unpaid = booking.payout_status in OPEN_PAYOUT_STATUSES
    return not ((is_of_dispute and is_open) or (is_of_payout and is_unpaid))


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
