"""The price of a booking, its parties and its timers."""

from __future__ import annotations

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    SECOND,
    make_booking,
)
from staffbooking_adapters.testing.strategies import bookings
from staffbooking_core.domain.bookings.booking import (
    CompanionRates,
    DueTimer,
    PayoutStatus,
    PriceBreakdown,
    quote_price,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus, Party, TimerKind, Trigger
from staffbooking_core.domain.bookings.timers import next_timer, payout_deadline
from staffbooking_core.domain.companions.availability import local_time_to_utc
from staffbooking_core.domain.shared.money import PARTS_PER_MILLION
from tests.support.booking_journey import (
    BookingJourney,
    accepted_journey,
    cancelled_journey,
    completed_journey,
    disputed_journey,
    paid_journey,
)

RATES = st.integers(1, 10_000_000)
HOURS = st.integers(1, 24)
FEES = st.integers(0, PARTS_PER_MILLION)


def price(hours, hourly=10_000, daily=70_000, insured=False, policy=POLICY):
    return quote_price(CompanionRates(hourly, daily), hours, insured, policy)


def test_the_price_is_the_rate_times_the_hours():
    """Below eight hours the daily rate is ignored."""
    assert price(7, daily=1).price == 70_000


@pytest.mark.parametrize("hours, amount", [(7, 70_000), (8, 70_000), (9, 70_000), (24, 70_000)])
def test_from_eight_hours_on_the_day_rate_is_the_most(hours, amount):
    """From eight hours the price is at most the daily rate."""
    assert price(hours).price == amount


def test_a_high_day_rate_costs_nobody_more():
    """The daily rate is a maximum; it does not replace a lower hourly price."""
    assert price(8, daily=1_000_000).price == 80_000


def test_without_a_day_rate_hours_add_up():
    """Without a daily rate, 24 hours cost 24 times the hourly rate."""
    assert price(24, daily=None).price == 240_000


def test_insurance_is_a_premium_on_the_price():
    """The premium is 5 % of the capped price, added to it; the fee is of the price only."""
    assert price(8, insured=True) == PriceBreakdown(70_000, 3_500, 10_500, 59_500)


def test_without_insurance_there_is_no_premium():
    """A booking without insurance has no premium."""
    assert price(8).insurance_premium == 0


def test_the_premium_is_rounded_half_up():
    """A premium of half a minor unit (5 % of 10) is rounded up to one."""
    assert price(1, hourly=10, insured=True).insurance_premium == 1


@given(RATES, st.none() | RATES, HOURS, st.booleans(), FEES, FEES)
def test_fee_and_payout_are_the_price(hourly, daily, hours, insured, fee_ppm, premium_ppm):
    """For all rates and hours fee and payout add up to the price, which respects the daily rate."""
    policy = evolve(POLICY, platform_fee_ppm=fee_ppm, insurance_rate_ppm=premium_ppm)
    quoted = price(hours, hourly, daily, insured, policy)
    assert quoted.platform_fee + quoted.payout_amount == quoted.price
    assert min(attr for attr in (quoted.platform_fee, quoted.payout_amount)) >= 0
    capped = daily is not None and hours >= 8
    assert quoted.price == min(hourly * hours, daily if capped else hourly * hours)


@given(RATES, st.none() | RATES, st.integers(8, 23))
def test_a_longer_booking_of_a_day_is_never_cheaper(hourly, daily, hours):
    """From eight hours an additional hour never lowers the price."""
    assert price(hours + 1, hourly, daily).price >= price(hours, hourly, daily).price


@given(bookings())
def test_a_booking_lasts_its_hours_from_its_local_start(booking):
    """A booking starts at its local date and time, and lasts its hours of elapsed time, in every
    zone and over every clock change."""
    hours, minutes = map(int, booking.start_time.split(":"))
    starts_at = local_time_to_utc(booking.timezone, booking.event_date, 60 * hours + minutes)
    assert (booking.starts_at, booking.ends_at - starts_at) == (
        starts_at,
        booking.duration_hours * HOUR,
    )


@given(bookings())
def test_the_money_of_a_booking_adds_up(booking):
    """Fee and payout are the price, and price and premium are the total."""
    assert booking.platform_fee + booking.payout_amount == booking.price
    assert booking.price + booking.insurance_premium == booking.total_amount
    assert bool(booking.insurance_premium) <= booking.cancellation_insurance


def test_the_total_is_price_and_premium():
    """The customer pays price and premium."""
    booking = make_booking(price=10_000, insurance_premium=500)
    assert booking.total_amount == 10_500


@pytest.mark.parametrize(
    "user, party",
    [(1, Party.CUSTOMER), (2, Party.STAFF), (7, Party.API), (8, None)],
)
def test_every_user_has_one_party(user, party):
    """A user is the customer, the companion, the booking API user or a stranger."""
    assert make_booking(booked_by=7).party_of(user) is party


def test_who_books_for_oneself_by_api_is_the_customer():
    """A customer who booked by API key is the customer party."""
    assert make_booking(booked_by=1).party_of(1) is Party.CUSTOMER


def test_without_an_api_key_there_is_no_api_party():
    """A booking that was not made by API key has no API party."""
    assert make_booking(booked_by=None).party_of(99) is None


def test_a_request_expires_at_the_start():
    """A pending booking expires when its event begins."""
    booking = make_booking()
    assert next_timer(booking, POLICY) == DueTimer(TimerKind.EXPIRE, booking.starts_at)


@pytest.mark.parametrize(
    "window, expires",
    [(None, 2 * DAY), (3 * HOUR, 3 * HOUR - DAY), (90 * DAY, 2 * DAY)],
)
def test_an_accepted_booking_lapses_unpaid(window, expires):
    """An unpaid booking expires at its start or at the payment deadline, whichever is earlier."""
    policy = evolve(POLICY, payment_window=window)
    assert next_timer(accepted_journey(policy).booking, policy) == DueTimer(
        TimerKind.EXPIRE, NOW + expires
    )


def test_a_paid_booking_completes_by_itself():
    """A paid booking is completed automatically 72 hours after its end."""
    booking = evolve(paid_journey().booking, reminded_at=paid_journey().starts_at)
    assert next_timer(booking, POLICY) == DueTimer(
        TimerKind.AUTO_COMPLETE, booking.ends_at + 72 * HOUR
    )


@pytest.mark.parametrize(
    "journey, after", [(completed_journey, 4 * HOUR), (cancelled_journey, -HOUR)]
)
def test_what_was_earned_is_paid_out_after_the_delay(journey, after):
    """A payout is released 24 hours after a completion or a cancellation with earnings."""
    booking = journey().booking
    assert next_timer(booking, POLICY) == DueTimer(
        TimerKind.PAY_OUT, booking.starts_at + after + DAY
    )


@pytest.mark.parametrize("delay, after", [(24, 42), (47, 47.5), (42, 45), (36, 42), (0, 42)])
def test_the_payout_alarm_precedes_the_deadline(delay, after):
    """The alarm is six hours before the 48-hour deadline, but not before half of the time for the
    payout has passed: one that is made when it is due raises none."""
    policy = evolve(POLICY, payout_delay=delay * HOUR)
    journey = released(policy)
    assert next_timer(journey.booking, policy) == alarm(journey.ends_at + after * HOUR)


@pytest.mark.parametrize("status", [PayoutStatus.SCHEDULED, PayoutStatus.FAILED])
def test_a_payout_that_is_not_made_is_about_to_be_late(status):
    """The alarm applies to a payout in flight and to a failed one."""
    journey = released()
    booking = evolve(journey.booking, payout_status=status)
    assert next_timer(booking, POLICY) == alarm(journey.ends_at + 42 * HOUR)


@pytest.mark.parametrize("status", [PayoutStatus.PAID, PayoutStatus.FROZEN, PayoutStatus.REVERSED])
def test_a_payout_that_is_made_or_held_is_not_late(status):
    """A payout that is made or on hold has no alarm."""
    assert next_timer(evolve(released().booking, payout_status=status), POLICY) is None


def test_a_released_payout_has_one_alarm():
    """A released payout that was alarmed about has no further timer."""
    journey = released()
    journey.apply(Trigger.PAYOUT_ALARM, Party.SYSTEM, journey.ends_at + 42 * HOUR)
    assert next_timer(journey.booking, POLICY) is None


def released(policy=POLICY):
    """A completed booking whose payout is ordered."""
    journey = completed_journey(policy)
    journey.apply(Trigger.SEND_PAYOUT, Party.SYSTEM, journey.booking.payout_due_at)
    return journey


def alarm(at):
    return DueTimer(TimerKind.PAYOUT_ALARM, at)


@pytest.mark.parametrize("delay", [0, 24, 47])
def test_a_payout_is_promised_within_48_hours(delay):
    """The payout deadline is 48 hours after completion, whatever the delay is."""
    policy = evolve(POLICY, payout_delay=delay * HOUR)
    journey = completed_journey(policy)
    due_at = journey.booking.payout_due_at
    assert due_at is not None
    promised = payout_deadline(due_at, policy)
    assert promised == journey.ends_at + 48 * HOUR


def test_the_parties_are_reminded_a_day_before_the_start():
    """The first timer of a paid booking is the reminder, 24 hours before the start."""
    booking = paid_journey().booking
    assert next_timer(booking, POLICY) == DueTimer(TimerKind.REMIND, booking.starts_at - DAY)


def test_who_pays_late_is_not_reminded():
    """A booking paid less than 24 hours before the start has no reminder."""
    booking = paid_journey().booking
    at_the_limit = evolve(booking, paid_at=booking.starts_at - DAY)
    too_late = evolve(booking, paid_at=booking.starts_at - DAY + SECOND)
    found = [next_timer(each, POLICY) for each in (at_the_limit, too_late)]
    assert [timer and timer.kind for timer in found] == [TimerKind.REMIND, TimerKind.ASK_CHECK_IN]


def test_a_missing_check_in_is_asked_for():
    """After the reminder, the parties are asked 15 minutes after the start."""
    booking = evolve(paid_journey().booking, reminded_at=paid_journey().starts_at - DAY)
    question = DueTimer(TimerKind.ASK_CHECK_IN, booking.starts_at + 15 * MINUTE)
    assert next_timer(booking, POLICY) == question


def test_what_is_known_is_not_asked_for():
    """Nobody is asked after a check-in or a dispute."""
    booking = evolve(paid_journey().booking, reminded_at=paid_journey().starts_at - DAY)
    checked_in = evolve(booking, checked_in_at=booking.starts_at)
    disputed = evolve(booking, disputed_at=booking.starts_at)
    found = [next_timer(each, POLICY) for each in (checked_in, disputed)]
    assert [timer and timer.kind for timer in found] == [TimerKind.AUTO_COMPLETE] * 2


def test_a_dispute_has_a_deadline():
    """The timer of a disputed booking is its deadline, 72 hours after the dispute."""
    booking = disputed_journey().booking
    deadline = DueTimer(TimerKind.DISPUTE_OVERDUE, booking.starts_at + 72 * HOUR)
    assert next_timer(booking, POLICY) == deadline


def test_an_overdue_dispute_has_no_timer():
    """After the deadline nothing happens by itself."""
    journey = disputed_journey()
    journey.apply(Trigger.DISPUTE_OVERDUE, Party.SYSTEM, journey.starts_at + 72 * HOUR)
    assert next_timer(journey.booking, POLICY) is None


def test_a_cancelled_request_has_nothing_due():
    """A cancelled request without earnings has no payout timer."""
    journey = BookingJourney()
    journey.apply(Trigger.DECLINE, Party.STAFF)
    assert journey.booking.status is BookingStatus.CANCELLED
    assert next_timer(journey.booking, POLICY) is None
