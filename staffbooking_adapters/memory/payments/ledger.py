"""The ledger in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from attrs import frozen

from staffbooking_adapters.memory.payments.inbox import intents_with_pending_events
from staffbooking_adapters.memory.payments.operations import operation_rows_of
from staffbooking_adapters.memory.slots import bookings_after
from staffbooking_adapters.memory.state import MemoryState, MemoryTransaction
from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.ledger import Account, Posting, account_balances
from staffbooking_core.domain.payments.operations import OperationStatus
from staffbooking_core.domain.reconciliation.statement import CashPostings
from staffbooking_core.errors import ConstraintViolated
from staffbooking_core.ports import POSTING_KEY_TAKEN, AuditedBooking


def add_posting(state: MemoryState, posting: Posting) -> None:
    """Append a posting. Raises ConstraintViolated if its key is used."""
    if posting.key in state.postings:
        raise ConstraintViolated(POSTING_KEY_TAKEN)
    state.postings[posting.key] = posting
    others = state.postings_of.get(posting.booking_id) or ()
    state.postings_of[posting.booking_id] = (*others, posting.key)


@frozen
class LedgerReader:
    """Reads postings."""

    tx: MemoryTransaction

    async def postings_of(self, booking_id: int) -> Sequence[Posting]:
        return _postings_of(self.tx.state, booking_id)

    async def audited_bookings(self, after_id: int, limit: int) -> Sequence[AuditedBooking]:
        state = self.tx.state
        return [
            AuditedBooking(
                booking,
                tuple(_postings_of(state, booking.id)),
                tuple(row.operation for row in operation_rows_of(state, booking.id)),
            )
            for booking in bookings_after(state, after_id)[:limit]
        ]

    async def imbalance(self) -> int:
        postings = self.tx.state.postings.values()
        return sum(leg.amount for posting in postings for leg in posting.legs)

    async def account_balance(self, account: Account) -> int:
        return account_balances(self.tx.state.postings.values())[account]

    async def cash_books(self, after_id: int, limit: int) -> Sequence[CashPostings]:
        state = self.tx.state
        pending = intents_with_pending_events(state)
        accepted = (each for each in bookings_after(state, after_id) if each.intent is not None)
        return [
            _cash_book(state, booking, has_pending_event=booking.id in pending)
            for booking in islice(accepted, limit)
        ]


def _postings_of(state: MemoryState, booking_id: int) -> list[Posting]:
    return [state.postings[key] for key in state.postings_of.get(booking_id) or ()]


def _processor_balance_legs(postings: Iterable[Posting]) -> Iterator[tuple[str, int]]:
    """The postings' legs of the account `processor_balance`, each with its posting's key."""
    for posting in postings:
        for leg in posting.legs:
            if leg.account is Account.PROCESSOR_BALANCE:
                yield posting.key, leg.amount


def _cash_book(state: MemoryState, booking: Booking, has_pending_event: bool) -> CashPostings:
    operations = [row.operation for row in operation_rows_of(state, booking.id)]
    refs = {
        each.id: each.result_ref
        for each in operations
        if each.status is OperationStatus.DONE and each.result_ref is not None
    }
    is_in_flight = has_pending_event or any(each.is_in_flight for each in operations)
    postings = _postings_of(state, booking.id)
    cash = tuple(_processor_balance_legs(postings))
    named = {key for key, _ in cash}
    changed_at = max((each.at for each in postings if each.key in named), default=None)
    return CashPostings(booking.id, booking.code, cash, refs, is_in_flight, changed_at)
