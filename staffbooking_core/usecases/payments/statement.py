"""Two-way reconciliation of the ledger with the processor's statement (RELIABILITY 6.19).

Both sides are gone through once, side by side in the order of bookings, however many there
are; nothing is kept but what differs.
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

STATEMENT_BATCH_SIZE = 1000
EARLIEST_TIME = datetime.min.replace(tzinfo=UTC)


@frozen
class StatementDifference:
    """Something that one side has and the other lacks; of no booking (None) where the
    processor names one that we do not have."""

    booking_code: str | None
    text: str


@frozen
class ReconciliationProgress:
    """So far: bookings checked, bookings left out because something is under way, bookings
    to which the processor's facts were applied."""

    checked: int = 0
    in_flight: int = 0
    applied: int = 0

    def after(self, *, applied: bool, in_flight: bool) -> ReconciliationProgress:
        """One booking later."""
        return ReconciliationProgress(
            self.checked + 1, self.in_flight + in_flight, self.applied + applied
        )


async def reconcile_statement(
    ports: Ports, *, apply: bool = False
) -> AsyncIterator[StatementDifference | ReconciliationProgress]:
    """Every difference; in between, after each batch and at the end, how far it is.

    With `apply`, what the processor says of a booking that differs is taken over first, as
    if an event had told of it; then only what still differs is given. Raises
    ProcessorUnavailable where there is no statement to be had, and RuleBroken
    `processor_misconfigured`.
    """
    # What moved just now may not have been told to us yet; what is pretended always was.
    grace_period = ports.policy.processor_sync_deadline if ports.sandbox is None else timedelta(0)
    settled_by = await ports.clock.business() - grace_period
    statement = _StatementReader(ports.payments.statement())
    progress = ReconciliationProgress()
    try:
        for line in await statement.up_to(0):
            if line.kind is not MovementKind.OTHER:
                yield StatementDifference(
                    None, f"{line.kind} {line.ref} of {line.amount} is of no booking"
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
    """What differs, and whether the processor's facts were applied before."""
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
    """When money of a booking moved last, as either side knows."""
    moments = [line.at for line in lines]
    if book.changed_at is not None:
        moments.append(book.changed_at)
    return max(moments, default=EARLIEST_TIME)


def _unknown_intent(line: Movement) -> StatementDifference:
    text = f"{line.kind} {line.ref} of {line.amount} is of intent {line.intent_id}, unknown here"
    return StatementDifference(None, text)


class _StatementReader:
    """The processor's lines, taken as far as they are wanted."""

    def __init__(self, lines: AsyncIterator[Movement]) -> None:
        self._lines = lines
        self._ahead: Movement | None = None

    async def up_to(self, intent_id: int | None) -> list[Movement]:
        """The next lines of intents up to this one; all that are left for None."""
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
