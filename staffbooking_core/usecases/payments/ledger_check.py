"""Check of the ledger: the invariants of every booking, and of the ledger as a whole."""

from __future__ import annotations

from collections.abc import AsyncIterator

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.ledger import Account, Posting
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.domain.reconciliation.invariants import find_invariant_violations
from staffbooking_core.ports import Ports, SandboxProcessor
from staffbooking_core.usecases.booking_writes import require_by_code
from staffbooking_core.validation import validated

__all__ = ["BookingLedger", "LedgerFault", "check_ledger", "get_booking_ledger"]

AUDIT_BATCH_SIZE = 500
_CASH_ACCOUNT = Account.PROCESSOR_BALANCE


@frozen
class LedgerFault:
    """A violated invariant of a booking, or of the ledger as a whole (None)."""

    booking_code: str | None
    text: str


async def check_ledger(ports: Ports) -> AsyncIterator[LedgerFault | int]:
    """Check the invariants; yields every fault, and the number of checked bookings after each
    batch.

    1. Each booking's postings and operations satisfy its invariants.
    2. The legs of all postings sum to zero, and so do the debts netted between bookings.
    3. In the sandbox, the cash account equals the fake processor's balance, unless operations are
       in flight.
    """
    checked, after_id, in_flight = 0, 0, False
    async with ports.store.read_view() as view:
        while batch := await view.ledger.audited_bookings(after_id, AUDIT_BATCH_SIZE):
            for audited_booking in batch:
                for text in find_invariant_violations(
                    audited_booking.booking, audited_booking.postings, audited_booking.operations
                ):
                    yield LedgerFault(audited_booking.booking.code, text)
                in_flight |= any(
                    op.first_sent_at and not op.is_finished for op in audited_booking.operations
                )
            checked, after_id = checked + len(batch), batch[-1].booking.id
            yield checked
        if imbalance := await view.ledger.imbalance():
            yield LedgerFault(None, f"the legs of all postings sum to {imbalance}, not to zero")
        netted = -await view.ledger.account_balance(Account.STAFF_NETTING)
    if netted:
        yield LedgerFault(None, f"debts netted between bookings sum to {netted}, not to zero")
    if ports.sandbox is not None and not in_flight:
        held, cash = await _compare_balances(ports, ports.sandbox)
        if held != cash:
            yield LedgerFault(None, f"the processor holds {held}, the ledger says {cash}")


async def _compare_balances(ports: Ports, processor: SandboxProcessor) -> tuple[int, int]:
    """The fake processor's balance, and the ledger's cash account. Read again for a few seconds
    while they differ, since events of recent payments may still be processed."""
    for delay in (0.2, 0.5, 1.0, 1.5, 0):
        async with ports.store.read_view() as view:
            held, cash = (
                await processor.balance(),
                await view.ledger.account_balance(_CASH_ACCOUNT),
            )
        if held == cash:
            break
        await ports.clock.sleep(delay)
    return held, cash


@frozen
class BookingLedger:
    """Ledger entries of one booking."""

    booking: Booking
    postings: tuple[Posting, ...]
    operations: tuple[Operation, ...]


@validated
async def get_booking_ledger(ports: Ports, code: str) -> BookingLedger:
    """The postings and operations of one booking, the oldest first. Raises NotFound."""
    async with ports.store.read_view() as view:
        booking = await require_by_code(view.bookings, code)
        postings = await view.ledger.postings_of(booking.id)
        operations = await view.operations.operations_of(booking.id)
    return BookingLedger(booking, tuple(postings), tuple(operations))
