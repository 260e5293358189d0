"""Counts the requests of each API key by the hour."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, PrimaryKeyConstraint

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0038"
down_revision = "0037"


def upgrade() -> None:
    op.create_table(
        "api_key_calls",
        Column("key_id", BigInt, nullable=False, autoincrement=False),
        Column("hour", Instant, nullable=False),
        Column("calls", BigInt, nullable=False),
        PrimaryKeyConstraint("key_id", "hour", name="pk_api_key_calls"),
    )
    op.create_index("ix_api_key_calls_hour", "api_key_calls", ["hour"])
