"""Runs of the reconciliation that operators ask for, and the worker makes."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from staffbooking_core.errors import ProcessorUnavailable, RuleBroken
from staffbooking_core.ports import Lease, Ports, ReconciliationRun, Transaction
from staffbooking_core.usecases.payments.statement import (
    ReconciliationProgress,
    reconcile_statement,
)
from staffbooking_core.validation import validated

_MAX_RUNS = 10
_MAX_FINDINGS = 100
_LEASES_OF_A_RUN = 30
"""A run may take so many times as long as other claimed work."""


@validated
async def list_runs(ports: Ports) -> Sequence[ReconciliationRun]:
    """The newest ten runs, the newest first."""
    async with ports.store.read_view() as view:
        return await view.reconciliations.reconciliation_runs(_MAX_RUNS)


@validated
async def ask_for_run(ports: Ports, asked_by: str | None) -> None:
    """Ask for a run, which the worker makes; nothing where one is asked for already."""

    async def unit(tx: Transaction) -> None:
        newest = await tx.reconciliations.reconciliation_runs(1)
        if not newest or newest[0].finished_at is not None:
            await tx.reconciliations.add_reconciliation(ports.clock.wall(), asked_by)

    await ports.store.run_transaction(unit)


async def make_asked_run(ports: Ports) -> int:
    """Make a run that was asked for; returns the number of runs made."""
    now = ports.clock.wall()
    lease = Lease(ports.ids.token(), now + _LEASES_OF_A_RUN * ports.policy.lease_duration)
    run = await ports.store.run_transaction(
        lambda tx: tx.reconciliations.claim_reconciliation(now, lease)
    )
    if run is None:
        return 0
    done = evolve(await _reconcile(ports, run), finished_at=ports.clock.wall())
    await ports.store.run_transaction(lambda tx: tx.reconciliations.finish_reconciliation(done))
    return 1


async def _reconcile(ports: Ports, run: ReconciliationRun) -> ReconciliationRun:
    progress, lines, differences = ReconciliationProgress(), list[str](), 0
    error: str | None = None
    try:
        async for found in reconcile_statement(ports):
            if isinstance(found, ReconciliationProgress):
                progress = found
                continue
            differences += 1
            if len(lines) < _MAX_FINDINGS:
                lines.append(f"{found.booking_code or ''}\t{found.text}")
    except (ProcessorUnavailable, RuleBroken) as refused:
        error = str(refused)
    return evolve(
        run,
        checked=progress.checked,
        in_flight=progress.in_flight,
        differences=differences,
        findings="\n".join(lines),
        error=error,
    )
