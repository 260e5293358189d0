"""Guards with bounds to the second, timestamps, and events that are published once."""

from __future__ import annotations

from datetime import UTC, date, timedelta

import pytest
from attrs import evolve

from staffbooking_adapters.testing.builders import DAY, HOUR, MINUTE, POLICY, SECOND
from staffbooking_core.domain.bookings.booking import TransitionInput
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, EventName, Party, Trigger
from staffbooking_core.domain.bookings.transitions import (
    apply_transition,
    check_party,
)
from staffbooking_core.domain.companions.availability import local_time_to_utc
from staffbooking_core.domain.payments.processor import ChargebackStatus
from staffbooking_core.errors import Forbidden, RuleBroken
from tests.support.booking_journey import (
    BookingJourney,
    accepted_journey,
    completed_journey,
    disputed_journey,
    paid_journey,
    paid_out_journey,
)

T, P = Trigger, Party
MICRO = timedelta(microseconds=1)
END = 4 * HOUR
NO_TIME = timedelta()


def outcome(journey, trigger, by, after, **facts):
    """The refusal code at this time after the start, or the next status."""
    try:
        journey.apply(trigger, by, journey.starts_at + after, **facts)
    except RuleBroken as error:
        return error.code
    return journey.booking.status


@pytest.mark.parametrize(
    "make, trigger, by, after, found",
    [
        (BookingJourney, T.ACCEPT, P.STAFF, -MICRO, BookingStatus.ACCEPTED),
        (BookingJourney, T.ACCEPT, P.STAFF, NO_TIME, "event_started"),
        (accepted_journey, T.CHECKOUT, P.CUSTOMER, -MICRO, BookingStatus.ACCEPTED),
        (accepted_journey, T.CHECKOUT, P.CUSTOMER, NO_TIME, "event_started"),
        (paid_journey, T.CANCEL, P.CUSTOMER, -MICRO, BookingStatus.CANCELLED),
        (paid_journey, T.CANCEL, P.CUSTOMER, NO_TIME, "booking_not_cancellable"),
        (paid_journey, T.CANCEL, P.STAFF, -MICRO, BookingStatus.CANCELLED),
        (paid_journey, T.CANCEL, P.STAFF, NO_TIME, "booking_not_cancellable"),
        (paid_journey, T.CANCEL, P.ADMIN, 50 * DAY, BookingStatus.CANCELLED),
        (paid_journey, T.DISPUTE, P.STAFF, -MICRO, "event_not_started"),
        (paid_journey, T.DISPUTE, P.STAFF, NO_TIME, BookingStatus.DISPUTED),
        (paid_journey, T.DISPUTE, P.CUSTOMER, -SECOND, "event_not_started"),
        (paid_journey, T.CONFIRM, P.CUSTOMER, END - MICRO, "event_not_ended"),
        (paid_journey, T.CONFIRM, P.CUSTOMER, END, BookingStatus.COMPLETED),
        (paid_journey, T.CHECK_IN, P.STAFF, -2 * HOUR - MICRO, "check_in_not_open"),
        (paid_journey, T.CHECK_IN, P.STAFF, -2 * HOUR, BookingStatus.PAID),
        (paid_journey, T.CHECK_IN, P.STAFF, END, BookingStatus.PAID),
        (paid_journey, T.CHECK_IN, P.STAFF, END + MICRO, "check_in_not_open"),
    ],
)
def test_a_guard_turns_at_the_exact_moment(make, trigger, by, after, found):
    """Each guard changes its answer exactly at its bound, for each party."""
    assert outcome(make(), trigger, by, after) == found


def test_an_unpaid_booking_is_cancelled_at_any_time():
    """An unpaid booking can be cancelled after its start, before the timer runs."""
    assert outcome(accepted_journey(), T.CANCEL, P.CUSTOMER, HOUR) is BookingStatus.CANCELLED


@pytest.mark.parametrize(
    "late, found", [(-MICRO, BookingStatus.ACCEPTED), (NO_TIME, "event_started")]
)
def test_a_checkout_ends_with_the_time_to_pay(late, found):
    """A checkout is refused after the payment window."""
    policy = evolve(POLICY, payment_window=HOUR)
    journey = accepted_journey(policy)
    to_the_bound = journey.booking.created_at + HOUR + late - journey.starts_at
    assert outcome(journey, T.CHECKOUT, P.CUSTOMER, to_the_bound) == found


@pytest.mark.parametrize("day, hours", [(date(2027, 3, 28), 5), (date(2027, 10, 31), 3)])
def test_guards_count_elapsed_time_on_days_of_a_clock_change(day, hours):
    """Guards count elapsed hours across a clock change."""
    starts_at = local_time_to_utc("Europe/Berlin", day, 60)
    journey = paid_journey(starts_at=starts_at)
    ends_by_the_clock = local_time_to_utc("Europe/Berlin", day, 60 + hours * 60)
    assert ends_by_the_clock == journey.ends_at == starts_at + END
    assert outcome(journey, T.CONFIRM, P.CUSTOMER, END - SECOND) == "event_not_ended"
    assert outcome(journey, T.CONFIRM, P.CUSTOMER, END) is BookingStatus.COMPLETED


def test_checking_in_twice_keeps_the_first_time():
    """A second check-in keeps the first time, even after the end."""
    journey = paid_journey()
    journey.apply(T.CHECK_IN, P.STAFF, journey.starts_at)
    journey.apply(T.CHECK_IN, P.STAFF, journey.ends_at + DAY)
    assert journey.booking.checked_in_at == journey.starts_at


@pytest.mark.parametrize(
    "after, found", [(DAY - MICRO, "payout_not_scheduled"), (DAY, "completed")]
)
def test_a_payout_is_never_early(after, found):
    """A payout is released at its due time, not before."""
    assert outcome(completed_journey(), T.SEND_PAYOUT, P.SYSTEM, END + after) == found


def test_a_payout_is_released_once():
    """A second release of a payout is refused."""
    journey = completed_journey()
    journey.apply(T.SEND_PAYOUT, P.SYSTEM, journey.ends_at + DAY)
    assert outcome(journey, T.SEND_PAYOUT, P.SYSTEM, END + 2 * DAY) == "payout_not_scheduled"


def test_a_completed_booking_is_disputed_while_the_payout_is_held():
    """The customer may dispute a completed booking until the release of the payout."""
    assert outcome(completed_journey(), T.DISPUTE, P.CUSTOMER, END + DAY) is BookingStatus.DISPUTED


def test_a_released_payout_can_not_be_disputed():
    """A dispute is refused from the release on, even before the money has arrived."""
    journey = completed_journey()
    journey.apply(T.SEND_PAYOUT, P.SYSTEM, journey.ends_at + DAY)
    assert outcome(journey, T.DISPUTE, P.CUSTOMER, END + DAY) == "payout_released"


def test_a_payout_that_outlived_a_chargeback_can_not_be_disputed():
    """A dispute is refused if the staff member was paid before a won chargeback."""
    journey, _ = paid_out_journey()
    journey.apply(
        T.CHARGEBACK, P.PROCESSOR, journey.ends_at + 2 * DAY, chargeback=journey.chargeback()
    )
    won = journey.chargeback(ChargebackStatus.WON)
    journey.apply(T.CHARGEBACK_WON, P.PROCESSOR, journey.ends_at + 3 * DAY, chargeback=won)
    assert journey.booking.payout_status == "paid"
    assert outcome(journey, T.DISPUTE, P.CUSTOMER, END + 3 * DAY) == "payout_released"


@pytest.mark.parametrize("trigger", [T.RESOLVE_RELEASE, T.RESOLVE_REFUND, T.RESOLVE_SPLIT])
def test_an_admin_can_not_resolve_a_chargeback(trigger):
    """Only the processor decides a chargeback."""
    journey = paid_journey()
    journey.apply(T.CHARGEBACK, P.PROCESSOR, journey.starts_at, chargeback=journey.chargeback())
    assert outcome(journey, trigger, P.ADMIN, DAY, refund_amount=1) == "chargeback_open"


@pytest.mark.parametrize("trigger", [T.CHARGEBACK_WON, T.CHARGEBACK_LOST])
def test_a_dispute_of_the_parties_has_no_verdict(trigger):
    """The processor's verdict is refused without a chargeback."""
    facts = {"chargeback": disputed_journey().chargeback(ChargebackStatus.WON)}
    assert outcome(disputed_journey(), trigger, P.PROCESSOR, DAY, **facts) == "no_chargeback_open"


def test_the_party_is_checked_before_the_time():
    """A customer who accepts after the start gets `wrong_party`, not `event_started`."""
    journey = BookingJourney()
    with pytest.raises(Forbidden):
        journey.apply(T.ACCEPT, P.CUSTOMER, journey.ends_at)


def test_a_staff_member_may_not_dispute_a_completed_booking():
    """The allowed parties depend on the status: a staff member may dispute paid bookings only."""
    check_party(BookingStatus.PAID, T.DISPUTE, P.STAFF)
    with pytest.raises(Forbidden):
        check_party(BookingStatus.COMPLETED, T.DISPUTE, P.STAFF)


def test_a_request_is_no_trigger_of_a_booking_that_exists():
    """A booking cannot be requested again."""
    with pytest.raises(Forbidden):
        check_party(BookingStatus.PENDING, T.REQUEST, P.CUSTOMER)


# Recorded data --------------------------------------------------------------------------


def test_each_status_stamps_its_time():
    """A transition sets the timestamp of its status."""
    journey = completed_journey()
    booking = journey.booking
    assert (booking.accepted_at, booking.paid_at) == (booking.created_at, booking.created_at)
    assert (booking.completed_at, booking.completed_by) == (journey.ends_at, P.CUSTOMER)


@pytest.mark.parametrize(
    "trigger, by, reason",
    [
        (T.DECLINE, P.STAFF, None),
        (T.LOSE_SLOT, P.SYSTEM, "slot_taken"),
        (T.EXPIRE, P.SYSTEM, "expired"),
        (T.CANCEL, P.CUSTOMER, "rain"),
    ],
)
def test_a_cancellation_says_who_and_why(trigger, by, reason):
    """The reason is fixed for timers and lost slots, and given by people otherwise."""
    journey = BookingJourney()
    journey.apply(trigger, by, reason="rain" if trigger is T.CANCEL else None)
    booking = journey.booking
    assert (booking.cancelled_by, booking.cancel_reason) == (by, reason)
    assert booking.cancelled_at == booking.created_at


def test_what_never_was_paid_earned_nothing():
    """A booking that ends unpaid has fee and payout 0."""
    journey = accepted_journey()
    assert journey.booking.payout_amount > 0
    journey.apply(T.EXPIRE, P.SYSTEM)
    assert (journey.booking.platform_fee, journey.booking.payout_amount) == (0, 0)


def test_a_dispute_says_who_and_why():
    """A dispute stores its reason and the party that opened it."""
    booking = disputed_journey().booking
    assert (booking.disputed_by, booking.dispute_reason) == (P.CUSTOMER, "nobody came")


def test_a_verdict_is_the_systems_doing():
    """A booking cancelled by a lost chargeback is cancelled by the system."""
    journey = paid_journey()
    journey.apply(T.CHARGEBACK, P.PROCESSOR, journey.starts_at, chargeback=journey.chargeback())
    lost = journey.chargeback(ChargebackStatus.LOST)
    journey.apply(T.CHARGEBACK_LOST, P.PROCESSOR, journey.ends_at, chargeback=lost)
    booking = journey.booking
    assert (booking.cancelled_by, booking.cancel_reason) == (P.SYSTEM, "charged_back")


def test_a_second_completion_keeps_the_first_ones_time():
    """A resolved dispute does not change the completion time."""
    journey = completed_journey()
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at + HOUR)
    journey.apply(T.RESOLVE_RELEASE, P.ADMIN, journey.ends_at + 5 * DAY)
    booking = journey.booking
    assert (booking.completed_at, booking.completed_by) == (journey.ends_at, P.CUSTOMER)


def test_a_completion_is_published_once():
    """`booking.completed` is published at the first completion only."""
    journey = completed_journey()
    journey.apply(T.DISPUTE, P.CUSTOMER, journey.ends_at + HOUR)
    journey.apply(T.RESOLVE_RELEASE, P.ADMIN, journey.ends_at + DAY)
    assert journey.events.count(EventName.BOOKING_COMPLETED) == 1


def test_a_dispute_of_a_paid_booking_publishes_its_completion():
    """`booking.completed` is published by the resolution if the dispute came before completion."""
    journey = disputed_journey()
    journey.apply(T.RESOLVE_RELEASE, P.ADMIN, journey.ends_at + DAY)
    assert journey.events[-1] is EventName.BOOKING_COMPLETED
    assert journey.booking.completed_by is P.ADMIN


@pytest.mark.parametrize(
    "make, by, credits",
    [
        (BookingJourney, P.STAFF, 0),
        (accepted_journey, P.STAFF, 1),
        (paid_journey, P.STAFF, 1),
        (paid_journey, P.CUSTOMER, 0),
        (paid_journey, P.ADMIN, 0),
    ],
)
def test_staff_who_cancel_what_they_accepted_leave_a_credit(make, by, credits):
    """A staff member's cancellation of an accepted or paid booking grants a priority rebooking."""
    journey = make()
    journey.apply(T.CANCEL, by)
    assert journey.credits == credits


def test_guards_ignore_the_time_zone():
    """Guards compare instants, whatever the booking's time zone is."""
    journey = paid_journey(timezone="Pacific/Auckland")
    assert journey.starts_at.tzinfo is UTC
    assert outcome(journey, T.CHECK_IN, P.STAFF, -2 * HOUR - MINUTE) == "check_in_not_open"


def test_the_refusal_of_an_early_check_in_names_the_lead():
    """The refusal says when check-in opens by the deployment's policy."""
    booking = paid_journey().booking
    early = TransitionInput(T.CHECK_IN, P.STAFF, booking.starts_at - HOUR)
    policy = evolve(POLICY, check_in_lead=30 * MINUTE)
    with pytest.raises(RuleBroken, match="opens 30 minutes before the start"):
        apply_transition(booking, early, policy)
