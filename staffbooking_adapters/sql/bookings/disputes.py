"""Statements and files of disputes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict, frozen
from sqlalchemy import bindparam, delete, insert, literal, select

from staffbooking_adapters import codec
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import in_array
from staffbooking_adapters.sql.engine.row_mapping import RowMapper
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.companions import dropped_images
from staffbooking_adapters.sql.schema.disputes import dispute_files, dispute_statements
from staffbooking_core.domain.bookings.disputes import (
    DISPUTE_FILE_SUFFIX,
    DisputeFile,
    DisputeFileKind,
    DisputeStatement,
    NewDisputeStatement,
)
from staffbooking_core.domain.bookings.lifecycle import Party


def _parse_file_ids(text: str) -> tuple[str, ...]:
    return codec.load(text, tuple[str, ...])


STATEMENT_COLUMNS = tuple(dispute_statements.c)
to_statement = RowMapper(DisputeStatement, STATEMENT_COLUMNS, party=Party, files=_parse_file_ids)
FILE_COLUMNS = tuple(dispute_files.c)
to_file = RowMapper(DisputeFile, FILE_COLUMNS, kind=DisputeFileKind)

STATEMENTS_OF = Statement(
    select(*STATEMENT_COLUMNS)
    .where(
        dispute_statements.c.booking_id == bindparam("booking_id"),
        dispute_statements.c.dispute_number == bindparam("dispute_number"),
    )
    .order_by(dispute_statements.c.id)
)
SPEAKERS_OF = Statement(
    select(
        dispute_statements.c.booking_id,
        dispute_statements.c.dispute_number,
        dispute_statements.c.party,
    )
    .where(in_array(dispute_statements.c.booking_id, "booking_ids"))
    .order_by(dispute_statements.c.id)
)
"""Of all disputes of the bookings: most have one."""
ADD_STATEMENT = Statement(
    insert(dispute_statements).values(
        {c.name: bindparam(c.name, type_=c.type) for c in STATEMENT_COLUMNS if c.name != "id"}
    )
)
_SELECT_FILES = select(*FILE_COLUMNS).order_by(dispute_files.c.created_at, dispute_files.c.id)
_IS_FILE_OF_OWNER = dispute_files.c.owner_id == bindparam("owner_id")
FILES_OF = Statement(_SELECT_FILES.where(dispute_files.c.booking_id == bindparam("booking_id")))
FILES_BY = Statement(_SELECT_FILES.where(_IS_FILE_OF_OWNER))
ADD_FILE = Statement(
    insert(dispute_files).values({c.name: bindparam(c.name, type_=c.type) for c in FILE_COLUMNS})
)
ADD_DROPPED_FILES = Statement(
    insert(dropped_images).from_select(
        ["name"],
        select(dispute_files.c.id + literal(DISPUTE_FILE_SUFFIX)).where(_IS_FILE_OF_OWNER),
    )
)
DELETE_FILES = Statement(delete(dispute_files).where(_IS_FILE_OF_OWNER))


@frozen
class DisputesReader:
    """Reads statements and files of disputes."""

    connection: Connection

    async def statements_of(
        self, booking_id: int, dispute_number: int
    ) -> Sequence[DisputeStatement]:
        rows = await self.connection.fetch_all(
            STATEMENTS_OF, booking_id=booking_id, dispute_number=dispute_number
        )
        return [to_statement(row) for row in rows]

    async def speakers_of(
        self, dispute_numbers: Mapping[int, int]
    ) -> Mapping[int, Sequence[Party]]:
        rows = await self.connection.fetch_all(SPEAKERS_OF, booking_ids=list(dispute_numbers))
        speakers: dict[int, list[Party]] = {}
        for booking_id, number, party in rows:
            if number == dispute_numbers[booking_id]:
                speakers.setdefault(booking_id, []).append(Party(party))
        return speakers

    async def files_of(self, booking_id: int) -> Sequence[DisputeFile]:
        rows = await self.connection.fetch_all(FILES_OF, booking_id=booking_id)
        return [to_file(row) for row in rows]

    async def files_by(self, owner_id: int) -> Sequence[DisputeFile]:
        rows = await self.connection.fetch_all(FILES_BY, owner_id=owner_id)
        return [to_file(row) for row in rows]


@frozen
class DisputesWriter(DisputesReader):
    """Writes statements and files of disputes."""

    async def add_statement(self, statement: NewDisputeStatement) -> None:
        given: dict[str, Any] = asdict(statement)
        given["files"] = codec.dump(statement.files, tuple[str, ...])
        await self.connection.execute(ADD_STATEMENT, **given)

    async def add_file(self, file: DisputeFile) -> None:
        await self.connection.execute(ADD_FILE, **asdict(file))

    async def delete_files_by(self, owner_id: int) -> None:
        await self.connection.execute(ADD_DROPPED_FILES, owner_id=owner_id)
        await self.connection.execute(DELETE_FILES, owner_id=owner_id)
