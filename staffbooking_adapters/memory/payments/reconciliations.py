"""Runs of the reconciliation in memory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from attrs import evolve, frozen

from staffbooking_adapters.memory.state import (
    MemoryTransaction,
    ReconciliationRow,
    holds_lease,
    is_lease_active,
)
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Lease, ReconciliationRun


@frozen
class ReconciliationsReader:
    """Reads runs."""

    tx: MemoryTransaction

    async def reconciliation_runs(self, limit: int) -> Sequence[ReconciliationRun]:
        newest = sorted(self.tx.state.reconciliations.items(), reverse=True)
        return [row.run for _, row in newest[:limit]]


@frozen
class ReconciliationsWriter(ReconciliationsReader):
    """Reads and writes runs."""

    async def add_reconciliation(self, asked_at: datetime, asked_by: str | None) -> None:
        number = max(self.tx.state.reconciliations, default=0) + 1
        run = ReconciliationRun(id=number, asked_at=asked_at, asked_by=asked_by)
        self.tx.state.reconciliations[number] = ReconciliationRow(run)

    async def claim_reconciliation(self, now: datetime, lease: Lease) -> ReconciliationRun | None:
        rows = self.tx.state.reconciliations
        for number, row in sorted(rows.items()):
            if row.run.finished_at is None and not is_lease_active(row.lease, now):
                rows[number] = ReconciliationRow(row.run, lease)
                return row.run
        return None

    async def renew_reconciliation(self, run_id: int, lease: Lease) -> None:
        row = self.tx.state.reconciliations.get(run_id)
        if row is None or not holds_lease(row.lease, lease):
            raise Conflict("reconciliation")
        self.tx.state.reconciliations[run_id] = ReconciliationRow(row.run, lease)

    async def finish_reconciliation(self, run: ReconciliationRun) -> None:
        rows = self.tx.state.reconciliations
        # The operator may have been erased since the claim.
        rows[run.id] = ReconciliationRow(evolve(run, asked_by=rows[run.id].run.asked_by))

    async def forget_operator(self, email: str) -> None:
        rows = self.tx.state.reconciliations
        for number, row in list(rows.items()):
            if row.run.asked_by == email:
                rows[number] = evolve(row, run=evolve(row.run, asked_by=None))
