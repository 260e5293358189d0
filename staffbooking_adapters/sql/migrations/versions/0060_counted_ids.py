"""SQLite counts the ids of users and payment operations, as PostgreSQL does. The count can be
raised after a restore: the payment processor knows ids that the backup does not have."""

from __future__ import annotations

from alembic import op

revision = "0060"
down_revision = "0059"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        counting = {"sqlite_autoincrement": True}
        for table in ("users", "payment_operations"):
            with op.batch_alter_table(table, recreate="always", table_kwargs=counting):
                pass
