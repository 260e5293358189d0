"""Numbers for bookings, given before the booking is there, and never twice."""

from __future__ import annotations

from itertools import chain

from attrs import define, field
from sqlalchemy import bindparam, update

from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.bookings import counters

BLOCK = 32
"""So many are drawn at a time, since each draw is a commit; the rest of a block is lost
with the process."""

DRAW = Statement(
    sqlite=update(counters)
    .values(value=counters.c.value + bindparam("many", type_=BigInt))
    .where(counters.c.name == "bookings")
    .returning(counters.c.value)
)


@define
class BookingNumbers:
    """SQLite's; PostgreSQL has a sequence."""

    _drawn: chain[int] = field(factory=chain)

    async def draw(self, connection: Connection) -> int:
        if not isinstance(connection, Database):
            # In a unit of work, whose rollback would give a block away twice.
            number: int = await connection.value(DRAW, many=1)
            return number
        while (drawn := next(self._drawn, None)) is None:
            end = await connection.value(DRAW, many=BLOCK)
            self._drawn = chain(self._drawn, range(end - BLOCK + 1, end + 1))
        return drawn
