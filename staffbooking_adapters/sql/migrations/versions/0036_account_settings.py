"""Language, theme and time zone of accounts; device and network of sessions; saved people."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, ForeignKey, PrimaryKeyConstraint, Text

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0036"
down_revision = "0035"


def upgrade() -> None:
    for name in ("language", "theme", "timezone"):
        op.add_column("users", Column(name, Text()))
    for name in ("browser", "system", "network"):
        op.add_column("sessions", Column(name, Text()))
    op.create_table(
        "saved_people",
        Column("customer_id", BigInt, ForeignKey("users.id"), nullable=False),
        Column("companion_id", BigInt, ForeignKey("companions.id"), nullable=False),
        Column("saved_at", Instant, nullable=False),
        PrimaryKeyConstraint("customer_id", "companion_id", name="pk_saved_people"),
    )
    op.create_index(
        "ix_saved_people_saved_at", "saved_people", ["customer_id", "saved_at", "companion_id"]
    )
