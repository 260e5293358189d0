"""Locks and writes companions and their day marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime

from attrs import frozen
from sqlalchemy import bindparam, delete, select

from staffbooking_adapters.sql.companions.batch_writes import mark_days, save_companions
from staffbooking_adapters.sql.companions.reader import (
    COMPANION_COLUMNS,
    CompanionsReader,
    holds_slot_of_companion,
    to_busy_intervals,
    to_companion,
)
from staffbooking_adapters.sql.engine.dialect import in_array
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.engine.types import BigInt
from staffbooking_adapters.sql.schema.bookings import bookings
from staffbooking_adapters.sql.schema.companions import companion_days, companions
from staffbooking_core.domain.companions.availability import Interval
from staffbooking_core.domain.companions.companion import Companion
from staffbooking_core.policy import Policy

LOCK_COMPANION = Statement(
    select(*COMPANION_COLUMNS)
    .where(companions.c.id == bindparam("companion_id"))
    .with_for_update(key_share=True)
)
LIST_BUSY_SLOTS = Statement(
    select(bookings.c.starts_at, bookings.c.ends_at)
    .where(holds_slot_of_companion(bindparam("companion_id", type_=BigInt)))
    .order_by(bookings.c.starts_at)
)
DELETE_DAY_MARKS = Statement(
    delete(companion_days).where(
        companion_days.c.companion_id == bindparam("companion_id"),
        in_array(companion_days.c.day, "days"),
    )
)


@frozen
class CompanionsWriter(CompanionsReader):
    """Locks and writes companions and their day marks."""

    policy: Policy

    async def lock_companion(self, companion_id: int) -> Companion | None:
        return to_companion.map_optional(
            await self.connection.fetch_one(LOCK_COMPANION, companion_id=companion_id)
        )

    async def save_companion(self, companion: Companion) -> None:
        await save_companions(self.connection, self.policy, [companion])

    async def busy_intervals(
        self, companion_id: int, first: datetime, last: datetime
    ) -> Sequence[Interval]:
        span = {"first": first, "last": last}
        rows = await self.connection.fetch_all(LIST_BUSY_SLOTS, companion_id=companion_id, **span)
        return to_busy_intervals(rows)

    async def save_day_marks(self, companion_id: int, days: Mapping[date, bool | None]) -> None:
        unmarked = sorted(day for day, free in days.items() if free is None)
        if unmarked:
            await self.connection.execute(
                DELETE_DAY_MARKS, companion_id=companion_id, days=unmarked
            )
        marked = ((companion_id, day, free) for day, free in days.items() if free is not None)
        await mark_days(self.connection, marked)
