"""Saved people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache

from attrs import frozen
from sqlalchemy import and_, bindparam, delete, select

from staffbooking_adapters.sql.companions.reader import is_listed
from staffbooking_adapters.sql.engine.connection import Connection
from staffbooking_adapters.sql.engine.dialect import upsert
from staffbooking_adapters.sql.engine.page_size import OFFSET_PARAM, page_size
from staffbooking_adapters.sql.engine.statements import Statement
from staffbooking_adapters.sql.schema.companions import companions, saved_people
from staffbooking_core.ports import SavedPerson

_IS_CUSTOMERS = saved_people.c.customer_id == bindparam("customer_id")
_IS_SAVED = and_(_IS_CUSTOMERS, saved_people.c.companion_id == bindparam("companion_id"))

HAS_SAVED = Statement(select(saved_people.c.saved_at).where(_IS_SAVED))
SAVE_PERSON = Statement(
    upsert(saved_people)
    .values({c.name: bindparam(c.name, type_=c.type) for c in saved_people.c})
    .on_conflict_do_nothing(index_elements=["customer_id", "companion_id"])
)
UNSAVE_PERSON = Statement(delete(saved_people).where(_IS_SAVED))


@cache
def saved_people_after(size: int) -> Statement:
    found = (
        select(saved_people.c.companion_id, saved_people.c.saved_at, companions.c.summary)
        .select_from(
            saved_people.outerjoin(
                companions, and_(companions.c.id == saved_people.c.companion_id, is_listed)
            )
        )
        .where(_IS_CUSTOMERS)
        .order_by(saved_people.c.saved_at.desc(), saved_people.c.companion_id.desc())
    )
    return Statement(found.limit(size).offset(OFFSET_PARAM))


@frozen
class SavedReader:
    """Reads saved people."""

    connection: Connection

    async def saved_people(
        self, customer_id: int, limit: int, offset: int = 0
    ) -> Sequence[SavedPerson]:
        rows = await self.connection.fetch_all(
            saved_people_after(page_size(limit)), customer_id=customer_id, offset=offset
        )
        return [SavedPerson(*row) for row in rows[:limit]]

    async def has_saved(self, customer_id: int, companion_id: int) -> bool:
        at = await self.connection.fetch_value(
            HAS_SAVED, customer_id=customer_id, companion_id=companion_id
        )
        return at is not None


@frozen
class SavedWriter(SavedReader):
    """Writes saved people."""

    async def save_person(self, customer_id: int, companion_id: int, at: datetime) -> None:
        await self.connection.execute(
            SAVE_PERSON, customer_id=customer_id, companion_id=companion_id, saved_at=at
        )

    async def unsave_person(self, customer_id: int, companion_id: int) -> None:
        await self.connection.execute(
            UNSAVE_PERSON, customer_id=customer_id, companion_id=companion_id
        )
