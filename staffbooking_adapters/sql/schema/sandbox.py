"""The tables of the sandbox: the fake processor's documents, the sample's accounts, kept mails,
and the clock."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, PrimaryKeyConstraint, Table, Text

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

sandbox_accounts = Table(
    "sandbox_accounts",
    metadata,
    Column("user_id", BigInt, ForeignKey("users.id"), primary_key=True, autoincrement=False),
)
"""The accounts that the sample made, as which testers sign in without a password."""

sandbox_mails = Table(
    "sandbox_mails",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("sent_at", Instant, nullable=False),
    Column("recipient", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("url", Text),
    Column("unsubscribe_url", Text),
    sqlite_autoincrement=True,
)
"""The newest mails, kept where no mail server is set. Erasing anybody empties the table."""

sandbox_clock = Table(
    "sandbox_clock",
    metadata,
    Column("id", BigInt, primary_key=True, autoincrement=False),
    Column("offset_us", BigInt, nullable=False),
)
"""One row: the microseconds by which business time is ahead of wall time."""
