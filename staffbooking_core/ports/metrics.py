"""Backlog figures for metrics and `doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from attrs import frozen

__all__ = ["MAX_COUNTED_WAITING", "Backlog", "MetricsReadPort", "Waiting", "WaitingKind"]


@frozen
class Backlog:
    """Due work of one kind: how much, and how late the oldest of it is (seconds)."""

    kind: str
    """An `OperationKind`, `timer`, `event`, `payee`, `notification` (a mail to send) or `payout`
    (due or released, not yet made)."""
    count: int
    oldest: float


MAX_COUNTED_WAITING = 100
"""So many of each kind are counted."""


class WaitingKind(StrEnum):
    """What waits for an operator."""

    DISPUTE = "dispute"
    OVERDUE_DISPUTE = "overdue_dispute"
    FAILED_PAYOUT = "failed_payout"
    HELD_PAYOUT = "held_payout"
    """On hold, and not under dispute."""
    FAILED_REFUND = "failed_refund"
    COMPANION = "companion"
    PORTFOLIO_ITEM = "portfolio_item"
    INQUIRY = "inquiry"
    SILENT_ENDPOINT = "silent_endpoint"


@frozen
class Waiting:
    """Things of one kind that wait for an operator, and since when the oldest of them does."""

    kind: WaitingKind
    count: int
    since: datetime | None
    """The opening or the end of the answers of a dispute, the due time of a payout, the order of a
    refund, the disabling of an endpoint, else the creation; None where nothing is known of it."""


class MetricsReadPort(Protocol):
    """Queries over the work of all nouns."""

    async def backlog(self, now: datetime) -> Sequence[Backlog]:
        """Due work by kind; kinds with nothing due may be left out. `now` is wall time."""
        ...

    async def waiting(self, now: datetime) -> Sequence[Waiting]:
        """What waits for operators, in the order of the kinds, up to MAX_COUNTED_WAITING of each;
        kinds without any are left out. `now` is business time."""
        ...
