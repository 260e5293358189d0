"""Rows of companions into the service, in batches, with an account of what stayed out."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import asdict, evolve

from staffbooking_adapters.inputs import structure
from staffbooking_cli.importing import Row, RowFile
from staffbooking_core.errors import ConstraintViolated, InvalidInput
from staffbooking_core.inputs import ImportedCompanion, Left
from staffbooking_core.ports import Import, Ports
from staffbooking_core.usecases.companions import imports
from staffbooking_core.usecases.companions.imports import ImportRow

BATCH = 1_000
WEIGHT = 5_000
"""Hours of its rows that a batch has at most: their days are worked out while the store holds its
locks."""
PAGE = 500

SELDOM = 100_000
"""So many objects more than at the last search for cycles: three searches or four a batch."""


async def import_file(
    ports: Ports, file: RowFile, begun: Import, tell: Callable[[int, int], None]
) -> Import:
    """All rows of a file behind where it was begun. `tell` is called after each batch with how
    many bytes are read, and how many rows were decided on since then."""
    done, parts = begun, batches(map(to_import, file.rows(begun.line)))

    def read() -> Sequence[ImportRow]:
        return next(parts, ())

    with _seldom_collected():
        batch = read()
        while batch:
            # The next is read while the store works: neither waits for the other.
            async with asyncio.TaskGroup() as group:
                following = group.create_task(asyncio.to_thread(read))
                done = await _put(ports, done, batch)
            tell(file.position, done.rows - begun.rows)
            batch = following.result()
    return done


@contextmanager
def _seldom_collected() -> Iterator[None]:
    """Rows make no cycles, and to look for some after every 700 objects is a tenth of the work."""
    usual, *others = gc.get_threshold()
    gc.set_threshold(SELDOM, *others)
    try:
        yield
    finally:
        gc.set_threshold(usual, *others)


def batches(rows: Iterable[ImportRow]) -> Iterator[Sequence[ImportRow]]:
    """Each of at most so many rows and so many hours; who has more hours than that comes alone."""
    batch, weight = list[ImportRow](), 0
    for row in rows:
        own = 0 if row.companion is None else _weight(row.companion)
        if batch and (len(batch) == BATCH or weight + own > WEIGHT):
            yield batch
            batch, weight = [], 0
        batch.append(row)
        weight += own
    if batch:
        yield batch


def _weight(row: ImportedCompanion) -> int:
    """How many overrides and slots it has."""
    weekly = () if row.weekly is Left.AS_IS else row.weekly
    overrides = () if row.overrides is Left.AS_IS else row.overrides
    return len(weekly) + sum(1 + len(day.slots) for day in overrides)


async def skipped(ports: Ports, done: Import) -> AsyncIterator[dict[str, Any]]:
    """The rows of a file that stayed out: `{line, email, reason}`."""
    line = 0
    while page := await imports.skipped_rows(ports, done.fingerprint, line, PAGE):
        for row in page:
            yield asdict(row)
        line = page[-1].line


def to_import(row: Row) -> ImportRow:
    if row.problem is not None:
        return ImportRow(row.line, row.email, problem=row.problem)
    try:
        return ImportRow(row.line, row.email, structure(ImportedCompanion, row.given))
    except InvalidInput as error:
        return ImportRow(row.line, row.email, problem=error.message)


async def _put(ports: Ports, done: Import, rows: Sequence[ImportRow]) -> Import:
    try:
        return await imports.put(ports, done, rows)
    except (ConstraintViolated, InvalidInput) as error:
        if len(rows) == 1:
            unfit = evolve(rows[0], companion=None, problem=error.message)
            return await imports.put(ports, done, [unfit])
    # The store refused the batch for the sake of one row: find it.
    middle = len(rows) // 2
    for part in (rows[:middle], rows[middle:]):
        done = await _put(ports, done, part)
    return done
