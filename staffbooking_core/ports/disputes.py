"""Statements and files of disputes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from staffbooking_core.domain.bookings.disputes import (
    DisputeFile,
    DisputeStatement,
    NewDisputeStatement,
)
from staffbooking_core.domain.bookings.lifecycle import Party

__all__ = ["DisputesReadPort", "DisputesWritePort"]


class DisputesReadPort(Protocol):
    """Queries on statements and files of disputes."""

    async def statements_of(
        self, booking_id: int, dispute_number: int
    ) -> Sequence[DisputeStatement]:
        """All statements of one dispute of a booking, the oldest first."""
        ...

    async def speakers_of(
        self, dispute_numbers: Mapping[int, int]
    ) -> Mapping[int, Sequence[Party]]:
        """The party of each statement of one dispute of several bookings, the oldest first, by
        booking id. `dispute_numbers` has the number of the dispute by booking id; bookings whose
        dispute has no statement are left out."""
        ...

    async def files_of(self, booking_id: int) -> Sequence[DisputeFile]:
        """All files that the parties uploaded for a booking, the oldest first (then by id)."""
        ...

    async def files_by(self, owner_id: int) -> Sequence[DisputeFile]:
        """All files that a user uploaded, the oldest first (then by id)."""
        ...


class DisputesWritePort(DisputesReadPort, Protocol):
    """Commands on statements and files of disputes. Callers lock the booking before."""

    async def add_statement(self, statement: NewDisputeStatement) -> None:
        """Insert a statement."""
        ...

    async def add_file(self, file: DisputeFile) -> None:
        """Insert a file."""
        ...

    async def delete_files_by(self, owner_id: int) -> None:
        """Delete all files that a user uploaded; each stays among the `orphaned_files` of the
        portfolio port by its storage name until its content is removed."""
        ...
