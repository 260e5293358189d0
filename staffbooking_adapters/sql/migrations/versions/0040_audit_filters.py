"""Indexes of the audit by its filters; runs of the reconciliation."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Column, PrimaryKeyConstraint, Text, text

from staffbooking_adapters.sql.engine.types import BigInt, Instant

revision = "0040"
down_revision = "0038"


def upgrade() -> None:
    op.create_index("ix_audit_kind", "audit", ["subject", "id"])
    op.create_index("ix_audit_actor_id", "audit", ["actor_id", "id"])
    op.create_index("ix_audit_actor", "audit", ["actor", "id"])
    op.create_table(
        "reconciliation_runs",
        Column("id", BigInt, nullable=False),
        Column("asked_at", Instant, nullable=False),
        Column("asked_by", Text),
        Column("finished_at", Instant),
        Column("checked", BigInt, nullable=False),
        Column("in_flight", BigInt, nullable=False),
        Column("differences", BigInt, nullable=False),
        Column("findings", Text, nullable=False),
        Column("error", Text),
        Column("lease_token", Text),
        Column("lease_until", Instant),
        PrimaryKeyConstraint("id", name="pk_reconciliation_runs"),
    )
    op.create_index(
        *("ix_reconciliation_runs_open", "reconciliation_runs", ["id"]),
        postgresql_where=text("finished_at IS NULL"),
        sqlite_where=text("finished_at IS NULL"),
    )
