"""Tables of disputes: what the parties stated, and the files that they uploaded."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Table, Text

from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.metadata import metadata

dispute_statements = Table(
    "dispute_statements",
    metadata,
    Column("booking_id", BigInt, ForeignKey("bookings.id"), nullable=False),
    Column("dispute_number", BigInt, nullable=False),
    Column("author_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("party", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("files", Text, nullable=False),
    Column("at", Instant, nullable=False),
    Column("id", BigInt, primary_key=True),
    Index("ix_dispute_statements_booking", "booking_id", "dispute_number", "id"),
    Index("ix_dispute_statements_author", "author_id", "id"),
)
"""A column for each field of the domain's `DisputeStatement`, in its order; `files` is a JSON array
of ids."""

dispute_files = Table(
    "dispute_files",
    metadata,
    Column("id", Text, primary_key=True),
    Column("booking_id", BigInt, ForeignKey("bookings.id"), nullable=False),
    Column("owner_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("kind", Text, nullable=False),
    Column("size", BigInt, nullable=False),
    Column("created_at", Instant, nullable=False),
    Index("ix_dispute_files_booking", "booking_id"),
    Index("ix_dispute_files_owner", "owner_id"),
)
"""Their contents are in the file storage."""
