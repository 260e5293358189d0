"""Ids of erased inquiries are not reused."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    # PostgreSQL's sequences never reuse a number.
    if op.get_bind().dialect.name == "sqlite":
        counting = {"sqlite_autoincrement": True}
        with op.batch_alter_table("inquiries", recreate="always", table_kwargs=counting):
            pass
