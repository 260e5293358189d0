"""Addresses from which users have logged in, as keyed digests."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, ForeignKeyConstraint, PrimaryKeyConstraint, Text

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "login_addresses",
        Column("user_id", BigInt, nullable=False),
        Column("digest", Text(), nullable=False),
        Column("at", Instant, nullable=False),
        ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_login_addresses_user_id"),
        PrimaryKeyConstraint("user_id", "digest", name="pk_login_addresses"),
    )
