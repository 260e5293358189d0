"""Tests of what bookings bring to their staff member."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from staffbooking_adapters.testing.builders import DAY, HOUR, NOW, POLICY, make_booking
from staffbooking_core.domain.bookings.booking import Booking, PayoutStatus
from staffbooking_core.domain.bookings.earnings import (
    EarningState,
    NextPayout,
    describe_earning,
    find_next_payout,
    sum_months,
)
from staffbooking_core.domain.bookings.lifecycle import BookingStatus
from staffbooking_core.domain.companions.availability import local_date

PRICE, FEE, SHARE = 40_000, 6_000, 34_000


def completed(payout_status: PayoutStatus, **given: Any) -> Booking:
    return make_booking(status=BookingStatus.COMPLETED, payout_status=payout_status, **given)


@pytest.mark.parametrize(
    ("booking", "state"),
    [
        (make_booking(status=BookingStatus.PAID), EarningState.EXPECTED),
        (completed(PayoutStatus.SCHEDULED), EarningState.SCHEDULED),
        (completed(PayoutStatus.PAID), EarningState.PAID),
        (completed(PayoutStatus.FAILED), EarningState.DELAYED),
        (completed(PayoutStatus.FROZEN), EarningState.HELD),
        (make_booking(status=BookingStatus.DISPUTED), EarningState.HELD),
    ],
)
def test_an_earning_is_the_price_less_the_fee(booking: Booking, state: EarningState) -> None:
    """The state follows the payout and the booking; the amount is the price less the fee."""
    earning = describe_earning(booking, POLICY)
    assert (earning.state, earning.amount, earning.fee, earning.returned) == (state, SHARE, FEE, 0)


def test_what_was_taken_back_earns_nothing() -> None:
    """A reversed payout earns nothing, and its price went back."""
    earning = describe_earning(completed(PayoutStatus.REVERSED), POLICY)
    assert (earning.state, earning.amount, earning.fee) == (EarningState.REVERSED, 0, 0)
    assert earning.returned == PRICE


def test_expected_money_has_a_latest_day() -> None:
    """Money in escrow is paid out, at the latest, after it is confirmed by itself and the delay."""
    booking = make_booking(status=BookingStatus.PAID)
    latest = booking.ends_at + POLICY.auto_complete_after + POLICY.payout_delay
    assert describe_earning(booking, POLICY).payout_at == latest


def test_months_hold_what_is_paid_and_what_is_ahead() -> None:
    """Each month sums its events: paid out, ahead, and fees."""
    made = [
        completed(PayoutStatus.PAID, starts_at=datetime(2027, 3, 5, tzinfo=UTC)),
        completed(PayoutStatus.SCHEDULED, starts_at=datetime(2027, 3, 6, tzinfo=UTC)),
        make_booking(status=BookingStatus.PAID, starts_at=datetime(2027, 12, 31, tzinfo=UTC)),
    ]
    months = sum_months(2027, [describe_earning(booking, POLICY) for booking in made])
    assert [month.month for month in months] == [date(2027, n, 1) for n in range(1, 13)]
    assert (months[2].paid, months[2].ahead, months[2].fees) == (SHARE, SHARE, 2 * FEE)
    assert (months[11].paid, months[11].ahead, months[0].ahead) == (0, SHARE, 0)


def berlin_day(instant: datetime) -> date:
    return local_date("Europe/Berlin", instant)


def test_the_next_payout_is_all_of_the_earliest_local_day() -> None:
    """Scheduled payouts of one local day are one sum; later ones and others do not count."""
    due = datetime(2027, 3, 1, 23, 30, tzinfo=UTC)
    made = [
        completed(PayoutStatus.SCHEDULED, payout_due_at=due),
        completed(PayoutStatus.SCHEDULED, payout_due_at=due + 20 * HOUR),
        completed(PayoutStatus.SCHEDULED, payout_due_at=due + DAY),
        completed(PayoutStatus.FAILED, payout_due_at=due),
        completed(PayoutStatus.FROZEN, payout_due_at=NOW),
        make_booking(status=BookingStatus.PAID, starts_at=NOW - 90 * DAY),
    ]
    earnings = [describe_earning(booking, POLICY) for booking in made]
    assert find_next_payout(earnings, berlin_day) == NextPayout(
        date(2027, 3, 2), 2 * SHARE, 2, is_latest=False
    )


def test_without_a_schedule_the_next_payout_is_the_first_expected_one() -> None:
    """Expected money has its latest day; what is held has none."""
    booking = make_booking(status=BookingStatus.PAID, starts_at=NOW + DAY)
    later = make_booking(status=BookingStatus.PAID, starts_at=NOW + 9 * DAY)
    earnings = [describe_earning(each, POLICY) for each in (later, booking)]
    latest = berlin_day(booking.ends_at + POLICY.auto_complete_after + POLICY.payout_delay)
    assert find_next_payout(earnings, berlin_day) == NextPayout(latest, SHARE, 1, is_latest=True)
    held = describe_earning(make_booking(status=BookingStatus.DISPUTED), POLICY)
    assert find_next_payout([held], berlin_day) is None
