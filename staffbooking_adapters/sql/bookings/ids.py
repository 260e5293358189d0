"""Allocates booking IDs before the booking exists; an ID is never reused."""

from __future__ import annotations

from itertools import chain

from attrs import define, field
from sqlalchemy import bindparam, update

from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.bookings import counters

ID_BLOCK_SIZE = 32
"""Number of ids allocated at once, because each allocation is a commit. Unused ids of a block are
lost when the process ends."""

ALLOCATE_IDS = Statement(
    sqlite=update(counters)
    .values(value=counters.c.value + bindparam("many", type_=BigInt))
    .where(counters.c.name == "bookings")
    .returning(counters.c.value)
)


@define
class BookingIdAllocator:
    """Allocates booking ids on SQLite; PostgreSQL uses a sequence."""

    _allocated_ids: chain[int] = field(factory=chain)

    async def allocate(self, connection: Connection) -> int:
        if not isinstance(connection, Database):
            # A rollback of this transaction would allocate the same block a second time.
            booking_id: int = await connection.fetch_value(ALLOCATE_IDS, many=1)
            return booking_id
        while (allocated_id := next(self._allocated_ids, None)) is None:
            end = await connection.fetch_value(ALLOCATE_IDS, many=ID_BLOCK_SIZE)
            self._allocated_ids = chain(
                self._allocated_ids, range(end - ID_BLOCK_SIZE + 1, end + 1)
            )
        return allocated_id
