"""Imports companion rows in batches and records the rows that were skipped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any

from attrs import asdict, evolve

from staffbooking_adapters.inputs import structure
from staffbooking_cli.importing import ImportFile, ImportFileRow
from staffbooking_core.bounds import Unset
from staffbooking_core.errors import ConstraintViolated, InvalidInput
from staffbooking_core.inputs import ImportedCompanion
from staffbooking_core.ports import ImportProgress, Ports
from staffbooking_core.usecases.companions import imports
from staffbooking_core.usecases.companions.imports import ImportRow

IMPORT_BATCH_SIZE = 1_000
_MAX_BATCH_HOURS = 5_000
"""Maximum hour entries of a batch: their days are expanded while the store holds row locks."""
SKIPPED_PAGE_SIZE = 500


async def import_file(
    ports: Ports,
    file: ImportFile,
    progress: ImportProgress,
    report_progress: Callable[[int, int], None],
) -> ImportProgress:
    """Import all rows of a file after `progress.line`.

    `report_progress` is called after each batch with the bytes read and the number of rows
    processed by this call so far.
    """
    done, batches = progress, split_batches(map(to_import_row, file.rows(progress.line)))

    def read_batch() -> Sequence[ImportRow]:
        return next(batches, ())

    batch = read_batch()
    while batch:
        # The next batch is read while the store writes the current one.
        async with asyncio.TaskGroup() as group:
            next_batch = group.create_task(asyncio.to_thread(read_batch))
            done = await _import_batch(ports, done, batch)
        report_progress(file.position, done.row_count - progress.row_count)
        batch = next_batch.result()
    return done


def split_batches(rows: Iterable[ImportRow]) -> Iterator[Sequence[ImportRow]]:
    """Batches bounded by rows and by hour entries; a row with more hour entries than the limit
    gets a batch of its own."""
    batch, weight = list[ImportRow](), 0
    for row in rows:
        row_weight = 0 if row.companion is None else _weight(row.companion)
        if batch and (len(batch) == IMPORT_BATCH_SIZE or weight + row_weight > _MAX_BATCH_HOURS):
            yield batch
            batch, weight = [], 0
        batch.append(row)
        weight += row_weight
    if batch:
        yield batch


def _weight(row: ImportedCompanion) -> int:
    """The number of hour entries: weekly hours, overrides and their slots."""
    weekly = () if row.weekly is Unset.UNSET else row.weekly
    overrides = () if row.overrides is Unset.UNSET else row.overrides
    return len(weekly) + sum(1 + len(day.slots) for day in overrides)


async def iterate_skipped_rows(
    ports: Ports, progress: ImportProgress
) -> AsyncIterator[dict[str, Any]]:
    """The skipped rows of a file, by line: `{line, email, reason}`."""
    line = 0
    while page := await imports.list_skipped_rows(
        ports, progress.fingerprint, line, SKIPPED_PAGE_SIZE
    ):
        for row in page:
            yield asdict(row)
        line = page[-1].line


def to_import_row(row: ImportFileRow) -> ImportRow:
    """A file's row with its validated companion, or with the problem that makes it invalid."""
    if row.problem is not None:
        return ImportRow(row.line, row.email, problem=row.problem)
    try:
        return ImportRow(row.line, row.email, structure(ImportedCompanion, row.data))
    except InvalidInput as error:
        return ImportRow(row.line, row.email, problem=error.message)


async def _import_batch(
    ports: Ports, progress: ImportProgress, rows: Sequence[ImportRow]
) -> ImportProgress:
    try:
        return await imports.import_rows(ports, progress, rows)
    except (ConstraintViolated, InvalidInput) as error:
        if len(rows) == 1:
            invalid_row = evolve(rows[0], companion=None, problem=error.message)
            return await imports.import_rows(ports, progress, [invalid_row])
    # At least one row violates a constraint: bisect the batch to find it.
    middle = len(rows) // 2
    for part in (rows[:middle], rows[middle:]):
        progress = await _import_batch(ports, progress, part)
    return progress
