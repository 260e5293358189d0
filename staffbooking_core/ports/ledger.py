"""The ledger: postings and their balances, and each booking's books. Amounts are in minor units.

Postings are written with a transition of their booking (`BookingWrite`), and never change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from staffbooking_core.domain.bookings.booking import Booking
from staffbooking_core.domain.payments.ledger import Account, Posting
from staffbooking_core.domain.payments.operations import Operation
from staffbooking_core.domain.reconciliation.statement import CashPostings

__all__ = ["POSTING_KEY_TAKEN", "AuditedBooking", "LedgerReadPort"]

POSTING_KEY_TAKEN = "uq_ledger_postings_key"
"""Constraint: two postings have the same key (`BookingWrite.postings`)."""


@frozen
class AuditedBooking:
    """One booking with all its postings and operations."""

    booking: Booking
    postings: tuple[Posting, ...]
    operations: tuple[Operation, ...]


class LedgerReadPort(Protocol):
    """Queries on postings."""

    async def postings_of(self, booking_id: int) -> Sequence[Posting]:
        """The postings of a booking, in the order in which they were made."""
        ...

    async def audited_bookings(self, after_id: int, limit: int) -> Sequence[AuditedBooking]:
        """Up to `limit` bookings above `after_id`, by id, each read at one moment."""
        ...

    async def imbalance(self) -> int:
        """The sum over all legs of all postings; anything but 0 is a fault."""
        ...

    async def account_balance(self, account: Account) -> int:
        """The sum over all legs of an account; debits are positive."""
        ...

    async def cash_books(self, after_id: int, limit: int) -> Sequence[CashPostings]:
        """The legs of the account `processor_balance` of up to `limit` bookings above `after_id`
        that have an intent: by id, each booking's legs the oldest first."""
        ...
