"""Payouts managed by operators: hold, resume, retry and alarm."""

from __future__ import annotations

from itertools import product

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, POLICY
from staffbooking_core.domain.bookings.booking import PayoutStatus
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, Trigger
from staffbooking_core.domain.bookings.timers import next_timer
from staffbooking_core.domain.payments.ledger import Account
from staffbooking_core.domain.payments.processor import ChargebackStatus, OperationKind, PayOut
from staffbooking_core.errors import Forbidden, RuleBroken
from tests.support.booking_journey import (
    apply_snapshot,
    cancelled_journey,
    completed_journey,
    last_operation,
    paid_out_journey,
    with_processor_book,
)

T, P, S = Trigger, Party, PayoutStatus
ENDED = {BookingStatus.COMPLETED: completed_journey, BookingStatus.CANCELLED: cancelled_journey}
PAYOUT = 34_000
ALLOWED = {
    T.HOLD_PAYOUT: {S.SCHEDULED, S.FAILED},
    T.LIFT_PAYOUT_HOLD: {S.FROZEN},
    T.RETRY_PAYOUT: {S.FAILED},
    T.PAYOUT_ALARM: {S.SCHEDULED, S.FAILED},
}
CODES = {
    T.HOLD_PAYOUT: "payout_not_pending",
    T.LIFT_PAYOUT_HOLD: "payout_not_on_hold",
    T.RETRY_PAYOUT: "payout_not_failed",
    T.PAYOUT_ALARM: "payout_not_pending",
}
BY = {trigger: P.SYSTEM if trigger is T.PAYOUT_ALARM else P.ADMIN for trigger in ALLOWED}


def ended(status, payout_status):
    """An ended booking with a payout in this status."""
    journey = ENDED[status]()
    journey.booking = evolve(journey.booking, payout_status=payout_status)
    return journey


def released():
    """A completed booking whose payout is ordered."""
    journey = completed_journey()
    journey.apply(T.SEND_PAYOUT, P.SYSTEM, journey.ends_at + DAY)
    return journey


def orders_of(journey):
    """The numbers of the ordered payouts."""
    return [one.n for one in journey.operations.values() if one.kind is OperationKind.PAY_OUT]


# Allowed parties and statuses -----------------------------------------------------------


@pytest.mark.parametrize("at", list(ENDED))
@pytest.mark.parametrize("trigger, payout_status", list(product(ALLOWED, S)))
def test_a_payout_is_moved_only_from_where_it_can_be(at, trigger, payout_status):
    """A trigger in another payout status is refused with its own code, and changes nothing."""
    journey = ended(at, payout_status)
    before = journey.booking
    if payout_status in ALLOWED[trigger]:
        journey.apply(trigger, BY[trigger])
        assert journey.booking.status is at
    else:
        with pytest.raises(RuleBroken) as caught:
            journey.apply(trigger, BY[trigger])
        assert (caught.value.code, journey.booking) == (CODES[trigger], before)


@pytest.mark.parametrize(
    "trigger, by",
    [
        *((T.HOLD_PAYOUT, by) for by in sorted(set(P) - {P.ADMIN, P.SYSTEM})),
        *((T.LIFT_PAYOUT_HOLD, by) for by in sorted(set(P) - {P.ADMIN})),
        *((T.RETRY_PAYOUT, by) for by in sorted(set(P) - {P.ADMIN})),
    ],
)
def test_only_operators_touch_a_payout(trigger, by):
    """The booking's parties may not hold, resume or retry a payout; the service holds alone."""
    with pytest.raises(Forbidden):
        completed_journey().apply(trigger, by)


# Hold and resume ------------------------------------------------------------------------


@pytest.mark.parametrize("at", list(ENDED))
def test_a_held_payout_is_not_due(at):
    """A held payout has no timer."""
    journey = ended(at, S.SCHEDULED)
    journey.apply(T.HOLD_PAYOUT, P.ADMIN)
    assert journey.booking.payout_status is S.FROZEN
    assert next_timer(journey.booking, POLICY) is None
    assert journey.faults == []


def test_a_held_payout_is_not_released():
    """A timer that was set before the hold does not release the payout."""
    journey = ended(BookingStatus.COMPLETED, S.SCHEDULED)
    journey.apply(T.HOLD_PAYOUT, P.ADMIN)
    with pytest.raises(RuleBroken) as caught:
        journey.apply(T.SEND_PAYOUT, P.SYSTEM, journey.ends_at + 9 * DAY)
    assert caught.value.code == "payout_not_scheduled"


@pytest.mark.parametrize("after, due_after", [(HOUR, DAY), (5 * DAY, 5 * DAY)])
def test_a_resumed_payout_is_due_as_before_or_at_once(after, due_after):
    """A resumed payout is due at its old time, or at once if that has passed."""
    journey = completed_journey()
    journey.apply(T.HOLD_PAYOUT, P.ADMIN, journey.ends_at)
    journey.apply(T.LIFT_PAYOUT_HOLD, P.ADMIN, journey.ends_at + after)
    assert journey.booking.payout_status is S.SCHEDULED
    assert journey.booking.payout_due_at == journey.ends_at + due_after
    assert journey.faults == []


def test_a_held_payout_can_be_disputed():
    """The customer may dispute a booking whose payout is held and not released."""
    journey = completed_journey()
    journey.apply(T.HOLD_PAYOUT, P.ADMIN, journey.ends_at)
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at + 9 * DAY, reason="nobody came")
    assert journey.booking.status is BookingStatus.DISPUTED
    assert journey.booking.escrow == journey.booking.total_amount
    assert journey.faults == []


def test_a_payout_that_was_released_before_it_was_held_can_not_be_disputed():
    """A payout released before its hold may be in flight, so a dispute is refused."""
    journey = released()
    journey.apply(T.HOLD_PAYOUT, P.ADMIN, journey.ends_at + DAY)
    with pytest.raises(RuleBroken) as caught:
        journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at + DAY, reason="nobody came")
    assert caught.value.code == "payout_released"


def test_holding_a_released_payout_and_letting_it_go_orders_another():
    """A payout released, held and resumed is ordered again; the first order is not sent."""
    journey = released()
    journey.apply(T.HOLD_PAYOUT, P.ADMIN, journey.ends_at + DAY)
    journey.apply(T.LIFT_PAYOUT_HOLD, P.ADMIN, journey.ends_at + 2 * DAY)
    journey.apply(T.SEND_PAYOUT, P.SYSTEM, journey.ends_at + 2 * DAY)
    _, second = orders_of(journey)
    assert journey.booking.payout_n == second
    assert last_operation(journey).command == PayOut("pay_1", 2, PAYOUT, "usd")


def test_a_payout_held_in_flight_is_paid():
    """A payout in flight at its hold is paid, and cannot be resumed."""
    journey, book = with_processor_book(released())
    book.execute_all()
    journey.apply(T.HOLD_PAYOUT, P.ADMIN, journey.ends_at + DAY)
    apply_snapshot(journey, book)
    assert (journey.booking.payout_status, journey.booking.payout_left) == (S.PAID, 0)
    assert journey.faults == []


def test_a_payout_that_was_held_and_let_go_is_not_made_twice():
    """If the first order was executed after all, the resumed payout has nothing left to pay."""
    journey, book = with_processor_book(released())
    journey.apply(T.HOLD_PAYOUT, P.ADMIN, journey.ends_at + DAY)
    journey.apply(T.LIFT_PAYOUT_HOLD, P.ADMIN, journey.ends_at + 2 * DAY)
    book.execute_all()
    apply_snapshot(journey, book, 2 * DAY)
    assert (journey.booking.payout_status, journey.booking.payout_left) == (S.PAID, 0)
    assert next_timer(journey.booking, POLICY) is None
    assert journey.faults == []


# Retry ----------------------------------------------------------------------------------


@pytest.mark.parametrize("at", list(ENDED))
def test_a_failed_payout_is_ordered_anew(at):
    """A retry orders the whole amount left under a new key."""
    journey = ended(at, S.SCHEDULED)
    journey.apply(T.SEND_PAYOUT, P.SYSTEM, journey.ends_at + 9 * DAY)
    journey.booking = evolve(journey.booking, payout_status=S.FAILED)
    step = journey.apply(T.RETRY_PAYOUT, P.ADMIN, journey.ends_at + 10 * DAY)
    _, second = orders_of(journey)
    assert (step.booking.payout_status, step.booking.payout_n) == (S.SCHEDULED, second)
    assert journey.booking.payout_released_at == journey.ends_at + 10 * DAY
    assert journey.faults == []


def test_a_failed_payout_and_its_retry_pay_once():
    """If the failed order was executed after all, the retry has nothing left to pay."""
    journey, book = with_processor_book(released())
    journey.booking = evolve(journey.booking, payout_status=S.FAILED)
    journey.apply(T.RETRY_PAYOUT, P.ADMIN, journey.ends_at + 2 * DAY)
    first = next(one for one in journey.operations.values() if one.kind is OperationKind.PAY_OUT)
    book.execute(first)
    apply_snapshot(journey, book, 3 * DAY)
    assert (journey.booking.payout_status, journey.booking.payout_left) == (S.PAID, 0)
    assert journey.booking.payout_n == first.n
    assert journey.faults == []


# Alarm ----------------------------------------------------------------------------------


def test_an_alarm_names_the_booking_and_what_was_promised():
    """The alarm is raised once, because the booking stores its time."""
    journey = released()
    at = journey.ends_at + 42 * HOUR
    step = journey.apply(T.PAYOUT_ALARM, P.SYSTEM, at)
    (alert,) = step.alerts
    assert journey.booking.code in alert.text
    assert str(journey.ends_at + 48 * HOUR) in alert.text
    assert journey.booking.payout_alarmed_at == alert.alarmed_at == at
    assert (step.event, step.postings, step.orders) == (None, (), ())


@pytest.mark.parametrize("trigger", [T.LIFT_PAYOUT_HOLD, T.CHARGEBACK])
def test_what_is_scheduled_anew_has_an_alarm_of_its_own(trigger):
    """A payout that is resumed, or settled again after a won chargeback, can be alarmed about
    again."""
    journey = released()
    journey.apply(T.PAYOUT_ALARM, P.SYSTEM, journey.ends_at + 42 * HOUR)
    now = journey.ends_at + 3 * DAY
    if trigger is T.LIFT_PAYOUT_HOLD:
        journey.apply(T.HOLD_PAYOUT, P.ADMIN, now)
        journey.apply(T.LIFT_PAYOUT_HOLD, P.ADMIN, now)
    else:
        for pulled, status in (
            (T.CHARGEBACK, ChargebackStatus.OPEN),
            (T.CHARGEBACK_WON, ChargebackStatus.WON),
        ):
            charged = journey.chargeback(status)
            journey.apply(pulled, P.PROCESSOR, now, chargeback=charged)
    assert journey.booking.payout_alarmed_at is None
    journey.apply(T.SEND_PAYOUT, P.SYSTEM, now)
    coming = next_timer(journey.booking, POLICY)
    assert coming is not None
    assert coming.at > now


def test_what_came_back_and_is_owed_again_has_an_alarm_of_its_own():
    """A late payout that was reversed and is owed again can be alarmed about again."""
    journey, book = paid_out_journey()
    journey.booking = evolve(journey.booking, payout_alarmed_at=journey.ends_at + 42 * HOUR)
    lose_a_quarter(journey)
    journey.booking = evolve(journey.booking, payout_alarmed_at=journey.ends_at + 42 * HOUR)
    book.execute_all()
    apply_snapshot(journey, book, 4 * DAY)
    assert journey.booking.payout_status is S.SCHEDULED
    assert journey.booking.payout_alarmed_at is None
    assert journey.faults == []


def lose_a_quarter(journey):
    """A partial chargeback that is lost: the rest is earned, and the payout was too large."""
    for pulled, status in (
        (T.CHARGEBACK, ChargebackStatus.OPEN),
        (T.CHARGEBACK_LOST, ChargebackStatus.LOST),
    ):
        charged = journey.chargeback(status, amount=10_000)
        journey.apply(pulled, P.PROCESSOR, journey.ends_at + 2 * DAY, chargeback=charged)


# Reversed -------------------------------------------------------------------------------


def test_a_lost_chargeback_of_a_paid_out_booking_leaves_its_payout_reversed():
    """The payout is `reversed` whether the money is back or still owed."""
    for seen in (False, True):
        journey, book = paid_out_journey()
        book.charge_back()
        apply_snapshot(journey, book, 2 * DAY)
        if seen:
            book.execute_all()
        book.charge_back(status=ChargebackStatus.LOST)
        apply_snapshot(journey, book, 3 * DAY)
        assert journey.booking.status is BookingStatus.CANCELLED
        assert journey.booking.payout_status is S.REVERSED
        assert journey.balance(Account.STAFF_PAYABLE) == 0
        assert journey.faults == []


def test_a_lost_chargeback_before_any_payout_leaves_none():
    """The payout status is `none` if nothing was sent."""
    journey, book = with_processor_book(completed_journey())
    book.charge_back(status=ChargebackStatus.LOST)
    apply_snapshot(journey, book, HOUR)
    assert journey.booking.payout_status is S.NONE
    assert journey.faults == []
