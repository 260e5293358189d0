"""When keys were used last: noted in memory, written now and then, never by a request."""

from __future__ import annotations

import asyncio
from datetime import datetime

from attrs import define, field
from sqlalchemy import or_, select, update

from staffbooking_adapters.sql.engine.connection import Database
from staffbooking_adapters.sql.engine.dialect import rowset
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import api_keys
from staffbooking_core.errors import Unavailable

EVERY = 5.0
"""Seconds from a use to its writing."""

_USED = rowset("used", id=("key_ids", BigInt), at=("times", Instant))
_AT = select(_USED.c.at).where(_USED.c.id == api_keys.c.id).scalar_subquery()
WRITE = Statement(
    update(api_keys)
    .values(last_used_at=_AT)
    .where(
        api_keys.c.id.in_(select(_USED.c.id)),
        or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < _AT),
    )
)


@define
class KeyUses:
    database: Database
    unwritten: dict[int, datetime] = field(factory=dict)
    _timer: asyncio.TimerHandle | None = None
    _writing: asyncio.Task[None] | None = None

    def note(self, key_id: int, now: datetime) -> None:
        self.unwritten[key_id] = max(now, self.unwritten.get(key_id, now))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY, self._begin_to_write)

    async def close(self) -> None:
        """Write what is not written yet, unless the database is gone."""
        if self._timer is not None:
            self._timer.cancel()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        await self._write()

    def _begin_to_write(self) -> None:
        self._timer = None
        self._writing = asyncio.create_task(self._write())

    async def _write(self) -> None:
        taken = dict(sorted(self.unwritten.items()))
        if not taken:
            return
        try:
            await self.database.run(WRITE, key_ids=list(taken), times=list(taken.values()))
        except Unavailable:
            return  # The next use has them written too.
        for key_id, at in taken.items():
            if self.unwritten[key_id] == at:
                del self.unwritten[key_id]
