"""Finds the failed and unfinished deliveries of an endpoint among many that have succeeded."""

from __future__ import annotations

from alembic import op
from sqlalchemy import text

revision = "0035"
down_revision = "0033"

_IS_OPEN_OR_FAILED = text("(status NOT IN ('succeeded', 'cancelled'))")


def upgrade() -> None:
    op.create_index(
        *("ix_webhook_deliveries_troubles", "webhook_deliveries", ["endpoint_id", "id"]),
        postgresql_where=_IS_OPEN_OR_FAILED,
        sqlite_where=_IS_OPEN_OR_FAILED,
    )
