"""The policy refuses values that no deployment can mean, and names their field."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from attrs import evolve, fields

from staffbooking_adapters.testing.builders import HOUR, MINUTE, POLICY
from staffbooking_core.domain.shared.money import Currency
from staffbooking_core.policy import Policy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("currency", "usd"),
        ("country", b"US"),
        ("sandbox", 1),
        ("platform_fee_ppm", 0.15),
        ("max_webhooks", True),
        ("payout_delay", 24),
        ("payment_window", 3600),
        ("webhook_retry_delays", [timedelta(1)]),
        ("webhook_retry_delays", (1, 4, 16)),
        ("limits", None),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: Any) -> None:
    """A value of another type raises TypeError with the name of its field."""
    with pytest.raises(TypeError, match=f"^{name} must be "):
        Policy(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("currency", Currency("xau")),
        ("country", "us"),
        ("country", "USA"),
        ("country", "XX"),
        ("platform_fee_ppm", 1_000_001),
        ("insurance_rate_ppm", 2_000_000),
        ("platform_fee_ppm", -1),
        ("max_active_keys", -1),
        ("auto_complete_after", -HOUR),
        ("notification_retry_delays", (MINUTE, -MINUTE)),
        ("payment_window", timedelta(0)),
        ("half_refund_before", 49 * HOUR),
        ("payout_delay", 47 * HOUR + MINUTE),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, value: Any) -> None:
    """A value out of its range raises ValueError with the name of its field."""
    with pytest.raises(ValueError, match=f"^{name} must "):
        Policy(**{name: value})


def test_a_changed_policy_is_checked_too() -> None:
    """A value that is valid by itself is refused beside another one."""
    with pytest.raises(ValueError, match=r"^payout_delay must be 11 hours at most: "):
        evolve(POLICY, payout_deadline=12 * HOUR)


def test_the_bounds_are_inclusive() -> None:
    """The largest rates, the longest delay and equal refund bounds are accepted."""
    policy = Policy(
        platform_fee_ppm=1_000_000,
        payout_delay=47 * HOUR,
        full_refund_before=24 * HOUR,
        payment_window=timedelta(microseconds=1),
        max_dispute_files=0,
    )
    assert policy.payout_delay == 47 * HOUR


@pytest.mark.parametrize("name", [each.name for each in fields(Policy)])
def test_every_field_is_checked(name: str) -> None:
    """No field takes a value of any type."""
    thing: Any = object()
    with pytest.raises(TypeError, match=f"^{name} must be "):
        Policy(**{name: thing})
