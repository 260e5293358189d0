"""The record of a quote (CONTRACT 10)."""

from decimal import Decimal
from typing import Annotated, NotRequired, TypedDict

from staffbooking_core.representations.json_types import JsonSchema, Timestamp

__all__ = ["CancellationStepRecord", "QuoteLineRecord", "QuoteRecord"]


class QuoteLineRecord(TypedDict):
    """A part of the total; the cap of a day is negative."""

    kind: Annotated[
        str, JsonSchema(title="QuoteLineKind", enum=["hours", "daily_cap", "insurance"])
    ]
    amount: Decimal


class CancellationStepRecord(TypedDict):
    """What a cancellation by the customer gives back until an instant, inclusive."""

    until: Timestamp
    refund_percent: int
    refund_amount: Decimal


class QuoteRecord(TypedDict):
    """The price of a booking that is not made yet. The lines add up to the total; `reason` says
    why the companion is not available."""

    currency: str
    hourly_rate: Decimal
    daily_rate: Decimal | None
    duration_hours: int
    lines: list[QuoteLineRecord]
    price: Decimal
    insurance_premium: Decimal
    total_amount: Decimal
    starts_at: Timestamp
    ends_at: Timestamp
    timezone: str
    available: bool
    reason: NotRequired[str]
    cancellation: list[CancellationStepRecord]
