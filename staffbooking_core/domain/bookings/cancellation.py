"""The cancellation table (SPECIFICATION 3): the refund of a cancelled booking."""

from __future__ import annotations

from datetime import datetime, timedelta

from attrs import frozen

from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.shared.money import PARTS_PER_MILLION, apply_rate
from staffbooking_core.policy import Policy

__all__ = ["RefundTier"]


@frozen
class CancellationRefund:
    """The refund of a cancellation: percent of the price, amount in minor units, name of the
    rule."""

    percent: int
    amount: int
    rule: str

    @property
    def is_full(self) -> bool:
        """Whether the refund is full and includes the insurance premium. Decided by percent: half
        of a price of one minor unit is rounded to all of it."""
        return self.percent == 100


NO_REFUND_UNPAID = CancellationRefund(0, 0, "not_paid")


@frozen
class _Tier:
    """A row of the cancellation table: it applies until `notice` before the start, inclusive."""

    notice: timedelta
    percent: int
    rule: str


def _customer_tiers(is_insured: bool, policy: Policy) -> tuple[_Tier, ...]:
    """The table for customers, the earliest tier first; the last one applies after it too."""
    last = (50, "under_24_hours_insured") if is_insured else (0, "under_24_hours")
    return (
        _Tier(policy.full_refund_before, 100, "48_hours_or_more"),
        _Tier(policy.half_refund_before, 50, "24_to_48_hours"),
        _Tier(timedelta(0), *last),
    )


def calculate_refund(
    *,
    party: Party,
    price: int,
    premium: int,
    is_insured: bool,
    starts_at: datetime,
    now: datetime,
    policy: Policy,
) -> CancellationRefund:
    """The refund of a paid booking that is cancelled at `now`.

    The bounds are inclusive: exactly 48 h before the start is 100 %, exactly 24 h is 50 %.
    """
    percent, rule = 100, "cancelled_by_the_service"
    if party is Party.STAFF:
        rule = "cancelled_by_staff"
    elif party is Party.CUSTOMER:
        tiers = _customer_tiers(is_insured, policy)
        tier = next((tier for tier in tiers if starts_at - now >= tier.notice), tiers[-1])
        percent, rule = tier.percent, tier.rule
    amount = apply_rate(price, percent * PARTS_PER_MILLION // 100)
    return CancellationRefund(percent, amount + premium if percent == 100 else amount, rule)


@frozen
class RefundTier:
    """The refund of a customer's cancellation until an instant, inclusive; `amount` in minor
    units."""

    until: datetime
    percent: int
    amount: int


def refund_tiers(
    *,
    price: int,
    premium: int,
    is_insured: bool,
    starts_at: datetime,
    now: datetime,
    policy: Policy,
) -> tuple[RefundTier, ...]:
    """The refunds of a customer's cancellations from `now` to the start, the earliest first."""
    tiers: list[RefundTier] = []
    for tier in _customer_tiers(is_insured, policy):
        until = starts_at - tier.notice
        if until < now:
            continue
        refund = calculate_refund(
            party=Party.CUSTOMER,
            price=price,
            premium=premium,
            is_insured=is_insured,
            starts_at=starts_at,
            now=until,
            policy=policy,
        )
        if tiers and tiers[-1].percent == refund.percent:
            tiers.pop()
        tiers.append(RefundTier(until, refund.percent, refund.amount))
    return tuple(tiers)
