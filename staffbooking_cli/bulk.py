"""Rows of companions into the service, in batches, with an account of what stayed out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from staffbooking_adapters.inputs import structure
from staffbooking_cli.importing import Row
from staffbooking_core.domain.accounts import fold_email
from staffbooking_core.errors import InvalidInput, StaffbookingError, Unavailable
from staffbooking_core.inputs import ImportedCompanion
from staffbooking_core.ports import Ports
from staffbooking_core.usecases import admin

BATCH = 200


async def import_rows(
    ports: Ports, rows: Iterable[Row], tell: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """`{"imported", "updated", "skipped": [{line, email, reason}]}`; `tell` is called as
    the work goes on."""
    outcome = _Outcome(ports)
    for row in rows:
        await outcome.take(row)
        tell()
    await outcome.flush()
    return outcome.record()


class _Outcome:
    """What went in so far, and the batch that is to go in next."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._batch: dict[str, tuple[Row, ImportedCompanion]] = {}
        self._skipped: list[dict[str, Any]] = []
        self._imported = self._updated = 0

    async def take(self, row: Row) -> None:
        """One row: into the batch, or named with its reason."""
        if row.problem is not None:
            self.skip(row, row.problem)
            return
        try:
            companion = structure(ImportedCompanion, row.given)
        except InvalidInput as error:
            self.skip(row, error.message)
            return
        # Somebody who comes twice comes in two batches, so that the later row updates.
        email = fold_email(companion.email)
        if email in self._batch or len(self._batch) >= BATCH:
            await self.flush()
        self._batch[email] = (row, companion)

    def skip(self, row: Row, reason: str) -> None:
        self._skipped.append({"line": row.line, "email": row.email, "reason": reason})

    async def flush(self) -> None:
        batch, self._batch = [*self._batch.values()], {}
        if batch:
            await self._put(batch)

    async def _put(self, batch: list[tuple[Row, ImportedCompanion]]) -> None:
        try:
            counts = await admin.import_companions(self._ports, [one for _, one in batch])
        except Unavailable:
            raise
        except StaffbookingError as error:
            # The store refused the batch for the sake of one row: find it.
            if len(batch) == 1:
                self.skip(batch[0][0], error.message)
                return
            for one in batch:
                await self._put([one])
            return
        self._imported += counts.imported
        self._updated += counts.updated
        for position, reason in counts.refused:
            self.skip(batch[position][0], reason)

    def record(self) -> dict[str, Any]:
        skipped = sorted(self._skipped, key=lambda one: one["line"])
        return {"imported": self._imported, "updated": self._updated, "skipped": skipped}
