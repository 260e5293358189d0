"""The lifecycle of a booking's payout: its table, and the only function that moves it.

The table maps status -> trigger -> next status. A trigger is an effect of a booking's transition,
or a fact from the processor. A trigger that leads to its own status changes nothing.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import evolve

from staffbooking_core.domain.bookings.booking import PayoutStatus, TransitionResult
from staffbooking_core.domain.bookings.lifecycle import (
    BookingNotification,
    EventName,
    MissingTransition,
)


class PayoutTrigger(StrEnum):
    """Causes of a change of the payout status."""

    SCHEDULED = "scheduled"
    NOTHING_EARNED = "nothing_earned"
    TAKEN_BACK = "taken_back"
    """Nothing of a payout that was sent or withheld was earned, or its reversal succeeded during a
    dispute."""
    SENT = "sent"
    NETTED = "netted"
    """All of it was withheld for debts of other bookings."""
    STANDS = "stands"
    """An earlier payout is kept, since what was claimed back of it is earned again."""
    CONFIRMED = "confirmed"
    """The processor made the payout."""
    REFUSED = "refused"
    HELD = "held"
    RESUMED = "resumed"
    DISPUTED = "disputed"
    APPEAL_LOST = "appeal_lost"
    """A chargeback that had been won was lost on appeal."""
    OWED_AGAIN = "owed_again"
    """A reversal brought back more than was still claimed."""


S, T = PayoutStatus, PayoutTrigger

PAYOUT_TRANSITIONS: dict[PayoutStatus, dict[PayoutTrigger, PayoutStatus]] = {
    S.NONE: {
        T.SCHEDULED: S.SCHEDULED,
        T.NOTHING_EARNED: S.NONE,
        T.TAKEN_BACK: S.REVERSED,
        T.STANDS: S.PAID,
        # The verdict left nothing of a payout that was on its way: it is owed back.
        T.CONFIRMED: S.REVERSED,
        T.DISPUTED: S.NONE,
        T.APPEAL_LOST: S.NONE,
        T.OWED_AGAIN: S.SCHEDULED,
    },
    S.SCHEDULED: {
        T.SENT: S.SCHEDULED,
        T.NETTED: S.PAID,
        T.CONFIRMED: S.PAID,
        T.REFUSED: S.FAILED,
        T.HELD: S.FROZEN,
        T.DISPUTED: S.FROZEN,
        T.APPEAL_LOST: S.FROZEN,
        T.OWED_AGAIN: S.SCHEDULED,
    },
    S.PAID: {
        T.CONFIRMED: S.PAID,
        T.DISPUTED: S.FROZEN,
        T.APPEAL_LOST: S.PAID,
        T.OWED_AGAIN: S.SCHEDULED,
    },
    S.FAILED: {
        T.SENT: S.SCHEDULED,
        T.NETTED: S.PAID,
        T.CONFIRMED: S.PAID,
        T.HELD: S.FROZEN,
        T.DISPUTED: S.FROZEN,
        T.APPEAL_LOST: S.FROZEN,
        T.OWED_AGAIN: S.SCHEDULED,
    },
    S.FROZEN: {
        T.SCHEDULED: S.SCHEDULED,
        T.NOTHING_EARNED: S.NONE,
        T.TAKEN_BACK: S.REVERSED,
        T.STANDS: S.PAID,
        # A payout that was put on hold too late is made all the same.
        T.CONFIRMED: S.PAID,
        T.RESUMED: S.SCHEDULED,
        T.DISPUTED: S.FROZEN,
        T.APPEAL_LOST: S.FROZEN,
        # A hold stays until an operator releases it.
        T.OWED_AGAIN: S.FROZEN,
    },
    S.REVERSED: {
        T.SCHEDULED: S.SCHEDULED,
        T.NOTHING_EARNED: S.REVERSED,
        T.TAKEN_BACK: S.REVERSED,
        T.STANDS: S.PAID,
        T.CONFIRMED: S.REVERSED,
        T.DISPUTED: S.REVERSED,
        T.APPEAL_LOST: S.REVERSED,
        T.OWED_AGAIN: S.SCHEDULED,
    },
}

PAYOUT_NOTIFICATIONS: dict[PayoutStatus, tuple[BookingNotification, ...]] = {
    S.PAID: (BookingNotification.PAYOUT_TO_STAFF,)
}
"""The notifications when a payout enters a status."""

PAYOUT_EVENTS: dict[PayoutStatus, EventName] = {
    S.PAID: EventName.PAYOUT_PAID,
    S.FAILED: EventName.PAYOUT_FAILED,
}
"""The event when a payout enters a status."""


def move_payout(result: TransitionResult, trigger: PayoutTrigger) -> TransitionResult:
    """Move the payout status by a trigger. Raises MissingTransition. A payout that stands is no
    news: it was told when it was made."""
    status = result.booking.payout_status
    if trigger not in PAYOUT_TRANSITIONS[status]:
        raise MissingTransition(f"{trigger} of a payout that is {status}")
    to_status = PAYOUT_TRANSITIONS[status][trigger]
    result = result.with_changes(payout_status=to_status)
    if to_status is status or trigger is PayoutTrigger.STANDS:
        return result
    return tell_payout(result, to_status)


def tell_payout(result: TransitionResult, status: PayoutStatus) -> TransitionResult:
    """Add the notifications and the event of a payout that enters this status, or that was made
    though the status stays another."""
    notifications = (*result.notifications, *PAYOUT_NOTIFICATIONS.get(status, ()))
    event = PAYOUT_EVENTS.get(status, result.event)
    return evolve(result, notifications=notifications, event=event)
