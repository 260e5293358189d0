"""Indexes for searches of days on which few companions work."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.create_index(
        "ix_companion_search_weekdays",
        "companion_search",
        ["service_id", "weekday_mask", "rank", "companion_id", "hourly_rate", "location_id"],
    )
    op.create_index(
        "ix_companion_days_free",
        "companion_days",
        ["day", "companion_id"],
        postgresql_where=text("free IS true"),
        sqlite_where=text("free IS 1"),
    )
