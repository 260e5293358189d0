"""The table of the fake processor's documents."""

from __future__ import annotations

from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table, Text

from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.metadata import metadata

fakepay_documents = Table(
    "fakepay_documents",
    metadata,
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("due_at", Instant),
    Column("amount", BigInt, nullable=False),
    PrimaryKeyConstraint("kind", "key"),
)
"""JSON documents. `due_at` is business time: when an event must be delivered or removed from the
list, or an intent changes by itself; for a stored answer it is wall time. `amount` is the
amount that an intent holds, in minor units."""

Index(
    "ix_fakepay_documents_due",
    fakepay_documents.c.kind,
    fakepay_documents.c.due_at,
    postgresql_where=fakepay_documents.c.due_at.is_not(None),
    sqlite_where=fakepay_documents.c.due_at.is_not(None),
)
