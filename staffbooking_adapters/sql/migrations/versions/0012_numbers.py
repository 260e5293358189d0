"""Ids of deleted notifications, deliveries and keys are not reused."""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    # PostgreSQL's sequences never reuse a number.
    if op.get_bind().dialect.name == "sqlite":
        counting = {"sqlite_autoincrement": True}
        for table in ("notices", "webhook_deliveries", "api_keys"):
            with op.batch_alter_table(table, recreate="always", table_kwargs=counting):
                pass
