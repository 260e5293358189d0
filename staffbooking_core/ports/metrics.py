"""Backlog figures for metrics and `doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen


@frozen
class Backlog:
    """Due work of one kind: how much, and how late the oldest of it is (seconds)."""

    kind: str
    """An `OperationKind`, `timer`, `event`, `payee` or `payout` (due or released, not yet made)."""
    count: int
    oldest: float


class MetricsReadPort(Protocol):
    """Queries over the work of all nouns; `now` is wall time."""

    async def backlog(self, now: datetime) -> Sequence[Backlog]:
        """Due work by kind; kinds with nothing due may be left out."""
        ...
