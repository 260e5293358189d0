"""Cursors of periodic polls of the processor."""

from __future__ import annotations

from datetime import datetime

from attrs import frozen
from sqlalchemy import bindparam, select

from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import upsert
from staffbooking_adapters.sql.engine.leases import NOW_PARAM
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.payments import processor_cursors

GET_CURSOR = Statement(
    select(processor_cursors.c.cursor, processor_cursors.c.at).where(
        processor_cursors.c.provider == bindparam("provider")
    )
)
_CURSOR_VALUES = {"cursor": bindparam("cursor"), "at": NOW_PARAM}
SAVE_CURSOR = Statement(
    upsert(processor_cursors)
    .values(provider=bindparam("provider"), **_CURSOR_VALUES)
    .on_conflict_do_update(index_elements=["provider"], set_=_CURSOR_VALUES)
)


@frozen
class CursorsReader:
    """Reads poll cursors."""

    connection: Connection

    async def cursor(self, name: str) -> tuple[str, datetime] | None:
        row = await self.connection.fetch_one(GET_CURSOR, provider=name)
        return None if row is None else (row[0], row[1])


@frozen
class CursorsWriter(CursorsReader):
    """Writes poll cursors."""

    async def save_cursor(self, name: str, cursor: str, now: datetime) -> None:
        await self.connection.execute(SAVE_CURSOR, provider=name, cursor=cursor, now=now)
