"""Two-way reconciliation of the ledger with the processor's statement (RELIABILITY 6.19).

Both sides are gone through once, side by side in the order of bookings, however many there
are; nothing is kept but what differs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from attrs import frozen

from staffbooking_core.domain.payments.ledger import MovementKind
from staffbooking_core.domain.payments.processor import Misconfigured, PaymentsError
from staffbooking_core.domain.reconciliation.statement import CashBook, Movement, differences
from staffbooking_core.errors import (
    Conflict,
    ConstraintViolated,
    ProcessorUnavailable,
    RuleBroken,
)
from staffbooking_core.ports import Ports
from staffbooking_core.usecases.payments import reconciliation

BATCH = 1000
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@frozen
class Difference:
    """Something that one side has and the other lacks; of no booking (None) where the
    processor names one that we do not have."""

    booking_code: str | None
    text: str


@frozen
class Progress:
    """So far: bookings checked, bookings left out because something is under way, bookings
    to which the processor's facts were applied."""

    checked: int = 0
    in_flight: int = 0
    applied: int = 0

    def after(self, *, applied: bool, in_flight: bool) -> Progress:
        """One booking later."""
        return Progress(self.checked + 1, self.in_flight + in_flight, self.applied + applied)


async def reconcile(ports: Ports, *, apply: bool = False) -> AsyncIterator[Difference | Progress]:
    """Every difference; in between, after each batch and at the end, how far it is.

    With `apply`, what the processor says of a booking that differs is taken over first, as
    if an event had told of it; then only what still differs is given. Raises
    ProcessorUnavailable where there is no statement to be had, and RuleBroken
    `processor_misconfigured`.
    """
    # What moved just now may not have been told to us yet; what is pretended always was.
    grace = ports.policy.told_within if ports.sandbox is None else timedelta(0)
    settled_by = await ports.clock.business() - grace
    statement = _Statement(ports.payments.statement())
    done = Progress()
    try:
        for line in await statement.up_to(0):
            if line.kind is not MovementKind.OTHER:
                yield Difference(None, f"{line.kind} {line.ref} of {line.amount} is of no booking")
        async for book in _books(ports):
            for line in await statement.up_to(book.booking_id - 1):
                yield _unknown(line)
            lines = await statement.up_to(book.booking_id)
            found, applied = await _compare(ports, book, lines, apply)
            moving = bool(found) and (book.in_flight or _changed_at(book, lines) > settled_by)
            for text in () if moving else found:
                yield Difference(book.code, text)
            done = done.after(applied=applied, in_flight=moving)
            if done.checked % BATCH == 0:
                yield done
        for line in await statement.up_to(None):
            yield _unknown(line)
    except Misconfigured as error:
        raise RuleBroken("processor_misconfigured", str(error)) from error
    except PaymentsError as error:
        raise ProcessorUnavailable from error
    yield done


async def _compare(
    ports: Ports, book: CashBook, lines: Sequence[Movement], apply: bool
) -> tuple[list[str], bool]:
    """What differs, and whether the processor's facts were applied before."""
    found = [*differences(book, lines)]
    if not (found and apply):
        return found, False
    try:
        await reconciliation.look(ports, book.booking_id, ports.policy.processor_deadline)
    except (RuleBroken, ConstraintViolated, Conflict) as error:
        return [*found, f"could not be applied: {error}"], False
    async with ports.store.reading() as view:
        [book] = await view.money.cash_books(book.booking_id - 1, 1)
    return [*differences(book, lines)], True


def _changed_at(book: CashBook, lines: Sequence[Movement]) -> datetime:
    """When money of a booking moved last, as either side knows."""
    moments = [line.at for line in lines]
    if book.changed_at is not None:
        moments.append(book.changed_at)
    return max(moments, default=LONG_AGO)


def _unknown(line: Movement) -> Difference:
    text = f"{line.kind} {line.ref} of {line.amount} is of intent {line.intent_id}, unknown here"
    return Difference(None, text)


class _Statement:
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


async def _books(ports: Ports) -> AsyncIterator[CashBook]:
    after_id = 0
    while True:
        async with ports.store.reading() as view:
            batch = await view.money.cash_books(after_id, BATCH)
        if not batch:
            return
        for book in batch:
            yield book
        after_id = batch[-1].booking_id
