"""The cancellation table (SPECIFICATION 3): the refund of a cancelled booking."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

from staffbooking_core.domain.bookings.lifecycle import Party
from staffbooking_core.domain.shared.money import PARTS_PER_MILLION, apply_rate
from staffbooking_core.policy import Policy

__all__ = ["RefundTier"]

_HALF_PPM = PARTS_PER_MILLION // 2


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


def calculate_refund(
    *,
    party: Party,
    price: int,
    premium: int,
    starts_at: datetime,
    now: datetime,
    policy: Policy,
) -> CancellationRefund:
    """The refund of a paid booking that is cancelled at `now`.

    The bounds are inclusive: exactly 48 h before the start is 100 %, exactly 24 h is 50 %. A
    premium above zero means that the booking is insured.
    """
    percent, rule = _refund_tier(party, premium > 0, starts_at, now, policy)
    amount = {100: price + premium, 50: apply_rate(price, _HALF_PPM), 0: 0}[percent]
    return CancellationRefund(percent, amount, rule)


@frozen
class RefundTier:
    """The refund of a customer's cancellation until an instant, inclusive; `amount` in minor
    units."""

    until: datetime
    percent: int
    amount: int


def refund_tiers(
    *, price: int, premium: int, starts_at: datetime, now: datetime, policy: Policy
) -> tuple[RefundTier, ...]:
    """The refunds of a customer's cancellations from `now` to the start, the earliest first."""
    ends = (
        starts_at - policy.full_refund_before,
        starts_at - policy.half_refund_before,
        starts_at,
    )
    tiers: list[RefundTier] = []
    for until in ends:
        if until < now:
            continue
        refund = calculate_refund(
            party=Party.CUSTOMER,
            price=price,
            premium=premium,
            starts_at=starts_at,
            now=until,
            policy=policy,
        )
        if tiers and tiers[-1].percent == refund.percent:
            tiers.pop()
        tiers.append(RefundTier(until, refund.percent, refund.amount))
    return tuple(tiers)


def _refund_tier(
    party: Party, is_insured: bool, starts_at: datetime, now: datetime, policy: Policy
) -> tuple[int, str]:
    if party is Party.STAFF:
        return 100, "cancelled_by_staff"
    if party is not Party.CUSTOMER:
        return 100, "cancelled_by_the_service"
    time_until_start = starts_at - now
    if time_until_start >= policy.full_refund_before:
        return 100, "48_hours_or_more"
    if time_until_start >= policy.half_refund_before:
        return 50, "24_to_48_hours"
    return (50, "under_24_hours_insured") if is_insured else (0, "under_24_hours")
