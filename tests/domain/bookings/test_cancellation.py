"""The cancellation table, with its bounds to the second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from staffbooking_adapters.testing.builders import HOUR, NOW, POLICY, SECOND
from staffbooking_core.domain.bookings.cancellation import CancellationRefund, calculate_refund
from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.companions.availability import local_time_to_utc
from staffbooking_core.domain.shared.money import MAX_AMOUNT_MINOR_UNITS

MICRO = timedelta(microseconds=1)


def refund(
    before,
    by=Party.CUSTOMER,
    price=10_000,
    premium=0,
    is_insured=None,
    policy=POLICY,
    starts_at=NOW,
):
    """The refund of a cancellation this long before the start; insured with a premium, if it is not
    said otherwise."""
    return calculate_refund(
        party=by,
        price=price,
        premium=premium,
        is_insured=premium > 0 if is_insured is None else is_insured,
        starts_at=starts_at,
        now=starts_at - before,
        policy=policy,
    )


@pytest.mark.parametrize(
    "before, percent",
    [
        (1000 * HOUR, 100),
        (48 * HOUR + SECOND, 100),
        (48 * HOUR, 100),
        (48 * HOUR - MICRO, 50),
        (48 * HOUR - SECOND, 50),
        (24 * HOUR + SECOND, 50),
        (24 * HOUR, 50),
        (24 * HOUR - MICRO, 0),
        (24 * HOUR - SECOND, 0),
        (SECOND, 0),
    ],
)
def test_the_tier_turns_at_the_exact_moment(before, percent):
    """Exactly 48 hours before the start is 100 %, exactly 24 hours is 50 %, a moment later is
    less."""
    assert refund(before).percent == percent


@pytest.mark.parametrize(
    "before, percent", [(24 * HOUR, 50), (24 * HOUR - MICRO, 50), (SECOND, 50)]
)
def test_insurance_gives_half_at_the_last_moment(before, percent):
    """An insured cancellation under 24 hours refunds 50 % of the price, and keeps the premium."""
    assert refund(before, premium=500) == CancellationRefund(
        percent, 5_000, "24_to_48_hours" if before >= 24 * HOUR else "under_24_hours_insured"
    )


def test_an_insurance_without_a_premium_is_one():
    """An insured booking whose premium is zero gets the half of a late cancellation back."""
    assert refund(HOUR, is_insured=True).rule == "under_24_hours_insured"


def test_a_full_refund_returns_the_premium():
    """A refund of 100 % includes the premium."""
    assert refund(48 * HOUR, premium=500) == CancellationRefund(100, 10_500, "48_hours_or_more")


def test_half_is_of_the_price_alone():
    """A refund of 50 % does not include the premium."""
    assert refund(30 * HOUR, premium=500).amount == 5_000


@pytest.mark.parametrize("by", [Party.STAFF, Party.ADMIN])
@pytest.mark.parametrize("before", [100 * HOUR, 30 * HOUR, SECOND, -HOUR])
def test_staff_and_admins_always_give_all_back(by, before):
    """A cancellation by staff member, admin or system refunds 100 % at any time."""
    assert refund(before, by=by, premium=500).amount == 10_500


def test_a_half_unit_is_rounded_up():
    """Half of an odd amount is rounded up, in the customer's favour."""
    assert refund(30 * HOUR, price=101).amount == 51


def test_a_half_refund_of_one_unit_is_not_a_full_one():
    """A half refund of a price of one unit is one unit, but does not include the premium."""
    half = refund(30 * HOUR, price=1, premium=1)
    assert (half.amount, half.is_full) == (1, False)


@pytest.mark.parametrize(
    "day", [datetime(2027, 3, 28, tzinfo=UTC), datetime(2027, 10, 31, tzinfo=UTC)]
)
@pytest.mark.parametrize("hours, percents", [(48, (100, 50)), (24, (50, 0))])
def test_the_tiers_count_elapsed_hours_on_days_of_a_clock_change(day, hours, percents):
    """The bounds count elapsed hours, also across a clock change."""
    starts_at = local_time_to_utc("Europe/Berlin", day.date(), 12 * 60)
    assert starts_at.hour == 10 if day.month == 3 else starts_at.hour == 11
    found = [
        refund(hours * HOUR - late, starts_at=starts_at).percent for late in (SECOND * 0, SECOND)
    ]
    assert tuple(found) == percents


def test_the_tiers_are_the_policys():
    """The bounds of the deployment's policy apply."""
    policy = evolve(POLICY, full_refund_before=10 * HOUR, half_refund_before=HOUR)
    assert [refund(n * HOUR, policy=policy).percent for n in (10, 9, 1)] == [100, 50, 50]


@given(
    price=st.integers(1, MAX_AMOUNT_MINOR_UNITS),
    premium=st.integers(0, MAX_AMOUNT_MINOR_UNITS),
    minutes=st.integers(-1000, 6000),
    by=st.sampled_from([Party.CUSTOMER, Party.STAFF, Party.ADMIN, Party.SYSTEM]),
)
def test_a_refund_is_within_what_was_paid(price, premium, minutes, by):
    """A refund is from zero to the total; a partial one is at most the price."""
    given_back = refund(timedelta(minutes=minutes), by, price, premium)
    assert 0 <= given_back.amount <= (price + premium if given_back.is_full else price)


@given(price=st.integers(1, MAX_AMOUNT_MINOR_UNITS), premium=st.integers(0, 100), data=st.data())
def test_earlier_is_never_worse(price, premium, data):
    """An earlier cancellation never refunds less."""
    hours = st.integers(0, 100)
    early, late = sorted((data.draw(hours), data.draw(hours)), reverse=True)
    amounts = [refund(n * HOUR, price=price, premium=premium).amount for n in (early, late)]
    assert amounts[0] >= amounts[1]
