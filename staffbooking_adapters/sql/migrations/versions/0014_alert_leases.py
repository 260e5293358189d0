"""Alerts are claimed under a lease, and marked as sent after they were sent."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, Text

from staffbooking_adapters.sql.engine.types import Instant

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("alerts", Column("lease_token", Text))
    op.add_column("alerts", Column("lease_until", Instant))
