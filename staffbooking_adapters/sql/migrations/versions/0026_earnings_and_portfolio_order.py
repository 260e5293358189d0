"""The open earnings of a staff member have an index; portfolio items have an order, and the reason
of their rejection."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Text, text

from staffbooking_adapters.sql.engine.types import BigInt

revision = "0026"
down_revision = "0024"


def upgrade() -> None:
    op.add_column("portfolio_items", Column("position", BigInt, nullable=False, server_default="0"))
    op.add_column("portfolio_items", Column("rejection", Text(), nullable=False, server_default=""))
    has_open_earning = text(
        "(payout_status != 'none' OR status IN ('disputed', 'paid')) "
        "AND ((payout_status NOT IN ('paid', 'reversed')) OR owed_by_staff > 0)"
    )
    op.create_index(
        "ix_bookings_open_earnings",
        "bookings",
        ["companion_id", "starts_at", "id"],
        postgresql_where=has_open_earning,
        sqlite_where=has_open_earning,
    )
