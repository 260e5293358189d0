"""The sandbox clock: the offset of business time, shared by all processes."""

from __future__ import annotations

from datetime import timedelta

from attrs import frozen
from sqlalchemy import bindparam, select, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.bookings import sandbox_clock

_SELECT_CLOCK_OFFSET = select(sandbox_clock.c.offset_us)
GET_CLOCK_OFFSET = Statement(_SELECT_CLOCK_OFFSET)
LOCK_CLOCK_OFFSET = Statement(_SELECT_CLOCK_OFFSET.with_for_update())
SAVE_CLOCK_OFFSET = Statement(update(sandbox_clock).values(offset_us=bindparam("ahead_us")))


async def read_clock_offset(connection: Connection) -> timedelta:
    return timedelta(microseconds=await connection.fetch_value(GET_CLOCK_OFFSET))


@frozen
class SandboxReader:
    """Reads the offset of the sandbox clock."""

    connection: Connection

    async def clock_offset(self) -> timedelta:
        return await read_clock_offset(self.connection)


@frozen
class SandboxWriter(SandboxReader):
    """Locks and sets the offset of the sandbox clock."""

    async def lock_clock(self) -> timedelta:
        return timedelta(microseconds=await self.connection.fetch_value(LOCK_CLOCK_OFFSET))

    async def set_clock_offset(self, offset: timedelta) -> None:
        await self.connection.execute(
            SAVE_CLOCK_OFFSET, ahead_us=offset // timedelta(microseconds=1)
        )
