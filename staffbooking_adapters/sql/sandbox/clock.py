"""The sandbox's clock: by how much business time is ahead, for all processes alike."""

from __future__ import annotations

from datetime import timedelta

from attrs import frozen
from sqlalchemy import bindparam, select, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.bookings import sandbox_clock

_OFFSET = select(sandbox_clock.c.offset_us)
GET_OFFSET = Statement(_OFFSET)
LOCK_OFFSET = Statement(_OFFSET.with_for_update())
SET_OFFSET = Statement(update(sandbox_clock).values(offset_us=bindparam("ahead_us")))


async def clock_offset(connection: Connection) -> timedelta:
    return timedelta(microseconds=await connection.value(GET_OFFSET))


@frozen
class SandboxReader:
    connection: Connection

    async def clock_offset(self) -> timedelta:
        return await clock_offset(self.connection)


@frozen
class SandboxWriter(SandboxReader):
    async def lock_clock(self) -> timedelta:
        return timedelta(microseconds=await self.connection.value(LOCK_OFFSET))

    async def set_clock_offset(self, offset: timedelta) -> None:
        await self.connection.run(SET_OFFSET, ahead_us=offset // timedelta(microseconds=1))
