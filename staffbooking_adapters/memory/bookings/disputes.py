"""Statements and files of disputes in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import asdict, frozen

from staffbooking_adapters.memory.state import MemoryTransaction
from staffbooking_core.domain.bookings.disputes import (
    DisputeFile,
    DisputeStatement,
    NewDisputeStatement,
)
from staffbooking_core.domain.bookings.lifecycle import Party


@frozen
class DisputesReader:
    """Reads statements and files of disputes."""

    tx: MemoryTransaction

    async def statements_of(
        self, booking_id: int, dispute_number: int
    ) -> Sequence[DisputeStatement]:
        statements = self.tx.state.dispute_statements
        of_dispute = (
            statement
            for statement in statements.values()
            if (statement.booking_id, statement.dispute_number) == (booking_id, dispute_number)
        )
        return sorted(of_dispute, key=lambda statement: statement.id)

    async def speakers_of(
        self, dispute_numbers: Mapping[int, int]
    ) -> Mapping[int, Sequence[Party]]:
        speakers: dict[int, list[Party]] = {}
        for _, statement in sorted(self.tx.state.dispute_statements.items()):
            if dispute_numbers.get(statement.booking_id) == statement.dispute_number:
                speakers.setdefault(statement.booking_id, []).append(statement.party)
        return speakers

    async def files_of(self, booking_id: int) -> Sequence[DisputeFile]:
        files = self.tx.state.dispute_files.values()
        return _oldest_first([file for file in files if file.booking_id == booking_id])

    async def files_by(self, owner_id: int) -> Sequence[DisputeFile]:
        files = self.tx.state.dispute_files.values()
        return _oldest_first([file for file in files if file.owner_id == owner_id])


def _oldest_first(files: list[DisputeFile]) -> list[DisputeFile]:
    return sorted(files, key=lambda file: (file.created_at, file.id))


@frozen
class DisputesWriter(DisputesReader):
    """Reads and writes statements and files of disputes."""

    async def add_statement(self, statement: NewDisputeStatement) -> None:
        statement_id = next(self.tx.shared.statement_ids)
        given = asdict(statement, recurse=False)
        self.tx.state.dispute_statements[statement_id] = DisputeStatement(id=statement_id, **given)

    async def add_file(self, file: DisputeFile) -> None:
        self.tx.state.dispute_files[file.id] = file

    async def delete_files_by(self, owner_id: int) -> None:
        state = self.tx.state
        for file in await self.files_by(owner_id):
            state.orphaned_files[file.storage_name] = None
            state.dispute_files.discard(file.id)
