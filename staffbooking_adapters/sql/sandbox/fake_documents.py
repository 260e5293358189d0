"""The fake processor's documents in SQL: one table, with transactions separate from the store's.

On PostgreSQL an advisory lock on a name also covers documents that do not exist yet. On SQLite a
transaction locks the whole file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import TypeVar

from attrs import frozen
from sqlalchemy import Integer, Text, bindparam, cast, delete, func, literal, select

from staffbooking_adapters.sql.engine.dialect import sum_or_zero, upsert
from staffbooking_adapters.sql.engine.open import Connection, Database, Statement
from staffbooking_adapters.sql.schema.sandbox import fakepay_documents as documents

T = TypeVar("T")

MAX_DUE_DOCUMENTS = 100
MAX_LISTED_DOCUMENTS = 500

_ADVISORY_LOCK_CLASS = 1_717_660
"""First key of the advisory locks. PostgreSQL keeps two-key locks separate from one-key locks."""

_IS_DOCUMENT = (documents.c.kind == bindparam("kind")) & (documents.c.key == bindparam("key"))
_UPSERT_DOCUMENT = upsert(documents).values(
    {name: bindparam(name) for name in ("kind", "key", "body", "due_at", "amount")}
)

GET_DOCUMENT = Statement(select(documents.c.body).where(_IS_DOCUMENT))
LIST_DUE_DOCUMENTS = Statement(
    select(documents.c.key, documents.c.body)
    .where(documents.c.kind == bindparam("kind"), documents.c.due_at <= bindparam("now"))
    .order_by(documents.c.due_at, documents.c.key)
    .limit(MAX_DUE_DOCUMENTS)
)
LIST_DOCUMENTS_AFTER = Statement(
    select(documents.c.key, documents.c.body)
    .where(documents.c.kind == bindparam("kind"), documents.c.key > bindparam("key"))
    .order_by(documents.c.key)
    .limit(MAX_LISTED_DOCUMENTS)
)
GET_TOTAL_AMOUNT = Statement(
    select(sum_or_zero(documents.c.amount)).where(documents.c.kind == bindparam("kind"))
)
LOCK_NAME = Statement(
    postgresql=select(
        func.pg_advisory_xact_lock(
            cast(literal(_ADVISORY_LOCK_CLASS), Integer),
            func.hashtext(bindparam("name", type_=Text())),
        )
    )
)
SAVE_DOCUMENT = Statement(
    _UPSERT_DOCUMENT.on_conflict_do_update(
        index_elements=[documents.c.kind, documents.c.key],
        set_={name: _UPSERT_DOCUMENT.excluded[name] for name in ("body", "due_at", "amount")},
    )
)
DELETE_DOCUMENT = Statement(delete(documents).where(_IS_DOCUMENT))
DELETE_DUE_DOCUMENTS = Statement(
    delete(documents).where(
        documents.c.kind == bindparam("kind"), documents.c.due_at <= bindparam("now")
    )
)


@frozen
class SqlFakeDocuments:
    connection: Connection

    async def get(self, kind: str, key: str) -> str | None:
        body: str | None = await self.connection.fetch_value(GET_DOCUMENT, kind=kind, key=key)
        return body

    async def due(self, kind: str, now: datetime) -> Sequence[tuple[str, str]]:
        rows = await self.connection.fetch_all(LIST_DUE_DOCUMENTS, kind=kind, now=now)
        return [(key, body) for key, body in rows]

    async def after(self, kind: str, key: str) -> Sequence[tuple[str, str]]:
        rows = await self.connection.fetch_all(LIST_DOCUMENTS_AFTER, kind=kind, key=key)
        return [(key, body) for key, body in rows]

    async def total(self, kind: str) -> int:
        amount: int = await self.connection.fetch_value(GET_TOTAL_AMOUNT, kind=kind)
        return amount

    async def lock(self, name: str) -> None:
        await self.connection.execute(LOCK_NAME, name=name)

    async def put(
        self, kind: str, key: str, body: str, due_at: datetime | None = None, amount: int = 0
    ) -> None:
        await self.connection.execute(
            SAVE_DOCUMENT, kind=kind, key=key, body=body, due_at=due_at, amount=amount
        )

    async def delete(self, kind: str, key: str) -> None:
        await self.connection.execute(DELETE_DOCUMENT, kind=kind, key=key)

    async def delete_due(self, kind: str, now: datetime) -> None:
        await self.connection.execute(DELETE_DUE_DOCUMENTS, kind=kind, now=now)


class SqlFakeDocumentStore:
    """Documents in the database, shared by all processes that open it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, work: Callable[[SqlFakeDocuments], Awaitable[T]]) -> T:
        return await work(SqlFakeDocuments(self._database))

    async def transact(self, work: Callable[[SqlFakeDocuments], Awaitable[T]]) -> T:
        return await self._database.run_transaction(lambda unit: work(SqlFakeDocuments(unit)))
