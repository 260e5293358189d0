"""The sandbox clock: the offset of business time, shared by all processes."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy import bindparam, select, update

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.sandbox import sandbox_clock

_SELECT_CLOCK_OFFSET = select(sandbox_clock.c.offset_us)
GET_CLOCK_OFFSET = Statement(_SELECT_CLOCK_OFFSET)
LOCK_CLOCK_OFFSET = Statement(_SELECT_CLOCK_OFFSET.with_for_update())
SAVE_CLOCK_OFFSET = Statement(update(sandbox_clock).values(offset_us=bindparam("ahead_us")))


async def read_clock_offset(connection: Connection) -> timedelta:
    return timedelta(microseconds=await connection.fetch_value(GET_CLOCK_OFFSET))


async def lock_clock_offset(connection: Connection) -> timedelta:
    return timedelta(microseconds=await connection.fetch_value(LOCK_CLOCK_OFFSET))


async def save_clock_offset(connection: Connection, offset: timedelta) -> None:
    await connection.execute(SAVE_CLOCK_OFFSET, ahead_us=offset // timedelta(microseconds=1))
