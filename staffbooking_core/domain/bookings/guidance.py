"""What a booking's page tells each side: one sentence, one next action, and the deadlines.

The table maps a situation, which is a status at a moment, and a side to the sentence and the
action. It stands beside the lifecycle table: `transitions` decides what is possible, this table
what is next. Sentences are message ids with placeholders, which the page fills in the visitor's
language: `%(staff)s`, `%(customer)s` (names), `%(total)s`, `%(payout)s` (amounts), `%(lead)s` (the
time from the cancellation to the start).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.disputes import dispute_respondent
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, TimerKind, Trigger
from staffbooking_core.domain.bookings.timers import timer_time
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.policy import Policy

__all__ = ["Deadline", "DeadlineKind", "Guidance", "NextAction", "Situation"]


class Situation(StrEnum):
    """A status at a moment, as people tell them apart."""

    REQUESTED = "requested"
    TO_PAY = "to_pay"
    CONFIRMED = "confirmed"
    CHECK_IN_OPEN = "check_in_open"
    NOT_CHECKED_IN = "not_checked_in"
    CHECKED_IN = "checked_in"
    TO_CONFIRM = "to_confirm"
    PAYOUT_AHEAD = "payout_ahead"
    PAYOUT_HELD = "payout_held"
    PAYOUT_FAILED = "payout_failed"
    PAID_OUT = "paid_out"
    NOTHING_EARNED = "nothing_earned"
    DISPUTED = "disputed"
    NO_SHOW = "no_show"
    CHARGED_BACK = "charged_back"
    DECLINED = "declined"
    UNANSWERED = "unanswered"
    UNPAID = "unpaid"
    SLOT_TAKEN = "slot_taken"
    ACCOUNT_CLOSED = "account_closed"
    CANCELLED_BY_CUSTOMER = "cancelled_by_customer"
    CANCELLED_BY_STAFF = "cancelled_by_staff"
    CANCELLED_BY_ADMIN = "cancelled_by_admin"
    REFUNDED = "refunded"
    CHARGEBACK_LOST = "chargeback_lost"


class NextAction(StrEnum):
    """The primary action of a page: a trigger of the lifecycle, or a page to go to."""

    ACCEPT = "accept"
    PAY = "pay"
    CHECK_IN = "check_in"
    CONFIRM = "confirm"
    REVIEW = "review"
    REBOOK = "rebook"
    REPORT_NO_SHOW = "no_show"
    ANSWER_DISPUTE = "answer_dispute"
    READ_ANSWER = "read_answer"
    RESOLVE_DISPUTE = "resolve_dispute"
    FIND_OTHERS = "find_others"


class DeadlineKind(StrEnum):
    """What happens at a deadline."""

    ANSWER_BY = "answer_by"
    PAY_BY = "pay_by"
    CHECK_IN_FROM = "check_in_from"
    COMPLETES_AT = "completes_at"
    PAYOUT_AT = "payout_at"
    RESPOND_BY = "respond_by"
    HEARD_UNTIL = "heard_until"
    """As RESPOND_BY, for a side that waits for the other one, and for all once the side that has to
    answer has spoken."""


@frozen
class Deadline:
    kind: DeadlineKind
    at: datetime


@frozen
class Guidance:
    """What one side of a booking is told at a moment."""

    situation: Situation
    sentence: str
    action: NextAction | None
    deadlines: tuple[Deadline, ...]
    lead: timedelta | None
    """The time from the cancellation to the start; None unless it was cancelled before it."""


@frozen
class _Cell:
    sentence: str
    action: NextAction | None = None
    late_sentence: str = ""
    """In place of the sentence, where there is no time from the cancellation to the start."""


def _cancelled(text: str, action: NextAction | None = None) -> _Cell:
    return _Cell(f"{text} %(lead)s before the start.", action, f"{text}.")


S, P, A = Situation, Party, NextAction

_TABLE: Mapping[Situation, Mapping[Party, _Cell]] = {
    S.REQUESTED: {
        P.CUSTOMER: _Cell("Your request is with %(staff)s, who answers next."),
        P.STAFF: _Cell("%(customer)s would like to book you.", A.ACCEPT),
        P.API: _Cell("The request is with %(staff)s, who answers next."),
        P.ADMIN: _Cell("%(staff)s has not answered the request yet."),
    },
    S.TO_PAY: {
        P.CUSTOMER: _Cell("%(staff)s said yes. Pay %(total)s to confirm the booking.", A.PAY),
        P.STAFF: _Cell("You said yes. It is confirmed once %(customer)s has paid."),
        P.API: _Cell("%(staff)s said yes. %(customer)s pays next."),
        P.ADMIN: _Cell("Accepted; %(customer)s has not paid yet."),
    },
    S.CONFIRMED: {
        P.CUSTOMER: _Cell(
            "You are all set: %(staff)s is booked, and your money is safe in escrow."
        ),
        P.STAFF: _Cell("You are booked: %(customer)s has paid, and the money is safe in escrow."),
        P.API: _Cell("All is set: it is paid, and %(staff)s is booked."),
        P.ADMIN: _Cell("Paid; the event is ahead."),
    },
    S.CHECK_IN_OPEN: {
        P.CUSTOMER: _Cell("It is nearly time. You see here when %(staff)s has checked in."),
        P.STAFF: _Cell("Check in when you are there, so that %(customer)s knows.", A.CHECK_IN),
        P.API: _Cell("It is nearly time; %(staff)s has not checked in yet."),
        P.ADMIN: _Cell("It is nearly time; %(staff)s has not checked in yet."),
    },
    S.NOT_CHECKED_IN: {
        P.CUSTOMER: _Cell(
            "It has begun, and %(staff)s has not checked in. Is %(staff)s there?",
            A.REPORT_NO_SHOW,
        ),
        P.STAFF: _Cell("It has begun, and you have not checked in.", A.CHECK_IN),
        P.API: _Cell("It has begun, and %(staff)s has not checked in."),
        P.ADMIN: _Cell("It has begun, and %(staff)s has not checked in."),
    },
    S.CHECKED_IN: {
        P.CUSTOMER: _Cell("%(staff)s has checked in. Have a good event."),
        P.STAFF: _Cell("You have checked in. Have a good event."),
        P.API: _Cell("%(staff)s has checked in."),
        P.ADMIN: _Cell("%(staff)s has checked in."),
    },
    S.TO_CONFIRM: {
        P.CUSTOMER: _Cell(
            "The event is over. Confirm that it took place, and %(staff)s gets paid.", A.CONFIRM
        ),
        P.STAFF: _Cell(
            "The event is over. %(customer)s confirms next, or it goes through by itself."
        ),
        P.API: _Cell("The event is over. %(customer)s confirms next."),
        P.ADMIN: _Cell("The event is over and waits to be confirmed."),
    },
    S.PAYOUT_AHEAD: {
        P.CUSTOMER: _Cell("It took place, and the booking is completed.", A.REVIEW),
        P.STAFF: _Cell("It took place, and %(payout)s is on its way to you.", A.REVIEW),
        P.API: _Cell("It took place, and the booking is completed."),
        P.ADMIN: _Cell("Completed; the payout of %(payout)s is ahead."),
    },
    S.NOTHING_EARNED: {
        P.CUSTOMER: _Cell("The dispute was decided for you.", A.REVIEW),
        P.STAFF: _Cell("The dispute was decided: nothing is paid out to you.", A.REVIEW),
        P.API: _Cell("The dispute was decided, and the booking is completed."),
        P.ADMIN: _Cell("Completed; nothing is paid out."),
    },
    S.PAYOUT_HELD: {
        P.CUSTOMER: _Cell("It took place, and the booking is completed.", A.REVIEW),
        P.STAFF: _Cell(
            "It took place. Your payout of %(payout)s is on hold: we look into it.", A.REVIEW
        ),
        P.API: _Cell("It took place, and the booking is completed."),
        P.ADMIN: _Cell("Completed; the payout of %(payout)s is on hold."),
    },
    S.PAYOUT_FAILED: {
        P.CUSTOMER: _Cell("It took place, and the booking is completed.", A.REVIEW),
        P.STAFF: _Cell(
            "It took place. Your payout of %(payout)s did not go through yet.", A.REVIEW
        ),
        P.API: _Cell("It took place, and the booking is completed."),
        P.ADMIN: _Cell("Completed; the payout of %(payout)s has failed."),
    },
    S.PAID_OUT: {
        P.CUSTOMER: _Cell("It took place, and the booking is completed.", A.REVIEW),
        P.STAFF: _Cell("It took place, and you have been paid %(payout)s.", A.REVIEW),
        P.API: _Cell("It took place, and the booking is completed."),
        P.ADMIN: _Cell("Completed and paid out: %(payout)s."),
    },
    S.DISPUTED: {
        P.CUSTOMER: _Cell(
            "There is a dispute. The money stays where it is until we have decided.",
            A.ANSWER_DISPUTE,
        ),
        P.STAFF: _Cell(
            "There is a dispute. The money stays where it is until we have decided.",
            A.ANSWER_DISPUTE,
        ),
        P.API: _Cell("There is a dispute between %(customer)s and %(staff)s."),
        P.ADMIN: _Cell("There is a dispute for you to resolve.", A.RESOLVE_DISPUTE),
    },
    S.NO_SHOW: {
        P.CUSTOMER: _Cell(
            "You reported that %(staff)s did not come. The money stays where it is, and you can "
            "book somebody else first.",
            A.REBOOK,
        ),
        P.STAFF: _Cell("%(customer)s reported that you did not come. Tell us.", A.ANSWER_DISPUTE),
        P.API: _Cell("%(customer)s reported that %(staff)s did not come."),
        P.ADMIN: _Cell("%(customer)s reported that %(staff)s did not come.", A.RESOLVE_DISPUTE),
    },
    S.CHARGED_BACK: {
        P.CUSTOMER: _Cell("Your bank took the payment back, and decides now."),
        P.STAFF: _Cell("The bank of %(customer)s took the payment back, and decides now."),
        P.API: _Cell("The customer's bank took the payment back, and decides now."),
        P.ADMIN: _Cell("The bank took the payment back: the chargeback is open."),
    },
    S.DECLINED: {
        P.CUSTOMER: _Cell("%(staff)s can't take it.", A.FIND_OTHERS),
        P.STAFF: _Cell("You declined it."),
        P.API: _Cell("%(staff)s can't take it."),
        P.ADMIN: _Cell("%(staff)s declined it."),
    },
    S.UNANSWERED: {
        P.CUSTOMER: _Cell("%(staff)s did not answer in time.", A.FIND_OTHERS),
        P.STAFF: _Cell("It lapsed: you did not answer in time."),
        P.API: _Cell("%(staff)s did not answer in time."),
        P.ADMIN: _Cell("It lapsed: %(staff)s did not answer in time."),
    },
    S.UNPAID: {
        P.CUSTOMER: _Cell("It lapsed, since it was not paid in time.", A.FIND_OTHERS),
        P.STAFF: _Cell("It lapsed: %(customer)s did not pay in time. Your time is free again."),
        P.API: _Cell("It lapsed, since it was not paid in time."),
        P.ADMIN: _Cell("It lapsed: %(customer)s did not pay in time."),
    },
    S.SLOT_TAKEN: {
        P.CUSTOMER: _Cell("%(staff)s took another booking at that time.", A.FIND_OTHERS),
        P.STAFF: _Cell("It ended when you took another booking at that time."),
        P.API: _Cell("%(staff)s took another booking at that time."),
        P.ADMIN: _Cell("It ended when %(staff)s took another booking at that time."),
    },
    S.ACCOUNT_CLOSED: {
        P.CUSTOMER: _Cell("It ended, since an account was closed.", A.REBOOK),
        P.STAFF: _Cell("It ended, since an account was closed."),
        P.API: _Cell("It ended, since an account was closed."),
        P.ADMIN: _Cell("It ended, since an account was disabled."),
    },
    S.CANCELLED_BY_CUSTOMER: {
        P.CUSTOMER: _cancelled("You cancelled it"),
        P.STAFF: _cancelled("%(customer)s cancelled it"),
        P.API: _cancelled("%(customer)s cancelled it"),
        P.ADMIN: _cancelled("%(customer)s cancelled it"),
    },
    S.CANCELLED_BY_STAFF: {
        P.CUSTOMER: _cancelled("%(staff)s cancelled it", A.REBOOK),
        P.STAFF: _cancelled("You cancelled it"),
        P.API: _cancelled("%(staff)s cancelled it"),
        P.ADMIN: _cancelled("%(staff)s cancelled it"),
    },
    S.CANCELLED_BY_ADMIN: {
        P.CUSTOMER: _cancelled("We cancelled it"),
        P.STAFF: _cancelled("We cancelled it"),
        P.API: _cancelled("The service cancelled it"),
        P.ADMIN: _cancelled("An operator cancelled it"),
    },
    S.REFUNDED: {
        P.CUSTOMER: _Cell("The dispute was decided for you."),
        P.STAFF: _Cell("The dispute was decided for %(customer)s."),
        P.API: _Cell("The dispute was decided for %(customer)s."),
        P.ADMIN: _Cell("The dispute was decided for %(customer)s."),
    },
    S.CHARGEBACK_LOST: {
        P.CUSTOMER: _Cell("Your bank gave the payment back to you."),
        P.STAFF: _Cell("The bank gave the payment back to %(customer)s."),
        P.API: _Cell("The bank gave the payment back to %(customer)s."),
        P.ADMIN: _Cell("The chargeback was lost."),
    },
}

_ANSWERED: Mapping[Party, _Cell] = {
    P.CUSTOMER: _Cell("%(staff)s has answered in the dispute.", A.READ_ANSWER),
    P.STAFF: _Cell("%(customer)s has answered in the dispute.", A.READ_ANSWER),
}
"""In an open dispute, in place of the table: the other side has spoken since."""
_TOLD = _Cell(
    "You have told your side. The money stays where it is until we have decided; you can add "
    "something until then."
)
"""In an open dispute, in place of the table: the side has spoken last."""

_ENDED_BY_TRIGGER = {
    Trigger.DECLINE: S.DECLINED,
    Trigger.LOSE_SLOT: S.SLOT_TAKEN,
    Trigger.PARTY_DISABLED: S.ACCOUNT_CLOSED,
    Trigger.RESOLVE_REFUND: S.REFUNDED,
    Trigger.CHARGEBACK_LOST: S.CHARGEBACK_LOST,
}
_CANCELLED_BY = {
    Party.CUSTOMER: S.CANCELLED_BY_CUSTOMER,
    Party.STAFF: S.CANCELLED_BY_STAFF,
}
_PAYOUT_SITUATIONS = {
    PayoutStatus.FROZEN: S.PAYOUT_HELD,
    PayoutStatus.FAILED: S.PAYOUT_FAILED,
    PayoutStatus.PAID: S.PAID_OUT,
}


def guide(
    booking: Booking,
    party: Party,
    now: datetime,
    policy: Policy,
    *,
    has_reviewed: bool = False,
    speakers: Sequence[Party] = (),
) -> Guidance:
    """What a side of a booking is told at `now` (business time). Whoever has reviewed it is asked
    no more. `speakers` has the side of each statement of an open dispute, the oldest first."""
    situation = find_situation(booking, now, policy)
    cell, lead = _TABLE[situation][party], _lead(booking)
    is_heard = (bool(speakers) and speakers[-1] is party) or dispute_respondent(booking) in speakers
    if situation in (S.DISPUTED, S.NO_SHOW):
        cell = _cell_of_dispute(cell, party, speakers)
    sentence = cell.late_sentence if lead is None and cell.late_sentence else cell.sentence
    deadlines = tuple(_deadlines(booking, situation, party, now, policy, is_heard=is_heard))
    action = None if has_reviewed and cell.action is A.REVIEW else cell.action
    return Guidance(situation, sentence, action, deadlines, lead)


def _cell_of_dispute(cell: _Cell, party: Party, speakers: Sequence[Party]) -> _Cell:
    if party not in speakers:
        return cell
    if speakers[-1] is not party:
        return _ANSWERED[party]
    return cell if cell.action is A.REBOOK else _TOLD


def find_situation(booking: Booking, now: datetime, policy: Policy) -> Situation:
    """The situation of a booking at `now` (business time)."""
    match booking.status:
        case BookingStatus.PENDING:
            return S.REQUESTED
        case BookingStatus.ACCEPTED:
            return S.TO_PAY
        case BookingStatus.PAID:
            return _situation_of_paid(booking, now, policy)
        case BookingStatus.COMPLETED:
            if booking.refunded_amount and not booking.payout_amount:
                return S.NOTHING_EARNED
            return _PAYOUT_SITUATIONS.get(booking.payout_status, S.PAYOUT_AHEAD)
        case BookingStatus.DISPUTED:
            if booking.chargeback_status is ChargebackStatus.OPEN:
                return S.CHARGED_BACK
            return S.NO_SHOW if booking.is_no_show else S.DISPUTED
        case BookingStatus.CANCELLED:
            return _situation_of_cancelled(booking)


def _situation_of_paid(booking: Booking, now: datetime, policy: Policy) -> Situation:
    if now >= booking.ends_at:
        return S.TO_CONFIRM
    if booking.checked_in_at is not None:
        return S.CHECKED_IN
    if now >= booking.starts_at + policy.no_show_after:
        return S.NOT_CHECKED_IN
    return S.CHECK_IN_OPEN if now >= booking.starts_at - policy.check_in_lead else S.CONFIRMED


def _situation_of_cancelled(booking: Booking) -> Situation:
    ending = next(
        (entry for entry in reversed(booking.timeline) if entry.to is BookingStatus.CANCELLED), None
    )
    if ending is None:
        return S.CANCELLED_BY_ADMIN
    if ending.trigger is Trigger.EXPIRE:
        return S.UNPAID if ending.was is BookingStatus.ACCEPTED else S.UNANSWERED
    if ending.trigger in _ENDED_BY_TRIGGER:
        return _ENDED_BY_TRIGGER[ending.trigger]
    return _CANCELLED_BY.get(ending.actor, S.CANCELLED_BY_ADMIN)


def _deadlines(
    booking: Booking,
    situation: Situation,
    party: Party,
    now: datetime,
    policy: Policy,
    *,
    is_heard: bool,
) -> list[Deadline]:
    """The deadlines ahead, the next first."""
    paid_ahead = situation in (S.CONFIRMED, S.CHECK_IN_OPEN)
    payout_due = booking.payout_due_at if situation is S.PAYOUT_AHEAD else None
    times: Mapping[DeadlineKind, datetime | None] = {
        DeadlineKind.ANSWER_BY: timer_time(booking, TimerKind.EXPIRE, policy)
        if situation is S.REQUESTED
        else None,
        DeadlineKind.PAY_BY: timer_time(booking, TimerKind.EXPIRE, policy)
        if situation is S.TO_PAY
        else None,
        DeadlineKind.CHECK_IN_FROM: booking.starts_at - policy.check_in_lead
        if paid_ahead and party is Party.STAFF
        else None,
        DeadlineKind.COMPLETES_AT: timer_time(booking, TimerKind.AUTO_COMPLETE, policy)
        if situation is S.TO_CONFIRM
        else None,
        DeadlineKind.PAYOUT_AT: payout_due if party in (Party.STAFF, Party.ADMIN) else None,
        DeadlineKind.HEARD_UNTIL if is_heard else DeadlineKind.RESPOND_BY: timer_time(
            booking, TimerKind.DISPUTE_OVERDUE, policy
        ),
    }
    ahead = [Deadline(kind, at) for kind, at in times.items() if at is not None and at > now]
    return sorted(ahead, key=lambda deadline: deadline.at)


def _lead(booking: Booking) -> timedelta | None:
    cancelled_at = booking.cancelled_at
    if cancelled_at is None or cancelled_at >= booking.starts_at:
        return None
    return booking.starts_at - cancelled_at
