"""Addresses of staff members' other calendars, which are read again each hour."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, ForeignKey, LargeBinary, PrimaryKeyConstraint, Text, text

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0037"
down_revision = "0036"


def upgrade() -> None:
    op.create_table(
        "calendar_subscriptions",
        Column("id", BigInt, nullable=False),
        Column("companion_id", BigInt, ForeignKey("users.id"), nullable=False),
        Column("name", Text, nullable=False),
        Column("host", Text, nullable=False),
        Column("address", LargeBinary, nullable=False),
        Column("created_at", Instant, nullable=False),
        Column("next_read_at", Instant),
        Column("tried_at", Instant, nullable=False),
        Column("read_at", Instant, nullable=False),
        Column("parsed_at", Instant, nullable=False),
        Column("timezone", Text, nullable=False),
        Column("etag", Text),
        Column("last_modified", Text),
        Column("fault", Text),
        Column("failures", BigInt, nullable=False),
        Column("failing_since", Instant),
        Column("busy", Text, nullable=False),
        Column("lease_token", Text),
        Column("lease_until", Instant),
        PrimaryKeyConstraint("id", name="pk_calendar_subscriptions"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_calendar_subscriptions_companion", "calendar_subscriptions", ["companion_id", "id"]
    )
    op.create_index(
        *("ix_calendar_subscriptions_due", "calendar_subscriptions", ["next_read_at", "id"]),
        postgresql_where=text("next_read_at IS NOT NULL"),
        sqlite_where=text("next_read_at IS NOT NULL"),
    )
