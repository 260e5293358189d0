"""Webhook endpoints may ask for the events of a booking in their order."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Boolean, Column, false, text

revision = "0020"
down_revision = "0017"


def upgrade() -> None:
    op.add_column(
        "webhook_endpoints", Column("ordered", Boolean, nullable=False, server_default=false())
    )
    is_waiting = text("status = 'waiting'")
    op.create_index(
        "ix_webhook_deliveries_waiting",
        "webhook_deliveries",
        ["endpoint_id"],
        postgresql_where=is_waiting,
        sqlite_where=is_waiting,
    )
