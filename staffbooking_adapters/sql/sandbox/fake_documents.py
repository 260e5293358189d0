"""The fake processor's book on SQL: one table of documents, transactions of its own.

On PostgreSQL a name is held by an advisory lock, which spares the rows that are not there
yet; on SQLite a unit of work has the whole file to itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar

from attrs import frozen
from sqlalchemy import Integer, Text, bindparam, cast, delete, func, literal, select

from staffbooking_adapters.sql.engine.dialect import total, upsert
from staffbooking_adapters.sql.engine.open import Connection, Database, Statement
from staffbooking_adapters.sql.schema.sandbox import fakepay_documents as documents

T = TypeVar("T")

BATCH = 100
STRETCH = 500

_CLASS_OF_LOCKS = 1_717_660
"""Keeps these locks apart from all others: PostgreSQL locks pairs of numbers by themselves."""

_THIS = (documents.c.kind == bindparam("kind")) & (documents.c.key == bindparam("key"))
_new = upsert(documents).values(
    {name: bindparam(name) for name in ("kind", "key", "body", "due_at", "amount")}
)

GET = Statement(select(documents.c.body).where(_THIS))
DUE = Statement(
    select(documents.c.key, documents.c.body)
    .where(documents.c.kind == bindparam("kind"), documents.c.due_at <= bindparam("now"))
    .order_by(documents.c.due_at, documents.c.key)
    .limit(BATCH)
)
AFTER = Statement(
    select(documents.c.key, documents.c.body)
    .where(documents.c.kind == bindparam("kind"), documents.c.key > bindparam("key"))
    .order_by(documents.c.key)
    .limit(STRETCH)
)
TOTAL = Statement(select(total(documents.c.amount)).where(documents.c.kind == bindparam("kind")))
LOCK = Statement(
    postgresql=select(
        func.pg_advisory_xact_lock(
            cast(literal(_CLASS_OF_LOCKS), Integer), func.hashtext(bindparam("name", type_=Text()))
        )
    )
)
PUT = Statement(
    _new.on_conflict_do_update(
        index_elements=[documents.c.kind, documents.c.key],
        set_={name: _new.excluded[name] for name in ("body", "due_at", "amount")},
    )
)
DELETE = Statement(delete(documents).where(_THIS))
FORGET = Statement(
    delete(documents).where(
        documents.c.kind == bindparam("kind"), documents.c.due_at <= bindparam("now")
    )
)


@frozen
class SqlDocuments:
    connection: Connection

    async def get(self, kind: str, key: str) -> str | None:
        body: str | None = await self.connection.value(GET, kind=kind, key=key)
        return body

    async def due(self, kind: str, now: datetime) -> Sequence[tuple[str, str]]:
        rows = await self.connection.all(DUE, kind=kind, now=now)
        return [(key, body) for key, body in rows]

    async def after(self, kind: str, key: str) -> Sequence[tuple[str, str]]:
        rows = await self.connection.all(AFTER, kind=kind, key=key)
        return [(key, body) for key, body in rows]

    async def total(self, kind: str) -> int:
        amount: int = await self.connection.value(TOTAL, kind=kind)
        return amount

    async def lock(self, name: str) -> None:
        await self.connection.run(LOCK, name=name)

    async def put(
        self, kind: str, key: str, body: str, due_at: datetime | None = None, amount: int = 0
    ) -> None:
        await self.connection.run(PUT, kind=kind, key=key, body=body, due_at=due_at, amount=amount)

    async def delete(self, kind: str, key: str) -> None:
        await self.connection.run(DELETE, kind=kind, key=key)

    async def forget(self, kind: str, now: datetime) -> None:
        await self.connection.run(FORGET, kind=kind, now=now)


class SqlFakeBook:
    """Shared by all processes that have the database open."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, work: Callable[[SqlDocuments], Awaitable[T]]) -> T:
        return await work(SqlDocuments(self._database))

    async def transact(self, work: Callable[[SqlDocuments], Awaitable[T]]) -> T:
        return await self._database.write(lambda unit: work(SqlDocuments(unit)))
