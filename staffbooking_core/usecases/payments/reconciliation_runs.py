"""Runs of the reconciliation that operators ask for, and the worker makes."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from staffbooking_core.errors import Conflict, ProcessorUnavailable, RuleBroken
from staffbooking_core.ports import Lease, Ports, ReconciliationRun, Transaction
from staffbooking_core.usecases.payments.statement import (
    ReconciliationProgress,
    reconcile_statement,
)
from staffbooking_core.validation import validated

_MAX_RUNS = 10
_MAX_FINDINGS = 100
_LEASES_OF_A_BATCH = 30
"""A batch of a run may take so many times as long as other claimed work."""


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
    """Make a run that was asked for; returns the number of runs made. The claim is prolonged after
    each batch; where another worker has taken the run over meanwhile, it is left to that one."""
    now = ports.clock.wall()
    lease = _lease(ports, ports.ids.token())
    run = await ports.store.run_transaction(
        lambda tx: tx.reconciliations.claim_reconciliation(now, lease)
    )
    if run is None:
        return 0
    try:
        result = await _reconcile(ports, run, lease.token)
    except Conflict:
        return 0
    done = evolve(result, finished_at=ports.clock.wall())
    await ports.store.run_transaction(lambda tx: tx.reconciliations.finish_reconciliation(done))
    return 1


def _lease(ports: Ports, token: str) -> Lease:
    return Lease(token, ports.clock.wall() + _LEASES_OF_A_BATCH * ports.policy.lease_duration)


async def _renew(ports: Ports, run: ReconciliationRun, token: str) -> None:
    """Prolong the claim for the next batch. Raises Conflict where it was lost."""
    lease = _lease(ports, token)
    await ports.store.run_transaction(
        lambda tx: tx.reconciliations.renew_reconciliation(run.id, lease)
    )


async def _reconcile(ports: Ports, run: ReconciliationRun, token: str) -> ReconciliationRun:
    progress, lines, differences = ReconciliationProgress(), list[str](), 0
    error: str | None = None
    try:
        async for found in reconcile_statement(ports):
            if isinstance(found, ReconciliationProgress):
                progress = found
                await _renew(ports, run, token)
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
