"""Runs of the reconciliation."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import asdict, fields, frozen
from sqlalchemy import bindparam, insert, null, select, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.leases import (
    LEASE_VALUES,
    RELEASED_LEASE_VALUES,
    claim_with_lease,
    is_held_by_caller,
    lease_parameters,
)
from staffbooking_adapters.sql.engine.page_size import page_size
from staffbooking_adapters.sql.engine.statements import Row, Statement
from staffbooking_adapters.sql.schema.payments import is_unfinished_run, reconciliation_runs
from staffbooking_core.errors import Conflict
from staffbooking_core.ports import Lease, ReconciliationRun

_COLUMNS = tuple(reconciliation_runs.c[field.name] for field in fields(ReconciliationRun))
_RESULT = ("finished_at", "checked", "in_flight", "differences", "findings", "error")

ADD_RUN = Statement(
    insert(reconciliation_runs).values(
        {
            column.name: bindparam(column.name, type_=column.type)
            for column in _COLUMNS
            if column.name != "id"
        }
    )
)
CLAIM_RUN = claim_with_lease(
    reconciliation_runs, is_unfinished_run, [reconciliation_runs.c.id], limit=1, returning=_COLUMNS
)
_IS_RUN = reconciliation_runs.c.id == bindparam("run_id")
RENEW_RUN = Statement(
    update(reconciliation_runs)
    .where(_IS_RUN, is_held_by_caller(reconciliation_runs))
    .values(LEASE_VALUES)
    .returning(reconciliation_runs.c.id)
)
FINISH_RUN = Statement(
    update(reconciliation_runs)
    .where(_IS_RUN)
    .values(
        {name: bindparam(name, type_=reconciliation_runs.c[name].type) for name in _RESULT}
        | {**RELEASED_LEASE_VALUES}
    )
)
FORGET_OPERATOR = Statement(
    update(reconciliation_runs)
    .where(reconciliation_runs.c.asked_by == bindparam("email"))
    .values(asked_by=null())
)


@cache
def newest_runs(size: int) -> Statement:
    return Statement(select(*_COLUMNS).order_by(reconciliation_runs.c.id.desc()).limit(size))


def _to_run(row: Row) -> ReconciliationRun:
    return ReconciliationRun(**dict(zip((column.name for column in _COLUMNS), row, strict=True)))


@frozen
class ReconciliationsReader:
    """Reads runs."""

    connection: Connection

    async def reconciliation_runs(self, limit: int) -> Sequence[ReconciliationRun]:
        rows = await self.connection.fetch_all(newest_runs(page_size(limit)))
        return [_to_run(row) for row in rows[:limit]]


@frozen
class ReconciliationsWriter(ReconciliationsReader):
    """Reads and writes runs."""

    async def add_reconciliation(self, asked_at: datetime, asked_by: str | None) -> None:
        values = asdict(ReconciliationRun(id=0, asked_at=asked_at, asked_by=asked_by))
        del values["id"]
        await self.connection.execute(ADD_RUN, **values)

    async def claim_reconciliation(self, now: datetime, lease: Lease) -> ReconciliationRun | None:
        rows = await self.connection.fetch_all(CLAIM_RUN, now=now, **lease_parameters(lease))
        return _to_run(rows[0]) if rows else None

    async def renew_reconciliation(self, run_id: int, lease: Lease) -> None:
        renewed = await self.connection.fetch_value(
            RENEW_RUN, run_id=run_id, held_by=lease.token, **lease_parameters(lease)
        )
        if renewed is None:
            raise Conflict("reconciliation")

    async def finish_reconciliation(self, run: ReconciliationRun) -> None:
        result = {name: getattr(run, name) for name in _RESULT}
        await self.connection.execute(FINISH_RUN, run_id=run.id, **result)

    async def forget_operator(self, email: str) -> None:
        await self.connection.execute(FORGET_OPERATOR, email=email)
