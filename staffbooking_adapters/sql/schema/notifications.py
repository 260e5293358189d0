"""Tables of notifications, muted kinds and inquiries."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, PrimaryKeyConstraint, Table, Text

from staffbooking_adapters.sql.engine.types import BigInt, Instant
from staffbooking_adapters.sql.schema.metadata import metadata, partial_index

notices = Table(
    "notices",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("user_id", BigInt),
    Column("at", Instant, nullable=False),
    Column("kind", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("lease_token", Text),
    Column("lease_until", Instant),
    Column("link", Text),
    Column("address", Text),
    Column("due_at", Instant, nullable=False),
    Column("attempts", BigInt, nullable=False, server_default="0"),
    Column("request_id", Text),
    Index("ix_notices_due", "due_at", "id"),
    sqlite_autoincrement=True,
)
"""Notifications to send; a row is deleted after it was sent. Ids are not reused, since they are
part of the mails' Message-IDs."""

mutes = Table(
    "mutes",
    metadata,
    Column("user_id", BigInt, ForeignKey("users.id"), nullable=False),
    Column("kind", Text, nullable=False),
    PrimaryKeyConstraint("user_id", "kind"),
)
"""Notification kinds that a user has muted."""

inquiries = Table(
    "inquiries",
    metadata,
    Column("id", BigInt, primary_key=True),
    Column("name", Text, nullable=False),
    Column("email", Text, nullable=False),
    Column("subject", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("email_folded", Text, nullable=False),
    Column("answered_at", Instant),
    Column("answered_by", BigInt),
    Column("note", Text),
    Index("ix_inquiries_email", "email_folded", "id"),
    Index("ix_inquiries_created_at", "created_at"),
    sqlite_autoincrement=True,
)
"""Inquiries. Ids of erased ones are not reused, so that paging after an id skips none."""
is_waiting_inquiry = inquiries.c.answered_at.is_(None)
partial_index("ix_inquiries_waiting", inquiries.c.id, where=is_waiting_inquiry)
