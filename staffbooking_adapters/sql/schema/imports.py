"""Tables of unfinished imports."""

from __future__ import annotations

from sqlalchemy import Column, Index, PrimaryKeyConstraint, Table, Text

from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.metadata import metadata

imports = Table(
    "imports",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    Column("line", BigInt, nullable=False),
    Column("imported", BigInt, nullable=False),
    Column("updated", BigInt, nullable=False),
    Column("skipped", BigInt, nullable=False),
    Column("at", Instant, nullable=False),
)
"""Progress of unfinished imports; a row is deleted when its whole file is imported."""

skipped_rows = Table(
    "skipped_rows",
    metadata,
    Column("fingerprint", Text, nullable=False),
    Column("line", BigInt, nullable=False),
    Column("email", Text),
    Column("reason", Text, nullable=False),
    Column("email_folded", Text),
    PrimaryKeyConstraint("fingerprint", "line"),
    Index("ix_skipped_rows_email", "email_folded"),
)
"""Skipped rows of unfinished imports; they are deleted with the import."""
