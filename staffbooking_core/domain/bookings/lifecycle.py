"""The lifecycle of a booking: one table of all transitions.

A transition that is not in the table does not exist: requesting it raises one typed error and
changes nothing. Payment and payout have tables of their own (`payment_lifecycle`,
`payout_lifecycle`); `lifecycle_page` draws all three.

The table maps status -> trigger -> transition: allowed parties, next status, guards, effects,
published event, notifications, and the timer that fires it. A transition to its own status records
a fact without a change of status.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen

__all__ = ["BookingStatus", "EventName", "Party", "TimerKind", "Trigger"]


class BookingStatus(StrEnum):
    """Statuses of a booking (SPECIFICATION 3)."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    PAID = "paid"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DISPUTED = "disputed"


class Party(StrEnum):
    """The party that causes a trigger; `actor` in the timeline."""

    CUSTOMER = "customer"
    STAFF = "staff"
    API = "api"
    SYSTEM = "system"
    ADMIN = "admin"
    PROCESSOR = "processor"


class Trigger(StrEnum):
    """Causes of transitions."""

    REQUEST = "request"
    ACCEPT = "accept"
    DECLINE = "decline"
    LOSE_SLOT = "slot_taken"
    PARTY_DISABLED = "party_disabled"
    EXPIRE = "expire"
    CHECKOUT = "checkout"
    PAYMENT = "payment_succeeded"
    CHECK_IN = "check_in"
    CANCEL = "cancel"
    REMIND = "remind"
    ASK_CHECK_IN = "ask_check_in"
    CONFIRM = "confirm"
    AUTO_COMPLETE = "auto_complete"
    SEND_PAYOUT = "release_payout"
    HOLD_PAYOUT = "hold_payout"
    LIFT_PAYOUT_HOLD = "resume_payout"
    RETRY_PAYOUT = "retry_payout"
    PAYOUT_ALARM = "payout_alarm"
    DISPUTE = "dispute"
    NO_SHOW = "no_show"
    WITHDRAW = "withdraw"
    DISPUTE_OVERDUE = "dispute_overdue"
    RESOLVE_RELEASE = "resolve_release"
    RESOLVE_REFUND = "resolve_refund"
    RESOLVE_SPLIT = "resolve_split"
    CHARGEBACK = "chargeback"
    CHARGEBACK_WON = "chargeback_won"
    CHARGEBACK_LOST = "chargeback_lost"


class Guard(StrEnum):
    """Conditions besides status and party; the value is the error code of the refusal."""

    BEFORE_START = "event_started"
    CANCELLABLE = "booking_not_cancellable"
    AFTER_START = "event_not_started"
    AFTER_END = "event_not_ended"
    CHECK_IN_OPEN = "check_in_not_open"
    NOT_CHECKED_IN = "already_checked_in"
    NO_SHOW_OPEN = "no_show_not_open"
    TIMER_DUE = "timer_not_due"
    DISPUTE_OPENER = "wrong_party"
    CREDIT_UNUSED = "rebooking_used"
    PAYOUT_NOT_RELEASED = "payout_released"
    NO_CHARGEBACK = "chargeback_open"
    CHARGEBACK_OPEN = "no_chargeback_open"
    PAYOUT_SCHEDULED = "payout_not_scheduled"
    PAYOUT_PENDING = "payout_not_pending"
    PAYOUT_ON_HOLD = "payout_not_on_hold"
    PAYOUT_FAILED = "payout_not_failed"


class Effect(StrEnum):
    """Effects of a transition; `effects` has one function for each."""

    OPEN_INTENT = "create the payment intent, open the hosted checkout"
    RENEW_CHECKOUT = "reopen the hosted checkout if it has expired"
    VOID_INTENT = "void the payment intent, close the checkout"
    HOLD_ESCROW = "hold the payment in escrow"
    REFUND_LATE = "refund this payment in full"
    NOTE_CHECK_IN = "record the check-in"
    NOTE_REMINDER = "record the reminder"
    NOTE_OVERDUE = "alert the operators that the dispute is overdue"
    EARN_AGAIN = "where it was completed: divide the escrow again, the payout resumes"
    EARN = "take the fee, schedule the payout"
    REFUND_BY_RULE = "refund what was paid by the cancellation table, the rest is earned"
    REFUND_FULL = "refund everything"
    REFUND_PART = "refund the part, the rest is earned"
    FREEZE = "freeze the payout, take the money back into escrow"
    NOTE_CHARGEBACK = "record the chargeback"
    LOSE_CHARGEBACK = "the processor has taken the money back, the rest is earned"
    WRITE_OFF = "write off the lost amount"
    SEND_PAYOUT = "send the payout"
    HOLD_PAYOUT = "put the payout on hold"
    RESUME_PAYOUT = "reschedule the payout"
    NOTE_ALARM = "alert the operators that the payout is nearly late"
    GRANT_CREDIT = (
        "where the staff member cancels, is absent or is disabled: grant a priority rebooking"
    )
    ALERT = "alert the operators"


class BookingNotification(StrEnum):
    """Notifications of a transition; `notifications` has one function for each."""

    REQUEST_TO_STAFF = "request to the staff member"
    ACCEPTANCE_TO_CUSTOMER = "acceptance to the customer"
    CONFIRMATION_TO_STAFF = "confirmation to the staff member"
    RECEIPT_TO_CUSTOMER = "receipt to the customer"
    CANCELLATION_TO_CUSTOMER = "cancellation to the customer (if not by them)"
    CANCELLATION_TO_STAFF = "cancellation to the staff member (if not by them)"
    DISPUTE_TO_CUSTOMER = "dispute to the customer"
    DISPUTE_TO_STAFF = "dispute to the staff member"
    NO_SHOW_TO_STAFF = "reported absence to the staff member"
    WITHDRAWAL_TO_CUSTOMER = "withdrawn dispute to the customer (if not by them)"
    WITHDRAWAL_TO_STAFF = "withdrawn dispute to the staff member (if not by them)"
    RESOLUTION_TO_CUSTOMER = "decided dispute to the customer"
    RESOLUTION_TO_STAFF = "decided dispute to the staff member"
    REMINDER_TO_CUSTOMER = "reminder to the customer"
    REMINDER_TO_STAFF = "reminder to the staff member"
    QUESTION_TO_CUSTOMER = "missing check-in to the customer"
    QUESTION_TO_STAFF = "missing check-in to the staff member"
    PAYOUT_TO_STAFF = "payout to the staff member"


class TimerKind(StrEnum):
    """Timers of a booking; `timers.next_timer` computes the time."""

    EXPIRE = "expire"
    REMIND = "remind"
    ASK_CHECK_IN = "ask_check_in"
    AUTO_COMPLETE = "auto_complete"
    DISPUTE_OVERDUE = "dispute_overdue"
    PAY_OUT = "pay_out"
    PAYOUT_ALARM = "payout_alarm"


class EventName(StrEnum):
    """Names of events: the five of SPECIFICATION 6.1, then those by choice (CONTRACT 10)."""

    BOOKING_CREATED = "booking.created"
    BOOKING_COMPLETED = "booking.completed"
    BOOKING_CANCELLED = "booking.cancelled"
    PAYMENT_COMPLETED = "payment.completed"
    REVIEW_CREATED = "review.created"
    BOOKING_ACCEPTED = "booking.accepted"
    BOOKING_DISPUTED = "booking.disputed"
    BOOKING_UPDATED = "booking.updated"
    PAYMENT_REFUNDED = "payment.refunded"
    PAYOUT_PAID = "payout.paid"
    PAYOUT_FAILED = "payout.failed"


@frozen
class Transition:
    """One row of the lifecycle table."""

    allowed_parties: frozenset[Party]
    to_status: BookingStatus
    guards: tuple[Guard, ...] = ()
    effects: tuple[Effect, ...] = ()
    event: EventName | None = None
    notifications: tuple[BookingNotification, ...] = ()
    timer: TimerKind | None = None
    """The timer that fires this transition."""
    returns_to: BookingStatus | None = None
    """The next status, in place of `to_status`, of a booking that was in it before."""

    def next_status(self, previous: BookingStatus | None) -> BookingStatus:
        """The next status of a booking that had the status `previous` before its present one."""
        return previous if previous is not None and previous is self.returns_to else self.to_status


class MissingTransition(Exception):
    """A payment or payout has no transition for a trigger: a defect of this program."""


S, T, G, E, N = BookingStatus, Trigger, Guard, Effect, BookingNotification


def _party_set(*parties: Party) -> frozenset[Party]:
    return frozenset(parties)


_STAFF_ONLY = _party_set(Party.STAFF)
_CUSTOMER_ONLY = _party_set(Party.CUSTOMER)
_CUSTOMER_OR_STAFF = _party_set(Party.CUSTOMER, Party.STAFF)
_CUSTOMER_STAFF_OR_ADMIN = _CUSTOMER_OR_STAFF | _party_set(Party.ADMIN)
_ADMIN_ONLY = _party_set(Party.ADMIN)
_SYSTEM_ONLY = _party_set(Party.SYSTEM)
_SYSTEM_OR_ADMIN = _SYSTEM_ONLY | _ADMIN_ONLY
_PROCESSOR_ONLY = _party_set(Party.PROCESSOR)

REQUEST_TRANSITION = Transition(
    _party_set(Party.CUSTOMER, Party.API),
    S.PENDING,
    event=EventName.BOOKING_CREATED,
    notifications=(N.REQUEST_TO_STAFF,),
)
"""The first transition of every booking; it has no previous status."""


def _cancellation(
    parties: frozenset[Party],
    guards: tuple[Guard, ...] = (),
    effects: tuple[Effect, ...] = (),
    timer: TimerKind | None = None,
) -> Transition:
    notifications = (N.CANCELLATION_TO_CUSTOMER, N.CANCELLATION_TO_STAFF)
    event = EventName.BOOKING_CANCELLED
    return Transition(parties, S.CANCELLED, guards, effects, event, notifications, timer)


def _completion(parties: frozenset[Party], timer: TimerKind | None = None) -> Transition:
    event = EventName.BOOKING_COMPLETED
    return Transition(parties, S.COMPLETED, (G.AFTER_END,), (E.EARN,), event, timer=timer)


def _resolution(parties: frozenset[Party], guard: Guard, effects: tuple[Effect, ...]) -> Transition:
    notifications = (N.RESOLUTION_TO_CUSTOMER, N.RESOLUTION_TO_STAFF)
    event = EventName.BOOKING_COMPLETED
    return Transition(parties, S.COMPLETED, (guard,), effects, event, notifications)


def _dispute(
    parties: frozenset[Party],
    guards: tuple[Guard, ...] = (),
    effects: tuple[Effect, ...] = (),
) -> Transition:
    notifications = (N.DISPUTE_TO_CUSTOMER, N.DISPUTE_TO_STAFF)
    event = EventName.BOOKING_DISPUTED
    return Transition(parties, S.DISPUTED, guards, effects, event, notifications)


def _late_payment(status: BookingStatus) -> Transition:
    return Transition(_PROCESSOR_ONLY, status, (), (E.REFUND_LATE, E.ALERT))


def _payout_transitions(status: BookingStatus) -> dict[Trigger, Transition]:
    """The transitions of the payout of an ended booking."""
    return {
        T.SEND_PAYOUT: Transition(
            _SYSTEM_ONLY, status, (G.PAYOUT_SCHEDULED,), (E.SEND_PAYOUT,), timer=TimerKind.PAY_OUT
        ),
        T.PAYOUT_ALARM: Transition(
            _SYSTEM_ONLY, status, (G.PAYOUT_PENDING,), (E.NOTE_ALARM,), timer=TimerKind.PAYOUT_ALARM
        ),
        T.HOLD_PAYOUT: Transition(_SYSTEM_OR_ADMIN, status, (G.PAYOUT_PENDING,), (E.HOLD_PAYOUT,)),
        T.LIFT_PAYOUT_HOLD: Transition(
            _ADMIN_ONLY, status, (G.PAYOUT_ON_HOLD,), (E.RESUME_PAYOUT,)
        ),
        T.RETRY_PAYOUT: Transition(_ADMIN_ONLY, status, (G.PAYOUT_FAILED,), (E.SEND_PAYOUT,)),
    }


def _reminder(timer: TimerKind, *notifications: BookingNotification) -> Transition:
    guards, effects = (G.TIMER_DUE,), (E.NOTE_REMINDER,)
    return Transition(_SYSTEM_ONLY, S.PAID, guards, effects, None, notifications, timer)


_CHARGEBACK_TRANSITION = _dispute(_PROCESSOR_ONLY, (), (E.FREEZE, E.NOTE_CHARGEBACK, E.ALERT))

_UNPAID_CANCELLATION_EFFECTS = (E.VOID_INTENT, E.REFUND_BY_RULE, E.GRANT_CREDIT)
_PAID_CANCELLATION_EFFECTS = (E.REFUND_BY_RULE, E.GRANT_CREDIT)

TRANSITIONS: dict[BookingStatus, dict[Trigger, Transition]] = {
    S.PENDING: {
        T.ACCEPT: Transition(
            _STAFF_ONLY,
            S.ACCEPTED,
            (G.BEFORE_START,),
            (E.OPEN_INTENT,),
            EventName.BOOKING_ACCEPTED,
            (N.ACCEPTANCE_TO_CUSTOMER,),
        ),
        T.DECLINE: _cancellation(_STAFF_ONLY),
        T.LOSE_SLOT: _cancellation(_SYSTEM_ONLY),
        T.PARTY_DISABLED: _cancellation(_SYSTEM_ONLY),
        T.EXPIRE: _cancellation(_SYSTEM_ONLY, timer=TimerKind.EXPIRE),
        T.CANCEL: _cancellation(_CUSTOMER_STAFF_OR_ADMIN, (), (E.REFUND_BY_RULE,)),
    },
    S.ACCEPTED: {
        T.CHECKOUT: Transition(_CUSTOMER_ONLY, S.ACCEPTED, (G.BEFORE_START,), (E.RENEW_CHECKOUT,)),
        T.PAYMENT: Transition(
            _PROCESSOR_ONLY,
            S.PAID,
            (),
            (E.HOLD_ESCROW,),
            EventName.PAYMENT_COMPLETED,
            (N.CONFIRMATION_TO_STAFF, N.RECEIPT_TO_CUSTOMER),
        ),
        T.EXPIRE: _cancellation(_SYSTEM_ONLY, (), (E.VOID_INTENT,), TimerKind.EXPIRE),
        T.PARTY_DISABLED: _cancellation(_ADMIN_ONLY, (), _UNPAID_CANCELLATION_EFFECTS),
        T.CANCEL: _cancellation(_CUSTOMER_STAFF_OR_ADMIN, (), _UNPAID_CANCELLATION_EFFECTS),
    },
    S.PAID: {
        T.REMIND: _reminder(TimerKind.REMIND, N.REMINDER_TO_CUSTOMER, N.REMINDER_TO_STAFF),
        T.CHECK_IN: Transition(_STAFF_ONLY, S.PAID, (G.CHECK_IN_OPEN,), (E.NOTE_CHECK_IN,)),
        T.ASK_CHECK_IN: _reminder(
            TimerKind.ASK_CHECK_IN, N.QUESTION_TO_CUSTOMER, N.QUESTION_TO_STAFF
        ),
        T.PARTY_DISABLED: _cancellation(_ADMIN_ONLY, (), _PAID_CANCELLATION_EFFECTS),
        T.CANCEL: _cancellation(
            _CUSTOMER_STAFF_OR_ADMIN, (G.CANCELLABLE,), _PAID_CANCELLATION_EFFECTS
        ),
        T.CONFIRM: _completion(_CUSTOMER_ONLY),
        T.AUTO_COMPLETE: _completion(_SYSTEM_ONLY, TimerKind.AUTO_COMPLETE),
        T.DISPUTE: _dispute(_CUSTOMER_OR_STAFF, (G.AFTER_START,)),
        T.NO_SHOW: Transition(
            _CUSTOMER_ONLY,
            S.DISPUTED,
            (G.NOT_CHECKED_IN, G.NO_SHOW_OPEN),
            (E.GRANT_CREDIT,),
            event=EventName.BOOKING_DISPUTED,
            notifications=(N.DISPUTE_TO_CUSTOMER, N.NO_SHOW_TO_STAFF),
        ),
        T.CHARGEBACK: _CHARGEBACK_TRANSITION,
        T.PAYMENT: _late_payment(S.PAID),
    },
    S.COMPLETED: {
        T.DISPUTE: _dispute(_CUSTOMER_ONLY, (G.PAYOUT_NOT_RELEASED,), (E.FREEZE,)),
        **_payout_transitions(S.COMPLETED),
        T.CHARGEBACK: _CHARGEBACK_TRANSITION,
        T.PAYMENT: _late_payment(S.COMPLETED),
    },
    S.DISPUTED: {
        T.WITHDRAW: Transition(
            _CUSTOMER_OR_STAFF,
            S.PAID,
            (G.DISPUTE_OPENER, G.NO_CHARGEBACK, G.CREDIT_UNUSED),
            (E.EARN_AGAIN,),
            notifications=(N.WITHDRAWAL_TO_CUSTOMER, N.WITHDRAWAL_TO_STAFF),
            returns_to=S.COMPLETED,
        ),
        T.DISPUTE_OVERDUE: Transition(
            _SYSTEM_ONLY,
            S.DISPUTED,
            (G.TIMER_DUE,),
            (E.NOTE_OVERDUE,),
            timer=TimerKind.DISPUTE_OVERDUE,
        ),
        T.RESOLVE_RELEASE: _resolution(_ADMIN_ONLY, G.NO_CHARGEBACK, (E.EARN,)),
        T.RESOLVE_REFUND: _cancellation(_ADMIN_ONLY, (G.NO_CHARGEBACK,), (E.REFUND_FULL,)),
        T.RESOLVE_SPLIT: _resolution(_ADMIN_ONLY, G.NO_CHARGEBACK, (E.REFUND_PART,)),
        T.CHARGEBACK: Transition(_PROCESSOR_ONLY, S.DISPUTED, (), (E.NOTE_CHARGEBACK, E.ALERT)),
        T.CHARGEBACK_WON: _resolution(
            _PROCESSOR_ONLY, G.CHARGEBACK_OPEN, (E.NOTE_CHARGEBACK, E.EARN)
        ),
        T.CHARGEBACK_LOST: _cancellation(
            _PROCESSOR_ONLY, (G.CHARGEBACK_OPEN,), (E.NOTE_CHARGEBACK, E.LOSE_CHARGEBACK)
        ),
        T.PAYMENT: _late_payment(S.DISPUTED),
    },
    S.CANCELLED: {
        T.PAYMENT: _late_payment(S.CANCELLED),
        **_payout_transitions(S.CANCELLED),
        T.CHARGEBACK: Transition(_PROCESSOR_ONLY, S.CANCELLED, (), (E.NOTE_CHARGEBACK, E.ALERT)),
        T.CHARGEBACK_WON: Transition(_PROCESSOR_ONLY, S.CANCELLED, (), (E.NOTE_CHARGEBACK,)),
        T.CHARGEBACK_LOST: Transition(
            _PROCESSOR_ONLY, S.CANCELLED, (), (E.NOTE_CHARGEBACK, E.WRITE_OFF, E.ALERT)
        ),
    },
}

TIMER_TRIGGERS: dict[BookingStatus, dict[TimerKind, Trigger]] = {
    status: {row.timer: trigger for trigger, row in rows.items() if row.timer is not None}
    for status, rows in TRANSITIONS.items()
}
"""By status: the timers in order of precedence, with the trigger that each fires."""

REFUSAL_CODES: dict[Trigger, str] = {
    T.ACCEPT: "booking_not_pending",
    T.DECLINE: "booking_not_pending",
    T.LOSE_SLOT: "booking_not_pending",
    T.PARTY_DISABLED: "booking_not_cancellable",
    T.EXPIRE: "booking_not_expirable",
    T.CHECKOUT: "booking_not_accepted",
    T.PAYMENT: "booking_not_accepted",
    T.CHECK_IN: "booking_not_paid",
    T.CANCEL: "booking_not_cancellable",
    T.REMIND: "booking_not_paid",
    T.ASK_CHECK_IN: "booking_not_paid",
    T.CONFIRM: "booking_not_paid",
    T.AUTO_COMPLETE: "booking_not_paid",
    T.SEND_PAYOUT: "payout_not_scheduled",
    T.HOLD_PAYOUT: "payout_not_pending",
    T.LIFT_PAYOUT_HOLD: "payout_not_on_hold",
    T.RETRY_PAYOUT: "payout_not_failed",
    T.PAYOUT_ALARM: "payout_not_pending",
    T.DISPUTE: "booking_not_disputable",
    T.NO_SHOW: "booking_not_paid",
    T.WITHDRAW: "booking_not_disputed",
    T.DISPUTE_OVERDUE: "booking_not_disputed",
    T.RESOLVE_RELEASE: "booking_not_disputed",
    T.RESOLVE_REFUND: "booking_not_disputed",
    T.RESOLVE_SPLIT: "booking_not_disputed",
    T.CHARGEBACK: "booking_not_paid",
    T.CHARGEBACK_WON: "no_chargeback_open",
    T.CHARGEBACK_LOST: "no_chargeback_open",
}
"""The error code for a trigger that is not possible in the present status."""


def find_allowed_parties(trigger: Trigger) -> frozenset[Party]:
    """The parties that may cause this trigger in any status."""
    rows = (moves[trigger].allowed_parties for moves in TRANSITIONS.values() if trigger in moves)
    return frozenset().union(*rows)


SLOT_HOLDING_STATUSES = frozenset({S.ACCEPTED, S.PAID, S.DISPUTED})
"""Statuses in which no other booking of the companion may overlap (CONTRACT 4)."""

CANCELLABLE_STATUSES = frozenset({S.PENDING, S.ACCEPTED, S.PAID})
"""Statuses that a cancellation ends."""

CONFIRMED_STATUSES = frozenset({S.ACCEPTED, S.PAID, S.COMPLETED, S.DISPUTED})
"""Statuses after the staff member's acceptance, unless the booking was cancelled."""

ENDED_STATUSES = frozenset({S.COMPLETED, S.CANCELLED})
"""Statuses in which the escrow is divided; only a dispute or a chargeback leaves them."""
