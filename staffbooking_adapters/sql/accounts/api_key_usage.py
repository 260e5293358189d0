"""Use of API keys: recorded in memory, written periodically, never by a request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from attrs import define, field
from sqlalchemy import bindparam, or_, select, update

from staffbooking_adapters.sql.engine.connection import Connection, Database
from staffbooking_adapters.sql.engine.dialect import array_rows, in_array, upsert
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.accounts import api_key_calls, api_keys
from staffbooking_core.domain.accounts.api_keys import start_of_hour
from staffbooking_core.errors import StoreUnavailable

WRITE_INTERVAL_SECONDS = 5.0
"""Seconds from the first unwritten use to its write, or longer while the previous write runs."""
_HOUR = timedelta(hours=1)

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


_CALL_ROWS = array_rows(
    "made", key_id=("key_ids", BigInt), hour=("hours", Instant), calls=("counts", BigInt)
)
_ADD_KEY_CALLS = upsert(api_key_calls).from_select(
    list(api_key_calls.c.keys()),
    select(*_CALL_ROWS.c).where(
        select(api_keys.c.id).where(api_keys.c.id == _CALL_ROWS.c.key_id).exists()
    ),
)
ADD_KEY_CALLS = Statement(
    _ADD_KEY_CALLS.on_conflict_do_update(
        index_elements=["key_id", "hour"],
        set_={"calls": api_key_calls.c.calls + _ADD_KEY_CALLS.excluded.calls},
    )
)
LIST_KEY_CALLS = Statement(
    select(api_key_calls.c.key_id, api_key_calls.c.hour, api_key_calls.c.calls).where(
        in_array(api_key_calls.c.key_id, "key_ids"),
        api_key_calls.c.hour >= bindparam("since", type_=Instant),
    )
)


@define
class UnwrittenUsage:
    """What this process has recorded and not written yet."""

    last_uses: dict[int, datetime] = field(factory=dict)
    """The last use of keys by id."""
    calls: dict[tuple[int, datetime], int] = field(factory=dict)
    """The number of calls by key and hour."""


async def read_key_calls(
    connection: Connection, unwritten: UnwrittenUsage, key_ids: Sequence[int], since: datetime
) -> dict[tuple[int, datetime], int]:
    """The number of calls by key and hour since an hour; hours without any are left out."""
    rows = await connection.fetch_all(LIST_KEY_CALLS, key_ids=sorted(key_ids), since=since)
    calls = Counter({(key_id, hour): count for key_id, hour, count in rows})
    for (key_id, hour), count in unwritten.calls.items():
        if key_id in key_ids and hour >= since:
            calls[key_id, hour] += count
    return dict(calls)


@define
class ApiKeyUsageRecorder:
    """Keeps the last use and the number of calls of each key, and writes them every
    WRITE_INTERVAL_SECONDS, one write at a time.

    This is no Batcher: nobody waits for the write, and uses of the same key merge. Calls may be
    lost where a process is killed, and counted twice where the answer to a write is lost: they are
    figures to look at, and limit nothing.
    """

    database: Database
    unwritten: UnwrittenUsage = field(factory=UnwrittenUsage)
    _hour: datetime = field(default=datetime.min.replace(tzinfo=UTC), init=False)
    """The hour of the last call. The same object for all its calls, so that its hash is known."""
    _timer: asyncio.TimerHandle | None = None
    _write_task: asyncio.Task[None] | None = None

    def record(self, key_id: int, now: datetime) -> None:
        uses, calls = self.unwritten.last_uses, self.unwritten.calls
        if (last_use := uses.get(key_id)) is None or last_use < now:
            uses[key_id] = now
        if not self._hour <= now < self._hour + _HOUR:
            self._hour = start_of_hour(now)
        key_and_hour = key_id, self._hour
        calls[key_and_hour] = calls.get(key_and_hour, 0) + 1
        if self._timer is None:
            self._schedule_write()

    async def close(self) -> None:
        """Write the remaining uses. They are lost if the database is unavailable."""
        if self._timer is not None:
            self._timer.cancel()
        if self._write_task is not None:
            await asyncio.wait([self._write_task])
        await self._write_uses()

    def _schedule_write(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(
            WRITE_INTERVAL_SECONDS, self._start_write
        )

    def _start_write(self) -> None:
        if self._write_task is not None and not self._write_task.done():
            self._schedule_write()  # Two writes at a time would write the same calls twice.
            return
        self._timer = None
        self._write_task = asyncio.create_task(self._write_uses())

    async def _write_uses(self) -> None:
        uses, calls = dict(self.unwritten.last_uses), dict(self.unwritten.calls)
        if not uses and not calls:
            return
        try:
            await self._write_calls(calls)
            key_ids = sorted(uses)
            times = [uses[key_id] for key_id in key_ids]
            await self.database.execute(SAVE_KEY_USAGE, key_ids=key_ids, times=times)
        except StoreUnavailable:
            return  # They stay recorded, and the next use starts another write.
        for key_id, at in uses.items():
            if self.unwritten.last_uses[key_id] == at:
                del self.unwritten.last_uses[key_id]

    async def _write_calls(self, calls: Mapping[tuple[int, datetime], int]) -> None:
        ordered = sorted(calls.items())
        await self.database.execute(
            ADD_KEY_CALLS,
            key_ids=[key_id for (key_id, _), _ in ordered],
            hours=[hour for (_, hour), _ in ordered],
            counts=[count for _, count in ordered],
        )
        for key_and_hour, count in ordered:
            self.unwritten.calls[key_and_hour] -= count
            if not self.unwritten.calls[key_and_hour]:
                del self.unwritten.calls[key_and_hour]
