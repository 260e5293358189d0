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


class Status(StrEnum):
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
class Move:
    by: frozenset[Party]
    to: Status
    guards: tuple[Guard, ...] = ()
    effects: tuple[Effect, ...] = ()
    event: EventName | None = None


S, T, G, E = Status, Trigger, Guard, Effect


def _by(*parties: Party) -> frozenset[Party]:
    return frozenset(parties)


STAFF = _by(Party.STAFF)
CUSTOMER = _by(Party.CUSTOMER)
PARTIES = _by(Party.CUSTOMER, Party.STAFF)
PARTIES_OR_ADMIN = PARTIES | _by(Party.ADMIN)
ADMIN = _by(Party.ADMIN)
SYSTEM = _by(Party.SYSTEM)
PROCESSOR = _by(Party.PROCESSOR)

_COMPLETED = EventName.BOOKING_COMPLETED
_CANCELLED = EventName.BOOKING_CANCELLED

REQUESTED = Move(
    _by(Party.CUSTOMER, Party.API),
    S.PENDING,
    event=EventName.BOOKING_CREATED,
)
"""How a booking comes into being: the only move that starts from nothing."""

_LATE_PAYMENT = (E.REFUND_LATE, E.ALERT)


def _payout_moves(at: Status) -> dict[Trigger, Move]:
    """What may become of the payout of a booking that has ended, one way or the other."""
    return {
        T.RELEASE_PAYOUT: Move(SYSTEM, at, (G.PAYOUT_SCHEDULED,), (E.SEND_PAYOUT,)),
        T.PAYOUT_ALARM: Move(SYSTEM, at, (G.PAYOUT_PENDING,), (E.NOTE_ALARM,)),
        T.HOLD_PAYOUT: Move(ADMIN, at, (G.PAYOUT_PENDING,), (E.HOLD_PAYOUT,)),
        T.RESUME_PAYOUT: Move(ADMIN, at, (G.PAYOUT_ON_HOLD,), (E.RESUME_PAYOUT,)),
        T.RETRY_PAYOUT: Move(ADMIN, at, (G.PAYOUT_FAILED,), (E.SEND_PAYOUT,)),
    }


_CHARGED_BACK = Move(PROCESSOR, S.DISPUTED, (), (E.FREEZE, E.NOTE_CHARGEBACK, E.ALERT))

TABLE: dict[Status, dict[Trigger, Move]] = {
    S.PENDING: {
        T.ACCEPT: Move(STAFF, S.ACCEPTED, (G.BEFORE_START,), (E.OPEN_INTENT,)),
        T.DECLINE: Move(STAFF, S.CANCELLED, event=_CANCELLED),
        T.LOSE_SLOT: Move(SYSTEM, S.CANCELLED, event=_CANCELLED),
        T.EXPIRE: Move(SYSTEM, S.CANCELLED, event=_CANCELLED),
        T.CANCEL: Move(PARTIES_OR_ADMIN, S.CANCELLED, event=_CANCELLED),
    },
    S.ACCEPTED: {
        T.CHECKOUT: Move(CUSTOMER, S.ACCEPTED, (G.BEFORE_START,), (E.RENEW_CHECKOUT,)),
        T.PAYMENT: Move(PROCESSOR, S.PAID, (), (E.HOLD_ESCROW,), event=EventName.PAYMENT_COMPLETED),
        T.EXPIRE: Move(SYSTEM, S.CANCELLED, (), (E.VOID_INTENT,), event=_CANCELLED),
        T.CANCEL: Move(
            PARTIES_OR_ADMIN,
            S.CANCELLED,
            (),
            (E.VOID_INTENT, E.GRANT_CREDIT),
            event=_CANCELLED,
        ),
    },
    S.PAID: {
        T.CHECK_IN: Move(STAFF, S.PAID, (G.CHECK_IN_OPEN,), (E.NOTE_CHECK_IN,)),
        T.CANCEL: Move(
            PARTIES_OR_ADMIN,
            S.CANCELLED,
            (G.CANCELLABLE,),
            (E.REFUND_BY_RULE, E.GRANT_CREDIT),
            event=_CANCELLED,
        ),
        T.CONFIRM: Move(CUSTOMER, S.COMPLETED, (G.AFTER_END,), (E.EARN,), event=_COMPLETED),
        T.AUTO_COMPLETE: Move(SYSTEM, S.COMPLETED, (G.AFTER_END,), (E.EARN,), event=_COMPLETED),
        T.DISPUTE: Move(PARTIES, S.DISPUTED, (G.AFTER_START,)),
        T.CHARGEBACK: _CHARGED_BACK,
        T.PAYMENT: Move(PROCESSOR, S.PAID, (), _LATE_PAYMENT),
    },
    S.COMPLETED: {
        T.DISPUTE: Move(CUSTOMER, S.DISPUTED, (G.PAYOUT_NOT_RELEASED,), (E.FREEZE,)),
        **_payout_moves(S.COMPLETED),
        T.CHARGEBACK: _CHARGED_BACK,
        T.PAYMENT: Move(PROCESSOR, S.COMPLETED, (), _LATE_PAYMENT),
    },
    S.DISPUTED: {
        T.RELEASE: Move(ADMIN, S.COMPLETED, (G.NO_CHARGEBACK,), (E.EARN,), event=_COMPLETED),
        T.REFUND: Move(ADMIN, S.CANCELLED, (G.NO_CHARGEBACK,), (E.REFUND_FULL,), event=_CANCELLED),
        T.SPLIT: Move(ADMIN, S.COMPLETED, (G.NO_CHARGEBACK,), (E.REFUND_PART,), event=_COMPLETED),
        T.CHARGEBACK: Move(PROCESSOR, S.DISPUTED, (), (E.NOTE_CHARGEBACK, E.ALERT)),
        T.CHARGEBACK_WON: Move(
            PROCESSOR,
            S.COMPLETED,
            (G.CHARGEBACK_OPEN,),
            (E.NOTE_CHARGEBACK, E.EARN),
            event=_COMPLETED,
        ),
        T.CHARGEBACK_LOST: Move(
            PROCESSOR,
            S.CANCELLED,
            (G.CHARGEBACK_OPEN,),
            (E.NOTE_CHARGEBACK, E.LOSE_CHARGEBACK),
            event=_CANCELLED,
        ),
        T.PAYMENT: Move(PROCESSOR, S.DISPUTED, (), _LATE_PAYMENT),
    },
    S.CANCELLED: {
        T.PAYMENT: Move(PROCESSOR, S.CANCELLED, (), _LATE_PAYMENT),
        **_payout_moves(S.CANCELLED),
        T.CHARGEBACK: Move(PROCESSOR, S.CANCELLED, (), (E.NOTE_CHARGEBACK, E.ALERT)),
        T.CHARGEBACK_WON: Move(PROCESSOR, S.CANCELLED, (), (E.NOTE_CHARGEBACK,)),
        T.CHARGEBACK_LOST: Move(
            PROCESSOR, S.CANCELLED, (), (E.NOTE_CHARGEBACK, E.WRITE_OFF, E.ALERT)
        ),
    },
}

NOT_NOW: dict[Trigger, str] = {
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


def who_may(trigger: Trigger) -> frozenset[Party]:
    """Everyone who may pull this trigger in some status."""
    rows = (moves[trigger].by for moves in TABLE.values() if trigger in moves)
    return frozenset().union(*rows)


HOLDS_SLOT = frozenset({S.ACCEPTED, S.PAID, S.DISPUTED})
"""Statuses in which no other booking of the companion may overlap (CONTRACT 4)."""


def _words(names: frozenset[Party] | tuple[StrEnum, ...]) -> str:
    return ", ".join(sorted(names) if isinstance(names, frozenset) else names) or "-"


def page() -> str:
    """The page docs/lifecycle.md: the table for reading, and its picture."""
    rows = [
        (status, trigger, move)
        for status, moves in TABLE.items()
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
        f"    [*] --> {REQUESTED.to}: {Trigger.REQUEST}",
        *(f"    {was} --> {move.to}: {trigger}" for was, trigger, move in rows if was != move.to),
        "```",
        "",
        "| From | Trigger | By | Refused with | To | Effects | Event |",
        "|---|---|---|---|---|---|---|",
        f"| (none) | {Trigger.REQUEST} | {_words(REQUESTED.by)} | - | {REQUESTED.to} | - "
        f"| {REQUESTED.event} |",
        *(
            f"| {was} | {trigger} | {_words(move.by)} | {_words(move.guards)} | {move.to} "
            f"| {_words(move.effects)} | {move.event or '-'} |"
            for was, trigger, move in rows
        ),
        "",
        "Any other pair of status and trigger is refused, and nothing changes:",
        "",
        "| Trigger | Code |",
        "|---|---|",
        *(f"| {trigger} | `{code}` |" for trigger, code in NOT_NOW.items()),
    ]
    return "\n".join(lines)
