"""When the timers of a booking fire, and the deadlines of its payment and payout.

Each time is computed from the booking, so it cannot become stale.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from staffbooking_core.domain.bookings.booking import UNPAID_PAYOUT_STATUSES, Booking, DueTimer
from staffbooking_core.domain.bookings.lifecycle import (
    TIMER_TRIGGERS,
    BookingNotification,
    TimerKind,
    Trigger,
)
from staffbooking_core.policy import Policy


def next_timer(booking: Booking, policy: Policy) -> DueTimer | None:
    """The booking's next timer, by the lifecycle table."""
    for kind in TIMER_TRIGGERS[booking.status]:
        at = timer_time(booking, kind, policy)
        if at is not None:
            return DueTimer(kind, at)
    return None


def timer_time(booking: Booking, kind: TimerKind, policy: Policy) -> datetime | None:
    """When a timer fires; None where it is not set, or not one of the status."""
    is_of_status = kind in TIMER_TRIGGERS[booking.status]
    return _TIMER_TIMES[kind](booking, policy) if is_of_status else None


def useless_notifications(
    booking: Booking, now: datetime, policy: Policy
) -> frozenset[BookingNotification]:
    """The reminders and questions that have no use any more: what they ask for is over."""
    ends = {
        BookingNotification.REMINDER_TO_CUSTOMER: booking.starts_at,
        BookingNotification.REMINDER_TO_STAFF: booking.starts_at,
        BookingNotification.QUESTION_TO_CUSTOMER: booking.ends_at + policy.no_show_until,
        BookingNotification.QUESTION_TO_STAFF: booking.ends_at,
    }
    return frozenset(name for name, end in ends.items() if now >= end)


def _reminder_time(booking: Booking, policy: Policy) -> datetime | None:
    """None where it was paid later than that."""
    at = booking.starts_at - policy.reminder_lead
    is_near = booking.paid_at is None or booking.paid_at > at or booking.disputed_at is not None
    return None if is_near or booking.reminded_at is not None else at


def _check_in_question_time(booking: Booking, policy: Policy) -> datetime | None:
    """None where it was paid later than that, and after a dispute: the parties have told what they
    know."""
    at = booking.starts_at + policy.no_show_after
    if booking.paid_at is None or booking.paid_at > at:
        return None
    is_asked = booking.reminded_at is not None and booking.reminded_at >= booking.starts_at
    if is_asked or booking.checked_in_at is not None or booking.disputed_at is not None:
        return None
    return at


def _completion_time(booking: Booking, policy: Policy) -> datetime:
    """Not before the withdrawal of a dispute, if one was withdrawn."""
    due_at = booking.ends_at + policy.auto_complete_after
    withdrawals = (entry.at for entry in booking.timeline if entry.trigger is Trigger.WITHDRAW)
    return max((due_at, *withdrawals))


def _response_deadline(booking: Booking, _: Policy) -> datetime | None:
    return None if booking.dispute_alarmed_at is not None else booking.dispute_respond_by


def _payout_release_time(booking: Booking, _: Policy) -> datetime | None:
    return booking.payout_due_at if booking.awaits_payout_release else None


def _pending_alarm_time(booking: Booking, policy: Policy) -> datetime | None:
    if (
        booking.payout_status not in UNPAID_PAYOUT_STATUSES
        or booking.payout_due_at is None
        or booking.payout_alarmed_at is not None
    ):
        return None
    return payout_alarm_time(booking.payout_due_at, policy)


def payout_deadline(due_at: datetime, policy: Policy) -> datetime:
    """The promised latest time of a payout with this due time (CONTRACT 4)."""
    return due_at - policy.payout_delay + policy.payout_deadline


def payout_alarm_time(due_at: datetime, policy: Policy) -> datetime:
    """The time of the alert about a released payout that is not made yet."""
    deadline = payout_deadline(due_at, policy)
    # A payout that falls due close to its deadline has some time to be made before the alert.
    return max(due_at + (deadline - due_at) / 2, deadline - policy.payout_alarm)


def expiry_time(booking: Booking, policy: Policy) -> datetime:
    """When a booking expires that is not accepted, or not paid: its payment deadline."""
    if policy.payment_window is None or booking.accepted_at is None:
        return booking.starts_at
    return min(booking.starts_at, booking.accepted_at + policy.payment_window)


_TIMER_TIMES: dict[TimerKind, Callable[[Booking, Policy], datetime | None]] = {
    TimerKind.EXPIRE: expiry_time,
    TimerKind.REMIND: _reminder_time,
    TimerKind.ASK_CHECK_IN: _check_in_question_time,
    TimerKind.AUTO_COMPLETE: _completion_time,
    TimerKind.DISPUTE_OVERDUE: _response_deadline,
    TimerKind.PAY_OUT: _payout_release_time,
    TimerKind.PAYOUT_ALARM: _pending_alarm_time,
}
"""The time of each timer; None where it is not set."""
