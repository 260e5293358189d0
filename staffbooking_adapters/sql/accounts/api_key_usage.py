"""Last use of API keys: recorded in memory, written periodically, never by a request."""

from __future__ import annotations

import asyncio
from datetime import datetime

from attrs import define, field
from sqlalchemy import or_, select, update

from staffbooking_adapters.sql.engine.connection import Database
from staffbooking_adapters.sql.engine.dialect import array_rows
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.bookings import api_keys
from staffbooking_core.errors import StoreUnavailable

WRITE_INTERVAL_SECONDS = 5.0
"""Maximum seconds from a use to its write."""

_USED_KEYS = array_rows("used", id=("key_ids", BigInt), at=("times", Instant))
_USED_AT = select(_USED_KEYS.c.at).where(_USED_KEYS.c.id == api_keys.c.id).scalar_subquery()
SAVE_KEY_USAGE = Statement(
    update(api_keys)
    .values(last_used_at=_USED_AT)
    .where(
        api_keys.c.id.in_(select(_USED_KEYS.c.id)),
        or_(api_keys.c.last_used_at.is_(None), api_keys.c.last_used_at < _USED_AT),
    )
)


@define
class ApiKeyUsageRecorder:
    """Keeps the last use of each key and writes it within WRITE_INTERVAL_SECONDS.

    This is no Batcher: nobody waits for the write, and uses of the same key merge.
    """

    database: Database
    unwritten_uses: dict[int, datetime] = field(factory=dict)
    _timer: asyncio.TimerHandle | None = None
    _write_task: asyncio.Task[None] | None = None

    def record(self, key_id: int, now: datetime) -> None:
        self.unwritten_uses[key_id] = max(now, self.unwritten_uses.get(key_id, now))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(
                WRITE_INTERVAL_SECONDS, self._start_write
            )

    async def close(self) -> None:
        """Write the remaining uses. They are lost if the database is unavailable."""
        if self._timer is not None:
            self._timer.cancel()
        if self._write_task is not None:
            await asyncio.wait([self._write_task])
        await self._write_uses()

    def _start_write(self) -> None:
        self._timer = None
        self._write_task = asyncio.create_task(self._write_uses())

    async def _write_uses(self) -> None:
        uses = dict(sorted(self.unwritten_uses.items()))
        if not uses:
            return
        try:
            await self.database.execute(
                SAVE_KEY_USAGE, key_ids=list(uses), times=list(uses.values())
            )
        except StoreUnavailable:
            return  # They stay recorded, and the next use starts another write.
        for key_id, at in uses.items():
            if self.unwritten_uses[key_id] == at:
                del self.unwritten_uses[key_id]
