"""Every status x trigger x party, compared with the contract's table written by hand."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, POLICY
from staffbooking_core.domain.bookings.booking import PayoutStatus, TransitionInput
from staffbooking_core.domain.bookings.lifecycle import (
    REQUEST_TRANSITION,
    SLOT_HOLDING_STATUSES,
    TIMER_TRIGGERS,
    TRANSITIONS,
    BookingNotification,
    BookingStatus,
    EventName,
    Party,
    TimerKind,
    Trigger,
)
from staffbooking_core.domain.bookings.transitions import apply_transition
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.errors import Forbidden, RuleBroken
from tests.support.booking_journey import JOURNEY_BY_STATUS

S, T, P, N = BookingStatus, Trigger, Party, BookingNotification
BOTH = {P.CUSTOMER, P.STAFF}
ENDED, GONE, MET = (
    EventName.BOOKING_COMPLETED,
    EventName.BOOKING_CANCELLED,
    EventName.PAYMENT_COMPLETED,
)
ACCEPTED, DISPUTED = EventName.BOOKING_ACCEPTED, EventName.BOOKING_DISPUTED

PAYOUTS = {
    T.HOLD_PAYOUT: {P.ADMIN, P.SYSTEM},
    T.LIFT_PAYOUT_HOLD: {P.ADMIN},
    T.RETRY_PAYOUT: {P.ADMIN},
    T.PAYOUT_ALARM: {P.SYSTEM},
}
"""Triggers of a payout after its booking has ended, with the allowed parties."""

CONTRACT = {
    (S.PENDING, T.ACCEPT): ({P.STAFF}, S.ACCEPTED, ACCEPTED),
    (S.PENDING, T.DECLINE): ({P.STAFF}, S.CANCELLED, GONE),
    (S.PENDING, T.LOSE_SLOT): ({P.SYSTEM}, S.CANCELLED, GONE),
    (S.PENDING, T.EXPIRE): ({P.SYSTEM}, S.CANCELLED, GONE),
    (S.PENDING, T.PARTY_DISABLED): ({P.SYSTEM}, S.CANCELLED, GONE),
    (S.PENDING, T.CANCEL): (BOTH | {P.ADMIN}, S.CANCELLED, GONE),
    (S.ACCEPTED, T.CHECKOUT): ({P.CUSTOMER}, S.ACCEPTED, None),
    (S.ACCEPTED, T.PAYMENT): ({P.PROCESSOR}, S.PAID, MET),
    (S.ACCEPTED, T.EXPIRE): ({P.SYSTEM}, S.CANCELLED, GONE),
    (S.ACCEPTED, T.PARTY_DISABLED): ({P.ADMIN}, S.CANCELLED, GONE),
    (S.ACCEPTED, T.CANCEL): (BOTH | {P.ADMIN}, S.CANCELLED, GONE),
    (S.PAID, T.REMIND): ({P.SYSTEM}, S.PAID, None),
    (S.PAID, T.ASK_CHECK_IN): ({P.SYSTEM}, S.PAID, None),
    (S.PAID, T.CHECK_IN): ({P.STAFF}, S.PAID, None),
    (S.PAID, T.PARTY_DISABLED): ({P.ADMIN}, S.CANCELLED, GONE),
    (S.PAID, T.CANCEL): (BOTH | {P.ADMIN}, S.CANCELLED, GONE),
    (S.PAID, T.CONFIRM): ({P.CUSTOMER}, S.COMPLETED, ENDED),
    (S.PAID, T.AUTO_COMPLETE): ({P.SYSTEM}, S.COMPLETED, ENDED),
    (S.PAID, T.DISPUTE): (BOTH, S.DISPUTED, DISPUTED),
    (S.PAID, T.NO_SHOW): ({P.CUSTOMER}, S.DISPUTED, DISPUTED),
    (S.PAID, T.CHARGEBACK): ({P.PROCESSOR}, S.DISPUTED, DISPUTED),
    (S.PAID, T.PAYMENT): ({P.PROCESSOR}, S.PAID, None),
    (S.COMPLETED, T.DISPUTE): ({P.CUSTOMER}, S.DISPUTED, DISPUTED),
    (S.COMPLETED, T.SEND_PAYOUT): ({P.SYSTEM}, S.COMPLETED, None),
    (S.COMPLETED, T.CHARGEBACK): ({P.PROCESSOR}, S.DISPUTED, DISPUTED),
    (S.COMPLETED, T.PAYMENT): ({P.PROCESSOR}, S.COMPLETED, None),
    (S.DISPUTED, T.WITHDRAW): (BOTH, S.PAID, None),
    (S.DISPUTED, T.DISPUTE_OVERDUE): ({P.SYSTEM}, S.DISPUTED, None),
    (S.DISPUTED, T.RESOLVE_RELEASE): ({P.ADMIN}, S.COMPLETED, ENDED),
    (S.DISPUTED, T.RESOLVE_REFUND): ({P.ADMIN}, S.CANCELLED, GONE),
    (S.DISPUTED, T.RESOLVE_SPLIT): ({P.ADMIN}, S.COMPLETED, ENDED),
    (S.DISPUTED, T.CHARGEBACK): ({P.PROCESSOR}, S.DISPUTED, None),
    (S.DISPUTED, T.CHARGEBACK_WON): ({P.PROCESSOR}, S.COMPLETED, ENDED),
    (S.DISPUTED, T.CHARGEBACK_LOST): ({P.PROCESSOR}, S.CANCELLED, GONE),
    (S.DISPUTED, T.PAYMENT): ({P.PROCESSOR}, S.DISPUTED, None),
    (S.CANCELLED, T.PAYMENT): ({P.PROCESSOR}, S.CANCELLED, None),
    (S.CANCELLED, T.SEND_PAYOUT): ({P.SYSTEM}, S.CANCELLED, None),
    **{
        (ended, trigger): (parties, ended, None)
        for ended in (S.COMPLETED, S.CANCELLED)
        for trigger, parties in PAYOUTS.items()
    },
    (S.CANCELLED, T.CHARGEBACK): ({P.PROCESSOR}, S.CANCELLED, None),
    (S.CANCELLED, T.CHARGEBACK_WON): ({P.PROCESSOR}, S.CANCELLED, None),
    (S.CANCELLED, T.CHARGEBACK_LOST): ({P.PROCESSOR}, S.CANCELLED, None),
}
"""(status, trigger) -> the allowed parties, the next status, the event: CONTRACT 4, "The state
machine"."""

CANCELLATION = (N.CANCELLATION_TO_CUSTOMER, N.CANCELLATION_TO_STAFF)
DISPUTE = (N.DISPUTE_TO_CUSTOMER, N.DISPUTE_TO_STAFF)
NOTIFIED = {
    (S.PENDING, T.ACCEPT): (N.ACCEPTANCE_TO_CUSTOMER,),
    (S.ACCEPTED, T.PAYMENT): (N.CONFIRMATION_TO_STAFF, N.RECEIPT_TO_CUSTOMER),
    **{pair: CANCELLATION for pair, (_, _, event) in CONTRACT.items() if event is GONE},
    **{pair: DISPUTE for pair in CONTRACT if pair[1] is T.DISPUTE},
    (S.PAID, T.REMIND): (N.REMINDER_TO_CUSTOMER, N.REMINDER_TO_STAFF),
    (S.PAID, T.ASK_CHECK_IN): (N.QUESTION_TO_CUSTOMER, N.QUESTION_TO_STAFF),
    (S.PAID, T.NO_SHOW): (N.DISPUTE_TO_CUSTOMER, N.NO_SHOW_TO_STAFF),
    (S.DISPUTED, T.WITHDRAW): (N.WITHDRAWAL_TO_CUSTOMER, N.WITHDRAWAL_TO_STAFF),
    **{
        (S.DISPUTED, trigger): (N.RESOLUTION_TO_CUSTOMER, N.RESOLUTION_TO_STAFF)
        for trigger in (T.RESOLVE_RELEASE, T.RESOLVE_SPLIT, T.CHARGEBACK_WON)
    },
    (S.PAID, T.CHARGEBACK): DISPUTE,
    (S.COMPLETED, T.CHARGEBACK): DISPUTE,
}
"""(status, trigger) -> the notifications in their order; other pairs have none."""

PAYOUT_TIMERS = {TimerKind.PAY_OUT: T.SEND_PAYOUT, TimerKind.PAYOUT_ALARM: T.PAYOUT_ALARM}
TIMERS = {
    S.PENDING: {TimerKind.EXPIRE: T.EXPIRE},
    S.ACCEPTED: {TimerKind.EXPIRE: T.EXPIRE},
    S.PAID: {
        TimerKind.REMIND: T.REMIND,
        TimerKind.ASK_CHECK_IN: T.ASK_CHECK_IN,
        TimerKind.AUTO_COMPLETE: T.AUTO_COMPLETE,
    },
    S.COMPLETED: PAYOUT_TIMERS,
    S.DISPUTED: {TimerKind.DISPUTE_OVERDUE: T.DISPUTE_OVERDUE},
    S.CANCELLED: PAYOUT_TIMERS,
}
"""The timers of each status, with their triggers."""

REFUSALS = {
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
VERDICTS = {T.CHARGEBACK_WON: ChargebackStatus.WON, T.CHARGEBACK_LOST: ChargebackStatus.LOST}
WAITING = {T.LIFT_PAYOUT_HOLD: PayoutStatus.FROZEN, T.RETRY_PAYOUT: PayoutStatus.FAILED}
PRODUCT = list(product(BookingStatus, Trigger, Party))


def situation(status, trigger, by):
    """A journey to a status in which all guards hold, and an input with all the data that the
    trigger may need."""
    journey = JOURNEY_BY_STATUS[status]()
    if trigger in VERDICTS and status in (S.DISPUTED, S.CANCELLED):
        charged = journey.chargeback()
        journey.apply(T.CHARGEBACK, P.PROCESSOR, journey.starts_at, chargeback=charged)
    if trigger in WAITING and status in (S.COMPLETED, S.CANCELLED):
        journey.booking = evolve(journey.booking, payout_status=WAITING[trigger])
    now = journey.starts_at - HOUR
    if trigger in (T.DISPUTE, T.NO_SHOW, T.ASK_CHECK_IN, T.CONFIRM, T.AUTO_COMPLETE):
        now = journey.ends_at
    if trigger is T.ASK_CHECK_IN and status is S.PAID:
        journey.apply(T.REMIND, P.SYSTEM, journey.starts_at - DAY)
    if trigger is T.WITHDRAW:
        journey.booking = evolve(journey.booking, disputed_by=by)
    if trigger is T.DISPUTE_OVERDUE:
        now = journey.starts_at + 3 * DAY
    if trigger is T.SEND_PAYOUT:
        now = journey.booking.payout_due_at or journey.ends_at + 3 * DAY
    facts: dict[str, Any] = {
        "reason": "because",
        "refund_amount": 1_000,
        "payment": journey.payment("pay_2" if journey.booking.paid_at else "pay_1"),
        "chargeback": journey.chargeback(VERDICTS.get(trigger, ChargebackStatus.OPEN)),
    }
    return journey, TransitionInput(trigger, by, now, **facts)


def sides(trigger):
    """All parties that may cause a trigger in some status, by the contract."""
    rows = [parties for (_, pulled), (parties, _, _) in CONTRACT.items() if pulled is trigger]
    return set().union(*rows)


def expected_refusal(status, trigger, by):
    """The error for a pair without a transition, or None; a wrong party comes before a wrong
    status."""
    row = CONTRACT.get((status, trigger))
    if by not in (row[0] if row else sides(trigger)):
        return Forbidden, "wrong_party"
    return None if row else (RuleBroken, REFUSALS[trigger])


LEGAL = [case for case in PRODUCT if expected_refusal(*case) is None]
ILLEGAL = [case for case in PRODUCT if expected_refusal(*case) is not None]


def test_the_product_is_whole():
    """Every pair of the contract is tested with each of its parties."""
    assert {(status, trigger) for status, trigger, _ in LEGAL} == set(CONTRACT)
    assert len(LEGAL) == sum(len(parties) for parties, _, _ in CONTRACT.values())


@pytest.mark.parametrize("status, trigger, by", LEGAL)
def test_a_row_of_the_table_moves_the_booking(status, trigger, by):
    """A transition of the contract leads to its status, with its event, in the next revision."""
    journey, what = situation(status, trigger, by)
    before, (_, to, event) = journey.booking, CONTRACT[status, trigger]
    told = ENDED in journey.events and event is ENDED
    step = apply_transition(before, what, POLICY)
    assert step.booking.status is to
    assert step.booking.revision == before.revision + 1
    assert step.event == (None if told else event)


@pytest.mark.parametrize("status, trigger, by", LEGAL)
def test_a_change_of_status_is_an_entry_of_the_timeline(status, trigger, by):
    """A change of status adds an entry with time, trigger and actor; other transitions add none."""
    journey, what = situation(status, trigger, by)
    after = apply_transition(journey.booking, what, POLICY).booking
    new = after.timeline[len(journey.booking.timeline) :]
    if after.status is status:
        assert new == ()
    else:
        (entry,) = new
        found = (entry.at, entry.was, entry.to, entry.trigger, entry.actor)
        assert found == (what.now, status, after.status, trigger, by)


@pytest.mark.parametrize("status, trigger, by", LEGAL)
def test_every_move_leaves_the_money_right(status, trigger, by):
    """The ledger agrees with the booking after any single transition."""
    journey, what = situation(status, trigger, by)
    assert journey.faults == []
    journey.save(apply_transition(journey.booking, what, POLICY))
    assert journey.faults == []


def test_anything_else_is_refused_with_one_typed_error():
    """The wrong party gets Forbidden; the right party gets the code of the broken rule."""
    for status, trigger, by in ILLEGAL:
        journey, what = situation(status, trigger, by)
        error, code = expected_refusal(status, trigger, by)
        with pytest.raises(error) as caught:
            apply_transition(journey.booking, what, POLICY)
        assert caught.value.code == code, (status, trigger, by)


def test_the_table_has_no_row_that_the_contract_lacks():
    """The code's table and the contract's table have the same pairs."""
    pairs = {(status, trigger) for status, moves in TRANSITIONS.items() for trigger in moves}
    assert pairs == set(CONTRACT)


def test_slots_are_held_while_accepted_paid_and_disputed():
    """Accepted, paid and disputed bookings hold their slot (CONTRACT 3)."""
    assert {S.ACCEPTED, S.PAID, S.DISPUTED} == SLOT_HOLDING_STATUSES


def test_people_are_notified_of_what_concerns_them():
    """Each transition has the contract's notifications; a request notifies the staff member."""
    found = {
        (status, trigger): row.notifications
        for status, rows in TRANSITIONS.items()
        for trigger, row in rows.items()
        if row.notifications
    }
    assert found == NOTIFIED
    assert REQUEST_TRANSITION.notifications == (N.REQUEST_TO_STAFF,)


def test_timers_belong_to_rows_of_the_system():
    """Each status has the contract's timers, and only the system may cause their triggers."""
    assert TIMER_TRIGGERS == TIMERS
    for status, triggers in TIMER_TRIGGERS.items():
        for trigger in triggers.values():
            assert CONTRACT[status, trigger][0] == {P.SYSTEM}


def test_a_payout_is_released_before_its_alarm():
    """The release of a payout precedes its alarm."""
    for status in (S.COMPLETED, S.CANCELLED):
        assert list(TIMER_TRIGGERS[status]) == [TimerKind.PAY_OUT, TimerKind.PAYOUT_ALARM]
