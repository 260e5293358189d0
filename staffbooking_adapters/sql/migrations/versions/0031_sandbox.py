"""The sample's accounts and the kept mails of a sandbox."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, ForeignKeyConstraint, PrimaryKeyConstraint, Text

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0031"
down_revision = "0026"


def upgrade() -> None:
    op.create_table(
        "sandbox_accounts",
        Column("user_id", BigInt, nullable=False, autoincrement=False),
        PrimaryKeyConstraint("user_id", name="pk_sandbox_accounts"),
        ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_sandbox_accounts_user_id"),
    )
    op.create_table(
        "sandbox_mails",
        Column("id", BigInt, nullable=False),
        Column("sent_at", Instant, nullable=False),
        Column("recipient", Text, nullable=False),
        Column("subject", Text, nullable=False),
        Column("text", Text, nullable=False),
        Column("action", Text, nullable=False),
        Column("url", Text),
        Column("unsubscribe_url", Text),
        PrimaryKeyConstraint("id", name="pk_sandbox_mails"),
        sqlite_autoincrement=True,
    )
