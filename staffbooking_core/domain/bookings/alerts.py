"""Alerts: texts about a booking that operators must look at."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen

__all__ = ["Alert", "StoredAlert"]


@frozen
class Alert:
    """An alert before it is stored."""

    text: str
    alarmed_at: datetime | None = None
    """Set if the alert asks operators to act: the business time that the booking stores as
    `dispute_alarmed_at` or `payout_alarmed_at`. None for alerts that only tell what happened."""


@frozen
class StoredAlert:
    """An alert in the list of operators; `at` is wall time."""

    at: datetime
    booking_id: int
    text: str
    alarmed_at: datetime | None = None
