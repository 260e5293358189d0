"""No inquiry gets the number of one that was erased."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    # PostgreSQL's sequences never give a number twice.
    if op.get_bind().dialect.name == "sqlite":
        counting = {"sqlite_autoincrement": True}
        with op.batch_alter_table("inquiries", recreate="always", table_kwargs=counting):
            pass
