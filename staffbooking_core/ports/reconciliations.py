"""Runs of the reconciliation with the processor's statement, asked for by operators."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from attrs import frozen

from staffbooking_core.ports.leases import Lease

__all__ = ["ReconciliationRun", "ReconciliationsReadPort", "ReconciliationsWritePort"]


@frozen(kw_only=True)
class ReconciliationRun:
    """One run; times are wall time."""

    id: int
    asked_at: datetime
    asked_by: str | None
    """The e-mail address of the operator; None for the worker, and where the operator is erased."""
    finished_at: datetime | None = None
    checked: int = 0
    """Bookings that were compared."""
    in_flight: int = 0
    """Bookings left out, since their money was on its way."""
    differences: int = 0
    findings: str = ""
    """The first differences, one a line: the booking's code or nothing, a tab, the text."""
    error: str | None = None
    """Why it could not be finished."""


class ReconciliationsReadPort(Protocol):
    """Queries on runs."""

    async def reconciliation_runs(self, limit: int) -> Sequence[ReconciliationRun]:
        """The newest runs first."""
        ...


class ReconciliationsWritePort(ReconciliationsReadPort, Protocol):
    """Commands on runs."""

    async def add_reconciliation(self, asked_at: datetime, asked_by: str | None) -> None:
        """Ask for a run."""
        ...

    async def claim_reconciliation(self, now: datetime, lease: Lease) -> ReconciliationRun | None:
        """Claim the oldest run that is not finished; None where there is none. `now` is wall
        time."""
        ...

    async def renew_reconciliation(self, run_id: int, lease: Lease) -> None:
        """Prolong the claim of a run. Raises Conflict where it was lost."""
        ...

    async def finish_reconciliation(self, run: ReconciliationRun) -> None:
        """Save the result of a run, which nobody claims again. Who asked for it stays as stored."""
        ...

    async def forget_operator(self, email: str) -> None:
        """Delete the address of an operator, as it was given, from all runs."""
        ...
