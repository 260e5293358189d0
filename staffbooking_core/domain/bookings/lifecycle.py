"""The lifecycle of a booking: one table, and nothing else decides.

Two rules hold for this file. Everything that may follow a status stands here, and
only `moves.advance` reads it. A move that is not in the table does not exist:
asking for it is one typed error, and changes nothing.

How to read the table: status -> trigger -> who may, what must hold, the next status,
what happens with it, and the event that tells of it. A row that leads back to its own
status is a fact that is noted without a change of status. `page()` writes the page
`docs/lifecycle.md`.
"""

from __future__ import annotations

from enum import StrEnum

from attrs import frozen


class BookingStatus(StrEnum):
    """SPECIFICATION 3."""

    PENDING = "pending"
    ACCEPTED = "accepted"
    PAID = "paid"
    COMPLETED = "completed"
    CANCELLED = "cancelled"
    DISPUTED = "disputed"


class Party(StrEnum):
    """On whose behalf a trigger comes; what the timeline shows as `actor`."""

    CUSTOMER = "customer"
    STAFF = "staff"
    API = "api"
    SYSTEM = "system"
    ADMIN = "admin"
    PROCESSOR = "processor"


class Trigger(StrEnum):
    REQUEST = "request"
    ACCEPT = "accept"
    DECLINE = "decline"
    LOSE_SLOT = "slot_taken"
    EXPIRE = "expire"
    CHECKOUT = "checkout"
    PAYMENT = "payment_succeeded"
    CHECK_IN = "check_in"
    CANCEL = "cancel"
    CONFIRM = "confirm"
    AUTO_COMPLETE = "auto_complete"
    RELEASE_PAYOUT = "release_payout"
    HOLD_PAYOUT = "hold_payout"
    RESUME_PAYOUT = "resume_payout"
    RETRY_PAYOUT = "retry_payout"
    PAYOUT_ALARM = "payout_alarm"
    DISPUTE = "dispute"
    RELEASE = "resolve_release"
    REFUND = "resolve_refund"
    SPLIT = "resolve_split"
    CHARGEBACK = "chargeback"
    CHARGEBACK_WON = "chargeback_won"
    CHARGEBACK_LOST = "chargeback_lost"


class Guard(StrEnum):
    """What must hold besides status and side; the value is the code of its refusal."""

    BEFORE_START = "event_started"
    CANCELLABLE = "booking_not_cancellable"
    AFTER_START = "event_not_started"
    AFTER_END = "event_not_ended"
    CHECK_IN_OPEN = "check_in_not_open"
    PAYOUT_NOT_RELEASED = "payout_released"
    NO_CHARGEBACK = "chargeback_open"
    CHARGEBACK_OPEN = "no_chargeback_open"
    PAYOUT_SCHEDULED = "payout_not_scheduled"
    PAYOUT_PENDING = "payout_not_pending"
    PAYOUT_ON_HOLD = "payout_not_on_hold"
    PAYOUT_FAILED = "payout_not_failed"


class Effect(StrEnum):
    """What a move brings about; `effects` has one function for each."""

    OPEN_INTENT = "create the payment intent, open the hosted checkout"
    RENEW_CHECKOUT = "open the hosted checkout anew where it has lapsed"
    VOID_INTENT = "void the payment intent, close the checkout"
    HOLD_ESCROW = "hold the payment in escrow"
    REFUND_LATE = "refund this payment in full"
    NOTE_CHECK_IN = "note the check-in"
    EARN = "take the fee, schedule the payout"
    REFUND_BY_RULE = "refund by the cancellation table, the rest is earned"
    REFUND_FULL = "refund everything"
    REFUND_PART = "refund the part, the rest is earned"
    FREEZE = "freeze the payout, take the money back into escrow"
    NOTE_CHARGEBACK = "note the chargeback"
    LOSE_CHARGEBACK = "the processor has taken the money back, the rest is earned"
    WRITE_OFF = "write the lost money off"
    SEND_PAYOUT = "send the payout"
    HOLD_PAYOUT = "hold the payout back"
    RESUME_PAYOUT = "schedule the payout anew"
    NOTE_ALARM = "tell the operators that the payout is about to be late"
    GRANT_CREDIT = "where the staff member cancels: grant a priority rebooking"
    ALERT = "alert the operators"


class EventName(StrEnum):
    """SPECIFICATION 6.1."""

    BOOKING_CREATED = "booking.created"
    BOOKING_COMPLETED = "booking.completed"
    BOOKING_CANCELLED = "booking.cancelled"
    PAYMENT_COMPLETED = "payment.completed"
    REVIEW_CREATED = "review.created"


@frozen
class Transition:
    allowed_parties: frozenset[Party]
    to_status: BookingStatus
    guards: tuple[Guard, ...] = ()
    effects: tuple[Effect, ...] = ()
    event: EventName | None = None


S, T, G, E = BookingStatus, Trigger, Guard, Effect


def _party_set(*parties: Party) -> frozenset[Party]:
    return frozenset(parties)


STAFF_ONLY = _party_set(Party.STAFF)
CUSTOMER_ONLY = _party_set(Party.CUSTOMER)
CUSTOMER_OR_STAFF = _party_set(Party.CUSTOMER, Party.STAFF)
CUSTOMER_STAFF_OR_ADMIN = CUSTOMER_OR_STAFF | _party_set(Party.ADMIN)
ADMIN_ONLY = _party_set(Party.ADMIN)
SYSTEM_ONLY = _party_set(Party.SYSTEM)
PROCESSOR_ONLY = _party_set(Party.PROCESSOR)

_COMPLETED_EVENT = EventName.BOOKING_COMPLETED
_CANCELLED_EVENT = EventName.BOOKING_CANCELLED

REQUEST_TRANSITION = Transition(
    _party_set(Party.CUSTOMER, Party.API),
    S.PENDING,
    event=EventName.BOOKING_CREATED,
)
"""How a booking comes into being: the only move that starts from nothing."""

_LATE_PAYMENT_EFFECTS = (E.REFUND_LATE, E.ALERT)


def _payout_transitions(status: BookingStatus) -> dict[Trigger, Transition]:
    """What may become of the payout of a booking that has ended, one way or the other."""
    return {
        T.RELEASE_PAYOUT: Transition(SYSTEM_ONLY, status, (G.PAYOUT_SCHEDULED,), (E.SEND_PAYOUT,)),
        T.PAYOUT_ALARM: Transition(SYSTEM_ONLY, status, (G.PAYOUT_PENDING,), (E.NOTE_ALARM,)),
        T.HOLD_PAYOUT: Transition(ADMIN_ONLY, status, (G.PAYOUT_PENDING,), (E.HOLD_PAYOUT,)),
        T.RESUME_PAYOUT: Transition(ADMIN_ONLY, status, (G.PAYOUT_ON_HOLD,), (E.RESUME_PAYOUT,)),
        T.RETRY_PAYOUT: Transition(ADMIN_ONLY, status, (G.PAYOUT_FAILED,), (E.SEND_PAYOUT,)),
    }


_CHARGEBACK_TRANSITION = Transition(
    PROCESSOR_ONLY, S.DISPUTED, (), (E.FREEZE, E.NOTE_CHARGEBACK, E.ALERT)
)

TRANSITIONS: dict[BookingStatus, dict[Trigger, Transition]] = {
    S.PENDING: {
        T.ACCEPT: Transition(STAFF_ONLY, S.ACCEPTED, (G.BEFORE_START,), (E.OPEN_INTENT,)),
        T.DECLINE: Transition(STAFF_ONLY, S.CANCELLED, event=_CANCELLED_EVENT),
        T.LOSE_SLOT: Transition(SYSTEM_ONLY, S.CANCELLED, event=_CANCELLED_EVENT),
        T.EXPIRE: Transition(SYSTEM_ONLY, S.CANCELLED, event=_CANCELLED_EVENT),
        T.CANCEL: Transition(CUSTOMER_STAFF_OR_ADMIN, S.CANCELLED, event=_CANCELLED_EVENT),
    },
    S.ACCEPTED: {
        T.CHECKOUT: Transition(CUSTOMER_ONLY, S.ACCEPTED, (G.BEFORE_START,), (E.RENEW_CHECKOUT,)),
        T.PAYMENT: Transition(
            PROCESSOR_ONLY, S.PAID, (), (E.HOLD_ESCROW,), event=EventName.PAYMENT_COMPLETED
        ),
        T.EXPIRE: Transition(
            SYSTEM_ONLY, S.CANCELLED, (), (E.VOID_INTENT,), event=_CANCELLED_EVENT
        ),
        T.CANCEL: Transition(
            CUSTOMER_STAFF_OR_ADMIN,
            S.CANCELLED,
            (),
            (E.VOID_INTENT, E.GRANT_CREDIT),
            event=_CANCELLED_EVENT,
        ),
    },
    S.PAID: {
        T.CHECK_IN: Transition(STAFF_ONLY, S.PAID, (G.CHECK_IN_OPEN,), (E.NOTE_CHECK_IN,)),
        T.CANCEL: Transition(
            CUSTOMER_STAFF_OR_ADMIN,
            S.CANCELLED,
            (G.CANCELLABLE,),
            (E.REFUND_BY_RULE, E.GRANT_CREDIT),
            event=_CANCELLED_EVENT,
        ),
        T.CONFIRM: Transition(
            CUSTOMER_ONLY, S.COMPLETED, (G.AFTER_END,), (E.EARN,), event=_COMPLETED_EVENT
        ),
        T.AUTO_COMPLETE: Transition(
            SYSTEM_ONLY, S.COMPLETED, (G.AFTER_END,), (E.EARN,), event=_COMPLETED_EVENT
        ),
        T.DISPUTE: Transition(CUSTOMER_OR_STAFF, S.DISPUTED, (G.AFTER_START,)),
        T.CHARGEBACK: _CHARGEBACK_TRANSITION,
        T.PAYMENT: Transition(PROCESSOR_ONLY, S.PAID, (), _LATE_PAYMENT_EFFECTS),
    },
    S.COMPLETED: {
        T.DISPUTE: Transition(CUSTOMER_ONLY, S.DISPUTED, (G.PAYOUT_NOT_RELEASED,), (E.FREEZE,)),
        **_payout_transitions(S.COMPLETED),
        T.CHARGEBACK: _CHARGEBACK_TRANSITION,
        T.PAYMENT: Transition(PROCESSOR_ONLY, S.COMPLETED, (), _LATE_PAYMENT_EFFECTS),
    },
    S.DISPUTED: {
        T.RELEASE: Transition(
            ADMIN_ONLY, S.COMPLETED, (G.NO_CHARGEBACK,), (E.EARN,), event=_COMPLETED_EVENT
        ),
        T.REFUND: Transition(
            ADMIN_ONLY, S.CANCELLED, (G.NO_CHARGEBACK,), (E.REFUND_FULL,), event=_CANCELLED_EVENT
        ),
        T.SPLIT: Transition(
            ADMIN_ONLY, S.COMPLETED, (G.NO_CHARGEBACK,), (E.REFUND_PART,), event=_COMPLETED_EVENT
        ),
        T.CHARGEBACK: Transition(PROCESSOR_ONLY, S.DISPUTED, (), (E.NOTE_CHARGEBACK, E.ALERT)),
        T.CHARGEBACK_WON: Transition(
            PROCESSOR_ONLY,
            S.COMPLETED,
            (G.CHARGEBACK_OPEN,),
            (E.NOTE_CHARGEBACK, E.EARN),
            event=_COMPLETED_EVENT,
        ),
        T.CHARGEBACK_LOST: Transition(
            PROCESSOR_ONLY,
            S.CANCELLED,
            (G.CHARGEBACK_OPEN,),
            (E.NOTE_CHARGEBACK, E.LOSE_CHARGEBACK),
            event=_CANCELLED_EVENT,
        ),
        T.PAYMENT: Transition(PROCESSOR_ONLY, S.DISPUTED, (), _LATE_PAYMENT_EFFECTS),
    },
    S.CANCELLED: {
        T.PAYMENT: Transition(PROCESSOR_ONLY, S.CANCELLED, (), _LATE_PAYMENT_EFFECTS),
        **_payout_transitions(S.CANCELLED),
        T.CHARGEBACK: Transition(PROCESSOR_ONLY, S.CANCELLED, (), (E.NOTE_CHARGEBACK, E.ALERT)),
        T.CHARGEBACK_WON: Transition(PROCESSOR_ONLY, S.CANCELLED, (), (E.NOTE_CHARGEBACK,)),
        T.CHARGEBACK_LOST: Transition(
            PROCESSOR_ONLY, S.CANCELLED, (), (E.NOTE_CHARGEBACK, E.WRITE_OFF, E.ALERT)
        ),
    },
}

REFUSAL_CODES: dict[Trigger, str] = {
    T.ACCEPT: "booking_not_pending",
    T.DECLINE: "booking_not_pending",
    T.LOSE_SLOT: "booking_not_pending",
    T.EXPIRE: "booking_not_expirable",
    T.CHECKOUT: "booking_not_accepted",
    T.PAYMENT: "booking_not_accepted",
    T.CHECK_IN: "booking_not_paid",
    T.CANCEL: "booking_not_cancellable",
    T.CONFIRM: "booking_not_paid",
    T.AUTO_COMPLETE: "booking_not_paid",
    T.RELEASE_PAYOUT: "payout_not_scheduled",
    T.HOLD_PAYOUT: "payout_not_pending",
    T.RESUME_PAYOUT: "payout_not_on_hold",
    T.RETRY_PAYOUT: "payout_not_failed",
    T.PAYOUT_ALARM: "payout_not_pending",
    T.DISPUTE: "booking_not_disputable",
    T.RELEASE: "booking_not_disputed",
    T.REFUND: "booking_not_disputed",
    T.SPLIT: "booking_not_disputed",
    T.CHARGEBACK: "booking_not_paid",
    T.CHARGEBACK_WON: "no_chargeback_open",
    T.CHARGEBACK_LOST: "no_chargeback_open",
}
"""The code of the refusal where a status has no row for the trigger."""


def find_allowed_parties(trigger: Trigger) -> frozenset[Party]:
    """Everyone who may pull this trigger in some status."""
    rows = (moves[trigger].allowed_parties for moves in TRANSITIONS.values() if trigger in moves)
    return frozenset().union(*rows)


SLOT_HOLDING_STATUSES = frozenset({S.ACCEPTED, S.PAID, S.DISPUTED})
"""Statuses in which no other booking of the companion may overlap (CONTRACT 4)."""

CONFIRMED_STATUSES = frozenset({S.ACCEPTED, S.PAID, S.COMPLETED, S.DISPUTED})
"""Statuses after the staff member's acceptance, unless the booking was cancelled."""

ENDED_STATUSES = frozenset({S.COMPLETED, S.CANCELLED})
"""Statuses in which the escrow is shared out; only a dispute or a chargeback leads out of them."""


def _join_names(names: frozenset[Party] | tuple[StrEnum, ...]) -> str:
    return ", ".join(sorted(names) if isinstance(names, frozenset) else names) or "-"


def render_lifecycle_page() -> str:
    """The page docs/lifecycle.md: the table for reading, and its picture."""
    rows = [
        (status, trigger, move)
        for status, moves in TRANSITIONS.items()
        for trigger, move in moves.items()
    ]
    lines = [
        "# The lifecycle of a booking",
        "",
        "Generated from the table in `staffbooking_core/domain/bookings/lifecycle.py`;",
        "`make check` compares them.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        f"    [*] --> {REQUEST_TRANSITION.to_status}: {Trigger.REQUEST}",
        *(
            f"    {was} --> {move.to_status}: {trigger}"
            for was, trigger, move in rows
            if was != move.to_status
        ),
        "```",
        "",
        "| From | Trigger | By | Refused with | To | Effects | Event |",
        "|---|---|---|---|---|---|---|",
        f"| (none) | {Trigger.REQUEST} | {_join_names(REQUEST_TRANSITION.allowed_parties)} | - | {REQUEST_TRANSITION.to_status} | - "
        f"| {REQUEST_TRANSITION.event} |",
        *(
            f"| {was} | {trigger} | {_join_names(move.allowed_parties)} | {_join_names(move.guards)} | {move.to_status} "
            f"| {_join_names(move.effects)} | {move.event or '-'} |"
            for was, trigger, move in rows
        ),
        "",
        "Any other pair of status and trigger is refused, and nothing changes:",
        "",
        "| Trigger | Code |",
        "|---|---|",
        *(f"| {trigger} | `{code}` |" for trigger, code in REFUSAL_CODES.items()),
    ]
    return "\n".join(lines)
