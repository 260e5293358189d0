"""Proof of the money: every invariant of every booking, and the book as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.ledger import Account, Posting
from staffbooking_core.domain.payments.processor import Operation
from staffbooking_core.domain.reconciliation.invariants import faults_of
from staffbooking_core.errors import NotFound
from staffbooking_core.ports import Ports, SandboxProcessor

BATCH = 500
CASH = Account.PROCESSOR_BALANCE


@frozen
class Fault:
    """Something that must never be: of a booking, or (None) of the book as a whole."""

    booking_code: str | None
    text: str


async def check(ports: Ports) -> AsyncIterator[Fault | int]:
    """Every fault found; in between, after each batch, the number of bookings checked."""
    checked, after_id, in_flight = 0, 0, False
    async with ports.store.reading() as view:
        while batch := await view.money.audit(after_id, BATCH):
            for audited in batch:
                for text in faults_of(audited.booking, audited.postings, audited.operations):
                    yield Fault(audited.booking.code, text)
                in_flight |= any(
                    op.first_sent_at and not op.is_finished for op in audited.operations
                )
            checked, after_id = checked + len(batch), batch[-1].booking.id
            yield checked
        if imbalance := await view.money.imbalance():
            yield Fault(None, f"all legs together sum to {imbalance}, not to zero")
        netted = -await view.money.balance(Account.STAFF_NETTING)
    if netted:
        yield Fault(None, f"debts netted between bookings sum to {netted}, not to zero")
    if ports.sandbox is not None and not in_flight:
        held, cash = await _both_books(ports, ports.sandbox)
        if held != cash:
            yield Fault(None, f"the processor holds {held}, the ledger says {cash}")


async def _both_books(ports: Ports, processor: SandboxProcessor) -> tuple[int, int]:
    """What the pretended processor holds, and what the ledger says of it. What was paid just
    now takes a moment to be told: then they are looked at again."""
    for wait in (0.2, 0.5, 1.0, 1.5, 0):
        async with ports.store.reading() as view:
            held, cash = await processor.balance(), await view.money.balance(CASH)
        if held == cash:
            break
        await ports.clock.sleep(wait)
    return held, cash


@frozen
class Book:
    """One booking's page of the ledger."""

    booking: Booking
    postings: tuple[Posting, ...]
    operations: tuple[Operation, ...]


async def show(ports: Ports, code: str) -> Book:
    """The postings and operations of one booking, oldest first."""
    async with ports.store.reading() as view:
        booking = await view.bookings.booking_by_code(code)
        if booking is None:
            raise NotFound("Booking")
        postings = await view.money.postings_of(booking.id)
        operations = await view.money.operations_of(booking.id)
    return Book(booking, tuple(postings), tuple(operations))
