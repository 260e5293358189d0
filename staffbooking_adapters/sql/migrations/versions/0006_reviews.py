"""Reviews."""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    Column,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
)

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "reviews",
        Column("id", BigInt, nullable=False),
        Column("booking_id", BigInt, nullable=False),
        Column("reviewer_id", BigInt, nullable=False),
        Column("reviewer_name", Text(), nullable=False),
        Column("reviewer_role", Text(), nullable=False),
        Column("reviewee_id", BigInt, nullable=False),
        Column("rating", BigInt, nullable=False),
        Column("comment", Text()),
        Column("punctuality", BigInt),
        Column("professionalism", BigInt),
        Column("communication", BigInt),
        Column("appearance", BigInt),
        Column("created_at", Instant, nullable=False),
        Column("response", Text()),
        Column("responded_at", Instant),
        ForeignKeyConstraint(["booking_id"], ["bookings.id"], name="fk_reviews_booking_id"),
        ForeignKeyConstraint(["reviewer_id"], ["users.id"], name="fk_reviews_reviewer_id"),
        ForeignKeyConstraint(["reviewee_id"], ["users.id"], name="fk_reviews_reviewee_id"),
        PrimaryKeyConstraint("id", name="pk_reviews"),
        UniqueConstraint("booking_id", "reviewer_id", name="uq_reviews_reviewer"),
    )
    op.create_index("ix_reviews_newest", "reviews", ["reviewee_id", "id", "rating"])
