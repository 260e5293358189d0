"""The figures of the policy that terms and prices are explained with."""

from decimal import Decimal
from typing import Any

from staffbooking_core.policy import HOUR, Policy

_MINUTES = HOUR / 60


def figures_of(policy: Policy) -> dict[str, Any]:
    """The figures of a policy for people: rates in percent; durations around payments, which may be
    of any length, as spans, the others in whole hours."""
    return {
        "currency": policy.currency.code,
        "day_hours": policy.day_rate_from_hours,
        "full_hours": policy.full_refund_before // HOUR,
        "half_hours": policy.half_refund_before // HOUR,
        "insurance": _percent(policy.insurance_rate_ppm),
        "fee": _percent(policy.platform_fee_ppm),
        "confirm_hours": policy.auto_complete_after // HOUR,
        "payment_window": policy.payment_window,
        "payout_delay": policy.payout_delay,
        "payout_deadline": policy.payout_deadline,
        "check_in_hours": policy.check_in_lead // HOUR,
        "no_show_minutes": policy.no_show_after // _MINUTES,
        "no_show_hours": policy.no_show_until // HOUR,
        "answer_hours": policy.dispute_response // HOUR,
        "credit_days": policy.rebooking_credit.days,
        "pays_late_cancellations": policy.late_cancel_payout,
    }


def _percent(rate_ppm: int) -> Decimal:
    return Decimal(rate_ppm) / 10_000
