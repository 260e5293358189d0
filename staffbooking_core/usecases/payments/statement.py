"""Two-way reconciliation of the ledger with the processor's statement.

1. Both sides are read once, in parallel, in the order of bookings; memory use is constant.
2. Each booking's cash postings are compared with the statement's lines of its intent.
3. Differences of bookings that changed recently or have operations in flight are not reported.
4. With `apply`, a booking that differs is synced with the processor and compared again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from attrs import frozen

from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import ProcessorError, ProcessorMisconfigured
from staffbooking_core.domain.reconciliation.statement import (
    CashPostings,
    Movement,
    find_differences,
)
from staffbooking_core.errors import (
    Conflict,
    ConstraintViolated,
    ProcessorUnavailable,
    RuleBroken,
)
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.payments import reconciliation
from staffbooking_core.validation import validated

__all__ = ["ReconciliationProgress", "StatementDifference", "reconcile_statement"]

STATEMENT_BATCH_SIZE = 1000
_EARLIEST_TIME = datetime.min.replace(tzinfo=UTC)


@frozen
class StatementDifference:
    """An entry that only one side has. `booking_code` is None where the processor names no booking,
    or an unknown one."""

    booking_code: str | None
    text: str


@frozen
class ReconciliationProgress:
    """Bookings checked so far, those left out as in flight, and those synced with the processor."""

    checked: int = 0
    in_flight: int = 0
    applied: int = 0

    def after(self, *, applied: bool, in_flight: bool) -> ReconciliationProgress:
        """The progress after one more booking."""
        return ReconciliationProgress(
            self.checked + 1, self.in_flight + in_flight, self.applied + applied
        )


@validated
async def reconcile_statement(
    ports: Ports, *, apply: bool = False
) -> AsyncIterator[StatementDifference | ReconciliationProgress]:
    """Compare the ledger with the statement; yields every difference, and the progress after each
    batch and at the end.

    With `apply`, a booking that differs is synced with the processor first, and only remaining
    differences are yielded. Raises ProcessorUnavailable, and RuleBroken `processor_misconfigured`.
    """
    # Events of recent movements may still be on their way; those of the sandbox never are.
    grace_period = ports.policy.processor_sync_deadline if ports.sandbox is None else timedelta(0)
    settled_by = await ports.clock.business() - grace_period
    statement = _StatementReader(ports.payments.statement())
    progress = ReconciliationProgress()
    try:
        for line in await statement.up_to(0):
            if line.kind is not MovementKind.OTHER:
                yield StatementDifference(
                    None, f"{line.kind} {line.ref} of {line.amount} belongs to no booking"
                )
        async for book in _cash_books(ports):
            for line in await statement.up_to(book.booking_id - 1):
                yield _unknown_intent(line)
            lines = await statement.up_to(book.booking_id)
            found, applied = await _compare(ports, book, lines, apply)
            is_in_flight = bool(found) and (
                book.has_in_flight or _changed_at(book, lines) > settled_by
            )
            for text in () if is_in_flight else found:
                yield StatementDifference(book.code, text)
            progress = progress.after(applied=applied, in_flight=is_in_flight)
            if progress.checked % STATEMENT_BATCH_SIZE == 0:
                yield progress
        for line in await statement.up_to(None):
            yield _unknown_intent(line)
    except ProcessorMisconfigured as error:
        raise RuleBroken("processor_misconfigured", str(error)) from error
    except ProcessorError as error:
        raise ProcessorUnavailable from error
    yield progress


async def _compare(
    ports: Ports, book: CashPostings, lines: Sequence[Movement], apply: bool
) -> tuple[list[str], bool]:
    """The differences of a booking, and whether it was synced with the processor."""
    found = [*find_differences(book, lines)]
    if not (found and apply):
        return found, False
    try:
        await reconciliation.sync_intent(ports, book.booking_id, ports.policy.processor_timeout)
    except (RuleBroken, ConstraintViolated, Conflict) as error:
        return [*found, f"could not be applied: {error}"], False
    async with ports.store.read_view() as view:
        [book] = await view.ledger.cash_books(book.booking_id - 1, 1)
    return [*find_differences(book, lines)], True


def _changed_at(book: CashPostings, lines: Sequence[Movement]) -> datetime:
    """When money of a booking last moved, as known by either side."""
    moments = [line.at for line in lines]
    if book.changed_at is not None:
        moments.append(book.changed_at)
    return max(moments, default=_EARLIEST_TIME)


def _unknown_intent(line: Movement) -> StatementDifference:
    text = f"{line.kind} {line.ref} of {line.amount} belongs to unknown intent {line.intent_id}"
    return StatementDifference(None, text)


class _StatementReader:
    """Reads the statement's lines up to a given intent."""

    def __init__(self, lines: AsyncIterator[Movement]) -> None:
        self._lines = lines
        self._ahead: Movement | None = None

    async def up_to(self, intent_id: int | None) -> list[Movement]:
        """The next lines of intents up to this one; all remaining lines for None."""
        taken: list[Movement] = []
        while (line := await self._next()) is not None:
            if intent_id is not None and (line.intent_id or 0) > intent_id:
                self._ahead = line
                break
            taken.append(line)
        return taken

    async def _next(self) -> Movement | None:
        ahead, self._ahead = self._ahead, None
        return ahead or await anext(self._lines, None)


async def _cash_books(ports: Ports) -> AsyncIterator[CashPostings]:
    after_id = 0
    while True:
        async with ports.store.read_view() as view:
            batch = await view.ledger.cash_books(after_id, STATEMENT_BATCH_SIZE)
        if not batch:
            return
        for book in batch:
            yield book
        after_id = batch[-1].booking_id
