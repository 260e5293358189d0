"""Indexes of ages, by which old rows are found for their deletion."""

from __future__ import annotations

from alembic import op

revision = "0051"
down_revision = "0041"


def upgrade() -> None:
    op.create_index("ix_sessions_seen_at", "sessions", ["seen_at"])
    op.create_index("ix_sessions_created_at", "sessions", ["created_at"])
    op.create_index("ix_inquiries_created_at", "inquiries", ["created_at"])
    op.create_index("ix_reconciliation_runs_finished_at", "reconciliation_runs", ["finished_at"])
    if op.get_bind().dialect.name == "postgresql":  # SQLite has the windows in another file.
        op.create_index("ix_rate_windows_resets_at", "rate_windows", ["resets_at"])
