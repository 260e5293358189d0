"""How many bookings a companion has accepted: new ones see by it that the calendar has changed."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column

from staffbooking_adapters.sql.engine.types import BigInt

revision = "0056"
down_revision = "0054"


def upgrade() -> None:
    op.add_column("users", Column("acceptances", BigInt, nullable=False, server_default="0"))
