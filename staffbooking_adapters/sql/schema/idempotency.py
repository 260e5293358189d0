"""The table of stored responses, by idempotency key."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, LargeBinary, PrimaryKeyConstraint, Table, Text, text

from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.metadata import metadata

answers = Table(
    "answers",
    metadata,
    Column("scope", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("status", BigInt, nullable=False),
    Column("headers", Text, nullable=False, server_default=text("''")),
    Column("body", LargeBinary, nullable=False),
    Column("is_sealed", Boolean, nullable=False, server_default=text("false")),
    Column("expires_at", Instant, nullable=False, index=True),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    PrimaryKeyConstraint("scope", "key", name="uq_answers_key"),
)
"""`key` is a digest. The lease is that of a call in progress, whose status is 0."""
