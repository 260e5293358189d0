"""The refunds of a booking, as its record lists them (CONTRACT 10)."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from attrs import frozen

from staffbooking_core.domain.payments.operations import SettlementStatus

__all__ = ["Refund", "RefundReason"]


class RefundReason(StrEnum):
    """What a refund was ordered for."""

    CANCELLATION = "cancellation"
    DISPUTE = "dispute"
    LATE_PAYMENT = "late_payment"
    """A payment that was not awaited any more."""


@frozen
class Refund:
    """An amount owed back to the customer, in minor units, however often it is ordered."""

    n: int
    """Number of the order that sent it last."""
    amount: int
    reason: RefundReason
    created_at: datetime
    status: SettlementStatus = SettlementStatus.PENDING
    settled_at: datetime | None = None
    """When it reached the customer; None unless it is settled."""
