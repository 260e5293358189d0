"""An index of all marks of a day, in the place of that of the free ones."""

from __future__ import annotations

from alembic import op

revision = "0053"
down_revision = "0051"


def upgrade() -> None:
    op.create_index("ix_companion_days_day", "companion_days", ["day", "free", "companion_id"])
    op.drop_index("ix_companion_days_free", "companion_days")
